//! `%pyhost` and `%%pyhost`: in a kernel that the host runs, as a client of Jupyter sees it; in IPython's shell; and in a
//! plain Python where the wheel is installed.

use crate::environments::{Environment, named, pins};
use crate::expected::plain_package;
use crate::host::{PYHOST, PYHOSTCTL, Run, folder, script};
use crate::skipping::skipped;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The packages of a notebook; `None` if none are pinned for this Python.
fn notebook() -> Option<Environment> {
    pins("notebook").exists().then(|| named("notebook"))
}

/// Runs cells in a kernel that `command` starts; the outputs of each.
fn executed(environment: &Environment, command: &[&str], cells: &[&str]) -> Vec<Vec<Value>> {
    let place = folder("notebook");
    let request = serde_json::json!({"command": command, "cells": cells});
    let outcome = environment
        .stock()
        .folder(&place)
        .env("HOME", &place)
        .env("IPYTHONDIR", place.join("ipython"))
        .arg(script("run_notebook.py"))
        .arg(request.to_string())
        .timeout(180)
        .ok();
    serde_json::from_str(outcome.last_line()).expect("the outputs of cells")
}

/// The texts of a kind in a cell's outputs.
fn texts(outputs: &[Value], kind: &str) -> Vec<String> {
    let found = outputs.iter().filter_map(|output| match kind {
        "stderr" | "stdout" if output["name"] == kind => output["text"].as_str(),
        "error" => output["evalue"].as_str(),
        _ => output["data"][kind].as_str(),
    });
    found.map(str::to_owned).collect()
}

#[test]
fn a_kernel_under_the_host_shows_what_a_cell_does_by_account_and_by_line() {
    let Some(environment) = notebook() else {
        return skipped("no ipykernel is pinned for this Python");
    };
    let cells = [
        "%load_ext pyhost\nimport pyhost\nprint(pyhost.active)",
        "%%pyhost -o t\nrows = [bytes(1000) for _ in range(5000)]\n\nmore = [\n    bytes(2000) for _ in range(1000)]\nlen(rows)",
        "%pyhost -a obj kept = bytes(3_000_000)",
        "%%pyhost\n1 / 0",
        "print(t.accounts['obj'].growth_bytes > 5_000_000, len(rows), len(kept))",
        "pyhost.lines()",
        "%%pyhost --no-such-option\n1",
        "%%pyhost -a heap\n1",
        "%pyhost",
        "%%pyhost\nimport mmap\n\nkept = mmap.mmap(-1, 32 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)",
        "@pyhost.profile\ndef grow():\n    return bytes(5_000_000)\n\nkept = grow()\ngrow.profile",
        "kept = []\ndef leaky():\n    kept.append(bytes(3000))\nprint(pyhost.leaks(leaky))",
        "class Node: pass\ndef keep():\n    kept = Node()\n    with pyhost.expect_freed(kept): pass\nkeep()",
        "%unload_ext pyhost\n%pyhost",
    ];
    let command = [
        PYHOST,
        "--lines=1",
        "--stats=off",
        "-m",
        "ipykernel_launcher",
    ];
    let outputs = executed(&environment, &command, &cells);
    assert_eq!(texts(&outputs[0], "stdout"), ["True\n"], "{outputs:#?}");
    let html = texts(&outputs[1], "text/html").concat();
    assert!(
        html.contains("lines that grew up to the block&#x27;s peak (every allocation)"),
        "{html}"
    );
    // The numbers of the lines are those of the cell, whose first line is the magic.
    let row = html
        .lines()
        .find(|line| line.contains("Cell In[2], line 2 in "))
        .expect(&html);
    assert!(row.contains("MiB") && row.contains(">obj<"), "{row}");
    assert!(html.contains("Cell In[2], line 5 in "), "{html}");
    assert!(
        html.contains("<p>resident: ") && html.contains(" after, +"),
        "{html}"
    );
    assert!(!html.contains("<module>"), "{html}");
    let shown = texts(&outputs[1], "text/plain");
    assert!(shown[0].starts_with("total: peak "), "{shown:?}");
    // The value of the cell's last expression is shown as always.
    assert_eq!(shown[1], "5000");
    assert!(texts(&outputs[2], "text/plain")[0].starts_with("obj: peak "));
    // The error is the cell's own, and the figures are shown.
    assert_eq!(texts(&outputs[3], "error"), ["division by zero"]);
    assert_eq!(texts(&outputs[3], "text/html").len(), 1);
    assert_eq!(texts(&outputs[4], "stdout"), ["True 5000 3000000\n"]);
    assert!(texts(&outputs[5], "text/html")[0].contains("lines at the peak (every allocation)"));
    assert!(texts(&outputs[5], "text/plain")[0].starts_with("lines at the peak"));
    for (cell, text) in [
        (6, "--no-such-option"),
        (7, "account must be None or one of"),
    ] {
        let told = texts(&outputs[cell], "stderr").concat();
        assert!(
            told.starts_with("UsageError: ") && told.contains(text),
            "{outputs:#?}"
        );
    }
    // Texts name cells as tracebacks do, not the temporary files of their code.
    for (cell, text) in [
        (8, "Cell In[2], line 2 in "),
        (11, "Cell In[12], line 3 in leaky"),
    ] {
        let told = texts(&outputs[cell], "stdout").concat();
        assert!(
            told.contains(text) && !told.contains("/ipykernel_"),
            "{told}"
        );
    }
    let told = texts(&outputs[12], "stderr").concat();
    assert!(
        told.contains(" ago at Cell In[13], line 4, is kept by"),
        "{told}"
    );
    assert!(
        told.contains("local kept of keep (Cell In[13], line 4"),
        "{told}"
    );
    // What a library maps is no part of the total: it has a table of its own.
    let html = texts(&outputs[9], "text/html").concat();
    let (_, table) = html
        .split_once("lines that grew in the block, of mapped")
        .expect(&html);
    assert!(
        table.contains("32.0 MiB") && table.contains("Cell In[10], line 4 in "),
        "{html}"
    );
    // The lines of a function, with their source and its spaces.
    let html = texts(&outputs[10], "text/html").concat();
    let source = "return\u{a0}bytes(5_000_000)";
    let row = html.lines().find(|row| row.contains(source)).expect(&html);
    // With `*` if another of the kernel's threads allocated meanwhile.
    let account = row.contains(">obj<") || row.contains(">obj*<");
    assert!(row.contains("+5.0 MiB") && account, "{row}");
    assert!(html.contains("lines of grow, Cell In[11]"), "{html}");
    assert!(texts(&outputs[13], "stderr")[0].contains("Line magic function `%pyhost` not found"));
}

