//! The host is a true python: whatever can be seen from the script or from outside is as stock
//! Python of the same libpython has it.

use crate::host::{IS_INSIDE, PYHOST, Run, compile, executable, folder, script, stock, version};
use crate::skipping::skipped;
use std::ffi::OsStr;
use std::process::Command;

/// Runs both and compares status, standard output and standard error, the programs' own names
/// aside.
fn same(describe: &str, prepare: impl Fn(Run) -> Run) {
    let host = prepare(Run::host()).run();
    let python = prepare(Run::stock()).run();
    let clean = |text: &str| {
        let own = text.replace(&*executable().to_string_lossy(), "PYTHON");
        own.replace(&*stock().to_string_lossy(), "PYTHON")
    };
    assert_eq!(host.code(), python.code(), "{describe}: {host:#?}");
    assert_eq!(clean(&host.stdout), clean(&python.stdout), "{describe}");
    assert_eq!(clean(&host.stderr), clean(&python.stderr), "{describe}");
}

#[test]
fn every_way_to_start_a_program_is_pythons() {
    let folder = folder("launch");
    let package = folder.join("package");
    std::fs::create_dir(&package).unwrap();
    let show = "import sys; print(__name__, sys.argv, sys.path[0], bool(sys.stdin.isatty()))\n";
    std::fs::write(package.join("__main__.py"), show).unwrap();
    std::fs::write(folder.join("script.py"), show).unwrap();
    std::fs::write(folder.join("module.py"), show).unwrap();
    Command::new(stock())
        .args(["-m", "zipapp", "package", "-o", "package.zip"])
        .current_dir(&folder)
        .status()
        .unwrap();
    let launches: [&[&str]; 8] = [
        &["script.py", "a", "b"],
        &["-c", show, "a"],
        &["-m", "module", "a"],
        &["-m", "package"],
        &["package"],
        &["package.zip", "x"],
        &["-", "a"],
        &[],
    ];
    for arguments in launches {
        same(&format!("{arguments:?}"), |run| {
            run.folder(&folder).args(arguments).stdin(show)
        });
    }
    for arguments in [
        &["no_such.py"][..],
        &["-m", "no_such_module"],
        &["-Q"],
        &["-c"],
        &["-X"],
    ] {
        same(&format!("{arguments:?}"), |run| {
            run.folder(&folder).args(arguments)
        });
    }
}

#[test]
fn options_and_variables_are_pythons() {
    let show = "import sys, os, locale
print(sys.flags, sys.warnoptions, sys._xoptions, sys.dont_write_bytecode, sys.pycache_prefix)
print(sys.stdout.encoding, sys.stdout.errors, sys.getfilesystemencoding(), sys.stdout.line_buffering)
print(sys.prefix, sys.exec_prefix, sys.base_prefix, sys.path, sys.hash_info.algorithm, hash('a') == hash('a'))
print(sorted(name for name in sys.modules if name != 'pyhost'), sys.implementation, sys.api_version)
print(sys.getswitchinterval(), sys.getrecursionlimit(), sys.platlibdir)";
    let options: [&[&str]; 14] = [
        &[],
        &["-B"],
        &["-E"],
        &["-I"],
        &["-O"],
        &["-OO"],
        &["-S"],
        &["-s"],
        &["-u"],
        &["-W", "error"],
        &["-X", "utf8"],
        &["-X", "dev"],
        &["-X", "importtime=0"],
        &["-b", "-d", "-q", "-v0"],
    ];
    for arguments in options {
        let hash = |run: Run| run.env("PYTHONHASHSEED", "0");
        if arguments.contains(&"-v0") || arguments.contains(&"importtime=0") {
            // Their output names addresses and times.
            continue;
        }
        same(&format!("{arguments:?}"), |run| {
            hash(run).args(arguments).args(["-c", show])
        });
    }
    let variables = [
        ("PYTHONHASHSEED", "123"),
        ("PYTHONOPTIMIZE", "1"),
        ("PYTHONUTF8", "1"),
        ("PYTHONIOENCODING", "latin-1:replace"),
        ("PYTHONWARNINGS", "ignore"),
        ("PYTHONDONTWRITEBYTECODE", "1"),
        ("PYTHONNOUSERSITE", "1"),
        ("PYTHONPATH", "/tmp:/x"),
        ("PYTHONUNBUFFERED", "1"),
        ("PYTHONCOERCECLOCALE", "0"),
        ("LC_ALL", "C"),
        ("LC_ALL", "C.UTF-8"),
        ("PYTHONHOME", "/nonexistent"),
        ("PYTHONPYCACHEPREFIX", "/tmp/cache"),
        ("PYTHONTRACEMALLOC", "3"),
        ("PYTHONFAULTHANDLER", "1"),
        ("PYTHONSAFEPATH", "1"),
        ("PYTHONINTMAXSTRDIGITS", "1000"),
        ("PYTHONHASHSEED", "wrong"),
        ("PYTHONSTARTUP", "/none"),
    ];
    for (name, value) in variables {
        if name == "PYTHONHOME" {
            // Only the failure's beginning: the dump of the configuration names the program.
            let (host, stock) = (
                Run::host().env(name, value).code("1").run(),
                Run::stock().env(name, value).code("1").run(),
            );
            assert_eq!(host.code(), stock.code());
            continue;
        }
        same(&format!("{name}={value}"), |run| {
            run.env("PYTHONHASHSEED", "0")
                .env(name, value)
                .args(["-c", show])
        });
    }
}

