//! The probes `otel_memory:alloc` and `otel_memory:free`: their notes in the file, and what gdb, which sets semaphores as
//! tracers do, sees of them in a run.

use crate::free_threaded::is_free_threaded;
use crate::host::{IS_INSIDE, PYHOST, Run, folder};
use crate::skipping::skipped;
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Keeps blocks, and frees a large one, which is a sample for sure.
const SCRIPT: &str = "
import threading
def keep(): return [bytes(1000) for _ in range(3000)]
kept = keep()
def work(): kept.extend(keep())
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
block = bytes(12_345_678)
print('block', hex(id(block)), flush=True)
del block
";

/// The file that has the probes.
fn object() -> PathBuf {
    match IS_INSIDE {
        true => Path::new(PYHOST).with_file_name("../lib/pyhost/libpyhost.so"),
        false => PathBuf::from(PYHOST),
    }
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

#[test]
fn the_file_has_a_note_with_a_semaphore_for_each_probe() {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return skipped("this machine's kind has no probes");
    }
    if !has("readelf") {
        return skipped("there is no readelf");
    }
    let notes = Run::program("readelf").arg("-n").arg(object()).ok().stdout;
    let (_, notes) = notes.split_once(".note.stapsdt").expect("the section");
    let mut found: Vec<(String, String, Vec<u64>)> = Vec::new();
    let mut provider = "";
    for line in notes.lines().map(str::trim) {
        let (name, rest) = line.split_once(": ").unwrap_or_default();
        match name {
            "Provider" => provider = rest,
            "Name" => found.push((rest.to_owned(), String::new(), Vec::new())),
            "Location" => {
                let numbers = line.split(", ").map(|part| {
                    let number = part.rsplit_once("0x").unwrap().1;
                    u64::from_str_radix(number, 16).unwrap()
                });
                found.last_mut().unwrap().2 = numbers.collect();
            }
            "Arguments" => {
                assert_eq!(provider, "otel_memory");
                found.last_mut().unwrap().1 = rest.to_owned();
            }
            _ => {}
        }
    }
    let places = match cfg!(target_arch = "x86_64") {
        true => ["8@%rdi 8@%rsi 8@%rdx", "8@%rdi"],
        false => ["8@x0 8@x1 8@x2", "8@x0"],
    };
    let names: Vec<_> = found
        .iter()
        .map(|(name, arguments, _)| (name.as_str(), arguments.as_str()))
        .collect();
    assert_eq!(
        names,
        [("alloc", places[0]), ("free", places[1])],
        "{notes}"
    );
    let mut numbers: Vec<u64> = found.into_iter().flat_map(|found| found.2).collect();
    numbers.sort_unstable();
    numbers.dedup();
    // Two places, two semaphores, and the one base.
    assert!(numbers.len() == 5 && numbers[0] > 0, "{notes}");
}

/// What gdb prints of a run of the script by its commands, and the samples of the report; None if gdb cannot start it.
fn in_gdb(commands: &str) -> Option<(String, Value)> {
    if !has("gdb") {
        skipped("there is no gdb");
        return None;
    }
    let folder = folder("probes");
    let (script, report) = (folder.join("job.py"), folder.join("report.json"));
    std::fs::write(&script, SCRIPT).unwrap();
    let file = folder.join("commands");
    let start = "set pagination off\nset confirm off\nset breakpoint pending on\n";
    std::fs::write(&file, format!("{start}{commands}")).unwrap();
    let outcome = Run::program("gdb")
        .args(["-nx", "-batch", "-x"])
        .arg(file)
        .args(["--args", PYHOST, "--lines=64K,seed=3", "--stats=json"])
        .arg(format!("--stats=file={}", report.display()))
        .arg(script)
        .run();
    if outcome.stderr.contains("ptrace") {
        skipped(format!("gdb may not trace: {}", outcome.stderr.trim()));
        return None;
    }
    let report = std::fs::read_to_string(report);
    let report = report.unwrap_or_else(|error| panic!("{error}: {outcome:#?}"));
    let report: Value = serde_json::from_str(&report).unwrap();
    Some((outcome.stdout, report["lines"].clone()))
}

