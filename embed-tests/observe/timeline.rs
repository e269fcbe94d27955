//! `--timeline` and `--brief`: what the sampler writes, and that the script does not see it.

use crate::host::{PYHOST, Run, folder, joined, timeline_at, until_seen, version};
use crate::skipping::skipped;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The lines of a timeline, once it has its end.
fn timeline(path: &Path) -> Vec<Value> {
    until_seen("the timeline's end", || {
        let text = fs::read_to_string(path).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
            .collect();
        let last = lines.last();
        match last.is_some_and(|line| line.get("ended_by").is_some()) {
            true => Ok(lines),
            false => Err(text),
        }
    })
}

fn samples(lines: &[Value]) -> Vec<&Value> {
    lines
        .iter()
        .filter(|line| line.get("s").is_some())
        .collect()
}

#[test]
fn a_timeline_has_samples_marks_caps_refusals_and_an_end() {
    let path = folder("timeline").join("timeline.jsonl");
    let code = "
import time, pyhost
time.sleep(0.05)
pyhost.mark('load \"it\"\\n')
data = [bytes(1 << 20) for _ in range(30)]
time.sleep(0.1)
pyhost.mark('drop')
del data
time.sleep(0.1)
try:
    with pyhost.limit('8M'):
        bytes(40 << 20)
except MemoryError:
    pass
time.sleep(0.05)
print(pyhost.memory_stats()['process']['resident_bytes'])
";
    Run::host()
        .args(["--cap", "200M"])
        .at("--timeline=interval=5ms,", &path)
        .code(code)
        .ok();
    let lines = timeline(&path);
    assert_eq!(lines[0]["timeline"], "pyhost-timeline/1");
    assert_eq!(lines[0]["interval_seconds"], 0.005);
    let samples = samples(&lines);
    assert_eq!(samples.last().unwrap()["resident"], Value::Null);
    let has_memory = |sample: &&&Value| !sample["resident"].is_null();
    let running: Vec<_> = samples.iter().filter(has_memory).collect();
    for (index, sample) in samples.iter().enumerate() {
        assert_eq!(sample["s"], index);
        let parts: i64 = ["raw", "mem", "obj", "arena", "numpy", "native"]
            .iter()
            .map(|account| sample[account].as_i64().unwrap())
            .sum();
        assert_eq!(sample["total"].as_i64().unwrap(), parts, "{sample}");
    }
    for sample in &running {
        let resident = sample["resident"].as_i64().unwrap();
        assert!(resident > 1 << 20, "{sample}");
        let files = sample["files"].as_i64().unwrap();
        assert!((1 << 20..resident).contains(&files), "{sample}");
    }
    let time = |line: &Value| line["t"].as_f64().unwrap();
    let times: Vec<f64> = samples.iter().map(|sample| time(sample)).collect();
    assert!(times.is_sorted());
    let of_mark = |name: &str| {
        let found = lines.iter().find(|line| line["mark"] == name);
        time(found.unwrap_or_else(|| panic!("{name}")))
    };
    let (load, drop) = (of_mark("load \"it\"\n"), of_mark("drop"));
    let highest = |from: f64, to: f64| {
        let within = running
            .iter()
            .filter(|line| (from..to).contains(&time(line)));
        within
            .map(|line| line["obj"].as_i64().unwrap())
            .max()
            .unwrap()
    };
    assert!(highest(load, drop) > 30 << 20);
    assert!(highest(0.0, load) < 10 << 20);
    assert!(highest(drop + 0.02, f64::MAX) < 10 << 20);
    let caps = lines
        .iter()
        .find(|line| line.get("caps").is_some())
        .unwrap();
    assert_eq!(caps["caps"]["total"], 200 << 20);
    let refusal = lines.iter().find(|line| line.get("refusals").is_some());
    assert_eq!(refusal.unwrap()["refusals"], 1, "{refusal:?}");
    let end = lines.last().unwrap();
    assert_eq!(
        (&end["ended_by"], &end["exit_status"]),
        (&"exit".into(), &0.into())
    );
}

