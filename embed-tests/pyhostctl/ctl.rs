//! `pyhostctl`: lists, shows and compares hosts that run and hosts that were killed, and refuses files that
//! no host has written.

use crate::host::{PYHOST, PYHOSTCTL, Run, folder, until_seen};
use crate::skipping::skipped;
use pyhost_testing::Random;
use serde_json::Value;
use std::ffi::{CString, OsStr};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

/// Takes what the next line of its input names, in KiB, keeps it, and says so; ends where a line
/// is empty.
const OBEDIENT: &str = "import sys
kept = []
print('ready', flush=True)
for line in sys.stdin:
    if not line.strip(): break
    kept.append(bytearray(int(line) << 10))
    print('took', flush=True)";

/// A host that obeys commands on its standard input. It is killed when it is dropped.
pub struct Obedient {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<std::process::ChildStdout>,
}

impl Obedient {
    /// Starts a host with its file in `directory`, and with further options.
    pub fn start(directory: &Path, options: &[&str]) -> Self {
        Obedient::run(directory, options, OBEDIENT, &[])
    }

    /// The same of other code, which says `ready`, with arguments.
    pub fn run(directory: &Path, options: &[&str], code: &str, arguments: &[&str]) -> Self {
        let mut live = std::ffi::OsString::from("--live=");
        live.push(directory);
        let mut child = Command::new(PYHOST)
            .arg(live)
            .args(options)
            .args(["-c", code])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut host = Obedient {
            child,
            input,
            output,
        };
        assert_eq!(host.said(), "ready");
        host
    }

    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }

    fn said(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Lets it take so many KiB more.
    pub fn take(&mut self, kib: u32) {
        writeln!(self.input.as_mut().unwrap(), "{kib}").unwrap();
        assert_eq!(self.said(), "took");
    }

    /// Lets it end; how it did.
    pub fn close(&mut self) -> ExitStatus {
        self.input = None;
        self.child.wait().unwrap()
    }

    /// Lets it end, well.
    pub fn end(&mut self) {
        assert!(self.close().success());
    }

    /// Kills it, and asks how it ended only where it is to be gone altogether.
    pub fn kill(&mut self, wait: bool) {
        self.child.kill().unwrap();
        if wait {
            self.child.wait().unwrap();
        }
    }
}

impl Drop for Obedient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `pyhostctl` with a directory of `--live`.
fn ctl(directory: &Path) -> Run {
    Run::program(PYHOSTCTL).arg("--dir").arg(directory)
}

/// The rows of a table of accounts.
fn rows(text: &str) -> Vec<String> {
    let rows = text.lines().skip(1);
    let rows = rows.filter(|row| !row.starts_with("resident"));
    rows.map(str::to_owned).collect()
}

/// The accounts of a host that waits for input. A host books its own output before.
fn at_rest(directory: &Path, host: &Obedient) -> String {
    let shown = || {
        ctl(directory)
            .args(["report", "--text", &host.pid()])
            .ok()
            .stdout
    };
    until_seen("rest", || {
        // One that waits for a processor is not at rest, though nothing changes meanwhile.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", host.pid())).unwrap();
        let sleeps = stat.rsplit_once(") ").unwrap().1.starts_with('S');
        let (first, second) = (shown(), shown());
        let same = sleeps && rows(&first) == rows(&second);
        same.then_some(second).ok_or(first)
    })
}

/// The one file in the folder whose name ends so.
fn only_file(folder: &Path, suffix: &str) -> PathBuf {
    let all = std::fs::read_dir(folder).unwrap();
    let mut found = all
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(suffix));
    let path = found.next().expect("a file");
    assert_eq!(found.next(), None);
    path
}

/// Fails in a line, with status 1, and says nothing else.
fn refused(run: Run, parts: &[&str]) {
    let outcome = run.timeout(20).run();
    assert_eq!(outcome.code(), 1, "{parts:?} {outcome:#?}");
    assert_eq!(outcome.stdout, "", "{parts:?}");
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
    assert!(outcome.stderr.starts_with("pyhostctl: "), "{outcome:#?}");
    for part in parts {
        assert!(outcome.stderr.contains(part), "{part}: {outcome:#?}");
    }
}

