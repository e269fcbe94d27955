//! Where output goes: nothing that exists is destroyed, and no place of it stops the script.

use crate::host::{Outcome, PYHOST, Run, folder, ledger_at, timeline_at, until};
use crate::skipping::skipped;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The options that write to a path, up to it.
const OUTPUTS: [&str; 5] = [
    "--stats=file=",
    "--brief=",
    "--timeline=",
    "--live=file:",
    "--fail=obj=1,above=3M,log=",
];

/// The one request for memory that fails, which the script catches, so that a log has a line.
const CODE: &str = "
try:
    data = bytes(4 << 20)
except MemoryError:
    pass
print('ran')";

/// The host with an output at a path.
fn with(output: &str, path: impl AsRef<Path>) -> Run {
    Run::host().at(output, path.as_ref())
}

fn ran(outcome: &Outcome) {
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    assert!(outcome.stdout.contains("ran\n"), "{outcome:#?}");
}

/// One line on standard error that holds `part`.
fn warned(outcome: &Outcome, part: &str) {
    ran(outcome);
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
    assert!(outcome.stderr.contains(part), "{part}: {outcome:#?}");
}

fn refused(outcome: &Outcome, part: &str) {
    assert_eq!(outcome.code(), 2, "{outcome:#?}");
    assert_eq!(outcome.stdout, "", "nothing is run");
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
    assert!(outcome.stderr.contains(part), "{part}: {outcome:#?}");
}