#[test]
fn every_exit_status_is_pythons() {
    let endings = [
        "pass",
        "import sys; sys.exit(7)",
        "import sys; sys.exit('a message')",
        "import sys; sys.exit(None)",
        "raise SystemExit(300)",
        "raise ValueError('x')",
        "import os; os._exit(9)",
        "1/0",
        "syntax error here",
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
        "raise KeyboardInterrupt",
        "import os; os.abort()",
        "import atexit; atexit.register(lambda: print('bye')); raise SystemExit(4)",
        "import sys; sys.stdout.close(); raise SystemExit(5)",
        "import threading; threading.Thread(target=lambda: 1/0).start()",
        "import faulthandler; faulthandler._sigsegv()",
        "import ctypes; ctypes.CDLL(None).exit(11)",
        "import sys; sys.excepthook = lambda *a: print('hook'); 1/0",
        "import os; os.execv('/bin/sh', ['sh', '-c', 'exit 13'])",
        "import signal; signal.setitimer(signal.ITIMER_REAL, 0.01); signal.pause()",
        "def f(): f()\nf()",
    ];
    for code in endings {
        let clean = |run: Run| run.args(["-c", code]);
        let (host, python) = (clean(Run::host()).run(), clean(Run::stock()).run());
        assert_eq!(host.code(), python.code(), "{code}: {host:#?}");
        assert_eq!(host.stdout, python.stdout, "{code}");
        if !code.contains("threading") && !code.contains("faulthandler") {
            assert_eq!(host.stderr, python.stderr, "{code}");
        }
        // The same with a report to a file: nothing else may change.
        let file = folder("ending").join("%p.json");
        let reported = clean(Run::host().at("--stats=file=", &file)).run();
        assert_eq!(reported.code(), python.code(), "{code}: {reported:#?}");
        assert_eq!(reported.stdout, python.stdout, "{code}");
    }
}

#[test]
fn the_process_looks_to_the_script_as_under_python() {
    // Dispositions, masks, descriptors, limits and threads, from Python and from the kernel.
    same("surroundings", |run| run.arg(script("surroundings.py")));
    let blocked = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])";
    same("blocked signal", |run| {
        run.args([
            "-c",
            &format!("{blocked}; print(signal.pthread_sigmask(signal.SIG_BLOCK, []))"),
        ])
    });
}

#[test]
fn closed_descriptors_stay_closed() {
    let code = "import os, sys
try: os.fstat(0); state = 'open'
except OSError: state = 'closed'
os.write(3, ('%s %s %s %s' % (state, sys.stdin, sys.stdout, sys.stderr)).encode())";
    let shell = |program: &str, closed: &str| {
        let line = format!("exec 3>&1; exec \"$0\" -c \"$1\" {closed}");
        Run::program("/bin/sh")
            .args(["-c", &line, program, code])
            .run()
    };
    for closed in ["<&-", "<&- >&-", "<&- >&- 2>&-", ">&-", "2>&-"] {
        let host = shell(crate::host::PYHOST, closed);
        let python = shell(&stock().to_string_lossy(), closed);
        assert_eq!(
            (host.code(), &host.stdout),
            (python.code(), &python.stdout),
            "{closed}"
        );
    }
}

#[test]
fn ignored_signals_stay_ignored() {
    let show = "import signal; print([signal.getsignal(s) for s in (1, 2, 3, 13, 15)])";
    let shell = |program: &str| {
        let line = "trap '' HUP INT QUIT TERM; exec \"$0\" -c \"$1\"";
        Run::program("/bin/sh")
            .args(["-c", line, program, show])
            .ok()
            .stdout
    };
    assert_eq!(
        shell(crate::host::PYHOST),
        shell(&stock().to_string_lossy())
    );
}