/// How far the live bytes of all accounts moved: what is taken is booked to `obj` or `mem`, as the
/// version has it.
fn growth(diff: &Value) -> i64 {
    diff["total"]["live_bytes"]["change"].as_i64().unwrap()
}

#[test]
fn a_cap_that_follows_a_limit_is_listed_with_its_age_while_the_host_waits() {
    let directory = folder("live").join("waiting");
    let fixed = Obedient::start(&directory, &["--cap", "64M"]);
    let mut following = Obedient::start(&directory, &["--cap", "auto"]);
    let row = |host: &Obedient| {
        let table = ctl(&directory).args(["top", "--once"]).ok().stdout;
        let own = |row: &&str| row.split_whitespace().next() == Some(&*host.pid());
        table.lines().find(own).unwrap().to_owned()
    };
    until_seen("the age of a cap", || {
        let row = row(&following);
        if row.contains(" s)") {
            Ok(())
        } else {
            Err(row)
        }
    });
    assert!(!row(&fixed).contains(" s)"));
    following.take(4096);
    assert!(!row(&following).contains(" s)"));
}

#[test]
fn hosts_that_run_are_listed_and_no_others() {
    let directory = folder("live").join("none-yet");
    let once = ctl(&directory).args(["top", "--once"]).ok().stdout;
    assert_eq!(once.lines().count(), 1, "{once}");
    let mut first = Obedient::start(&directory, &["--cap", "64M"]);
    let long = "an argument ".repeat(20);
    let second = Obedient::run(&directory, &[], OBEDIENT, &[&long]);
    let mut third = Obedient::start(&directory, &[]);
    first.take(4096);
    let listed = || {
        let table = ctl(&directory).args(["top", "--once"]).ok().stdout;
        let rows = table.lines().skip(1);
        let pid = |row: &str| row.split_whitespace().next().unwrap().to_owned();
        let mut pids: Vec<String> = rows.map(pid).collect();
        pids.sort();
        (pids, table)
    };
    let sorted = |hosts: &[&Obedient]| {
        let mut pids: Vec<String> = hosts.iter().map(|host| host.pid()).collect();
        pids.sort();
        pids
    };
    let (pids, table) = listed();
    assert_eq!(pids, sorted(&[&first, &second, &third]));
    let row = table.lines().find(|row| row.contains("64.0 MiB")).unwrap();
    assert!(row.trim().starts_with(&first.pid()), "{table}");
    // A pipe gets the whole command line.
    assert!(table.contains(&long), "{table}");
    let (pids, _) = {
        // It is dead, though nobody has asked for its end.
        third.kill(false);
        until_seen("the end of the killed", || {
            let (pids, table) = listed();
            match pids.len() {
                2 => Ok((pids, table)),
                _ => Err(table),
            }
        })
    };
    assert_eq!(pids, sorted(&[&first, &second]));
    first.end();
    assert_eq!(listed().0, sorted(&[&second]));
    let once = ctl(&directory).args(["top", "--interval", "50ms"]).ok();
    assert_eq!(once.stdout.lines().count(), 2, "{once:#?}");
    assert!(once.stdout.contains(&second.pid()), "{once:#?}");
}

#[test]
fn a_process_and_its_report_are_shown_alike() {
    let directory = folder("live");
    let mut host = Obedient::start(&directory, &["--cap", "numpy=32M"]);
    host.take(8192);
    let text = at_rest(&directory, &host);
    assert!(text.contains(": runs\n"), "{text}");
    assert!(text.contains("cap of 32.0 MiB (numpy)"), "{text}");
    let json = ctl(&directory).args(["report", &host.pid()]).ok().stdout;
    let report = directory.join("report.json");
    std::fs::write(&report, &json).unwrap();
    let read = ctl(&directory)
        .args(["report", "--text"])
        .arg(&report)
        .ok()
        .stdout;
    assert_eq!(rows(&read), rows(&text));
    assert!(read.contains(": ran\n"), "{read}");
    let again = ctl(&directory).arg("report").arg(&report).ok().stdout;
    assert_eq!(again, json);
    host.kill(true);
    let killed = ctl(&directory)
        .args(["report", "--text", &host.pid()])
        .ok()
        .stdout;
    assert!(killed.contains(": was killed\n"), "{killed}");
    assert_eq!(rows(&killed), rows(&text));
}

