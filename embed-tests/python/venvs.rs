//! Virtual environments, pip and pytest.

use crate::environments::pinned;
use crate::free_threaded::is_free_threaded;
use crate::host::{IS_INSIDE, PYHOST, Run, folder, script, version};
use crate::skipping::skipped;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

const SHOW: &str = "import sys, os
try:
    import pyhost
    hosted = 'hosted'
except ImportError:
    hosted = 'not hosted'
print(sys.prefix, sys.base_prefix != sys.prefix, hosted, sys.executable)";

fn made_by_host() -> PathBuf {
    let path = folder("venv").join("v");
    Run::host()
        .args(["-m", "venv", "--without-pip"])
        .arg(&path)
        .ok();
    path
}

#[test]
fn a_venv_made_by_the_host_runs_its_programs_by_the_host() {
    if IS_INSIDE {
        return skipped("the python of a venv is the user's own");
    }
    let path = made_by_host();
    let prefix = path.to_string_lossy().into_owned();
    for name in ["python", "python3", "pyhost"] {
        let program = path.join("bin").join(name);
        if !program.exists() {
            continue; // the names that venv makes differ by version
        }
        let outcome = Run::program(&program).code(SHOW).ok();
        let expected = format!("{prefix} True hosted {}\n", program.display());
        assert_eq!(outcome.stdout, expected, "{name}");
        // Its children too.
        let code = format!(
            "import subprocess, sys; subprocess.run([sys.executable, '-c', {SHOW:?}], check=True)"
        );
        let outcome = Run::program(&program).code(&code).ok();
        assert_eq!(outcome.stdout, expected, "child of {name}");
    }
}

#[test]
fn a_venv_of_copies_makes_further_venvs_that_run_by_the_host() {
    if IS_INSIDE {
        return skipped("a copy of the user's own python is another program");
    }
    const BASE: &str = "import os, pyhost, sys
print(os.path.exists(sys._base_executable), sys.prefix, sys.base_prefix)";
    let path = folder("venv");
    let base_prefix = Run::stock()
        .code("import sys; print(sys.base_prefix)")
        .ok()
        .stdout;
    let mut python = PathBuf::from(PYHOST);
    for (name, option) in [
        ("first", "--copies"),
        ("second", "--copies"),
        ("third", "--symlinks"),
    ] {
        let folder = path.join(name);
        Run::program(&python)
            .args(["-m", "venv", "--without-pip", option])
            .arg(&folder)
            .ok();
        python = folder.join("bin/python");
        let outcome = Run::program(&python).code(BASE).ok();
        assert_eq!(
            outcome.stdout,
            format!("True {} {base_prefix}", folder.display()),
            "{name}"
        );
    }
}

#[test]
fn a_symlink_to_the_host_inside_a_venv_of_pythons_runs_in_that_venv() {
    let path = folder("venv").join("v");
    Run::stock()
        .args(["-m", "venv", "--without-pip"])
        .arg(&path)
        .ok();
    let link = path.join("bin/pyhost");
    symlink(PYHOST, &link).unwrap();
    let outcome = Run::program(&link).code(SHOW).ok();
    let executable = if IS_INSIDE {
        path.join("bin/python")
    } else {
        link
    };
    let expected = format!("{} True hosted {}\n", path.display(), executable.display());
    assert_eq!(outcome.stdout, expected);
}

#[test]
fn a_venv_whose_python_is_a_symlink_to_the_host_answers_to_its_variables() {
    if IS_INSIDE {
        return skipped("the launcher is no python");
    }
    let path = folder("venv").join("v");
    Run::stock()
        .args(["-m", "venv", "--without-pip"])
        .arg(&path)
        .ok();
    let python = path.join("bin/python");
    std::fs::remove_file(&python).unwrap();
    symlink(PYHOST, &python).unwrap();
    let (outcome, report) = Run::program(&python).code(SHOW).reported();
    assert!(outcome.stdout.contains(" True hosted "), "{outcome:?}");
    assert_eq!(report["process"]["exit_status"], 0);
}

#[test]
fn the_host_runs_in_the_active_environment_and_its_children_stay_hosted() {
    let path = folder("venv").join("v");
    Run::stock()
        .args(["-m", "venv", "--without-pip"])
        .arg(&path)
        .ok();
    let (major, minor) = version();
    let build = if is_free_threaded() { "t" } else { "" };
    let packages = path.join(format!("lib/python{major}.{minor}{build}/site-packages"));
    std::fs::write(packages.join("only_here.py"), "").unwrap();
    let program = path.parent().unwrap().join("program.py");
    let text = format!(
        "import multiprocessing, subprocess, sys, only_here
def show():
    {}
if __name__ == '__main__':
    show()
    spawned = multiprocessing.get_context('spawn').Process(target=show)
    sys.stdout.flush(); spawned.start(); spawned.join()
    subprocess.run([sys.executable, '-c', 'import only_here, pyhost; print(2)'], check=True)
    subprocess.run([sys.executable, '-E', '-c', 'import only_here, pyhost; print(3)'], env={{}}, check=True)",
        SHOW.replace('\n', "\n    "),
    );
    std::fs::write(&program, text).unwrap();
    let python = path.join("bin/python");
    let line = format!("{} True hosted {}\n", path.display(), python.display());
    let active = |run: Run| run.env("VIRTUAL_ENV", &path);
    for options in [&[] as &[&str], &["-I"], &["-E"]] {
        let outcome = active(Run::host()).args(options).arg(&program).ok();
        let expected = format!("{line}{line}2\n3\n");
        assert_eq!(
            (&outcome.stdout, &*outcome.stderr),
            (&expected, ""),
            "{options:?}"
        );
    }
    // All that the environment's own python shows.
    let code = "import sys, site, sysconfig
print(sys.executable, sys._base_executable, sys.path, sys.prefix, sys.exec_prefix, sys.base_prefix)
print(site.getsitepackages(), sysconfig.get_paths())";
    let own = Run::program(&python).code(code).ok();
    assert_eq!(active(Run::host()).code(code).ok().stdout, own.stdout);
}

