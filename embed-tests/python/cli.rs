//! The host's command line and variables.

use crate::host::{Outcome, PYHOST, Run, executable, folder};
use std::os::unix::fs::{PermissionsExt, symlink};

fn refused(run: Run, line: &str) {
    let outcome: Outcome = run.run();
    assert_eq!(outcome.code(), 2, "{outcome:?}");
    assert_eq!(outcome.stderr, format!("pyhost: {line}\n"));
    assert_eq!(outcome.stdout, "", "nothing is run");
}

#[test]
fn an_empty_variable_is_none() {
    for name in ["ALLOCATOR", "MALLOC", "STATS", "DEBUG_HOOKS"] {
        let run = Run::host().env(&format!("PYHOST_{name}"), "");
        assert_eq!(run.code("print('ran')").ok().stdout, "ran\n");
    }
}

#[test]
fn an_option_wins_over_its_variable_and_children_inherit_both() {
    let code = "import pyhost, subprocess, sys
print(pyhost.memory_stats()['allocator'])
if len(sys.argv) < 2:
    subprocess.run([sys.executable, '-c', sys.orig_argv[-1] if hasattr(sys, 'orig_argv') else open('/proc/self/cmdline').read().split('\\0')[-2], 'child'])";
    let run = Run::host()
        .env("PYHOST_ALLOCATOR", "system")
        .arg("--allocator=pymalloc");
    assert_eq!(run.code(code).ok().stdout, "pymalloc\npymalloc\n");
    let run = Run::host().env("PYHOST_ALLOCATOR", "pymalloc");
    assert_eq!(run.code(code).ok().stdout, "pymalloc\npymalloc\n");
}

#[test]
fn what_follows_the_host_options_is_pythons_untouched() {
    let code = "import sys; print(sys.argv[1:])";
    let outcome = Run::host()
        .args([
            "--stats=off",
            "-c",
            code,
            "--stats",
            "--allocator=x",
            "--",
            "--help",
        ])
        .ok();
    assert_eq!(
        outcome.stdout,
        "['--stats', '--allocator=x', '--', '--help']\n"
    );
    // Python's own, and a program's name that is that of a value.
    for words in [
        &["-u", "--help", "--stats"][..],
        &["-Ic", "pass", "--stats"],
        &["-W", "--stats", "-c", "pass"],
        &["-m", "this", "--cap"],
    ] {
        Run::host().args(words).ok();
    }
    let absent = Run::host().args(["--stats=off", "json", "absent.py"]).run();
    assert!(absent.stderr.contains("can't open file"), "{absent:#?}");
}

#[test]
fn version_is_the_hosts_only_by_its_long_name() {
    let version = Run::host().arg("--host-version").ok().stdout;
    assert!(
        version.starts_with("pyhost ") && version.contains("mimalloc 3."),
        "{version}"
    );
    for option in ["-h", "-V", "--version"] {
        let (host, stock) = (
            Run::host().called("python").arg(option).ok(),
            Run::stock().called("python").arg(option).ok(),
        );
        // Python names itself by the path that the launcher has found.
        let own = executable();
        let shown = host.stdout.replace(&*own.to_string_lossy(), "python");
        assert_eq!(shown, stock.stdout, "{option}");
    }
}

#[test]
fn a_first_line_with_several_options_is_one_word_and_env_divides_it() {
    for options in ["--stats --cap=1G", "--cap 1G", "--stats=json -u"] {
        let file = folder("shebang").join("program");
        std::fs::write(&file, format!("#!{PYHOST} {options}\nprint(1)\n")).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&file, mode).unwrap();
        refused(
            Run::program(&file),
            &format!(
                "'{options}': one word with several options, as the kernel passes them from a first line \
                 #!; expected #!/usr/bin/env -S pyhost OPTIONS"
            ),
        );
        std::fs::write(
            &file,
            format!("#!/usr/bin/env -S {PYHOST} {options}\nprint(1)\n"),
        )
        .unwrap();
        assert_eq!(Run::program(&file).ok().stdout, "1\n");
    }
}

#[test]
fn called_by_a_name_that_starts_with_python_every_argument_is_pythons() {
    let link = folder("name").join("python3.99");
    symlink(PYHOST, &link).unwrap();
    let outcome = Run::program(&link).args(["--stats", "-c", "pass"]).run();
    assert_eq!(outcome.code(), 2);
    // From 3.14 on: "Unknown option: --stats".
    let said = outcome.stderr.to_lowercase().replace(':', "");
    assert!(said.contains("unknown option --stats"), "{said}");
    let code = "import pyhost; print(pyhost.memory_stats()['allocator'])";
    let outcome = Run::program(&link)
        .env("PYHOST_ALLOCATOR", "system")
        .code(code)
        .ok();
    assert_eq!(outcome.stdout, "system\n");
}

#[test]
fn python_options_that_ignore_the_environment_leave_the_hosts_variables_alone() {
    let code = "import pyhost; print(pyhost.memory_stats()['allocator'])";
    for option in ["-E", "-I"] {
        let run = Run::host().env("PYHOST_ALLOCATOR", "pymalloc").arg(option);
        assert_eq!(run.code(code).ok().stdout, "pymalloc\n");
    }
}

#[test]
fn an_output_that_cannot_be_written_is_no_crash() {
    let shell = |line: &str| Run::program("/bin/sh").args(["-c", line, PYHOST]).run();
    let outcome = shell("\"$0\" --help >/dev/full");
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    assert_eq!(
        outcome.stderr,
        "pyhost: cannot start: standard output cannot be written\n"
    );
    assert_eq!(shell("\"$0\" --nonsense 2>/dev/full").code(), 2);
    assert_eq!(
        shell("\"$0\" --stats -c 'raise SystemExit(4)' 2>/dev/full").code(),
        4
    );
    assert_eq!(
        shell("\"$0\" --stats=fd=3 -c 'raise SystemExit(4)' 3>/dev/full").code(),
        4
    );
}