#[test]
fn a_report_of_the_host_is_shown_as_a_table() {
    let report = folder("report").join("report.json");
    let outcome = Run::host()
        .at("--stats=file=", &report)
        .args(["--cap", "24M"])
        .code("try:\n    bytearray(1 << 26)\nexcept MemoryError: pass\nraise SystemExit(3)")
        .run();
    assert_eq!(outcome.code(), 3);
    let text = ctl(Path::new("/nonexistent"))
        .args(["report", "--text"])
        .arg(&report)
        .ok()
        .stdout;
    for part in [
        ": ended with status 3\n",
        "cap of 24.0 MiB (total)",
        "refusals: 1;",
        "\nobj ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The dossier beside the caps is not listed as a cap.
    assert_eq!(text.matches("cap of").count(), 2, "{text}");
    assert!(!text.contains("(dossier)"), "{text}");
}

#[test]
fn a_process_is_reported_on_without_a_signal() {
    let directory = folder("live");
    let code = "import os, signal, sys
for number in range(1, 32):
    if number not in (9, 19): signal.signal(number, signal.SIG_DFL)
os.system('true')
kept = bytearray(40 << 20)
print('ready', flush=True)
sys.stdin.read()";
    let mut host = Obedient::run(&directory, &[], code, &[]);
    let pid = host.pid();
    let said = ctl(&directory).args(["report", &pid]).ok().stdout;
    let report: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(report["schema"], "pyhost-report/1");
    assert_eq!(report["process"]["pid"].to_string(), pid);
    assert!(report["process"]["ended_by"].is_null(), "{report:#}");
    assert_eq!(report["children"]["forks"], 1);
    let bytes = |name: &str| report["process"][name].as_i64().unwrap();
    assert!(bytes("resident_bytes") > 40 << 20);
    assert!(bytes("peak_resident_bytes") >= bytes("resident_bytes"));
    assert!(report["total"]["live_bytes"].as_i64().unwrap() > 40 << 20);
    let text = ctl(&directory).args(["report", "--text", &pid, &pid]).ok();
    assert_eq!(text.stdout.matches(": runs\n").count(), 2, "{text:#?}");
    host.end();
    refused(ctl(&directory).args(["report", &pid]), &["no host with"]);
}

#[test]
fn an_id_that_several_processes_have_is_not_chosen_silently() {
    let directory = folder("live").join("hosts");
    let namespace = ["--pid", "--fork", "--mount-proc", "--kill-child"];
    let unshare = Run::program("unshare").args(namespace).arg("true").run();
    if unshare.code() != 0 {
        return skipped("no pid namespaces here");
    }
    let start = |name: &str| {
        let mut child = Command::new("unshare")
            .args(namespace)
            .arg(PYHOST)
            .arg(format!("--live={}", directory.display()))
            .args([
                "-c",
                "import sys; print(1, flush=True); sys.stdin.readline()",
                name,
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        child
    };
    let mut first = start("first");
    let one = ctl(&directory).args(["report", "--text", "1"]).ok().stdout;
    assert!(one.contains("first"), "{one}");
    let mut second = start("second");
    for command in ["report", "diff", "top"] {
        refused(
            ctl(&directory).args([command, "1"]),
            &["ambiguous", "first)", "second)", ":1 (pyhost"],
        );
    }
    let table = ctl(&directory).args(["top", "--once"]).ok().stdout;
    let rows = table
        .lines()
        .skip(1)
        .map(|row| row.split_whitespace().next().unwrap());
    assert!(
        rows.clone().count() == 2 && rows.clone().all(|name| name.ends_with(":1")),
        "{table}"
    );
    let rows: Vec<String> = rows.map(str::to_owned).collect();
    let outcome = ctl(&directory).args(["report", "--text", "1"]).run();
    let named = outcome
        .stderr
        .split([' ', ','])
        .filter(|word| word.ends_with(":1"));
    let shown: Vec<String> = named
        .map(|name| ctl(&directory).args(["report", "--text", name]).ok().stdout)
        .collect();
    assert_eq!(shown.len(), 2, "{outcome:#?}");
    assert_ne!(shown[0], shown[1]);
    assert_ne!(rows[0], rows[1]);
    for child in [&mut first, &mut second] {
        child.stdin = None;
        child.wait().unwrap();
    }
}

#[test]
fn what_grew_since_the_baseline_is_told() {
    let directory = folder("live");
    let mut host = Obedient::start(&directory, &[]);
    let pid = host.pid();
    refused(
        ctl(&directory).args(["diff", &pid]),
        &["has no baseline", &pid],
    );
    at_rest(&directory, &host);
    let said = ctl(&directory).args(["diff", "--keep", &pid]).ok().stdout;
    let baseline = only_file(&directory.join("baselines"), ".json");
    assert!(said.contains(baseline.to_str().unwrap()), "{said}");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(&baseline), mode(&directory.join("baselines"))),
        (0o600, 0o700)
    );
    host.take(4096);
    at_rest(&directory, &host);
    let of = |words: &[&OsStr]| -> Value {
        let run = ctl(&directory).args(["diff", "--json"]).args(words);
        serde_json::from_str(&run.ok().stdout).unwrap()
    };
    let pid_word = OsStr::new(&pid);
    let diff = of(&[pid_word]);
    assert_eq!(diff["schema"], "pyhost-diff/1");
    assert_eq!(diff["a"]["pid"], diff["b"]["pid"]);
    let grown = growth(&diff);
    assert!((4 << 20..5 << 20).contains(&grown), "{diff}");
    let rows = diff["accounts"].as_object().unwrap();
    let blocks = |row: &Value| row["live_blocks"]["change"].as_i64().unwrap();
    assert!(rows.values().map(blocks).sum::<i64>() > 0, "{diff}");
    let bytes = |row: &Value| row["live_bytes"]["change"].as_i64().unwrap();
    assert_eq!(rows.values().map(bytes).sum::<i64>(), grown, "{diff}");
    assert_eq!(growth(&of(&[pid_word, pid_word])), 0);
    // Backwards, by the files themselves.
    let file = only_file(&directory, ".live");
    let back = of(&[file.as_os_str(), baseline.as_os_str()]);
    assert_eq!(growth(&back), -grown);
    let text = ctl(&directory).args(["diff", &pid]).ok().stdout;
    assert_eq!(text.lines().count(), 12, "{text}");
    assert!(
        text.lines()
            .any(|row| row.starts_with("total ") && row.contains("+4.")),
        "{text}"
    );
    // A second baseline takes the first one's place; the text of a killed one is still compared.
    ctl(&directory).args(["diff", "--keep", &pid]).ok();
    assert_eq!(growth(&of(&[pid_word])), 0);
    host.take(1024);
    host.kill(true);
    assert!(growth(&of(&[pid_word])) >= 1 << 20);
    refused(
        ctl(&directory).args(["diff", "--keep", &pid]),
        &["runs no more"],
    );
    refused(ctl(&directory).args(["top", &pid]), &["runs no more"]);
    // Put away, it keeps its baseline; without its file it has none.
    let mut next = Obedient::start(&directory, &[]);
    assert!(growth(&of(&[pid_word])) >= 1 << 20);
    std::fs::remove_file(only_file(&directory.join("killed"), ".live")).unwrap();
    next.end();
    Obedient::start(&directory, &[]).end();
    assert!(!baseline.exists());
}

#[test]
fn two_reports_are_compared_an_account_a_row() {
    let folder = folder("report");
    let [small, large] = ["1 << 20", "9 << 20"].map(|size| {
        let report = folder.join(format!("{}.json", &size[..1]));
        let code = format!("kept = bytearray({size})");
        Run::host().at("--stats=file=", &report).code(&code).ok();
        report
    });
    let run = || ctl(&folder).arg("diff").arg(&small).arg(&large);
    let diff: Value = serde_json::from_str(&run().arg("--json").ok().stdout).unwrap();
    let grown = growth(&diff);
    assert!((7 << 20..11 << 20).contains(&grown), "{diff}");
    let text = run().ok().stdout;
    assert!(text.starts_with("A: process "), "{text}");
    assert!(text.contains("ended with status 0"), "{text}");
    refused(
        ctl(&folder).arg("diff").arg(&small),
        &["not named like a file of --live"],
    );
}

/// A file of a host that runs, its copy, and that host.
fn real_file(directory: &Path) -> (Obedient, PathBuf, Vec<u8>) {
    let host = Obedient::start(directory, &[]);
    let file = only_file(directory, ".live");
    let bytes = std::fs::read(&file).unwrap();
    (host, file, bytes)
}

#[test]
fn files_of_every_other_kind_are_refused_in_a_line() {
    let directory = folder("live");
    let (_host, _, whole) = real_file(&directory);
    let folder = folder("hostile");
    let file = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.join(name), bytes).unwrap();
    };
    file("empty", b"");
    file("short", &whole[..5000]);
    file("long", &[whole.as_slice(), b"x"].concat());
    let mut bytes = whole.clone();
    bytes[7] = b'2';
    file("version", &bytes);
    bytes[7] = b'1';
    bytes[8192] = b'x';
    file("ledger", &bytes);
    file("garbage", &vec![0x1b; whole.len()]);
    file("pytest", b"{\"schema\": \"another/1\"}");
    file("deep", "[{\"a\":".repeat(200_000).as_bytes());
    file("deeper", "{\"a\":".repeat(200_000).as_bytes());
    file(
        "half",
        br#"{"schema":"pyhost-report/1","accounts":{"raw":{"live_by"#,
    );
    file("name\n\u{1b}[31m", b"");
    std::fs::create_dir(folder.join("folder")).unwrap();
    let pipe = CString::new(folder.join("pipe").as_os_str().as_bytes()).unwrap();
    #[allow(unsafe_code)]
    // SAFETY: a path that ends with a zero byte.
    let made = unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) };
    assert_eq!(made, 0);
    let sparse = std::fs::File::create(folder.join("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    std::os::unix::fs::symlink(folder.join("loop"), folder.join("loop")).unwrap();
    for (name, part) in [
        ("empty", "neither a file of --live nor a report"),
        ("short", "has 5000 bytes"),
        ("long", "bytes; expected the"),
        ("version", "is of version 2; expected version 1"),
        ("ledger", "is no ledger"),
        ("garbage", "neither a file of --live nor a report"),
        (
            "pytest",
            "is of schema 'another/1'; expected pyhost-report/1",
        ),
        ("deep", "neither a file of --live nor a report"),
        ("deeper", "recursion limit exceeded"),
        ("half", "is not a report in JSON"),
        ("name\n\u{1b}[31m", "neither a file of --live nor a report"),
        ("folder", "is not a regular file"),
        ("pipe", "is not a regular file"),
        ("sparse", "has 1099511627776 bytes"),
        ("loop", "cannot be read"),
        ("missing", "cannot be read"),
    ] {
        let path = folder.join(name);
        refused(
            ctl(&directory).args(["report", "--text"]).arg(&path),
            &[part],
        );
        refused(ctl(&directory).arg("report").arg(&path), &[part]);
        refused(ctl(&directory).arg("diff").arg(&path).arg(&path), &[part]);
    }
    refused(
        ctl(&directory).args(["report", "--text", "/dev/zero"]),
        &["is not a regular file"],
    );
    refused(
        ctl(&directory).args(["report", "--text", "1"]),
        &["no host with process id 1"],
    );
    refused(
        ctl(&directory).args(["top", "1"]),
        &["no host with process id 1"],
    );
    refused(
        ctl(&directory).args(["diff", "--keep", "1"]),
        &["no host with process id 1"],
    );
    refused(
        ctl(&folder.join("short")).args(["top", "--once"]),
        &["cannot be read"],
    );
    refused(ctl(&folder.join("short")).arg("top"), &["cannot be read"]);
    let bad = ctl(&directory).args(["top", "--interval", "1ms"]).run();
    assert_eq!(bad.code(), 2);
}

#[test]
fn hostile_files_of_a_directory_are_passed_over() {
    let directory = folder("live");
    let (host, file, whole) = real_file(&directory);
    let name = file.file_name().unwrap().to_str().unwrap();
    let parts: Vec<&str> = name.strip_suffix(".live").unwrap().split('-').collect();
    // A running process that is no host; and one of another pid namespace, where the lock decides.
    let own = std::process::id().to_string();
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let ticks = stat.rsplit(')').next().unwrap().split(' ').nth(20).unwrap();
    let mut names = vec![format!("{}-{}-{own}-{ticks}.live", parts[0], parts[1])];
    names.push(format!("{}-7-{own}-{ticks}.live", parts[0]));
    let listed = |what: &str| {
        for words in [
            &["top", "--once"][..],
            &["top", "--once", "--interval", "50ms"],
        ] {
            let outcome = ctl(&directory).args(words).timeout(20).ok();
            assert_eq!(outcome.stderr, "", "{what}");
            let rows: Vec<&str> = outcome.stdout.lines().skip(1).collect();
            assert_eq!(rows.len(), 1, "{what}: {outcome:#?}");
            assert!(
                rows[0].trim().starts_with(&host.pid()),
                "{what}: {outcome:#?}"
            );
        }
    };
    for name in names {
        let path = directory.join(name);
        for bytes in [&b""[..], b"{}", &whole[..4096], &vec![0xff; whole.len()]] {
            std::fs::write(&path, bytes).unwrap();
            listed("bytes");
        }
        std::fs::File::create(&path)
            .unwrap()
            .set_len(1 << 40)
            .unwrap();
        listed("a sparse file");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        listed("a folder");
        std::fs::remove_dir(&path).unwrap();
        let pipe = CString::new(path.as_os_str().as_bytes()).unwrap();
        #[allow(unsafe_code)]
        // SAFETY: a path that ends with a zero byte.
        let made = unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) };
        assert_eq!(made, 0);
        listed("a pipe");
        std::fs::remove_file(&path).unwrap();
    }
    std::fs::write(directory.join("\u{1b}[31m-1-2-3.live"), "").unwrap();
    listed("a name");
}

