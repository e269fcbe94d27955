//! `--ledger-file`: the last counters of a process that was killed.

use crate::host::{PYHOST, Run, folder};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

/// Live bytes of an account's row, of a table that shows them in MiB.
fn live_mib(table: &str, account: &str) -> f64 {
    let row = table.lines().find(|line| line.starts_with(account));
    let row = row.unwrap_or_else(|| panic!("no {account} in {table}"));
    let mut words = row.split_whitespace().skip(1);
    let number: f64 = words.next().unwrap().parse().unwrap();
    assert_eq!(words.next(), Some("MiB"), "{table}");
    number
}

#[test]
fn a_killed_process_leaves_its_last_counters() {
    for round in 0..10 {
        let file = folder("ledger").join("ledger");
        // It says what it has before it takes more, and is killed while it does.
        let code = "import os, sys
blocks = []
if os.fork() == 0:
    child = [bytes(1 << 20) for _ in range(64)]
    os._exit(0)
os.wait()
while True:
    blocks.append(bytearray(1 << 20))
    print(len(blocks), flush=True)";
        let mut child = Command::new(PYHOST)
            .arg("--ledger-file")
            .arg(&file)
            .args(["-c", code])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        for _ in 0..3 + round * 2 {
            line.clear();
            out.read_line(&mut line).unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        let last = rest.lines().last().unwrap_or(line.trim());
        let said: f64 = last.trim().parse().unwrap();
        let shown = Run::host().arg("--read-ledger").arg(&file).ok().stdout;
        // A bytearray has a byte more, for which the heap gives an eighth; and one may be new.
        let live = live_mib(&shown, "total");
        assert!(
            live >= said && live <= (said + 1.0) * 1.25 + 8.0,
            "said {said}, shown {shown}"
        );
    }
}

#[test]
fn what_is_no_ledger_is_told_in_a_line() {
    let folder = folder("ledger");
    let garbage = folder.join("garbage");
    std::fs::write(&garbage, vec![7; 61_440]).unwrap();
    let short = folder.join("short");
    std::fs::write(&short, "pyhost1").unwrap();
    for (arguments, part) in [
        (["--read-ledger", garbage.to_str().unwrap()], "is no ledger"),
        (["--read-ledger", short.to_str().unwrap()], "has 7 bytes"),
        (["--read-ledger", "/nonexistent"], "cannot be read"),
        (["--ledger-file", "/nonexistent/ledger"], "no directory"),
    ] {
        let outcome = Run::host().args(arguments).args(["-c", "print(1)"]).run();
        assert_eq!(outcome.code(), 2, "{outcome:#?}");
        assert_eq!(outcome.stdout, "");
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
        assert!(outcome.stderr.contains(part), "{outcome:#?}");
    }
}

#[test]
fn each_process_has_a_file_of_its_own_where_the_name_says_so() {
    let folder = folder("ledger");
    let code = "import subprocess, sys
subprocess.run([sys.executable, '-c', 'pass'], check=True)";
    let template = folder.join("%p");
    Run::host()
        .arg("--ledger-file")
        .arg(&template)
        .code(code)
        .ok();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
}
