//! Virtual environments, pip and pytest.

use crate::environments::pinned;
use crate::host::{IS_INSIDE, PYHOST, Run, folder, script};
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