fn fifo(path: &Path) {
    let status = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_script_in_the_place_of_an_output_is_never_written_over() {
    let folder = folder("outputs");
    let script = folder.join("train.py");
    for output in OUTPUTS {
        fs::write(&script, "print('mine')\n").unwrap();
        let separate = Run::host().arg(output).arg(&script).run();
        refused(&separate, "expected");
        refused(&with(output, &script).code(CODE).run(), "did not write it");
        let (option, key) = output.split_once('=').unwrap();
        let variable = format!("PYHOST_{}", option[2..].to_uppercase());
        if option != "--live" {
            let by_variable = Run::host().env_at(&variable, key, &script);
            refused(&by_variable.code(CODE).run(), "did not write it");
        }
        let link = folder.join("link");
        let _ = fs::remove_file(&link);
        symlink(&script, &link).unwrap();
        refused(&with(output, &link).code(CODE).run(), "did not write it");
        assert_eq!(fs::read_to_string(&script).unwrap(), "print('mine')\n");
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
}

#[test]
fn a_file_that_pyhost_wrote_or_that_is_empty_is_replaced() {
    for output in OUTPUTS {
        let folder = folder("outputs");
        let file = folder.join("file");
        fs::write(&file, "").unwrap();
        for _ in 0..3 {
            ran(&with(output, &file).code(CODE).ok());
            assert!(fs::metadata(&file).unwrap().len() > 0, "{output:?}");
        }
        // A link stays one, and its target is what is written.
        let link = folder.join("link");
        symlink("file", &link).unwrap();
        ran(&with(output, &link).code(CODE).ok());
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let fresh = folder.join("fresh");
        symlink(&fresh, folder.join("dangling")).unwrap();
        ran(&with(output, folder.join("dangling")).code(CODE).ok());
        assert!(fs::metadata(&fresh).unwrap().len() > 0, "{output:?}");
        let mut names: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["dangling", "file", "fresh", "link"], "{output:?}");
    }
    for format in ["text", "json", "openmetrics", "html"] {
        let file = folder("outputs").join("report");
        for _ in 0..2 {
            let run = Run::host().at(&format!("--stats={format},file="), &file);
            ran(&run.code(CODE).ok());
        }
    }
}

#[test]
fn a_file_that_the_script_puts_in_the_place_of_its_report_stays() {
    let file = folder("outputs").join("report");
    let code = format!("open({file:?}, 'w').write('mine')\nprint('ran')");
    let outcome = with("--stats=file=", &file).code(&code).run();
    warned(&outcome, "did not write it");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn devices_and_open_descriptors_are_written_into() {
    let null = fs::metadata("/dev/null").unwrap();
    let folder = folder("outputs");
    let link = folder.join("null");
    symlink("/dev/null", &link).unwrap();
    for output in OUTPUTS {
        if output == "--live=file:" {
            let outcome = with(output, "/dev/null").code(CODE).run();
            refused(&outcome, "expected a regular file");
            continue;
        }
        for path in [Path::new("/dev/null"), &link] {
            assert_eq!(with(output, path).code(CODE).ok().stderr, "", "{output:?}");
        }
        let outcome = with(output, "/dev/stdout").code(CODE).ok();
        assert!(outcome.stdout.lines().count() > 1, "{outcome:#?}");
        ran(&outcome);
        let outcome = with(output, "/dev/fd/2").code(CODE).ok();
        assert!(outcome.stderr.lines().count() > 0, "{outcome:#?}");
        refused(&with(output, "/dev/fd/977").code(CODE).run(), "no open");
    }
    // The earlier content of standard output stays.
    let out = folder.join("out");
    let shell = "echo before >\"$2\"; \"$0\" --stats=file=/dev/stdout -c \"$1\" >>\"$2\"";
    Run::program("sh")
        .args(["-c", shell, PYHOST, CODE])
        .arg(&out)
        .ok();
    let text = fs::read_to_string(&out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["before", "ran"]);
    assert!(lines[2].starts_with("{\"schema\":\"pyhost-report/1\""));
    let found = fs::metadata("/dev/null").unwrap();
    assert!(found.file_type().is_char_device());
    assert_eq!((found.ino(), found.rdev()), (null.ino(), null.rdev()));
}

#[test]
fn a_descriptor_that_the_script_has_closed_gets_no_report() {
    let folder = folder("outputs");
    let (first, second) = (folder.join("first"), folder.join("second"));
    for option in ["--stats=fd=9", "--stats=file=/dev/fd/9"] {
        fs::write(&second, "mine").unwrap();
        let code = format!(
            "import os\nos.close(9)\nassert os.open({second:?}, os.O_RDWR) != 9 or True\n\
             other = os.open({second:?}, os.O_RDWR | os.O_APPEND)\nos.dup2(other, 9)\nprint('ran')"
        );
        let shell = "exec 9>\"$3\"; exec \"$0\" \"$1\" -c \"$2\"";
        let outcome = Run::program("sh")
            .args(["-c", shell, PYHOST, option, &code])
            .arg(&first)
            .run();
        warned(&outcome, "the script has closed it");
        assert_eq!(fs::read_to_string(&second).unwrap(), "mine");
    }
}

#[test]
fn a_device_that_is_full_is_one_line_and_the_script_runs() {
    for output in OUTPUTS {
        if output != "--live=file:" {
            let outcome = with(output, "/dev/full").code(CODE).run();
            warned(&outcome, "No space left on device");
        }
    }
    let both = with("--timeline=", "/dev/full").at("--brief=", Path::new("/dev/full"));
    let said = both.code(CODE).ok().stderr;
    let names = said.lines().map(|line| line.split(": ").nth(1));
    assert_eq!(Vec::from_iter(names.flatten()), ["--timeline", "--brief"]);
}

#[test]
fn a_fifo_never_makes_the_script_wait() {
    for output in OUTPUTS {
        let path = folder("outputs").join("fifo");
        fifo(&path);
        if output == "--live=file:" {
            refused(&with(output, &path).code(CODE).run(), "cannot be mapped");
            continue;
        }
        // Nobody reads it.
        let outcome = with(output, &path).code(CODE).timeout(30).run();
        ran(&outcome);
        match output {
            "--stats=file=" => warned(&outcome, "it has no reader"),
            "--brief=" => warned(&outcome, "No such device"),
            _ => assert_eq!(outcome.stderr, "", "{output:?}"),
        }
        // Somebody does.
        let mut reader = Command::new("cat")
            .arg(&path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let is_reading = format!("/proc/{}/wchan", reader.id());
        let _ = fs::read_to_string(is_reading);
        let wait = "import time; time.sleep(0.3)\n";
        let code = format!("{wait}{CODE}\n{wait}");
        ran(&with(output, &path).code(&code).timeout(30).run());
        let mut text = String::new();
        let mut pipe = reader.stdout.take().unwrap();
        pipe.read_to_string(&mut text).unwrap();
        reader.wait().unwrap();
        let begin = match output {
            "--stats=file=" => "{\"schema\":\"pyhost-report/1\"",
            "--brief=" => "pyhost: process ",
            "--timeline=" => "{\"timeline\":\"pyhost-timeline/1\"",
            _ => "",
        };
        assert!(text.starts_with(begin) && text.ends_with('\n'), "{text}");
        assert!(fs::metadata(&path).unwrap().file_type().is_fifo());
    }
}

#[test]
fn a_script_without_a_handler_of_sigpipe_does_not_die_of_its_report() {
    let code = "import os, signal, sys
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
print('ran', flush=True)
os.read(0, 1)";
    for format in ["text", "json"] {
        let mut child = Command::new(PYHOST)
            .arg(format!("--stats={format}"))
            .args(["-c", code])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0; 4];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut line)
            .unwrap();
        drop(child.stderr.take());
        drop(child.stdin.take());
        let status = child.wait().unwrap();
        assert_eq!((status.code(), status.signal()), (Some(0), None));
    }
}

/// Runs a shell's script as root of a mount namespace of its own, in which `$DIR` is a file system of
/// `options`; `None`, with a line that says so, where this machine has no such namespaces.
fn in_mounts(options: &str, dir: &Path, script: &str) -> Option<Outcome> {
    let begin =
        format!("mount -t tmpfs -o {options} none \"$DIR\" 2>/dev/null || exit 99\n{script}");
    let outcome = Run::program("unshare")
        .args(["--mount", "--user", "--map-root-user", "sh", "-c", &begin])
        .env("DIR", dir)
        .env("HOST", PYHOST)
        .env("CODE", CODE)
        .run();
    if outcome.code() == 99 || outcome.stderr.contains("unshare:") {
        skipped(format!("no mount namespaces here: {outcome:?}"));
        return None;
    }
    Some(outcome)
}

/// The options and the variables of each output at a path of the shell's, as words for it.
fn words(path: &str) -> impl Iterator<Item = String> {
    OUTPUTS.iter().map(move |output| format!("{output}{path}"))
}

#[test]
fn a_full_disk_is_one_line_and_leaves_nothing_torn() {
    let place = folder("full");
    for output in words("\"$DIR/file\"") {
        let script = format!(
            "head -c 1000000 /dev/zero >\"$DIR/fill\" 2>/dev/null\n\
             \"$HOST\" {output} -c \"$CODE\"; status=$?\n\
             ls \"$DIR\" | grep -v fill; exit $status"
        );
        let Some(outcome) = in_mounts("size=64k,nr_inodes=64", &place, &script) else {
            return;
        };
        warned(&outcome, "No space left on device");
        assert_eq!(outcome.stdout, "ran\n", "{output}: no file stays");
    }
}

#[test]
fn a_disk_that_fills_while_the_script_runs_leaves_whole_lines() {
    let place = folder("full");
    let script = "\"$HOST\" --timeline=interval=1ms,\"$DIR/file\" \
                  -c \"import time; time.sleep(1.5); print('ran')\"; status=$?\n\
                  rm \"$DIR/spare\"; sleep 0.2; tail -c 1 \"$DIR/file\" | od -An -c\n\
                  \"$HOST\" -c \"import json, sys; [json.loads(line) for line in open(sys.argv[1])]\" \
                  \"$DIR/file\" && exit $status";
    let begin = format!("head -c 40000 /dev/zero >\"$DIR/spare\"\n{script}");
    let Some(outcome) = in_mounts("size=64k", &place, &begin) else {
        return;
    };
    warned(&outcome, "No space left on device");
    assert!(outcome.stdout.contains("\\n"), "{outcome:#?}");
}

#[test]
fn a_read_only_directory_is_one_line_and_the_script_runs() {
    let place = folder("read-only");
    for output in words("\"$DIR/file\"") {
        let script =
            format!("mount -o remount,ro \"$DIR\" || exit 99\n\"$HOST\" {output} -c \"$CODE\"");
        let Some(outcome) = in_mounts("size=64k", &place, &script) else {
            return;
        };
        warned(&outcome, "Read-only file system");
    }
    let script =
        "mount -o remount,ro \"$DIR\" || exit 99\ncd \"$DIR\"; \"$HOST\" --stats=html -c \"$CODE\"";
    if let Some(outcome) = in_mounts("size=64k", &place, script) {
        warned(&outcome, "Read-only file system");
    }
}

#[test]
fn a_single_file_that_is_mounted_is_written_in_place() {
    let place = folder("mounted");
    for output in words("\"$DIR/log\"") {
        let script = format!(
            "touch \"$DIR/outside\" \"$DIR/log\"\n\
             mount --bind \"$DIR/outside\" \"$DIR/log\" || exit 99\n\
             \"$HOST\" {output} -c \"$CODE\"; status=$?\n\
             test -s \"$DIR/outside\" || exit 98\nls \"$DIR\" >&2; exit $status"
        );
        let Some(outcome) = in_mounts("size=4M", &place, &script) else {
            return;
        };
        ran(&outcome);
        assert_eq!(outcome.stderr, "log\noutside\n", "{output}");
    }
}

#[test]
fn child_processes_run_where_an_inherited_output_cannot_be() {
    let place = folder("inherited");
    let template = place.join("r-%p");
    let code = format!(
        "import os, shutil, subprocess, sys
shutil.rmtree({place:?})
print(subprocess.run([sys.executable, '-c', 'print(\"child\")'], capture_output=True, text=True))"
    );
    let outcome = Run::host()
        .at("--stats=file=", &template)
        .at("--brief=", place.join("b-%p"))
        .code(&code)
        .run();
    assert!(
        outcome.stdout.contains("returncode=0, stdout='child"),
        "{outcome:#?}"
    );
}

#[test]
fn the_brief_of_each_process_is_its_own_where_the_name_says_so() {
    let place = folder("brief");
    let code = "
import os, subprocess, sys
print(os.getpid(), flush=True)
if os.fork() == 0:
    print(os.getpid(), flush=True)
    sys.exit(3)
os.wait()
sys.stdout.flush()
subprocess.run([sys.executable, '-c', 'import os; print(os.getpid())'])
subprocess.run(['true'])";
    let outcome = Run::host()
        .at("--brief=", place.join("brief-%p"))
        .code(code)
        .ok();
    let mut expected: Vec<PathBuf> = outcome
        .stdout
        .lines()
        .map(|pid| place.join(format!("brief-{pid}")))
        .collect();
    expected.sort();
    let found = || {
        let entries = fs::read_dir(&place).unwrap();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        (paths == expected).then_some(paths)
    };
    for path in until("a brief for each process", found) {
        let text = fs::read_to_string(&path).unwrap();
        let pid = path.to_str().unwrap().rsplit('-').next().unwrap();
        assert!(
            text.starts_with(&format!("pyhost: process {pid} (")),
            "{text}"
        );
        assert!(text.contains("exit status"), "{text}");
    }
}

#[test]
fn a_page_never_takes_the_place_of_another_file() {
    let folder = folder("outputs");
    let report = folder.join("report.json");
    Run::host().at("--stats=file=", &report).code(CODE).ok();
    let html = |arguments: &[&str]| {
        Run::program(crate::host::PYHOSTCTL)
            .arg("html")
            .arg(&report)
            .args(arguments)
            .run()
    };
    let notes = folder.join("report.html");
    fs::write(&notes, "<!DOCTYPE html><p>mine").unwrap();
    for arguments in [&[] as &[&str], &["-o", notes.to_str().unwrap()]] {
        let outcome = html(arguments);
        assert_eq!(outcome.code(), 1, "{outcome:#?}");
        assert!(outcome.stderr.contains("did not write it"), "{outcome:#?}");
    }
    assert_eq!(
        fs::read_to_string(&notes).unwrap(),
        "<!DOCTYPE html><p>mine"
    );
    fs::remove_file(&notes).unwrap();
    let link = folder.join("link");
    symlink("report.html", &link).unwrap();
    for _ in 0..2 {
        assert_eq!(html(&["-o", link.to_str().unwrap()]).code(), 0);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
    assert_eq!(html(&["-o", "/dev/null"]).code(), 0);
    let full = html(&["-o", "/dev/full"]);
    assert!(full.stderr.contains("No space left"), "{full:#?}");
    let device = fs::metadata("/dev/null").unwrap();
    assert!(device.file_type().is_char_device());
    // Nor does the timeline that the host keeps for a page.
    let page = folder.join("page.html");
    let timeline = folder.join("page.html.timeline");
    fs::write(&timeline, "mine").unwrap();
    let outcome = Run::host().at("--stats=html,file=", &page).code(CODE).run();
    refused(&outcome, "did not write it");
    assert_eq!(fs::read_to_string(&timeline).unwrap(), "mine");
}

#[test]
fn two_hosts_may_have_one_ledger_file() {
    let path = folder("outputs").join("ledger");
    let code = "print('ran', flush=True); import sys; sys.stdin.read()
data = [[n] for n in range(10000)]";
    let mut first = Command::new(PYHOST)
        .arg(ledger_at(&path))
        .args(["-c", code])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0; 4];
    first
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut line)
        .unwrap();
    ran(&with("--live=file:", &path).code(CODE).ok());
    drop(first.stdin.take());
    assert_eq!(first.wait().unwrap().code(), Some(0));
}

