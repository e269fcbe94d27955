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
fn a_bad_option_is_one_line_that_names_it_and_what_was_expected() {
    let cases: [(&[&str], &str); 17] = [
        (
            &["--frobnicate"],
            "--frobnicate: unknown option; expected one of the host's (pyhost --help) or of Python's (pyhost -h)",
        ),
        (
            &["--statz"],
            "--statz: unknown option; did you mean --stats?",
        ),
        (
            &["--allocator=jemalloc"],
            "--allocator: bad value 'jemalloc'; expected one of mimalloc, pymalloc, system",
        ),
        (
            &["--allocator"],
            "--allocator: expected a value, one of mimalloc, pymalloc, system",
        ),
        (
            &["--malloc", "maybe"],
            "--malloc: bad value 'maybe'; expected one of count, plain, off",
        ),
        (
            &["--stats=xml"],
            "--stats: bad value 'xml'; expected one of text, json, html, openmetrics, off; or file=PATH, fd=N",
        ),
        (
            &["--stats=fd=two"],
            "--stats fd: bad value 'two'; expected a number",
        ),
        (
            &["--stats=fd=99"],
            "--stats fd: 99 is no open descriptor; expected one that the caller opened",
        ),
        (
            &["--stats=file=/no/such/folder/r"],
            "--stats file: no directory for '/no/such/folder/r'; expected a file in one that exists",
        ),
        (&["--debug-hooks=1"], "--debug-hooks: takes no value"),
        (
            &["--stats=fd=1,file=r.json"],
            "--stats: the report goes to a file or to a descriptor; expected file or fd",
        ),
        (
            &["--stats-file", "r.json"],
            "--stats-file: unknown option; did you mean --stats?",
        ),
        (&["--lines", "--lines=64K"], "--lines: given more than once"),
        (
            &["-u", "-W", "error", "--stats=text"],
            "--stats: comes after an option of Python's; the host's options come first",
        ),
        (
            &["-Xdev", "--cap", "64M"],
            "--cap: comes after an option of Python's; the host's options come first",
        ),
        (
            &["--stats", "json", "Cargo.toml"],
            "--stats: 'json' is taken for the program and is not one; expected --stats=json",
        ),
        (
            &["--lines", "64K", "Cargo.toml"],
            "--lines: '64K' is taken for the program and is not one; expected --lines=64K",
        ),
    ];
    for (arguments, line) in cases {
        refused(Run::host().args(arguments).code("print('ran')"), line);
    }
    refused(
        Run::host()
            .args(["--malloc=off", "--allocator=pymalloc"])
            .code("print('ran')"),
        "--malloc off: leaves no domain on mimalloc, but --allocator asks for it; expected --allocator system",
    );
}

#[test]
fn a_bad_variable_is_refused_like_its_option_and_an_empty_one_is_none() {
    for (name, value, expected) in [
        ("PYHOST_ALLOCATOR", "x", "mimalloc, pymalloc, system"),
        ("PYHOST_MALLOC", "x", "count, plain, off"),
        (
            "PYHOST_STATS",
            "x",
            "text, json, html, openmetrics, off; or file=PATH, fd=N",
        ),
        ("PYHOST_DEBUG_HOOKS", "yes", "1, 0"),
    ] {
        let line = format!("{name}: bad value '{value}'; expected one of {expected}");
        refused(Run::host().env(name, value).code("print('ran')"), &line);
        assert_eq!(
            Run::host().env(name, "").code("print('ran')").ok().stdout,
            "ran\n"
        );
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
fn help_and_version_are_the_hosts_only_by_their_long_names() {
    let help = Run::host().arg("--help").ok().stdout;
    for option in [
        "--allocator",
        "--debug-hooks",
        "--malloc",
        "--stats",
        "--host-version",
        "pyhost -h",
    ] {
        assert!(help.contains(option), "{option} is missing in\n{help}");
    }
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
    for (options, word) in [
        ("--stats --cap=1G", "--stats --cap"),
        ("--cap 1G", "--cap 1G"),
        ("--stats=json -u", "json -u"),
    ] {
        let file = folder("shebang").join("program");
        std::fs::write(&file, format!("#!{PYHOST} {options}\nprint(1)\n")).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&file, mode).unwrap();
        refused(
            Run::program(&file),
            &format!(
                "'{word}': one word with several options, as the kernel passes them from a first line \
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
