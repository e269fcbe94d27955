//! The command blocks of README.md, docs/ and devices/: `embed-tests/documents/check.py` has the rules.

use crate::environments::newest_numpy;
use crate::host::{Outcome, PYHOST, PYHOSTCTL, Run, folder, version};
use crate::skipping::skipped;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn check(documents: &[&OsStr]) -> Outcome {
    Run::program("python3")
        .arg(Path::new(ROOT).join("embed-tests/documents/check.py"))
        .args(["--pyhost", PYHOST, "--pyhostctl", PYHOSTCTL, "--packages"])
        .arg(&newest_numpy().site_packages)
        .args(documents)
        .timeout(600)
        .run()
}

fn document(name: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(name)).unwrap()
}

#[test]
fn every_command_block_of_the_documents_runs_and_prints_what_they_say() {
    let Outcome { stdout, stderr, .. } = check(&[]);
    println!("{stdout}");
    let last = stdout.lines().last().unwrap_or_default();
    assert!(last.contains(" 0 failed, "), "{stdout}\n{stderr}");
}

#[test]
fn a_block_whose_command_prints_something_else_fails() {
    if version() != (3, 11) {
        return skipped("output is compared on CPython 3.11, which the documents show");
    }
    let file = folder("document").join("sample.md");
    for (text, last) in [
        (
            "```console\n$ echo 640\n640\n```\n",
            "1 passed, 0 failed, 0 skipped",
        ),
        (
            "```console\n$ echo 640\n64\n```\n",
            "0 passed, 1 failed, 0 skipped",
        ),
        (
            "```console\n$ echo 640\n64...\n```\n",
            "1 passed, 0 failed, 0 skipped",
        ),
        (
            "```console\n$ echo 640 0x2a0\n640 0x1b1\n```\n",
            "1 passed, 0 failed, 0 skipped",
        ),
        (
            "```console\n$ seq 9\n1\n...\n9\n```\n",
            "1 passed, 0 failed, 0 skipped",
        ),
        (
            "```console\n$ seq 9\n1\n2\n```\n",
            "0 passed, 1 failed, 0 skipped",
        ),
        ("```sh\nexit 3\n```\n", "0 passed, 1 failed, 0 skipped"),
        (
            "```python\nassert pyhost.no_such_thing\n```\n",
            "0 passed, 1 failed, 0 skipped",
        ),
        (
            "```console\n$ pyhost --no-such-option -c ''\n```\n",
            "0 passed, 1 failed, 0 skipped",
        ),
        (
            "<!-- test: figures -->\n```console\n$ echo 640\n64\n```\n",
            "1 passed, 0 failed, 0 skipped",
        ),
        (
            "<!-- test: skip, a reason -->\n```sh\nexit 3\n```\n",
            "0 passed, 0 failed, 1 skipped",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        let outcome = check(&[file.as_os_str()]);
        assert_eq!(outcome.last_line(), last, "{text}{outcome:#?}");
    }
}

/// All documents: those of the top folder, and those below docs and devices.
fn documents() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut folders = vec![PathBuf::from(ROOT)];
    while let Some(folder) = folders.pop() {
        let is_top = folder == Path::new(ROOT);
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            } else if path.is_dir()
                && (!is_top || path.ends_with("docs") || path.ends_with("devices"))
            {
                folders.push(path);
            }
        }
    }
    found
}

/// The names by which a document's headings are linked to, as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.collect::<String>().replace(' ', "-")
        })
        .collect()
}

#[test]
fn every_link_between_the_documents_leads_somewhere() {
    let mut links = 0;
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        for part in text.split("](").skip(1) {
            let target = part.split(')').next().unwrap();
            if target.contains("://") || target.contains(char::is_whitespace) {
                continue;
            }
            links += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let place = match file {
                "" => document.clone(),
                file => document.parent().unwrap().join(file),
            };
            assert!(place.exists(), "{}: {target}", document.display());
            if !anchor.is_empty() {
                let text = std::fs::read_to_string(place).unwrap();
                let found = anchors(&text).iter().any(|name| name == anchor);
                assert!(found, "{}: {target}", document.display());
            }
        }
    }
    assert!(links > 50, "{links}");
}

#[test]
fn the_cost_section_has_the_figures_of_the_performance_tables() {
    let readme = document("README.md");
    let measured = document("docs/results/performance.md");
    let (_, cost) = readme.split_once("## Cost").unwrap();
    let cost = cost.split("\n## ").next().unwrap();
    let words = cost.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let ratios: Vec<&str> = words
        .map(|word| word.trim_matches('.'))
        .filter(|word| word.split('.').count() == 2 && *word != "1.000")
        .collect();
    assert!(ratios.len() >= 5, "{ratios:?}");
    for ratio in ratios {
        let cell = format!(" {ratio} |");
        assert!(measured.contains(&cell), "{ratio} is in no table");
    }
}

#[test]
fn the_check_of_a_device_build_is_told_all_that_the_recipe_bakes_in() {
    let devices = document("devices/docs/guide.md");
    let recipe = devices
        .split("```")
        .find(|block| block.contains("baked.py"));
    let recipe = recipe.unwrap();
    let baked = recipe.split("PYHOST_BAKED_").skip(1);
    for (name, value) in baked.filter_map(|rest| rest.split_whitespace().next()?.split_once('=')) {
        let option = format!("--{} {value}", name.to_lowercase());
        let command = recipe.lines().find(|line| line.contains("baked.py"));
        assert!(command.unwrap().contains(&option), "{option}");
    }
}