#[test]
fn a_kernel_that_was_installed_runs_under_the_host() {
    let Some(environment) = notebook() else {
        return skipped("no ipykernel is pinned for this Python");
    };
    let place = folder("kernel");
    let install = |options: &[&str]| {
        Run::program(PYHOSTCTL)
            .env("VIRTUAL_ENV", "")
            .env("HOME", &place)
            .arg("install-kernel")
            .args(options)
    };
    let file = place.join(".local/share/jupyter/kernels/pyhost/kernel.json");
    let path = install(&[]).ok().stdout;
    assert_eq!(Path::new(path.trim_end()), file);
    // Again, with options of one's own.
    install(&["--", "--lines=1", "--stats=off"]).ok();
    let kernel: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let words: Vec<&str> = kernel["argv"]
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect();
    let command = &words[..words.len() - 2];
    let end = ["--lines=1", "--stats=off", "-m", "ipykernel_launcher"];
    assert_eq!(command[1..], end, "{kernel:#}");
    let outputs = executed(
        &environment,
        command,
        &["import pyhost\nprint(pyhost.active)"],
    );
    assert_eq!(texts(&outputs[0], "stdout"), ["True\n"], "{outputs:#?}");
    fs::write(&file, "{\"display_name\": \"mine\"}").unwrap();
    let refused = install(&[]).run();
    assert!(
        refused.code() == 1 && refused.stderr.contains("is another kernel's"),
        "{refused:#?}"
    );
}

#[test]
fn a_kernel_without_lines_says_how_to_have_them() {
    let Some(environment) = notebook() else {
        return skipped("no ipykernel is pinned for this Python");
    };
    let command = [PYHOST, "-m", "ipykernel_launcher"];
    let cells = ["%load_ext pyhost", "%%pyhost\nkept = bytes(3_000_000)"];
    let outputs = executed(&environment, &command, &cells);
    let html = texts(&outputs[1], "text/html").concat();
    assert!(
        html.contains("run under <code>pyhost --lines</code>"),
        "{html}"
    );
    assert!(html.contains(">obj<"), "{html}");
}

#[test]
fn a_plain_python_runs_the_cell_and_says_that_nothing_is_measured() {
    let Some(environment) = notebook() else {
        return skipped("no ipykernel is pinned for this Python");
    };
    let code = "from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
assert shell.run_cell('%load_ext pyhost').success
assert shell.run_cell('%%pyhost -o t\\nx = 1\\nx + 4').result == 5
assert shell.run_cell('%pyhost x = 7').success and shell.user_ns['x'] == 7
assert isinstance(shell.run_cell('%%pyhost\\n1 / 0').error_in_exec, ZeroDivisionError)
assert shell.run_cell('%pyhost').success
print('ran')";
    let path = format!(
        "{}:{}",
        plain_package().display(),
        environment.site_packages.display()
    );
    let place = folder("ipython");
    let outcome = Run::stock()
        .env("PYTHONPATH", path)
        .env("IPYTHONDIR", &place)
        .code(code)
        .ok();
    assert_eq!(outcome.last_line(), "ran", "{outcome:#?}");
    let told = "pyhost: nothing is measured, since this Python does not run under the host";
    assert_eq!(outcome.stderr.matches(told).count(), 4, "{outcome:#?}");
}

#[test]
fn ipythons_shell_under_the_host_prints_text() {
    let Some(environment) = notebook() else {
        return skipped("no ipykernel is pinned for this Python");
    };
    let place = folder("ipython");
    std::fs::write(
        place.join("cells.ipy"),
        "%load_ext pyhost\n%pyhost rows = [bytes(1000) for _ in range(5000)]\nprint(len(rows))\n",
    )
    .unwrap();
    let outcome = environment
        .host()
        .env("IPYTHONDIR", place.join("settings"))
        .args(["--lines=1", "--stats=off", "-m", "IPython"])
        .args(["--no-banner", "--colors=NoColor"])
        .arg(place.join("cells.ipy"))
        .timeout(60)
        .ok();
    assert_eq!(outcome.last_line(), "5000", "{outcome:#?}");
    assert!(
        outcome
            .stdout
            .contains("lines that grew in the block (every allocation):"),
        "{outcome:#?}"
    );
}
