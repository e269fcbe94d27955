//! The command of `--at-exhausted`.

use crate::free_threaded::said;
use crate::host::{PYHOST, Run, folder};
use crate::skipping::skipped;
use serde_json::Value;
use std::path::Path;

/// Fills memory up to the cap and drops all, three times; then tells whether there is a child to wait for.
const FULL: &str = "import os
for _ in range(3):
    kept = []
    try:
        while True: kept.append(bytes(2000))
    except MemoryError:
        del kept
try:
    os.wait()
except ChildProcessError:
    print('no child')";

/// A host whose command appends what it gets to a file.
fn host(folder: &Path, command: &str) -> Run {
    let run = Run::host().folder(folder).args(["--cap", "48M"]);
    run.args(["--at-exhausted", command])
}

/// The refusals that a command has written, a line each.
fn refusals(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("refusals")).unwrap_or_default();
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().expect(&text)
}

#[test]
fn the_command_gets_the_first_refusal_once_and_is_no_child_of_the_script() {
    let folder = folder("exhausted");
    let run = host(&folder, "cat - >> refusals; echo told - --lines").args(["--lines"]);
    let outcome = run.code(FULL).ok();
    assert_eq!(outcome.stdout, "no child\n", "{outcome:#?}");
    assert_eq!(
        outcome.stderr.matches("told - --lines\n").count(),
        1,
        "{outcome:#?}"
    );
    let refusals = refusals(&folder);
    let [refusal] = &refusals[..] else {
        panic!("{refusals:#?}");
    };
    assert_eq!(refusal["schema"], "pyhost-refusal/1", "{refusal:#}");
    assert_eq!(refusal["scope"], "total", "{refusal:#}");
    assert_eq!(refusal["cap_bytes"], 48 << 20, "{refusal:#}");
    let line = &refusal["lines"]["live"][0];
    assert_eq!([&line["file"], &line["function"]], ["<string>", "<module>"]);
    assert_eq!(
        [&line["line"], &line["account"]],
        [&Value::from(5), &Value::from("obj")]
    );
    assert!(line["bytes"].as_i64() > Some(30 << 20), "{refusal:#}");
    assert!(
        refusal["accounts"]["obj"]["live_bytes"].as_i64() > Some(30 << 20),
        "{refusal:#}"
    );
}

#[test]
fn the_end_by_status_53_waits_for_the_command() {
    let folder = folder("exhausted");
    let code = "kept = []
while True:
    try:
        while True: kept.append(bytes(2000))
    except MemoryError: pass";
    let outcome = host(&folder, "sleep 1; cat >> refusals").code(code).run();
    assert_eq!(outcome.code(), 53, "{outcome:#?}");
    let refusals = refusals(&folder);
    assert_eq!(refusals.len(), 1, "{outcome:#?}");
    assert_eq!(refusals[0]["lines"], Value::Null);
}

#[test]
fn the_command_has_the_environment_of_the_start() {
    let folder = folder("exhausted");
    let command = "cat > /dev/null; echo \"$KEPT $SET $PYHOST_CAP\" > environment";
    let code = format!("import os; os.environ['SET'] = 'late'; del os.environ['KEPT']\n{FULL}");
    let run = Run::host().folder(&folder).env("PYHOST_CAP", "48M");
    let run = run.env("PYHOST_AT_EXHAUSTED", command).env("KEPT", "kept");
    run.code(&code).ok();
    let text = std::fs::read_to_string(folder.join("environment"));
    assert_eq!(text.unwrap(), "kept  \n");
}

#[test]
fn a_limit_of_the_script_is_no_shortage_and_a_forked_child_has_its_own() {
    let folder = folder("exhausted");
    let code = "import os, pyhost
try:
    with pyhost.limit('4M'): bytearray(20 << 20)
except MemoryError: print('limited')
for _ in range(2):
    if os.fork() == 0:
        try: bytearray(60 << 20)
        except MemoryError: os._exit(0)
    print(os.wait()[1])
try: bytearray(60 << 20)
except MemoryError: print('full')";
    let outcome = host(&folder, "cat >> refusals").code(code).ok();
    assert_eq!(outcome.stdout, "limited\n0\n0\nfull\n", "{outcome:#?}");
    let found = refusals(&folder);
    let mut pids: Vec<_> = found
        .iter()
        .map(|refusal| refusal["pid"].as_i64())
        .collect();
    pids.sort_unstable();
    pids.dedup();
    assert_eq!((found.len(), pids.len()), (3, 3), "{found:#?}");
}

#[test]
fn a_command_that_fails_is_not_the_scripts_affair() {
    let folder = folder("exhausted");
    let outcome = host(&folder, "exit 3").code(FULL).ok();
    assert_eq!(outcome.stdout, "no child\n");
    let outcome = Run::host().args(["--at-exhausted", ""]).code("pass").run();
    assert_eq!(outcome.code(), 2, "{outcome:#?}");
    assert_eq!(
        outcome.stderr,
        "pyhost: --at-exhausted: expected a value, a command of the shell\n"
    );
}

#[test]
fn without_a_shell_one_line_at_the_start_says_that_no_command_will_run() {
    // In a mount namespace of its own, where the shell that begins takes itself away.
    let begin = "mount --bind /dev/null \"$(realpath /bin/sh)\" || exit 99
exec \"$0\" --cap 48M --at-exhausted 'echo told >&2' -c 'import sys; sys.stderr.write(\"begins\\n\")'";
    let outcome = Run::program("unshare")
        .args(["--mount", "--user", "--map-root-user", "sh", "-c", begin])
        .arg(PYHOST)
        .run();
    if outcome.code() == 99 || outcome.stderr.contains("unshare:") {
        return skipped(format!("no mount namespaces here: {outcome:?}"));
    }
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    assert_eq!(
        said(&outcome),
        "pyhost: --at-exhausted: /bin/sh cannot be run (Permission denied); no command will be started\nbegins\n"
    );
}
