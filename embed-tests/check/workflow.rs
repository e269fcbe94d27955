//! The workflow of docs/debug/extension-authors.md: its lines run, pass on a sound extension, and each planted bug fails the
//! step that is for its kind.

use crate::environments::{development, named, pins};
use crate::host::{Outcome, PYHOST, PYHOSTCTL, Run, compile, folder, stock, version};
use crate::skipping::skipped;
use serde_json::Value;
use std::path::{Path, PathBuf};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// What prepares a runner: the project and the host are there, and a test changes no machine.
const PREPARATIONS: [&str; 2] = ["pip install ", "sudo sysctl "];

const TEST: &str = "
import os, pytest
import bugs, heap_bugs

bugs.c = heap_bugs

def test_extension():
    if 'PLANTED' in os.environ:
        bugs.make(os.environ['PLANTED'])
    heap_bugs.release('mem', heap_bugs.allocate('mem', 100))
";

const WITHOUT_MEMORY: &str = "
import os
import heap_bugs, pyhost

def test_extension():
    try:
        with pyhost.fail():
            if 'UNCHECKED' in os.environ:
                heap_bugs.unchecked('mem', 100)
            bytearray(100)
    except MemoryError:
        pass
";

/// A step with `run`: its name, its command, its variables.
struct Step {
    name: String,
    command: String,
    variables: Vec<(String, String)>,
}

/// The steps of the document's only job, as GitHub would read them.
fn steps() -> Vec<Step> {
    let text =
        std::fs::read_to_string(Path::new(ROOT).join("docs/debug/extension-authors.md")).unwrap();
    let (_, block) = text.split_once("```yaml\n").expect("a workflow");
    let (block, _) = block.split_once("```").unwrap();
    let code = "import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin), default=str))";
    let read = named("tools").stock().code(code).stdin(block).ok();
    let workflow: Value = serde_json::from_str(&read.stdout).unwrap();
    let jobs: Vec<&Value> = workflow["jobs"].as_object().unwrap().values().collect();
    let [job] = jobs[..] else {
        panic!("one job: {jobs:?}")
    };
    assert_eq!(job["runs-on"], "ubuntu-latest");
    let mut found = Vec::new();
    for step in job["steps"].as_array().unwrap() {
        if let Some(command) = step["run"].as_str() {
            found.push(Step {
                name: step["name"].as_str().unwrap_or(command).to_owned(),
                command: command.to_owned(),
                variables: [&job["env"], &step["env"]].map(variables).concat(),
            });
        } else {
            // By a commit, with the version beside it.
            let (_, commit) = step["uses"].as_str().unwrap().split_once('@').unwrap();
            assert_eq!(commit.len(), 40, "{step}");
        }
    }
    found
}

fn variables(object: &Value) -> Vec<(String, String)> {
    let pairs = object.as_object().into_iter().flatten();
    let text = |value: &Value| value.as_str().map_or(value.to_string(), str::to_owned);
    pairs
        .map(|(name, value)| (name.clone(), text(value)))
        .collect()
}

/// A project as a workflow finds it once it is installed.
fn project() -> PathBuf {
    let place = folder("project");
    let include = Run::stock().code("import sysconfig; print(sysconfig.get_paths()['include'])");
    let include = format!("-I{}", include.ok().stdout.trim());
    let built = compile(
        "../heap_bugs/heap_bugs.c",
        "heap_bugs.so",
        &["-w", "-shared", "-fPIC", &include],
    );
    std::fs::create_dir(place.join("tests")).unwrap();
    std::fs::copy(built, place.join("heap_bugs.so")).unwrap();
    for name in ["bugs.py", "cpp_toolkits.py"] {
        let file = Path::new(ROOT).join("embed-tests/heap_bugs").join(name);
        std::fs::copy(file, place.join(name)).unwrap();
    }
    std::fs::write(place.join("tests/test_extension.py"), TEST).unwrap();
    std::fs::write(place.join("tests/test_no_memory.py"), WITHOUT_MEMORY).unwrap();
    let programs = place.join("bin");
    std::fs::create_dir(&programs).unwrap();
    for program in [Path::new(PYHOST), Path::new(PYHOSTCTL), stock()] {
        std::os::unix::fs::symlink(program, programs.join(program.file_name().unwrap())).unwrap();
    }
    place
}

fn run(step: &Step, project: &Path, planted: Option<(&str, &str)>) -> Outcome {
    let packages = development().site_packages;
    let path = format!(
        "{}:{}",
        project.join("bin").display(),
        std::env::var("PATH").unwrap()
    );
    // As GitHub runs a line.
    let mut run = Run::program("bash")
        .args(["-e", "-c", &step.command])
        .folder(project)
        .env("PATH", path)
        .env(
            "PYTHONPATH",
            format!("{}:{}", project.display(), packages.display()),
        );
    for (name, value) in &step.variables {
        run = run.env(name, value);
    }
    if let Some((name, value)) = planted {
        run = run.env(name, value);
    }
    run.run()
}

#[test]
fn the_workflow_passes_on_a_sound_extension_and_each_bug_fails_the_step_that_is_for_it() {
    if !pins("tools").exists() {
        let (major, minor) = version();
        return skipped(format!("no PyYAML is pinned for CPython {major}.{minor}"));
    }
    let prepares = |step: &Step| {
        PREPARATIONS
            .iter()
            .any(|word| step.command.starts_with(word))
    };
    let steps: Vec<Step> = steps().into_iter().filter(|step| !prepares(step)).collect();
    assert_eq!(steps.len(), 2);
    let project = project();
    for step in &steps {
        let outcome = run(step, &project, None);
        assert_eq!(outcome.code(), 0, "{}: {outcome:#?}", step.name);
    }
    for (planted, name, message) in [
        (
            ("PLANTED", "over-native-40-by-1"),
            "Writes",
            "1 byte past the end of a guarded block of 40 bytes",
        ),
        (("PLANTED", "twice-mem-40"), "Writes", "freed before"),
        (("PLANTED", "lost-native-40"), "Writes", "1 block leaked"),
        (
            ("PLANTED", "read-freed-native-8000"),
            "Writes",
            "of a freed block",
        ),
        (("UNCHECKED", "1"), "Requests", "status 24"),
    ] {
        let step = steps
            .iter()
            .find(|step| step.name.starts_with(name))
            .unwrap();
        let outcome = run(step, &project, Some(planted));
        assert_ne!(outcome.code(), 0, "{planted:?}: {outcome:#?}");
        let said = format!(
            "{}{}status {}",
            outcome.stdout,
            outcome.stderr,
            outcome.code()
        );
        assert!(said.contains(message), "{planted:?}: {outcome:#?}");
    }
}