#[test]
fn all_users_are_those_of_the_default_directories() {
    let none = folder("none");
    let users = ["pyhost-4000000001", "pyhost-4000000002", "pyhost-x"];
    let directories = users.map(|name| Path::new("/dev/shm").join(name));
    for directory in &directories {
        if let Err(error) = std::fs::create_dir_all(directory) {
            return skipped(format!("'{}': {error}", directory.display()));
        }
    }
    let hosts = [0, 1, 2].map(|number| Obedient::start(&directories[number], &[]));
    let listed = |run: Run| {
        let stdout = run.args(["top", "--once"]).ok().stdout;
        let pids = hosts.iter().map(|host| format!(" {} ", host.pid()));
        pids.map(|pid| stdout.contains(&pid)).collect::<Vec<_>>()
    };
    let all = Run::program(PYHOSTCTL).arg("--all-users");
    assert_eq!(listed(all), [true, true, false]);
    let two = Run::program(PYHOSTCTL).at("--dir=", &directories[0]);
    let two = two.at("--dir=", &none).at("--dir=", &directories[2]);
    assert_eq!(listed(two), [true, false, true]);
    drop(hosts);
    for directory in directories {
        std::fs::remove_dir_all(directory).unwrap();
    }
}

#[test]
fn another_users_files_are_refused() {
    #[allow(unsafe_code)]
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } != 0 {
        return skipped("only root can become another user");
    }
    // As nobody, who may not read what this user made; below /tmp, which everybody may enter.
    let directory = std::env::temp_dir().join(format!("pyhostctl-user-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let (host, file, _) = real_file(&directory);
    let program = directory.join("pyhostctl");
    std::fs::copy(PYHOSTCTL, &program).unwrap();
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(&program, 0o755);
    mode(&directory, 0o755);
    let nobody = |words: &[&str]| {
        let run =
            Run::program("setpriv").args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        run.arg(&program).arg("--dir").arg(&directory).args(words)
    };
    let pid = host.pid();
    for words in [
        &["report", "--text", &pid][..],
        &["report", "--text", file.to_str().unwrap()],
        &["diff", &pid, &pid],
        &["diff", "--keep", &pid],
        &["top", &pid],
    ] {
        refused(nobody(words), &["cannot be read (Permission denied"]);
    }
    assert_eq!(nobody(&["top", "--once"]).ok().stdout.lines().count(), 1);
    mode(&file, 0o644);
    assert_eq!(nobody(&["top", "--once"]).ok().stdout.lines().count(), 2);
    refused(
        nobody(&["diff", "--keep", &pid]),
        &["cannot be written (Permission denied"],
    );
    mode(&directory, 0o700);
    drop(host);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn mutated_files_of_a_host_harm_no_reader() {
    let directory = folder("live");
    let (host, file, whole) = real_file(&directory);
    let report = ctl(&directory).args(["report", &host.pid()]).ok().stdout;
    let mut random = Random(6);
    let mut below = |limit| random.below(limit);
    let mutated = folder("mutated").join("file");
    for round in 0..120 {
        let source = if round % 2 == 0 {
            &whole
        } else {
            report.as_bytes()
        };
        let mut bytes = source.to_vec();
        for _ in 0..1 + below(200) {
            let at = below([source.len(), source.len().min(4096)][round / 2 % 2]);
            bytes[at] = [0, 0x1b, 0x7f, 0x9b, 0xff, b'"', below(256) as u8][below(7)];
        }
        if round % 5 == 0 {
            bytes.truncate(below(source.len()));
        }
        // The magic stays, so that most are read.
        if round % 3 != 0 {
            bytes.splice(..8.min(bytes.len()), source[..8].iter().copied());
        }
        std::fs::write(&mutated, &bytes).unwrap();
        for words in [&["report", "--text"][..], &["report"], &["diff"]] {
            let mut run = ctl(&directory).args(words).arg(&mutated);
            if words[0] == "diff" {
                run = run.arg(&file);
            }
            let outcome = run.timeout(20).run();
            assert!(outcome.code() <= 1, "{outcome:#?}");
            assert!(outcome.stderr.lines().count() <= 1, "{outcome:#?}");
            let steers = |letter: char| letter.is_control() && letter != '\n';
            assert!(!outcome.stdout.contains(steers), "{outcome:#?}");
            assert!(!outcome.stderr.contains(steers), "{outcome:#?}");
        }
    }
}

#[test]
fn no_name_that_a_script_gives_itself_steers_the_terminal() {
    let directory = folder("live");
    let code = "print('ready', flush=True); input()";
    let words = ["\u{1b}]0;owned\u{7}", "a\nb", "\u{9b}2J", "\u{202e}gnp.exe"];
    let host = Obedient::run(&directory, &[], code, &words);
    let pid = host.pid();
    for words in [
        &["top", "--once"][..],
        &["top", "--once", "--interval", "50ms"],
        &["top", "--once", "--interval", "50ms", &pid],
        &["report", "--text", &pid],
        &["report", &pid],
        &["diff", &pid, &pid],
    ] {
        let shown = ctl(&directory).args(words).ok().stdout;
        let steers = |letter: char| letter.is_control() && letter != '\n';
        assert!(!shown.contains(steers), "{words:?}: {shown:?}");
        let hidden = shown.contains('\u{202e}') && words != ["report", &pid];
        assert!(!hidden, "{words:?}: {shown:?}");
    }
}
