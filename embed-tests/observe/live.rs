//! `--live`: the counters of a process, seen from outside and after its end.

use crate::host::{Outcome, PYHOST, PYHOSTCTL, Run, executable, folder, ledger_at, script, until};
use crate::skipping::skipped;
use pyhost_testing::Random;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The output of `pyhostctl report`.
fn shown(what: &str, directory: &Path) -> Value {
    let outcome = Run::program(PYHOSTCTL)
        .arg("--dir")
        .arg(directory)
        .args(["report", what])
        .ok();
    serde_json::from_str(&outcome.stdout).unwrap()
}

/// The files of a directory of `--live`.
fn files(directory: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(directory).into_iter().flatten();
    let paths = found.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|end| end == "live"))
        .collect()
}

/// Waits until something holds.
fn until_so(what: &str, mut holds: impl FnMut() -> bool) {
    until(what, || holds().then_some(()));
}

#[test]
fn fifty_killed_processes_leave_their_last_counters() {
    // A step of the script, and what its log line itself takes.
    const STEP: i64 = 400 * 1024;
    let directory = folder("live").join("hosts");
    let mut random = Random(88_172_645_463_325_252);
    for round in 0..50 {
        let mut child = Command::new(PYHOST)
            .arg(format!("--live={}", directory.display()))
            .arg(script("logged_growth.py"))
            .arg(round.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut log = String::new();
        out.read_line(&mut log).unwrap();
        // From here on any moment; the pipe must not fill up meanwhile.
        let reader = std::thread::spawn(move || {
            while out.read_line(&mut log).unwrap() > 0 {}
            log
        });
        std::thread::sleep(Duration::from_micros(random.below(100_000) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        let log = reader.join().unwrap();
        let mut whole = log.lines().filter(|line| line.split(' ').count() == 3);
        let last = whole.next_back().unwrap();
        let mut numbers = last.split(' ').map(|word| word.parse::<i64>().unwrap());
        let mut logged = || numbers.next().unwrap();
        let (live, peak, requests) = (logged(), logged(), logged());

        let report = shown(&pid.to_string(), &directory);
        assert_eq!(report["process"]["ended_by"], "kill", "{report:#}");
        let total = &report["total"];
        let live_then = total["live_bytes"].as_i64().unwrap();
        assert!(
            (live_then - live).abs() <= STEP,
            "round {round}: logged {live}, shown {live_then}"
        );
        let peak_then = total["peak_bytes"].as_i64().unwrap();
        assert!(
            (peak..=peak + STEP).contains(&peak_then),
            "round {round}: logged {peak}, shown {peak_then}"
        );
        let accounts = report["accounts"].as_object().unwrap().values();
        let requests_then: i64 = accounts
            .map(|account| account["total_blocks"].as_i64().unwrap())
            .sum();
        assert!(
            (requests..=requests + 5_000).contains(&requests_then),
            "round {round}: logged {requests}, shown {requests_then}"
        );
    }
    let killed = fs::read_dir(directory.join("killed")).unwrap().count();
    assert_eq!(killed + files(&directory).len(), 50);
}

#[test]
fn what_is_shown_has_the_fields_of_the_hosts_report() {
    let directory = folder("live").join("hosts");
    let report = folder("live").join("report.json");
    let code = "
import subprocess, sys, os
try:
    bytes(100 << 20)
except MemoryError:
    pass
print(subprocess.run(sys.argv[1:] + [str(os.getpid())], capture_output=True, text=True, check=True).stdout)";
    let outcome = Run::host()
        .arg(format!("--live={}", directory.display()))
        .args(["--cap", "90M"])
        .at("--stats=file=", &report)
        .args(["-c", code, PYHOSTCTL, "--dir", directory.to_str().unwrap()])
        .arg("report")
        .ok();
    let shown: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let of_host: Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    let names =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(names(&shown), names(&of_host));
    for part in ["host", "python", "process", "caps"] {
        let mut of_host = names(&of_host[part]);
        of_host.retain(|name| !name.starts_with("finalized_"));
        assert_eq!(names(&shown[part]), of_host, "{part}");
    }
    for part in ["host", "allocator", "debug_hooks"] {
        assert_eq!(shown[part], of_host[part], "{part}");
    }
    assert_eq!(shown["process"]["argv"], of_host["process"]["argv"]);
    assert_eq!(shown["caps"]["total"], of_host["caps"]["total"]);
    assert_eq!(shown["caps"]["told_refusals"], 1);
    assert_eq!(
        shown["caps"]["last_refusal"],
        of_host["caps"]["last_refusal"]
    );
    let (peak, later) = (
        shown["total"]["peak_bytes"].as_u64().unwrap(),
        of_host["total"]["peak_bytes"].as_u64().unwrap(),
    );
    assert!(peak <= later && peak > 1 << 20, "{peak} {later}");
}

#[test]
fn the_next_host_tells_of_the_killed_once() {
    let directory = folder("live").join("hosts");
    let live = format!("--live={}", directory.display());
    let dies = "import ctypes, os; data = bytes(30 << 20); os.kill(os.getpid(), 9)";
    let killed = Run::host().arg(&live).code(dies).run();
    assert!(!killed.status.success());
    assert_eq!(files(&directory).len(), 1);
    let next = Run::host().arg(&live).code("pass").ok();
    assert_eq!(next.stderr.lines().count(), 1, "{next:#?}");
    for part in [
        "was killed",
        " MiB live",
        "obj 3",
        "(pyhost -c import ctypes",
    ] {
        assert!(next.stderr.contains(part), "{part}: {next:#?}");
    }
    assert_eq!(Run::host().arg(&live).code("pass").ok().stderr, "");
    assert!(files(&directory).is_empty());
    let kept: Vec<_> = files(&directory.join("killed"));
    assert_eq!(kept.len(), 1);
    let report = shown(kept[0].to_str().unwrap(), &directory);
    assert!(report["accounts"]["obj"]["live_bytes"].as_i64().unwrap() > 30 << 20);
}

#[test]
fn a_worker_whose_cap_is_used_up_leaves_a_record_and_keeps_its_baseline() {
    let place = folder("live");
    let directory = place.join("hosts");
    // The worker's baseline is kept before it uses up its cap.
    let code = "
import os, subprocess, sys
pid = os.fork()
if pid == 0:
    subprocess.run(sys.argv[1:] + ['diff', '--keep', str(os.getpid())], check=True)
    kept = []
    while True:
        try:
            while True: kept.append([kept])
        except MemoryError: pass
assert os.WEXITSTATUS(os.waitpid(pid, 0)[1]) == 53
print(pid)";
    let live = format!("--live={}", directory.display());
    let outcome = Run::host()
        .args([&live, "--cap", "48M", "-c", code, PYHOSTCTL, "--dir"])
        .arg(&directory)
        .ok();
    let pid = outcome.last_line();
    let next = Run::host().arg(&live).code("pass").ok();
    let words = format!("process {pid} (pyhost -c ");
    assert!(next.stderr.contains(&words), "{next:#?}");
    assert!(
        next.stderr
            .contains("ended with status 53, its cap used up"),
        "{next:#?}"
    );
    assert_eq!(files(&directory.join("killed")).len(), 1);
    let report = shown(pid, &directory);
    assert_eq!(report["process"]["exit_status"], 53);
    assert_eq!(report["process"]["forked"], true);
    assert!(report["process"]["inherited_live_bytes"].as_i64().unwrap() > 1 << 20);
    let ctl = || Run::program(PYHOSTCTL).arg("--dir").arg(&directory);
    let diff = ctl().args(["diff", "--json", pid]).ok().stdout;
    let diff: Value = serde_json::from_str(&diff).unwrap();
    let grown = diff["total"]["live_bytes"]["change"].as_i64().unwrap();
    assert!(grown > 20 << 20, "{grown}");
    // A status of the script's own is no such end.
    Run::host().arg(&live).code("raise SystemExit(53)").run();
    assert!(files(&directory).is_empty());
}

#[test]
fn a_killed_process_leaves_its_resident_peak() {
    let directory = folder("live").join("hosts");
    let live = format!("--live={}", directory.display());
    // It is killed without a word; the peak is noted as it grows.
    let code = "
import os, time
kept = []
for _ in range(60):
    kept.append(bytearray(b'x' * (1 << 20)))
    time.sleep(0.01)
import subprocess
subprocess.run(['sh', '-c', 'kill -9 $PPID'])
time.sleep(60)";
    // By a shell: a host below the peak of the program that started it, which this one may be, has the kernel's figure for both.
    let by_shell = Run::program("sh").args(["-c", "\"$0\" \"$@\"; exit $?"]);
    let killed = by_shell.arg(PYHOST).args([&live, "-c", code]).run();
    assert_eq!(killed.code(), 137, "{killed:#?}");
    let next = Run::host().arg(&live).code("pass").ok();
    assert!(next.stderr.contains("; resident peak "), "{next:#?}");
    let killed = files(&directory.join("killed"));
    let report = shown(killed[0].to_str().unwrap(), &directory);
    let peak = report["process"]["peak_resident_bytes"].as_i64().unwrap();
    assert!((40 << 20..120 << 20).contains(&peak), "{peak}");
    // One that can say so leaves what is resident, too.
    let code = "import os; kept = bytearray(b'x' * (30 << 20)); os.abort()";
    Run::host().arg(&live).code(code).run();
    let file = &files(&directory)[0];
    let report = shown(file.to_str().unwrap(), &directory);
    let now = report["process"]["resident_bytes"].as_i64().unwrap();
    assert!(now > 30 << 20, "{report:#}");
}

#[test]
fn a_process_that_multiprocessing_starts_is_called_by_its_script() {
    let place = folder("live");
    let directory = place.join("hosts");
    let script = place.join("serve.py");
    let code = "
import multiprocessing, os, subprocess, sys
def work(queue): queue.get()
if __name__ == '__main__':
    context = multiprocessing.get_context('spawn')
    queue = context.Queue()
    worker = context.Process(target=work, args=(queue,))
    worker.start()
    import time
    for _ in range(1000):
        ps = subprocess.run(sys.argv[1:] + ['top', '--once'], capture_output=True, text=True).stdout
        if ' spawn of' in ps: break
        time.sleep(0.02)
    print(ps)
    print(subprocess.run(sys.argv[1:] + ['report', str(worker.pid)], capture_output=True, text=True).stdout)
    queue.put(1)
    worker.join()
";
    fs::write(&script, code).unwrap();
    let outcome = Run::host()
        .arg(format!("--live={}", directory.display()))
        .arg(&script)
        .args([PYHOSTCTL, "--dir"])
        .arg(&directory)
        .ok();
    let seen = outcome.stdout.trim();
    let name = executable();
    let name = name.file_name().unwrap().to_str().unwrap();
    let row = format!("{name} multiprocessing: spawn of serve.py\n");
    assert!(seen.contains(&row), "{seen}");
    let line = seen.lines().find(|line| line.starts_with('{')).unwrap();
    let report: Value = serde_json::from_str(line).unwrap();
    let name = &report["process"]["command"];
    assert_eq!(name, "multiprocessing: spawn of serve.py");
}

#[test]
fn of_several_that_start_at_once_one_tells() {
    let directory = folder("live").join("hosts");
    let live = format!("--live={}", directory.display());
    let dies = "import os; os.kill(os.getpid(), 9)";
    Run::host().arg(&live).code(dies).run();
    let starts: Vec<_> = (0..8)
        .map(|_| {
            let mut command = Command::new(PYHOST);
            command.arg(&live).args(["-c", "pass"]);
            command.stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let told = starts.into_iter().map(|child| {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap().lines().count()
    });
    assert_eq!(told.sum::<usize>(), 1);
}

#[test]
fn a_signal_that_ends_the_process_is_named() {
    let directory = folder("live").join("hosts");
    let live = format!("--live={}", directory.display());
    for (code, name) in [
        ("import os; os.abort()", "SIGABRT"),
        (
            "import subprocess, time; subprocess.run(['sh', '-c', 'kill $PPID']); time.sleep(60)",
            "SIGTERM",
        ),
        ("import ctypes; ctypes.string_at(8)", "SIGSEGV"),
    ] {
        Run::host().arg(&live).code(code).run();
        let next = Run::host().arg(&live).code("pass").ok();
        assert!(next.stderr.contains(name), "{name}: {next:#?}");
    }
}

#[test]
fn a_process_that_stops_by_a_signal_of_its_own_was_not_killed() {
    let directory = folder("live").join("hosts");
    let live = format!("--live={}", directory.display());
    // As uvicorn: it has shut down, and hands the signal on to the default.
    let stops = "
import os, signal
def stop(number, frame):
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
signal.signal(signal.SIGTERM, stop)
os.kill(os.getpid(), signal.SIGTERM)";
    let interrupted = "raise KeyboardInterrupt";
    for (code, signal) in [(stops, 15), (interrupted, 2)] {
        let outcome = Run::host().arg(&live).code(code).run();
        assert_eq!(outcome.status.signal(), Some(signal), "{outcome:#?}");
        assert!(files(&directory).is_empty(), "{code}");
    }
    assert_eq!(Run::host().arg(&live).code("pass").ok().stderr, "");
}

#[test]
fn the_next_worker_clears_what_killed_workers_left_and_no_other_script_tells_of_them() {
    let directory = folder("live").join("hosts");
    let live = format!("--live={}", directory.display());
    // A worker is killed while its parent lives, and another takes its place: 25 times.
    let code = "
import os, signal, sys, time
def count(): return sum(name.endswith(('.live', '.lines')) for name in os.listdir(sys.argv[1]))
kept = [bytes(i % 900) for i in range(30_000)]
for _ in range(25):
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        kept += [bytes(i % 900) for i in range(3_000)]
        os.write(told, b'x')
        time.sleep(60)
        os._exit(1)
    os.read(ready, 1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    print(pid, count())
    os.close(ready), os.close(told)
archive = sys.argv[1] + '/killed'
print(sum(os.stat(f'{archive}/{name}').st_blocks * 512 for name in os.listdir(archive)))
";
    let outcome = Run::host()
        .args([&live, "--lines=16K", "-c", code])
        .arg(&directory)
        .ok();
    let (last, workers) = {
        let mut lines: Vec<_> = outcome.stdout.lines().collect();
        (lines.pop().unwrap(), lines)
    };
    // The parent's two files, and two of the worker that was killed last.
    assert!(
        workers.iter().all(|line| line.ends_with(" 4")),
        "{outcome:#?}"
    );
    assert!(last.parse::<u64>().unwrap() <= 8 << 20, "{last}");
    let told = outcome.stderr.matches(", a sibling, ").count();
    assert_eq!(told, 24, "{outcome:#?}");
    let (pid, _) = workers[0].split_once(' ').unwrap();
    // The worker that says so is named, too.
    let (next, _) = workers[1].split_once(' ').unwrap();
    let line =
        format!("pyhost[{next}]: process {pid}, a sibling, was killed with a resident peak of ");
    assert!(outcome.stderr.starts_with(&line), "{outcome:#?}");
    let (late, _) = workers[23].split_once(' ').unwrap();
    assert_eq!(shown(late, &directory)["process"]["ended_by"], "kill");
    // The last is left for the next start, which says nothing of another script's.
    let script = directory.with_file_name("another.py");
    fs::write(&script, "").unwrap();
    assert_eq!(Run::host().arg(&live).arg(&script).ok().stderr, "");
    assert!(files(&directory).is_empty());
}

#[test]
fn a_forked_child_has_a_file_of_its_own_and_leaves_its_parents() {
    let directory = folder("live").join("hosts");
    let code = "
import os, sys
ready, done = os.pipe(), os.pipe()
data = bytes(10 << 20)
if os.fork() == 0:
    more = bytes(40 << 20)
    os.write(ready[1], b'x')
    os.read(done[0], 1)
    os._exit(0)
os.read(ready[0], 1)
print(os.getpid(), flush=True)
sys.stdin.readline()
os.write(done[1], b'x')
os.wait()
print('child gone', flush=True)
sys.stdin.readline()
";
    let mut child = Command::new(PYHOST)
        .arg(format!("--live={}", directory.display()))
        .args(["-c", code])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let parent = child.id().to_string();
    until_so("two files", || files(&directory).len() == 2);
    let live = |path: &Path| {
        let report = shown(path.to_str().unwrap(), &directory);
        let live = report["accounts"]["obj"]["live_bytes"].as_u64().unwrap() >> 20;
        (report["process"]["pid"].to_string(), live)
    };
    until_so("the child's growth", || {
        let found: Vec<_> = files(&directory).iter().map(|path| live(path)).collect();
        let of_parent = found.iter().find(|(pid, _)| *pid == parent);
        let of_child = found.iter().find(|(pid, _)| *pid != parent);
        of_parent.is_some_and(|found| (10..40).contains(&found.1))
            && of_child.is_some_and(|found| found.1 >= 50)
    });
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, b"\n").unwrap();
    until_so("the child's file to go", || files(&directory).len() == 1);
    drop(stdin);
    assert!(child.wait().unwrap().success());
    assert!(files(&directory).is_empty());
}

#[test]
fn a_forked_child_starts_at_the_fork_in_its_report_and_in_its_file() {
    let place = folder("live");
    let directory = place.join("hosts");
    let code = "
import os, subprocess, sys, time
time.sleep(1.1)
if os.fork() == 0:
    words = sys.argv[1:] + [str(os.getpid())]
    print(subprocess.run(words, capture_output=True, text=True, check=True).stdout, flush=True)
    sys.exit()
os.wait()";
    let outcome = Run::host()
        .arg(format!("--live={}", directory.display()))
        .at("--stats=file=", place.join("%p"))
        .args(["-c", code, PYHOSTCTL, "--dir", directory.to_str().unwrap()])
        .arg("report")
        .ok();
    let seen: Value = serde_json::from_str(outcome.stdout.trim()).unwrap();
    let pid = seen["process"]["pid"].to_string();
    let read = |path: PathBuf| -> Value {
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    };
    let own = read(place.join(&pid));
    assert_eq!(seen["process"]["started"], own["process"]["started"]);
    let seconds = |report: &Value| report["process"]["wall_seconds"].as_f64().unwrap();
    assert!(seconds(&own) >= seconds(&seen));
    // Before 3.10 subprocess forks: the child that becomes pyhostctl leaves a report too.
    let files = fs::read_dir(&place).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let mut reports = files.filter(|path| path.is_file()).map(read);
    let parent = reports.find(|report| report["process"]["forked"] == false);
    let parent = parent.unwrap();
    assert!(seconds(&parent) > seconds(&own) + 1.0);
    assert_ne!(parent["process"]["started"], own["process"]["started"]);
}

#[test]
fn a_program_that_takes_the_place_of_a_host_leaves_no_live_row() {
    let directory = folder("live").join("hosts");
    let live = format!("--live={}", directory.display());
    let code = "import os; os.execv('/bin/sleep', ['sleep', '60'])";
    let mut child = Command::new(PYHOST)
        .args([&live, "-c", code])
        .spawn()
        .unwrap();
    let pid = child.id();
    let command = || fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    until_so("sleep", || command().trim() == "sleep");
    let listed = Run::program(PYHOSTCTL)
        .arg("--dir")
        .arg(&directory)
        .args(["top", "--once"])
        .ok();
    assert_eq!(listed.stdout.lines().count(), 1, "{listed:#?}");
    child.kill().unwrap();
    child.wait().unwrap();
    let next = Run::host().arg(&live).code("pass").ok();
    assert_eq!(next.stderr, "");
    assert!(files(&directory).is_empty());

    // A call that fails leaves the host what it was.
    let code = "
import os, subprocess, sys
try:
    os.execv('/nonexistent', ['x'])
except OSError:
    print(subprocess.run(sys.argv[1:], capture_output=True, text=True).stdout)";
    let directory = directory.to_str().unwrap();
    let outcome = Run::host()
        .arg(&live)
        .args(["-c", code, PYHOSTCTL, "--dir", directory, "top", "--once"])
        .ok();
    assert_eq!(outcome.stdout.trim().lines().count(), 2, "{outcome:#?}");
}

#[test]
fn a_host_of_another_pid_namespace_is_known_by_its_lock() {
    let directory = folder("live").join("hosts");
    let mut command = Command::new("unshare");
    command
        .args(["--pid", "--fork", "--mount-proc", "--kill-child", PYHOST])
        .arg(format!("--live={}", directory.display()))
        .args([
            "-c",
            "import sys; print(1, flush=True); sys.stdin.readline()",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        return skipped("there is no unshare");
    };
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    if out.read_line(&mut line).unwrap() == 0 {
        let outcome = child.wait_with_output();
        return skipped(format!("no pid namespaces here: {outcome:?}"));
    }
    let listed = || {
        let outcome = Run::program(PYHOSTCTL)
            .arg("--dir")
            .arg(&directory)
            .args(["top", "--once"])
            .ok();
        outcome.stdout.lines().count() - 1
    };
    assert_eq!(listed(), 1);
    // A host that starts beside it leaves it alone.
    let beside = format!("--live={}", directory.display());
    assert_eq!(Run::host().arg(&beside).code("pass").ok().stderr, "");
    assert_eq!(files(&directory).len(), 1);
    // `wait` would close its input, at whose end it would end by itself.
    let input = child.stdin.take();
    child.kill().unwrap();
    child.wait().unwrap();
    until_so("the row to go", || listed() == 0);
    drop(input);
    let next = Run::host().arg(&beside).code("pass").ok();
    assert!(next.stderr.contains("was killed"), "{next:#?}");
}

#[test]
fn a_directory_that_would_be_the_program_is_told_in_a_line() {
    let place = folder("live");
    let script = place.join("script.py");
    fs::write(&script, "print(1)").unwrap();
    let fresh = place.join("hosts");
    for directory in [&place, &fresh] {
        let outcome = Run::host().arg("--live").arg(directory).arg(&script).run();
        assert_eq!(outcome.code(), 2, "{outcome:#?}");
        assert_eq!(outcome.stdout, "");
        let expected = format!("expected --live={}", directory.display());
        assert!(outcome.stderr.contains(&expected), "{outcome:#?}");
    }
    assert!(!fresh.exists());
    let runtime = Run::host().env("XDG_RUNTIME_DIR", &place);
    assert_eq!(runtime.arg("--live").arg(&script).ok().stdout, "1\n");
}

#[test]
fn the_variable_names_a_directory_or_says_yes_or_no() {
    let runtime = folder("live");
    let directory = runtime.join("pyhost");
    let code = "import os; print([len(files) for _, _, files in os.walk(os.environ['LOOK'])])";
    for (value, files) in [
        (directory.to_str().unwrap(), "[1]"),
        ("1", "[1]"),
        ("on", "[1]"),
        ("0", "[0]"),
        ("off", "[0]"),
        ("file:one", "[0]"),
        ("", "[0]"),
    ] {
        let outcome = Run::host()
            .env("XDG_RUNTIME_DIR", &runtime)
            .env("LOOK", &directory)
            .env("PYHOST_LIVE", value)
            .folder(&runtime)
            .code(code)
            .ok();
        assert_eq!(outcome.stdout.trim(), files, "{value}");
    }
    assert_eq!(fs::read_dir(&runtime).unwrap().count(), 1);
}

#[test]
fn a_directory_that_others_can_write_to_is_refused() {
    let open = folder("live");
    fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let outcome = Run::host().at("--live=", &open).code("print(1)").run();
    assert_eq!((outcome.code(), outcome.stdout.as_str()), (2, ""));
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
    assert!(
        outcome.stderr.contains("can be written by others"),
        "{outcome:#?}"
    );
    let fresh = folder("live").join("hosts");
    let live = format!("--live={}", fresh.display());
    Run::host().arg(live).code("pass").ok();
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&fresh).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn what_is_no_ledger_is_told_in_a_line() {
    let folder = folder("ledger");
    let garbage = folder.join("garbage");
    fs::write(&garbage, vec![7; 77_824]).unwrap();
    let short = folder.join("short");
    fs::write(&short, "pyhcard").unwrap();
    let is_told = |outcome: &Outcome, status: i32, part: &str| {
        assert_eq!(outcome.code(), status, "{outcome:#?}");
        assert_eq!(outcome.stdout, "");
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
        assert!(outcome.stderr.contains(part), "{outcome:#?}");
    };
    for (file, part) in [
        (garbage.to_str().unwrap(), "neither a file of --live nor"),
        (short.to_str().unwrap(), "has 7 bytes"),
        ("/nonexistent", "cannot be read"),
    ] {
        let outcome = Run::program(PYHOSTCTL)
            .args(["report", "--text", file])
            .run();
        is_told(&outcome, 1, part);
    }
    let file = ledger_at(Path::new("/nonexistent/ledger"));
    let outcome = Run::host().arg(file).args(["-c", "print(1)"]).run();
    is_told(&outcome, 2, "no directory");
}

#[test]
fn each_process_has_a_file_of_its_own_where_the_name_says_so() {
    let folder = folder("ledger");
    let code = "import subprocess, sys
subprocess.run([sys.executable, '-c', 'pass'], check=True)";
    let template = folder.join("%p");
    Run::host().arg(ledger_at(&template)).code(code).ok();
    let mut found = fs::read_dir(&folder).unwrap();
    let first = found.next().unwrap().unwrap().path();
    assert_eq!(found.count(), 1);
    let table = Run::program(PYHOSTCTL)
        .args(["report", "--text"])
        .arg(first)
        .ok()
        .stdout;
    assert!(
        table.lines().any(|line| line.starts_with("obj ")),
        "{table}"
    );
}

#[test]
fn a_value_of_live_says_on_off_or_a_directory_and_never_nothing() {
    let runtime = folder("live");
    let code = "import os; print(os.environ.get('PYHOST_LIVE')); \
                print([len(files) for _, _, files in os.walk(os.environ['LOOK'])])";
    let run = |option: &str, variable: &str| {
        Run::host()
            .env("XDG_RUNTIME_DIR", &runtime)
            .env("LOOK", runtime.join("pyhost"))
            .env("PYHOST_LIVE", variable)
            .folder(&runtime)
            .arg(option)
            .code(code)
            .run()
    };
    let default = runtime.join("pyhost");
    for (option, variable, inherited, files) in [
        ("--live=on", "", default.to_str().unwrap(), "[1]"),
        ("--live=on", "off", default.to_str().unwrap(), "[1]"),
        ("--live=off", "on", "off", "[0]"),
        ("--live=0", "1", "off", "[0]"),
    ] {
        let outcome = run(option, variable);
        let _ = fs::remove_dir_all(runtime.join("pyhost/killed"));
        let lines: Vec<&str> = outcome.stdout.lines().collect();
        assert_eq!(lines.first(), Some(&inherited), "{option}: {outcome:#?}");
        if default.exists() {
            assert_eq!(lines[1], files, "{option}: {outcome:#?}");
        }
        assert_eq!(outcome.stderr, "");
    }
    // No directory was made of a word.
    assert_eq!(fs::read_dir(&runtime).unwrap().count(), 1);
    let listed = Run::program(PYHOSTCTL)
        .env("XDG_RUNTIME_DIR", &runtime)
        .env("PYHOST_LIVE", "on")
        .args(["top", "--once"])
        .ok();
    assert_eq!(listed.stdout.lines().count(), 1, "{listed:#?}");
}

#[test]
fn live_alone_is_the_directory_of_its_variable_where_pyhostctl_looks() {
    let place = folder("live");
    let hosts = place.join("hosts");
    let code = format!(
        "import os, subprocess; print(os.environ['PYHOST_LIVE'])
print(subprocess.run(['{PYHOSTCTL}', 'top', '--once'], capture_output=True, text=True).stdout.count('\\n'))"
    );
    for option in ["--live", "--live=on"] {
        let run = Run::host().env("XDG_RUNTIME_DIR", &place);
        let outcome = run.env("PYHOST_LIVE", &hosts).arg(option).code(&code).ok();
        assert_eq!(
            outcome.stdout,
            format!("{}\n2\n", hosts.display()),
            "{option} {outcome:#?}"
        );
    }
    assert!(!place.join("pyhost").exists());
    // By the variable a directory that cannot be had is a line.
    let outcome = Run::host().env("PYHOST_LIVE", "/proc/hosts").arg("--live");
    let outcome = outcome.code("print('ran')").ok();
    assert!(
        outcome.stdout == "ran\n" && outcome.stderr.contains("/proc/hosts"),
        "{outcome:#?}"
    );
}

#[test]
fn a_failed_start_leaves_no_file_that_looks_like_a_kill() {
    let directory = folder("live").join("hosts");
    let live = format!("--live={}", directory.display());
    let starts: [(&[&str], (&str, &str)); 4] = [
        (&["-X", "utf8=2"], ("", "")),
        (&["-Z"], ("", "")),
        (&["-c", "print(1)"], ("PYTHONHASHSEED", "x")),
        (&["-c", "print(1)"], ("PYTHONHOME", "/nonexistent")),
    ];
    for (arguments, (name, value)) in starts {
        let mut run = Run::host().arg(&live).args(arguments);
        if !name.is_empty() {
            run = run.env(name, value);
        }
        let failed = run.run();
        assert_ne!(failed.code(), 0, "{failed:#?}");
        assert_eq!(failed.stdout, "", "{failed:#?}");
        assert!(files(&directory).is_empty(), "{failed:#?}");
    }
    // Too small from 3.11 on; older ones start.
    let small = Run::host()
        .arg(&live)
        .args(["--region", "8M", "-c", "pass"])
        .run();
    assert!(files(&directory).is_empty(), "{small:#?}");
    assert_eq!(Run::host().arg(&live).code("pass").ok().stderr, "");
}

/// Runs a script of the shell's in a mount namespace where `/dev/shm` is a file system of `options`.
fn with_shared_memory(options: &str, script: &str) -> Option<Outcome> {
    let script =
        format!("mount -t tmpfs -o {options} none /dev/shm 2>/dev/null || exit 99\n{script}");
    let outcome = Run::program("unshare")
        .args(["--mount", "--user", "--map-root-user", "sh", "-c", &script])
        .env("HOST", PYHOST)
        .env("XDG_RUNTIME_DIR", "")
        .run();
    if outcome.code() == 99 || outcome.stderr.contains("unshare:") {
        skipped(format!("no mount namespaces here: {outcome:?}"));
        return None;
    }
    Some(outcome)
}

#[test]
fn a_directory_that_cannot_be_written_to_is_one_line_and_the_script_runs() {
    let runs = "\"$HOST\" --live -c 'import os; print(\"ran\", os.environ.get(\"PYHOST_LIVE\"))'";
    let fills = format!("head -c 1000000 /dev/zero >/dev/shm/fill 2>/dev/null\n{runs}");
    for (options, script, reason) in [
        ("ro", runs, "Read-only file system"),
        ("size=64k", fills.as_str(), "No space left on device"),
        ("nr_inodes=1", runs, "No space left on device"),
    ] {
        let Some(outcome) = with_shared_memory(options, script) else {
            return;
        };
        assert_eq!(outcome.code(), 0, "{outcome:#?}");
        assert_eq!(outcome.stdout, "ran None\n", "children do not try again");
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
        assert!(outcome.stderr.contains(reason), "{reason}: {outcome:#?}");
    }
}

#[test]
fn a_directory_that_the_variable_names_never_stops_the_script() {
    for directory in ["/nonexistent/a/b", "/etc/passwd"] {
        let run = Run::host().env("PYHOST_LIVE", directory);
        let outcome = run.code("print('ran')").ok();
        assert_eq!(outcome.stdout, "ran\n");
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
    }
}

#[test]
fn files_that_are_made_shorter_stop_no_script() {
    let text = script("truncated_files.py");
    for words in [&[] as &[&str], &["again"], &["handler"], &["fault"]] {
        let directory = folder("live").join("hosts");
        let outcome = Run::host()
            .arg(format!("--live={}", directory.display()))
            .args(["--lines=64K", "--stats=off", "--cap", "100M"])
            .arg(&text)
            .arg(&directory)
            .args(words)
            .run();
        let (status, more) = match words {
            ["handler"] => (0, "True\nhandled 7\n"),
            ["fault"] => (128 + libc::SIGBUS, ""),
            _ => (0, ""),
        };
        assert_eq!(outcome.code(), status, "{words:?} {outcome:#?}");
        let expected = format!("child 3\nnear\nrefused\n{more}");
        assert_eq!(outcome.stdout, expected, "{words:?} {outcome:#?}");
        let told = outcome
            .stderr
            .matches("the file of the counters was made shorter");
        assert_eq!(told.count(), 1, "{words:?} {outcome:#?}");
        let is_fatal = outcome.stderr.contains("Fatal Python error: Bus error");
        assert_eq!(is_fatal, words == ["fault"], "{outcome:#?}");
    }
}

#[test]
fn a_forked_childs_own_map_in_the_place_of_the_samples_is_its_own() {
    let directory = folder("live").join("hosts");
    let code = "import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_ssize_t, [ctypes.c_ssize_t, ctypes.c_size_t] + [ctypes.c_long] * 4
row = next(row for row in open('/proc/self/maps') if row.rstrip().endswith('.lines'))
start, end = (int(word, 16) for word in row.split()[0].split('-'))
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
child = os.fork()
if child == 0:
    shared_there = 0x11
    libc.mmap(start, end - start, 3, shared_there, file, 0)
    ctypes.memset(start, 1, 1) # the file is empty
    os._exit(0)
print(os.WTERMSIG(os.waitpid(child, 0)[1]))";
    let outcome = Run::host()
        .arg(format!("--live={}", directory.display()))
        .args(["--lines=1G", "--stats=off"])
        .code(code)
        .arg(folder("live").join("empty"))
        .ok();
    assert_eq!(outcome.stdout, format!("{}\n", libc::SIGBUS), "{outcome:?}");
}

#[test]
fn a_file_of_a_given_name_that_is_made_shorter_stops_no_script() {
    let path = folder("live").join("file");
    let code = "import os, sys
os.truncate(sys.argv[1], 4096)
kept = [bytes(3000) for _ in range(10000)]
print('alive')";
    let outcome = Run::host().arg(ledger_at(&path)).code(code).arg(&path).ok();
    assert_eq!(outcome.stdout, "alive\n");
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
}
