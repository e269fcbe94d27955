//! The samples of lines of processes that run or were killed: read from outside, begun and ended from outside.

use crate::host::{Outcome, PYHOST, PYHOSTCTL, Run, compile, folder, until};
use crate::skipping::skipped;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value}"))
}

fn ctl(directory: &Path, words: &[&str]) -> Run {
    Run::program(PYHOSTCTL)
        .arg("--dir")
        .arg(directory)
        .args(words)
}

/// The report of a process.
fn shown(directory: &Path, pid: u32) -> Value {
    let outcome = ctl(directory, &["report", &pid.to_string()]).ok();
    serde_json::from_str(&outcome.stdout).unwrap()
}

/// The report of a process, at a moment when the script waits: what its ledger has live is what the samples have.
fn shown_at_rest(directory: &Path, pid: u32) -> Value {
    until("the samples of all accounts are the ledger's", || {
        let report = shown(directory, pid);
        let agrees = |account: &str| {
            let booked = &report["accounts"][account];
            let sampled = &report["lines"]["sums"]["live"][account];
            sampled["bytes"] == booked["live_bytes"] && sampled["blocks"] == booked["live_blocks"]
        };
        ["raw", "mem", "obj"]
            .into_iter()
            .all(agrees)
            .then_some(report)
    })
}

/// Bytes of a view in calls of a function.
fn bytes_in(report: &Value, view: &str, function: &str) -> i64 {
    let rows = report["lines"][view].as_array().expect("a view").iter();
    let has_call = |row: &&Value| {
        let stack = row["stack"].as_array().unwrap();
        stack.iter().any(|call| call["function"] == function)
    };
    rows.filter(has_call).map(|row| int(&row["bytes"])).sum()
}

/// How many files with samples there are.
fn files_of_lines(directory: &Path) -> usize {
    let found = fs::read_dir(directory).into_iter().flatten();
    let names = found.map(|entry| entry.unwrap().file_name());
    names
        .filter(|name| name.to_str().unwrap().contains(".lines"))
        .count()
}

/// A host that runs a script, which it talks to by lines.
struct Talking {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Talking {
    fn new(directory: &Path, options: &[&str], code: &str) -> Self {
        let mut child = Command::new(PYHOST)
            .arg(format!("--live={}", directory.display()))
            .args(options)
            .args(["-c", code])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut talking = Talking { child, out };
        talking.hears();
        talking
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line of the script's.
    fn hears(&mut self) {
        let mut line = String::new();
        assert!(self.out.read_line(&mut line).unwrap() > 0, "it has ended");
    }

    /// Has the script go on to its next line.
    fn says(&mut self) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(b"\n").unwrap();
        input.flush().unwrap();
        self.hears();
    }