#[test]
fn the_timeline_of_a_stream_goes_on_where_a_file_would_be_thinned() {
    let run = Run::host().arg("--timeline=/dev/stdout,interval=1ms");
    let code = "import time; time.sleep(0.1)";
    let outcome = run.code(code).ok();
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert!(lines[0].starts_with("{\"timeline\""), "{outcome:#?}");
    assert!(lines.len() > 10 && lines.last().unwrap().contains("ended_by"));
}

#[test]
fn two_outputs_never_share_a_file() {
    let folder = folder("outputs");
    let file = folder.join("file");
    symlink("file", folder.join("link")).unwrap();
    for path in [&file, &folder.join("link")] {
        let run = Run::host().at("--stats=file=", &file);
        let outcome = run.arg(timeline_at(path)).code(CODE).run();
        refused(&outcome, "is the file of --stats");
    }
    let run = Run::host().arg("--stats=file=/dev/null");
    ran(&run.arg("--timeline=/dev/null").code(CODE).ok());
    assert!(!file.exists());
}

#[test]
fn child_processes_do_not_repeat_a_line_about_an_output() {
    let place = folder("read-only");
    let script = "mount -o remount,ro \"$DIR\" || exit 99
export PYHOST_STATS=\"file=$DIR/%p\" PYHOST_LIVE=\"$DIR/live\"
\"$HOST\" -c \"import subprocess, sys
subprocess.run([sys.executable, '-c', 'print(1)'])\"";
    let Some(outcome) = in_mounts("size=64k", &place, script) else {
        return;
    };
    assert_eq!(outcome.stdout, "1\n");
    assert_eq!(outcome.stderr.lines().count(), 2, "{outcome:#?}");
}