/// The bytes of a view in all accounts that have probes.
fn sampled(lines: &Value, view: &str) -> i64 {
    let accounts = lines["sums"][view].as_object().unwrap().iter();
    let blocks = accounts.filter(|(name, _)| *name != "mapped");
    blocks.map(|(_, sum)| sum["bytes"].as_i64().unwrap()).sum()
}

#[test]
fn a_tracer_sees_each_sample_come_and_go_with_its_weight() {
    let commands = r#"
break -probe-stap otel_memory:alloc
commands
silent
printf "alloc %#lx %lu %lu\n", $_probe_arg0, $_probe_arg1, $_probe_arg2
continue
end
break -probe-stap otel_memory:free
commands
silent
printf "free %#lx\n", $_probe_arg0
continue
end
run
"#;
    let Some((shown, lines)) = in_gdb(commands) else {
        return;
    };
    // CPython's own mimalloc has large objects in multiples of 512 KiB.
    let rounding = if is_free_threaded() { 1 << 19 } else { 122 };
    let mut live: HashMap<&str, i64> = HashMap::new();
    let (mut allocated, mut events, mut large) = (0, 0, None);
    for line in shown.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["alloc", block, size, weight] => {
                let (size, weight): (i64, i64) = (size.parse().unwrap(), weight.parse().unwrap());
                // A request of fewer bytes is drawn as one of 16, and its block has 8 or more.
                let least = 65_536 * size.clamp(8, 16) / 16;
                assert!(weight >= size.max(least), "{line}");
                if size > 12_345_678 {
                    assert!(large.replace(block).is_none(), "{line}");
                    assert!(
                        size < 12_345_678 + rounding && weight < 13_000_000,
                        "{line}"
                    );
                }
                live.insert(block, weight);
                allocated += weight;
                events += 1;
            }
            ["free", block] => {
                assert!(live.remove(block).is_some(), "{line}: {shown}");
            }
            // The address of an object is that of its block, but for what the collector has in front.
            ["block", block] => assert_eq!(large, Some(block), "{shown}"),
            _ => {}
        }
    }
    assert!(
        large.is_some_and(|block| !live.contains_key(block)),
        "{shown}"
    );
    // The rest is that of the report, whose sums are rounded.
    let near = |found: i64, view| {
        let expected = sampled(&lines, view);
        assert!(
            (found - expected).abs() <= events,
            "{view}: {found}, {expected}"
        );
    };
    near(allocated, "allocated");
    near(live.values().sum(), "live");
    assert!(allocated > 20_000_000 && events > 100, "{shown}");
    assert!(events <= lines["samples"].as_i64().unwrap());
}

#[test]
fn without_a_tracer_the_probes_are_not_called() {
    if IS_INSIDE {
        return skipped(
            "the library has no symbols, by which gdb would stop without being a tracer",
        );
    }
    let run = |semaphore: u32| {
        let commands = format!(
            "starti\nset {{unsigned short}}&otel_memory_alloc_semaphore = {semaphore}\n\
             break *&pyhost_probe_alloc\ncommands\nsilent\nprintf \"called\\n\"\ncontinue\nend\ncontinue\n"
        );
        let (shown, lines) = in_gdb(&commands)?;
        let calls = shown.lines().filter(|line| *line == "called").count() as i64;
        Some((calls, lines["samples"].as_i64().unwrap()))
    };
    let Some((calls, samples)) = run(1) else {
        return;
    };
    assert!(calls > 100 && calls <= samples, "{calls} {samples}");
    let Some((calls, samples)) = run(0) else {
        return;
    };
    assert!(calls == 0 && samples > 100, "{calls} {samples}");
}