    fn killed(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Talking {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Begins every script: `step` tells that it is there, and waits.
const STEP: &str = "
import sys
def step():
    print('here', flush=True)
    sys.stdin.readline()
";

#[test]
fn who_reads_from_outside_finds_the_ledgers_bytes_and_blocks() {
    let directory = folder("lines-live");
    let code = format!(
        "{STEP}
def held(): return [bytes(1000 + number) for number in range(3000)]
def many():
    # More stacks than there is room for at first.
    for number in range(3000):
        exec(compile(chr(10) * number + 'kept.append(bytes(100))', f'generated_{{number}}', 'exec'))
kept = [held()]
many()
step()
"
    );
    for hooks in ["0", "1"] {
        let talking = {
            let options = ["--lines=1", "--debug-hooks"];
            Talking::new(&directory, &options[..1 + usize::from(hooks == "1")], &code)
        };
        let report = shown_at_rest(&directory, talking.pid());
        let lines = &report["lines"];
        assert_eq!(int(&lines["dropped"]), 0);
        assert!((7_500_000..9_500_000).contains(&bytes_in(&report, "live", "held")));
        assert!(int(&lines["sums"]["live"]["obj"]["stacks"]) > 3000);
    }
}

#[test]
fn the_samples_outlive_a_kill_and_go_with_an_exit() {
    let directory = folder("lines-kill");
    let code = format!(
        "{STEP}\ndef held(): return [bytes(1000) for _ in range(30_000)]\nkept = held()\nstep()"
    );
    let talking = Talking::new(&directory, &["--lines=64K,seed=1"], &code);
    let pid = talking.pid();
    talking.killed();
    let of_killed = |outcome: Outcome| {
        let line = outcome.stdout.lines().nth(2).unwrap_or_default().to_owned();
        assert!(
            line.ends_with("in held") || line.ends_with("<listcomp>"),
            "{outcome:#?}"
        );
    };
    let words = ["lines", "--view", "live", &pid.to_string()];
    of_killed(ctl(&directory, &words).ok());
    // The next host puts both files into the archive, and its own go with it.
    let live = format!("--live={}", directory.display());
    Run::host()
        .args([&live, "--lines", "-c", "kept = bytes(10_000_000)"])
        .ok();
    assert_eq!(files_of_lines(&directory), 0);
    assert_eq!(files_of_lines(&directory.join("killed")), 1);
    of_killed(ctl(&directory, &words).ok());
}

#[test]
fn a_forked_child_has_a_file_of_its_own_and_leaves_its_parents_alone() {
    let directory = folder("lines-fork");
    let code = format!(
        "{STEP}
import os
def parents(): return [bytes(100_000) for _ in range(100)]
def childs(): return [bytes(100_000) for _ in range(200)]
kept = parents()
read, write = os.pipe()
child = os.fork()
if child == 0:
    more = childs()
    os.write(write, b'x')
    os.read(read if False else 0, 1)
    os._exit(0)
os.read(read, 1)
print(child, flush=True)
step()
"
    );
    let mut child = Command::new(PYHOST)
        .arg(format!("--live={}", directory.display()))
        .args(["--lines=1", "-c", &code])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let forked: u32 = line.trim().parse().unwrap();
    let parent = shown_at_rest(&directory, child.id());
    let forked = shown(&directory, forked);
    assert_eq!(bytes_in(&parent, "live", "childs"), 0);
    for report in [&parent, &forked] {
        assert!(bytes_in(report, "live", "parents") > 10_000_000);
    }
    assert!(bytes_in(&forked, "live", "childs") > 20_000_000);
    // The child copies the ledger while its parent goes on: a few blocks may be the parent's.
    let sampled = int(&forked["lines"]["sums"]["live"]["obj"]["bytes"]);
    let booked = int(&forked["accounts"]["obj"]["live_bytes"]);
    assert!((booked - sampled).abs() < 2000, "{booked} {sampled}");
    drop(child.stdin.take());
    child.wait().unwrap();
}

#[test]
fn samples_begin_and_end_at_anothers_request() {
    for options in [
        &["--malloc", "count"][..],
        &["--debug-hooks"],
        &["--allocator", "pymalloc"],
        &["--allocator", "system"],
    ] {
        let directory = folder("lines-start");
        let code = format!(
            "{STEP}
def before(): return [bytes(1000) for _ in range(2000)]
def during(): return [bytes(1000) for _ in range(30_000)]
def after(): return [bytes(1000) for _ in range(30_000)]
def work():
    for _ in range(100_000): kept.append(str(_)); kept.pop()
kept = [before()]
step()
work(); kept.append(during())
step()
work(); kept.append(after())
step()
"
        );
        let mut talking = Talking::new(&directory, options, &code);
        let pid = talking.pid().to_string();
        let refused = ctl(&directory, &["lines", &pid]).run();
        assert_eq!(refused.code(), 1);
        assert!(refused.stderr.contains("takes no samples"), "{refused:#?}");
        // It waits for input: it answers with its next allocation.
        let asked = ctl(&directory, &["lines", "--start=16K", &pid]).ok();
        assert!(
            asked.stdout.contains("has not answered") || asked.stdout.contains("one sample in")
        );
        talking.says();
        let report = shown(&directory, talking.pid());
        let during = bytes_in(&report, "live", "during");
        assert!(
            (28_000_000..42_000_000).contains(&during),
            "{options:?}: {during}"
        );
        assert_eq!(bytes_in(&report, "live", "before"), 0);
        ctl(&directory, &["lines", "--stop", &pid]).ok();
        talking.says();
        let report = shown(&directory, talking.pid());
        assert_eq!(bytes_in(&report, "live", "after"), 0, "{options:?}");
        assert_eq!(bytes_in(&report, "live", "during"), during);
        let refused = ctl(&directory, &["leaks", "--for", "2s", &pid]).run();
        assert_eq!(refused.code(), 1, "{refused:#?}");
        assert!(refused.stderr.contains("takes no samples"), "{refused:#?}");
    }
}

#[test]
fn a_leak_that_is_too_slow_for_the_time_is_no_all_clear() {
    let directory = folder("leaks-short");
    let code = "
import threading, time
kept = []
def leak():
    while True:
        kept.append(bytes(150_000))
        time.sleep(0.25)
threading.Thread(target=leak, daemon=True).start()
print(flush=True)
time.sleep(60)";
    let talking = Talking::new(&directory, &["--lines=128K,seed=5"], code);
    let pid = talking.pid().to_string();
    let outcome = ctl(&directory, &["leaks", "--for", "2s", &pid]).ok();
    let text = &outcome.stdout;
    // 40 intervals in 2 s.
    for part in [
        "no line rises all the time. In 2 s a leak is found from 8.",
        " GiB an hour on; a longer --for finds a slower one",
        "the line that has grown most",
        "<string>:6 in leak",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = ctl(&directory, &["leaks", "--json", "--for", "2s", &pid]).ok();
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["largest_other"]["function"], "leak", "{json:#}");
    talking.killed();
}

#[test]
fn a_request_that_no_process_can_meet_is_told_in_a_line() {
    let directory = folder("lines-refused");
    let refused = |words: &[&str]| {
        let outcome = ctl(&directory, words).run();
        (outcome.code(), outcome.stderr)
    };
    let (code, text) = refused(&["lines", "--start", "report.json"]);
    assert!(
        code == 1 && text.contains("'report.json' is no process"),
        "{text}"
    );
    let (code, text) = refused(&["lines", "--start", "999999999"]);
    assert!(
        code == 1 && text.contains("no host with process id"),
        "{text}"
    );
    let (code, text) = refused(&["lines", "--start=0", "1"]);
    assert!(code == 2 && text.contains("a size from 1 to 1T"), "{text}");
    for of_a_table in [
        "--json",
        "--view=live",
        "--by=file",
        "--account=obj",
        "--top=3",
    ] {
        let (code, text) = refused(&["lines", "--start", of_a_table, "1"]);
        assert!(code == 2 && text.contains("cannot be used with"), "{text}");
    }
    let (code, text) = refused(&["leaks", "999999999"]);
    assert!(
        code == 1 && text.contains("no host with process id"),
        "{text}"
    );
    let code = format!("{STEP}\nstep()");
    let talking = Talking::new(&directory, &["--malloc", "off"], &code);
    let pid = talking.pid().to_string();
    let (code, text) = refused(&["leaks", &pid]);
    assert!(code == 1 && text.contains("takes no samples"), "{text}");
}

#[test]
fn growth_since_a_mark_and_each_accounts_peak_are_views_of_their_own() {
    let code = "
import pyhost, ctypes
def first(): return bytes(20_000_000)
def second(): return [bytes(1000) for _ in range(30_000)]
def native():
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p; libc.free.argtypes = [ctypes.c_void_p]
    libc.free(libc.malloc(10_000_000))
kept = first()
native()
pyhost.mark('loaded')
more = second()
lines = pyhost.lines()
def of(view, name): return sum(row['bytes'] for row in lines[view] if any(call['function'] == name for call in row['stack']))
assert of('live', 'first') > 20_000_000 and of('grown', 'first') < 10_000
assert 30_000_000 < of('grown', 'second') < 42_000_000, of('grown', 'second')
assert of('at_peak', 'native') < 1_000_000 and of('at_account_peak', 'native') >= 10_000_000
assert set(lines['sums']) == {'at_peak', 'at_account_peak', 'live', 'allocated', 'grown'} # the report has no moment of the resident size
del more, lines
lines = pyhost.lines()
# Up to 3.10 a function's frame stays with its code.
assert of('grown', 'second') < 10_000
";
    Run::host()
        .args(["--lines=1", "--stats=off", "-c", code])
        .ok();
    let code = "import pyhost; print(pyhost.lines()['grown'], 'grown' in pyhost.lines()['sums'])";
    let outcome = Run::host()
        .args(["--lines=1", "--stats=off", "-c", code])
        .ok();
    assert_eq!(outcome.stdout, "[] False\n");
}

#[test]
fn what_grew_since_a_baseline_has_lines_and_nothing_grew_without_a_mark() {
    let directory = folder("lines-baseline");
    let code = format!(
        "{STEP}
def grows(): return bytes(20_000_000)
kept = [grows()]
step()
kept.append(grows())
step()"
    );
    let mut talking = Talking::new(&directory, &["--lines=1"], &code);
    let pid = talking.pid().to_string();
    let report = shown(&directory, talking.pid());
    assert_eq!(report["lines"]["grown"], Value::Array(vec![]));
    assert!(report["lines"]["sums"]["grown"].is_null(), "{report}");
    ctl(&directory, &["diff", "--keep", &pid]).ok();
    talking.says();
    let diff = ctl(&directory, &["diff", "--json", &pid]).ok().stdout;
    let diff: Value = serde_json::from_str(&diff).unwrap();
    let changes = diff["lines"]["changes"].as_array().expect("lines").iter();
    let of_line = changes.filter(|change| change["function"] == "grows");
    let change: i64 = of_line.map(|change| int(&change["change"])).sum();
    assert!((20_000_000..22_000_000).contains(&change), "{diff}");
    let text = ctl(&directory, &["diff", &pid]).ok().stdout;
    assert!(text.contains(" in grows"), "{text}");
    talking.killed();
}

#[test]
fn a_line_whose_buffer_was_replaced_by_another_caller_has_not_grown() {
    let directory = folder("lines-replaced");
    let code = format!(
        "{STEP}
import pyhost
slot = [None]
def fill(): return bytearray(10 << 20)
def first(): slot[0] = fill()
def second(): slot[0] = fill()
first(); pyhost.mark('filled')
second()
step()"
    );
    let talking = Talking::new(&directory, &["--lines=1"], &code);
    let report = shown(&directory, talking.pid());
    let lines = &report["lines"];
    assert!(bytes_in(&report, "grown", "second") >= 10 << 20);
    assert!(bytes_in(&report, "grown", "first") <= -(10 << 20));
    assert!(bytes_in(&report, "grown", "fill").abs() < 1 << 20);
    let sum = int(&lines["sums"]["grown"]["obj"]["bytes"]);
    assert!(sum.abs() < 1 << 20, "{sum}");
    let rows = lines["grown"].as_array().unwrap().iter();
    let listed: i64 = rows
        .filter(|row| row["account"] == "obj")
        .map(|row| int(&row["bytes"]))
        .sum();
    assert!((listed - sum).abs() < 1000, "{listed} {sum}");
    let pid = talking.pid().to_string();
    let table = ctl(&directory, &["lines", "--view", "grown", &pid]).ok();
    assert!(!table.stdout.contains("in fill"), "{table:#?}");
    talking.killed();
}

#[test]
fn a_refusals_dossier_names_the_lines() {
    let code = "
def held(): return [bytes(1000) for _ in range(40_000)]
kept = held()
try:
    more = bytes(100_000_000)
except MemoryError:
    print('caught')
";
    let outcome = Run::host()
        .args([
            "--lines=64K,seed=1",
            "--stats=off",
            "--cap=100M",
            "-c",
            code,
        ])
        .ok();
    let mut lines = outcome.stderr.lines();
    let found = lines.any(|line| line == "  lines with the most live bytes:");
    let first = lines.next().unwrap_or_default();
    assert!(found && first.contains("<string>:2 in"), "{outcome:#?}");
}

#[test]
fn of_a_noisy_service_the_three_leaking_lines_are_named_and_no_other() {
    let directory = folder("lines-leaks");
    let script = directory.join("service.py");
    fs::write(&script, include_str!("../leak_service/service.py")).unwrap();
    let hosts = directory.join("hosts");
    let mut child = Command::new(PYHOST)
        .arg(format!("--live={}", hosts.display()))
        .arg("--lines=16K,seed=1")
        .arg(&script)
        .arg("1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut String::new()).unwrap();
    let pid = child.id().to_string();
    let outcome = ctl(&hosts, &["leaks", "--json", "--for", "15s", &pid]).run();
    assert_eq!(outcome.code(), 24, "{outcome:#?}");
    child.kill().unwrap();
    child.wait().unwrap();
    let found: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let mut functions: Vec<&str> = found["rising"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["function"].as_str().unwrap())
        .collect();
    functions.sort_unstable();
    assert_eq!(functions, ["audit", "remember", "subscribe"], "{found:#}");
    until("the files of the killed", || {
        (files_of_lines(&hosts) == 1).then_some(())
    });
}

#[test]
fn without_room_for_the_samples_file_one_line_says_so_and_the_script_runs() {
    let directory = folder("lines-room");
    // The ledger fits, the samples do not.
    let command = format!(
        "ulimit -f 200; exec '{PYHOST}' --live='{}' --lines --stats=off -c 'print(1)'",
        directory.display()
    );
    let outcome = Run::program("bash").args(["-c", &command]).ok();
    assert_eq!(outcome.stdout, "1\n");
    assert_one_warning(&outcome.stderr, "File too large");
    assert_eq!(files_of_lines(&directory), 0);
}

/// Fails unless one line says that the samples cannot be written.
fn assert_one_warning(text: &str, reason: &str) {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |line: &&str| line.starts_with("pyhost: --lines: cannot write '");
    let expected = format!(".lines': {reason}; pyhostctl finds no samples until there is room");
    assert!(
        lines.len() == 1 && lines.iter().any(begins) && lines[0].contains(&expected),
        "{text}"
    );
}

/// Functions of scripts that make stacks without end.
const MANY: &str = "
kept = []
def many(start, count):
    for number in range(start, start + count):
        code = chr(10) * (number % 3000) + 'kept.append(bytes(100))'
        exec(compile(code, f'generated_{number}', 'exec'))
";

#[test]
fn a_samples_file_that_cannot_grow_says_why_and_comes_back_once_it_can() {
    let directory = folder("lines-limit");
    let errors = directory.join("errors");
    let hosts = directory.join("hosts");
    let code = format!(
        "{STEP}{MANY}
import os, resource, time
errors = os.open({errors:?}, os.O_WRONLY | os.O_CREAT); os.dup2(errors, 2)
step()
resource.setrlimit(resource.RLIMIT_FSIZE, (700_000, resource.RLIM_INFINITY))
many(0, 3000)
step()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
while not any(name.endswith('.lines') for name in os.listdir({hosts:?})):
    many(0, 1)
step()
"
    );
    let mut talking = Talking::new(&hosts, &["--lines=1"], &code);
    let pid = talking.pid().to_string();
    assert_eq!(files_of_lines(&hosts), 1);
    talking.says();
    assert_eq!(files_of_lines(&hosts), 0);
    let reason = "the process cannot write them beside its ledger (File too large)";
    for command in ["lines", "leaks"] {
        let refused = ctl(&hosts, &[command, &pid]).run();
        assert!(
            refused.code() == 1 && refused.stderr.contains(reason),
            "{refused:#?}"
        );
    }
    let missing = &shown(&hosts, talking.pid())["lines_missing"];
    assert!(missing.as_str().unwrap().starts_with(reason), "{missing}");
    talking.says();
    let report = shown_at_rest(&hosts, talking.pid());
    assert!(int(&report["lines"]["sums"]["live"]["obj"]["stacks"]) > 3000);
    assert_eq!(report["lines_missing"], Value::Null);
    assert_one_warning(&fs::read_to_string(&errors).unwrap(), "File too large");
    talking.killed();
}

#[test]
fn on_a_full_disk_the_script_goes_on_and_the_report_is_whole() {
    let directory = folder("lines-full");
    let (disk, report) = (directory.join("disk"), directory.join("report.json"));
    fs::create_dir(&disk).unwrap();
    let code = format!(
        "{MANY}
import os, subprocess, sys
def size(): return [os.stat(os.path.join({disk:?}, name)).st_size for name in os.listdir({disk:?}) if '.lines' in name]
def asked():
    words = [{PYHOSTCTL:?}, '--dir', {disk:?}, 'lines', str(os.getpid())]
    return subprocess.run(words, capture_output=True, text=True)
def fill():
    # Whatever room is left is another's.
    with open({disk:?} + '/other', 'ab', buffering=0) as other:
        try:
            while other.write(bytes(4096)): pass
        except OSError as error: print(error.strerror)
asked()  # what it samples itself is there from now on
# The file has just become larger, and has room for some more.
first, made = size(), 0
while size() == first:
    many(made, 20); made += 20
first = size()
fill()
many(made, 100)
assert size() == first and asked().returncode == 0, 'the room of the first file is its own'
many(made + 100, 6000)
assert size() == [], size()
error = asked()
assert error.returncode == 1 and 'No space left on device' in error.stderr, error
os.remove({disk:?} + '/other')
assert os.system('mount -o remount,size=64m ' + {disk:?}) == 0
while not size(): many(0, 1)
assert asked().returncode == 0
print('done')
"
    );
    let mounted = format!(
        "mount -t tmpfs -o size=4m,mode=700 none '{disk}' || exit 99
        exec '{PYHOST}' --live='{disk}' --lines=1 --stats=file='{report}' -c \"$0\"",
        disk = disk.display(),
        report = report.display()
    );
    let outcome = Run::program("unshare")
        .args(["-Urm", "bash", "-c", &mounted, &code])
        .run();
    if outcome.code() == 99 || outcome.stderr.contains("unshare:") {
        return skipped("no file system may be mounted in a namespace of its own");
    }
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    assert!(outcome.stdout.ends_with("done\n"), "{outcome:#?}");
    assert_one_warning(&outcome.stderr, "No space left on device");
    let report = fs::read_to_string(&report).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(int(&report["lines"]["dropped"]), 0);
    for account in ["raw", "mem", "obj"] {
        let sampled = &report["lines"]["sums"]["live"][account]["bytes"];
        assert_eq!(*sampled, report["accounts"][account]["live_bytes"]);
    }
}

/// Asks a process that waits for input to begin or to end its samples, and has it go on: it answers as it allocates.
fn asks(directory: &Path, words: &[&str], talking: &mut Talking) {
    let pid = talking.pid().to_string();
    ctl(directory, &[&["lines"], words, &[&pid]].concat()).ok();
    talking.says();
}

#[test]
fn a_new_start_holds_for_threads_that_were_idle_meanwhile() {
    for (option, words) in [
        ("--lines=1G", &[&["--start=1"][..]][..]),
        ("--lines=1G,seed=1", &[&["--stop"], &["--start=1"]]),
    ] {
        let directory = folder("lines-anew");
        let code = format!(
            "{STEP}
import threading
go, kept = threading.Event(), []
def wait():
    few = [bytes(3000) for _ in range(200)]
    go.wait()
    work()
def work(): kept.extend(bytes(3000) for _ in range(2000))
thread = threading.Thread(target=wait); thread.start()
step()
for _ in range(2):
    [str(number) for number in range(100_000)]
    step()
go.set(); thread.join()
step()
"
        );
        let mut talking = Talking::new(&directory, &[option, "--stats=off"], &code);
        for words in words {
            asks(&directory, words, &mut talking);
        }
        if words.len() == 1 {
            talking.says();
        }
        talking.says();
        let live = bytes_in(&shown(&directory, talking.pid()), "live", "work");
        assert!(live > 6_000_000, "{option}: {live}");
    }
}

#[test]
fn a_start_while_leaks_are_looked_for_changes_no_verdict() {
    let directory = folder("lines-leaks");
    let module = "import ctypes
count = ctypes.pythonapi.Py_IncRef
count.argtypes = [ctypes.py_object]
for number in range(20):
    kept = bytes(5000 + number)
    count(kept)
del kept";
    fs::write(directory.join("kept_by_import.py"), module).unwrap();
    let code = format!(
        "{STEP}
sys.path.insert(0, {:?})
step()
[str(number) for number in range(100_000)]
step()
import kept_by_import
",
        directory.to_str().unwrap()
    );
    let mut talking = Talking::new(&directory, &["--leak-check", "--stats=off"], &code);
    asks(&directory, &["--start=1"], &mut talking);
    let input = talking.child.stdin.as_mut().unwrap();
    input.write_all(b"\n").unwrap();
    assert_eq!(talking.child.wait().unwrap().code(), Some(0));
}

/// Functions of scripts that have their own samples begin and end, and read the tables of the domains.
const ASKS: &str = "
import ctypes, os, subprocess, sys, tracemalloc
class Table(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in ('ctx', 'malloc', 'calloc', 'realloc', 'free')]
read = ctypes.pythonapi.PyMem_GetAllocator
read.argtypes = [ctypes.c_int, ctypes.POINTER(Table)]
def tables(has_debug_hooks):
    # The host's own tables: beneath tracemalloc's and those of the debug hooks.
    found = []
    # Without a GIL the functions of `obj` stay as they are.
    for domain in range(2 if 't' in sys.abiflags else 3):
        table = Table()
        read(domain, table)
        if tracemalloc.is_tracing(): table = Table.from_address(table.ctx)
        if has_debug_hooks: table = Table.from_address(table.ctx + 8)
        found.append((table.malloc, table.calloc))
    return found
def ask(option):
    words = [CTL, '--dir', HOSTS, 'lines', option, str(os.getpid())]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    while child.poll() is None: str(1234567) + 'x'
    print(child.stdout.read(), end='')
";

#[test]
fn beneath_tracemalloc_all_is_sampled_and_the_tables_follow_in_either_order() {
    for (order, debug) in [("before", false), ("after", false), ("before", true)] {
        let directory = folder("lines-traced");
        let has_debug_hooks = if debug { "True" } else { "False" };
        let code = format!(
            "CTL, HOSTS = {PYHOSTCTL:?}, {directory:?}{ASKS}
import pyhost
def during(): return [bytes(1000) for _ in range(20_000)]
def now(): return tables({has_debug_hooks})
plain = now()
if {order:?} == 'before': tracemalloc.start()
assert now() == plain
ask('--start=1')
counting = now()
if {order:?} == 'after': tracemalloc.start()
assert now() == counting and ({has_debug_hooks} or not set(plain) & set(counting)), (plain, counting)
kept = during()
live = pyhost.lines()['live']
rows = [row['bytes'] for row in live if any(call['function'] == 'during' for call in row['stack'])]
assert sum(rows) > 20_000_000, sum(rows)
ask('--stop')
assert now() == plain, 'the tables count, though no samples are taken'
tracemalloc.stop()
assert now() == plain, 'tracemalloc has put others back'
"
        );
        let options: &[&str] = if debug { &["--debug-hooks"] } else { &[] };
        let outcome = Run::host()
            .arg(format!("--live={}", directory.display()))
            .args(options)
            .args(["--stats=off", "-c", &code])
            .ok();
        let said: Vec<&str> = outcome.stdout.lines().collect();
        assert!(
            said.len() == 2
                && said[0].ends_with(" samples every allocation")
                && said[1].contains(" takes no more samples"),
            "{order}: {outcome:#?}"
        );
    }
}

#[test]
fn beneath_another_hook_all_is_sampled_and_the_answer_says_that_it_is_slower() {
    let directory = folder("lines-hook");
    let library = compile("pass_on.c", "pass_on.so", &["-shared", "-fPIC"]);
    let code = format!(
        "CTL, HOSTS = {PYHOSTCTL:?}, {directory:?}{ASKS}
import pyhost
def during(): return [bytes(1000) for _ in range(20_000)]
ctypes.PyDLL({library:?}).begin()
ask('--start=1')
kept = during()
live = pyhost.lines()['live']
rows = [row['bytes'] for row in live if any(call['function'] == 'during' for call in row['stack'])]
assert sum(rows) > 20_000_000, sum(rows)
"
    );
    let outcome = Run::host()
        .arg(format!("--live={}", directory.display()))
        .args(["--stats=off", "-c", &code])
        .ok();
    let said = "samples every allocation; another hook lies over the host's in Python's domains";
    assert!(outcome.stdout.contains(said), "{outcome:#?}");
}

#[test]
fn controllers_that_ask_at_the_same_time_are_each_answered() {
    let directory = folder("lines-controllers");
    let code = format!("{STEP}\nstep()\nwhile True: [str(number) for number in range(1000)]");
    let mut talking = Talking::new(&directory, &[], &code);
    talking
        .child
        .stdin
        .as_mut()
        .unwrap()
        .write_all(b"\n")
        .unwrap();
    let pid = talking.pid().to_string();
    for round in 0..5 {
        let asks = (1..=6).map(|number| {
            let interval = 64 * number + round;
            let child = Command::new(PYHOSTCTL)
                .arg("--dir")
                .arg(&directory)
                .args(["lines", &format!("--start={interval}K"), &pid])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn();
            (interval, child.unwrap())
        });
        let asks: Vec<_> = asks.collect();
        let mut intervals = Vec::new();
        for (interval, child) in asks {
            let outcome = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&outcome.stdout);
            let expected = format!("process {pid} takes one sample in {interval}.0 KiB\n");
            assert_eq!(said, expected, "round {round}: {outcome:?}");
            intervals.push(interval << 10);
        }
        // The last that was answered is in force.
        let now = int(&shown(&directory, talking.pid())["lines"]["interval_bytes"]);
        assert!(intervals.contains(&now), "{now}");
    }
    talking.killed();
}

#[test]
fn a_start_between_two_looks_for_leaks_is_a_new_baseline_though_the_samples_are_more() {
    let directory = folder("lines-baseline");
    let code = format!(
        "{STEP}
kept = []
step()
kept.extend(bytes(1000) for _ in range(100_000))
step()
"
    );
    let mut talking = Talking::new(&directory, &["--lines=16K,seed=1"], &code);
    let pid = talking.pid().to_string();
    let before = int(&shown(&directory, talking.pid())["lines"]["samples"]);
    let leaks = Command::new(PYHOSTCTL)
        .arg("--dir")
        .arg(&directory)
        .args(["leaks", "--json", "--for", "4s", &pid])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    asks(&directory, &["--start=16K"], &mut talking);
    let after = int(&shown(&directory, talking.pid())["lines"]["samples"]);
    assert!(after > before, "{after} {before}");
    let found = leaks.wait_with_output().unwrap();
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!(found["restarts"], 1, "{found:#}");
    assert!(int(&found["looks"]) < 60, "{found:#}");
    assert_eq!(found["rising"], Value::Array(Vec::new()), "{found:#}");
    talking.killed();
}