#[test]
fn the_repl_runs_in_a_terminal_and_ends_with_one_line() {
    let outcome = Run::stock()
        .arg(script("in_terminal.py"))
        .arg(crate::host::PYHOST)
        .ok();
    let lines: Vec<&str> = outcome.stdout.lines().map(str::trim_end).collect();
    assert!(lines.contains(&"42"), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains(">>>")), "{lines:?}");
    assert!(
        lines.last().unwrap().starts_with("pyhost: peak "),
        "{lines:?}"
    );
    // Silenced by its variable, by a name that starts with python, and inside another host.
    for variable in ["PYHOST_STATS=off", "PYHOST_OUTERMOST=1"] {
        let (name, value) = variable.split_once('=').unwrap();
        let run = Run::stock().env(name, value).arg(script("in_terminal.py"));
        let outcome = run.arg(crate::host::PYHOST).ok();
        assert!(
            !outcome.stdout.contains("pyhost: peak"),
            "{variable}: {}",
            outcome.stdout
        );
    }
}

#[test]
fn an_interrupt_from_the_terminal_ends_a_script_as_it_does_python() {
    let outcome = |program: &std::ffi::OsStr| {
        let run = Run::stock().args([script("interrupt.py").as_os_str(), program]);
        run.ok().stdout
    };
    assert_eq!(
        outcome(crate::host::PYHOST.as_ref()),
        outcome(stock().as_os_str())
    );
}

#[test]
fn multiprocessing_works_by_every_start_method() {
    let outcome = Run::host().arg(script("start_methods.py")).ok();
    assert_eq!(outcome.stdout.lines().count(), 3, "{}", outcome.stdout);
    for line in outcome.stdout.lines() {
        assert!(line.ends_with("[0, 1, 4, 9] hosted"), "{line}");
    }
}

#[test]
fn the_hosts_path_is_found_by_a_name_that_leads_to_another_python() {
    let code = "import sys; print(sys.executable)";
    let own = std::fs::canonicalize(executable()).unwrap();
    for name in ["python3", "", crate::host::PYHOST] {
        let outcome = Run::host().called(name).code(code).ok();
        let found = std::fs::canonicalize(outcome.stdout.trim()).unwrap_or_default();
        assert_eq!(found, own, "called {name:?}");
    }
}

#[test]
fn a_made_up_name_gives_pythons_executable() {
    if IS_INSIDE {
        return skipped("the launcher finds the interpreter whatever its name");
    }
    let folder = folder("called");
    let code = "import sys; print(sys.executable, sys._base_executable, sys.prefix)";
    for name in ["no-such-name", "./no/such", "/nonexistent/python"] {
        same(name, |run| run.folder(&folder).called(name).code(code));
    }
}

#[test]
fn libraries_and_the_system_find_pythons_arguments_alone() {
    let area = script("argument_area.py");
    let stock = Run::stock().arg(&area).args(["a", "b c", ""]).ok();
    let live = format!(
        "--live={}",
        self::folder("arguments").join("hosts").display()
    );
    for options in [
        &[] as &[&str],
        &["--cap", "1G"],
        &[
            "--cap=1G",
            "--lines",
            "--stats=off",
            "--retain",
            "small",
            &live,
        ],
    ] {
        let hosted = Run::host().args(options).arg(&area).args(["a", "b c", ""]);
        assert_eq!(hosted.ok().stdout, stock.stdout, "{options:?}");
    }
}

#[test]
fn on_a_terminal_the_environment_is_as_under_python_and_children_have_no_line() {
    let code = "import os, subprocess, sys
print(sorted(os.environ.items()), flush=True)
subprocess.run([sys.executable, '-c', 'print(\"child\")'])";
    let shown = |program: &OsStr, arguments: &[&str]| {
        on_a_terminal(program, &[arguments, &["-c", code]].concat())
    };
    let stock = shown(stock().as_os_str(), &[]);
    let host = shown(PYHOST.as_ref(), &[]);
    let closing = host
        .strip_prefix(stock.as_str())
        .unwrap_or_else(|| panic!("{host}"));
    assert!(closing.starts_with("pyhost: peak "), "{host}");
    assert_eq!(closing.lines().count(), 1, "{host}");
    let isolated = shown(PYHOST.as_ref(), &["-I"]);
    assert!(isolated.starts_with(&stock), "{isolated}");
    // With PYHOST_STATS=off, which is inherited, there is no line.
    let silent = shown(PYHOST.as_ref(), &["--stats=off"]);
    let silent = silent.replace("('PYHOST_STATS', 'off'), ", "");
    assert_eq!(silent, stock);
}