#[test]
fn a_host_that_is_called_python_or_stands_in_an_environment_looks_at_no_active_one() {
    if IS_INSIDE {
        return skipped("the launcher is no python");
    }
    let path = folder("venv").join("v");
    Run::stock()
        .args(["-m", "venv", "--without-pip"])
        .arg(&path)
        .ok();
    let active = |run: Run| run.env("VIRTUAL_ENV", &path);
    // As `python3` by its path does, and as a python that stands in another environment does.
    let code = "import sys; print(sys.prefix == sys.base_prefix)";
    let outcome = active(Run::host()).called("python3").code(code).ok();
    assert_eq!((&*outcome.stdout, &*outcome.stderr), ("True\n", ""));
    let other = made_by_host().join("bin/python");
    let code = "import sys; print(sys.executable)";
    let outcome = active(Run::program(&other)).code(code).ok();
    assert_eq!(outcome.stdout, format!("{}\n", other.display()));
}

#[test]
fn a_host_in_another_environment_runs_in_the_active_one_if_a_shell_finds_that_first() {
    let folder = folder("venv");
    let [active, other] = ["active", "other"].map(|name| folder.join(name));
    for path in [&active, &other] {
        let make = Run::stock().args(["-m", "venv", "--without-pip"]);
        make.arg(path).ok();
    }
    let link = other.join("bin/pyhost");
    symlink(PYHOST, &link).unwrap();
    let in_order = |folders: [&PathBuf; 2]| {
        let path = folders.map(|root| root.join("bin"));
        std::env::join_paths(path).unwrap()
    };
    let prefix = |program: &str, path| {
        let run = Run::program(program).env("VIRTUAL_ENV", &active);
        let run = run.env("PATH", path).code("import sys; print(sys.prefix)");
        let outcome = run.ok();
        assert_eq!(outcome.stderr, "");
        PathBuf::from(outcome.stdout.trim())
    };
    assert_eq!(prefix("pyhost", in_order([&active, &other])), active);
    assert_eq!(prefix("pyhost", in_order([&other, &active])), other);
    let by_path = prefix(link.to_str().unwrap(), in_order([&active, &other]));
    assert_eq!(by_path, other);
}

#[test]
fn an_active_environment_that_does_not_fit_is_told_in_one_line() {
    let other = folder("venv");
    std::fs::create_dir_all(other.join("lib/python3.1/site-packages")).unwrap();
    std::fs::write(other.join("pyvenv.cfg"), "version = 3.1.0\n").unwrap();
    let code = "import subprocess, sys; print(sys.prefix == sys.base_prefix, flush=True)
subprocess.run([sys.executable, '-c', 'print(1)'])";
    for path in [other.to_str().unwrap(), "/nonexistent/v", "relative"] {
        let outcome = Run::host().env("VIRTUAL_ENV", path).code(code).ok();
        assert_eq!(outcome.stdout, "True\n1\n", "{path}");
        let lines: Vec<&str> = outcome.stderr.lines().collect();
        let [line] = lines[..] else {
            panic!("{outcome:?}");
        };
        assert!(
            line.contains(path) && line.contains("VIRTUAL_ENV: "),
            "{line}"
        );
    }
    let outcome = Run::host().env("VIRTUAL_ENV", "").code(code).ok();
    assert_eq!((&*outcome.stdout, &*outcome.stderr), ("True\n1\n", ""));
}

/// The python of a fresh venv of the host's, with a package that its own pip installed.
fn python_with(requirement: &str) -> PathBuf {
    let path = folder("venv").join("v");
    let make = Run::host().args(["-m", "venv"]).arg(&path);
    make.timeout(300).ok();
    let python = path.join("bin/python");
    let install = [
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "-q",
        requirement,
    ];
    Run::venv(&python).args(install).timeout(300).ok();
    python
}

#[test]
fn pip_installs_and_pytest_runs() {
    let pytest = pinned("development", "pytest").expect("pytest is pinned for each Python");
    let outcome = Run::venv(&python_with(&pytest))
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
        .arg(script("sample_pytest.py"))
        .ok();
    assert!(outcome.stdout.contains("3 passed"), "{}", outcome.stdout);
}

#[test]
fn memray_traces_a_hosted_program() {
    let Some(memray) = pinned("tools", "memray") else {
        return skipped("no memray is pinned for this Python");
    };
    let python = python_with(&memray);
    let trace = folder("trace").join("trace.bin");
    for hooks in ["0", "1"] {
        let traced = Run::venv(&python)
            .env("PYHOST_DEBUG_HOOKS", hooks)
            .args([
                "-m",
                "memray",
                "run",
                "--trace-python-allocators",
                "-f",
                "-o",
            ])
            .arg(&trace)
            .arg(script("traced.py"));
        assert!(traced.ok().stdout.contains("hosted 12345"));
        let stats = Run::venv(&python).args(["-m", "memray", "stats"]);
        let stats = stats.arg(&trace).ok();
        assert!(
            stats.stdout.contains("Total allocations"),
            "{}",
            stats.stdout
        );
    }
}