#[test]
fn no_resident_size_of_a_timeline_is_above_the_reports_peak() {
    let place = folder("timeline");
    let (path, report) = (place.join("timeline"), place.join("report.json"));
    let code = "import time
for _ in range(30):
    kept = bytearray(b'x' * (8 << 20)); time.sleep(0.005); del kept";
    Run::host()
        .env_at("PYHOST_TIMELINE", "interval=1ms,", &path)
        .env_at("PYHOST_STATS", "file=", &report)
        .code(code)
        .ok();
    let lines = timeline(&path);
    let sizes = samples(&lines);
    let highest = sizes
        .iter()
        .filter_map(|sample| sample["resident"].as_i64());
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&report).unwrap()).unwrap();
    let peak = report["process"]["peak_resident_bytes"].as_i64().unwrap();
    assert!(highest.max().unwrap() <= peak, "{report:#}");
    assert!(report["balance"]["resident_bytes"].as_i64().unwrap() <= peak);
}

#[test]
fn a_killed_process_has_a_timeline_and_a_brief_to_the_end() {
    let folder = folder("timeline");
    let (path, brief) = (folder.join("t"), folder.join("brief"));
    let code = "import os; data = bytes(60 << 20); print(1, flush=True)
import time; time.sleep(60)";
    let mut child = Command::new(PYHOST)
        .arg(timeline_at(&path))
        .arg(joined("--brief=", &brief))
        .args(["-c", code])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut String::new()).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let lines = timeline(&path);
    assert_eq!(lines.last().unwrap()["ended_by"], "kill");
    let samples = samples(&lines);
    assert!(samples.last().unwrap()["obj"].as_i64().unwrap() > 60 << 20);
    let text = fs::read_to_string(&brief).unwrap();
    assert!(text.len() <= 4096, "{text}");
    for part in ["running or killed", "obj: live 6", "data = bytes(60 << 20)"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_brief_tells_of_peaks_refusals_and_the_end() {
    let folder = folder("timeline");
    let brief = folder.join("brief");
    // An orchestrator's file is there already, and must stay the same one.
    fs::write(&brief, "pyhost: process 1 ".repeat(500)).unwrap();
    let number = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
    let before = number(&brief);
    let code = "
import sys, time
def brief():
    with open(sys.argv[1]) as file:
        return file.read()
def until(part):
    end = time.monotonic() + 30
    while part not in brief():
        assert time.monotonic() < end, brief()
        time.sleep(0.005)
data = [bytes(50 << 20)]
until('peak 5')
try:
    while True:
        data.append(bytes(20 << 20))
except MemoryError:
    del data
until('last refusal: cap of 100.0 MiB')
sys.exit(7)
";
    let outcome = Run::host()
        .args(["--cap", "100M"])
        .at("--brief=", &brief)
        .args(["-c", code])
        .arg(&brief)
        .run();
    assert_eq!(outcome.code(), 7, "{outcome:#?}");
    let text = fs::read_to_string(&brief).unwrap();
    assert!(text.contains("exit status 7"), "{text}");
    assert!(text.contains("cap of 100.0 MiB (total)"), "{text}");
    assert_eq!(number(&brief), before);
    assert!(text.len() <= 4096);
}

#[test]
fn the_script_does_not_see_the_sampler() {
    let path = folder("timeline").join("%p");
    let code = "
import os, resource, signal, subprocess, sys, threading, warnings
warnings.simplefilter('error')
def parent(pid):
    try:
        with open(f'/proc/{pid}/stat') as file:
            return int(file.read().rpartition(')')[2].split()[1])
    except OSError:
        return 0 # it has ended meanwhile
print([pid for pid in os.listdir('/proc') if pid.isdigit() and parent(pid) == os.getpid()])
try:
    os.waitpid(-1, os.WNOHANG | 0x40000000) # __WALL
except ChildProcessError:
    print('no child')
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
print(sorted(int(name) for name in os.listdir('/proc/self/fd')))
for _ in range(2):
    try:
        os.waitpid(-1, os.WNOHANG)
        raise SystemExit('a child')
    except ChildProcessError:
        pass
    pid = os.fork()
    if pid == 0:
        os._exit(3)
    assert os.wait() == (pid, 3 << 8)
assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL
assert subprocess.run(['true']).returncode == 0
assert len(os.listdir('/proc/self/task')) == 1
";
    let hosted = Run::host().arg(timeline_at(&path)).code(code).ok();
    assert_eq!(hosted.stdout, Run::stock().code(code).ok().stdout);
}

#[test]
fn a_host_that_is_given_orphans_has_a_sampler_that_wait_does_not_see() {
    let path = folder("timeline").join("t");
    let code = "import ctypes, os, sys
ctypes.CDLL(None).prctl(36, 1) # PR_SET_CHILD_SUBREAPER
os.execv(sys.argv[1], sys.argv[1:])";
    let script = "import os
try: os.waitpid(-1, os.WNOHANG)
except ChildProcessError: print('no child')";
    let run = Run::stock().code(code).arg(PYHOST).arg(timeline_at(&path));
    assert_eq!(run.args(["-c", script]).ok().stdout, "no child\n");
    assert_eq!(timeline(&path).last().unwrap()["ended_by"], "exit");
}

#[test]
fn children_of_the_program_before_are_waited_for() {
    let path = folder("timeline").join("t");
    let run = Run::program("/bin/sh")
        .args(["-c", "sh -c 'exit 7' & exec \"$@\"", "sh", PYHOST])
        .arg(timeline_at(&path));
    let outcome = run.code("import os; print(os.wait()[1] >> 8)").ok();
    assert_eq!(outcome.stdout, "7\n");
}

#[test]
fn a_sampler_that_is_killed_is_told_and_one_that_is_stopped_goes_on() {
    let code = "import os, sys, time
own = b'pyhost-sampler %d\\0' % os.getpid()
def command(pid):
    try:
        with open(f'/proc/{pid}/cmdline', 'rb') as file:
            return file.read()
    except OSError:
        return b''
def sampler():
    return [int(pid) for pid in os.listdir('/proc') if pid.isdigit() and command(pid) == own]
while not sampler():
    time.sleep(0.005)
[sampler] = sampler()
os.kill(sampler, int(sys.argv[1]))
time.sleep(0.05)";
    for (signal, lines) in [(libc::SIGKILL, 1), (libc::SIGSTOP, 0)] {
        let path = folder("timeline").join("t");
        let run = Run::host().arg(timeline_at(&path)).code(code);
        let outcome = run.arg(signal.to_string()).ok();
        assert_eq!(outcome.stderr.lines().count(), lines, "{outcome:?}");
        if lines == 0 {
            assert_eq!(timeline(&path).last().unwrap()["ended_by"], "exit");
        } else {
            assert!(outcome.stderr.contains("was killed"), "{outcome:?}");
        }
    }
}

#[test]
fn a_full_timeline_keeps_every_second_sample_and_all_marks() {
    let path = folder("timeline").join("t");
    let code = "
import time, pyhost
for number in range(40):
    pyhost.mark(f'mark {number}')
    time.sleep(0.25)
";
    Run::host()
        .at("--timeline=interval=1ms,", &path)
        .code(code)
        .ok();
    let lines = timeline(&path);
    let samples = samples(&lines);
    assert!(samples.len() <= 8192, "{}", samples.len());
    let interval = lines[0]["interval_seconds"].as_f64().unwrap();
    let last = samples.last().unwrap()["t"].as_f64().unwrap();
    // 10 s of 1 ms are more than a file holds, unless the machine gave the sampler less.
    if interval > 0.001 {
        assert!(samples.len() >= 2000, "{} in {last} s", samples.len());
    }
    for (index, sample) in samples.iter().enumerate() {
        assert_eq!(sample["s"], index);
    }
    let marks = lines.iter().filter(|line| line.get("mark").is_some());
    assert_eq!(marks.count(), 40);
    assert!(!path.with_extension("part").exists());
}

#[test]
fn os_fork_does_not_warn_of_a_thread() {
    if version() < (3, 12) {
        return skipped("before 3.12 CPython does not warn of threads at a fork");
    }
    let path = folder("timeline").join("t");
    let code = "import os
pid = os.fork()
if pid == 0: os._exit(0)
os.wait()";
    let outcome = Run::host()
        .arg(timeline_at(&path))
        .args(["-W", "error"])
        .code(code)
        .ok();
    assert_eq!(outcome.stderr, "");
}