/// What a program shows on a terminal of its own.
fn on_a_terminal(program: &OsStr, arguments: &[&str]) -> String {
    let run = Run::stock().arg(script("of_terminal.py")).arg(program);
    run.args(arguments).ok().stdout
}

#[test]
fn a_program_that_was_never_started_leaves_no_report_on_a_terminal() {
    let folder = folder("never-started");
    let broken = folder.join("broken.py");
    std::fs::write(&broken, "print(").unwrap();
    let broken = broken.to_str().unwrap();
    std::fs::create_dir(folder.join("empty")).unwrap();
    let empty = folder.join("empty").to_str().unwrap().to_owned();
    for (words, is_reported) in [
        (&["no_such.py"] as &[&str], false),
        (&["--lines", "no_such.py"], false),
        (&["--cap", "1G", "-m", "no_such"], false),
        (&["-m", "json.no_such"], false),
        (&[&empty], false),
        (&["-V"], false),
        (&["--stats", "no_such.py"], true),
        (&["--lines", broken], true),
        (&["--lines", "-c", "("], true),
        (&["-c", "import sys; sys.exit(2)"], true),
        (&["-m", "json.tool", "no_such.json"], true),
    ] {
        let shown = on_a_terminal(PYHOST.as_ref(), words);
        assert_eq!(shown.contains("peak "), is_reported, "{words:?}: {shown}");
    }
}

#[test]
fn on_a_terminal_pythons_help_ends_with_a_line_about_the_hosts() {
    let stock = Run::stock().arg("-h").ok().stdout;
    let (_, options) = stock.split_once('\n').unwrap();
    let shown = on_a_terminal(PYHOST.as_ref(), &["-h"]);
    let (_, own) = shown.split_once('\n').unwrap();
    let end = own.strip_prefix(options);
    assert_eq!(
        end,
        Some("pyhost: the host's options: pyhost --help\n"),
        "{shown}"
    );
    let hosts = Run::host().arg("-h").ok();
    assert_eq!(hosts.stdout.split_once('\n').unwrap().1, options);
    assert_eq!(hosts.stderr, "");
}

#[test]
fn on_a_terminal_lines_that_are_not_printed_are_one_line() {
    let words = ["--lines", "--stats=off", "-c", "print('ran')"];
    let shown = on_a_terminal(PYHOST.as_ref(), &words);
    let (said, rest) = shown.split_once('\n').unwrap();
    assert!(
        said.starts_with("pyhost: --lines: --stats=off prints no lines; "),
        "{shown}"
    );
    assert_eq!(rest, "ran\n");
    assert_eq!(Run::host().args(words).ok().stderr, "");
}

#[test]
fn sub_interpreters_run_and_import_the_hosts_module() {
    let code = "import sys
if sys.version_info >= (3, 13):
    import _interpreters as interpreters
elif sys.version_info >= (3, 8):
    import _xxsubinterpreters as interpreters
for _ in range(5):
    made = interpreters.create()
    interpreters.run_string(made, \"import pyhost; assert pyhost.memory_stats()['total']['live_bytes'] > 0\")
    interpreters.destroy(made)
print('ok')";
    for hooks in ["0", "1"] {
        let outcome = Run::host()
            .env("PYHOST_DEBUG_HOOKS", hooks)
            .code(code)
            .run();
        assert_eq!(
            (outcome.code(), outcome.stdout.as_str()),
            (0, "ok\n"),
            "{outcome:?}"
        );
    }
}

#[test]
fn the_module_is_missing_under_plain_python_as_any_other() {
    let outcome = Run::stock().code("import pyhost").run();
    assert!(
        outcome
            .stderr
            .contains("ModuleNotFoundError: No module named 'pyhost'")
    );
}

#[test]
fn extension_modules_written_in_c_load_and_run() {
    let include = Run::stock()
        .code("import sysconfig; print(sysconfig.get_paths()['include'])")
        .ok();
    let include = format!("-I{}", include.stdout.trim());
    let module = compile(
        "extension.c",
        "extension.so",
        &["-shared", "-fPIC", &include],
    );
    let code = "import sys; sys.path.insert(0, sys.argv[1]); import extension; print(extension.roundtrip(b'bytes'))";
    let outcome = Run::host().code(code).arg(module.parent().unwrap()).ok();
    assert_eq!(outcome.stdout, "b'bytes'\n");
    assert!(version() >= (3, 9));
}