#[test]
fn an_output_is_its_users_alone_and_one_that_exists_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    for output in OUTPUTS {
        let path = folder("modes").join("output");
        // As a library or a program does that leaves nothing behind: it looks while the file is there.
        let code = format!(
            "{CODE}\nimport os; print(oct(os.stat({path:?}).st_mode & 0o777) if os.path.exists({path:?}) else 'none')"
        );
        let run = || with(output, &path).args(["-c", &code]).run();
        let outcome = run();
        ran(&outcome);
        assert!(!outcome.stdout.contains("0o644"), "{outcome:#?}");
        if !path.exists() {
            continue; // nothing stays of it
        }
        assert_eq!(mode(&path), 0o600, "{output:?}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        ran(&run());
        assert_eq!(mode(&path), 0o640, "{output:?}");
    }
}

#[test]
fn no_name_of_the_scripts_steers_a_terminal_or_forges_a_line() {
    let log = folder("names").join("log");
    let run = |options: &[&str]| {
        let run = Run::host().args(options);
        run.arg(crate::host::script("escapes_in_texts.py")).ok()
    };
    let lines = run(&["--lines=1", "--stats", "--cap", "64M"]);
    assert!(lines.stderr.contains(" reached: "), "{lines:#?}");
    run(&[&format!("--fail=every=1,above=100M,log={}", log.display())]);
    let log = fs::read_to_string(log).unwrap();
    for text in [&lines.stderr, &log] {
        assert!(text.contains("RED"), "{text}");
        let is_hidden =
            |letter: char| letter != '\n' && letter.is_control() || letter == '\u{202e}';
        assert!(!text.contains(is_hidden), "{text:?}");
        assert!(!text.contains("\npyhost: a forged line"), "{text}");
    }
}
