//! C++'s operators new and delete are families of their own where blocks are checked, and nobody's elsewhere.

use crate::free_threaded::{NO_OWN_DEBUG_HOOKS, is_free_threaded};
use crate::host::{Outcome, Run, compile};
use crate::skipping::skipped;
use std::path::{Path, PathBuf};
use std::process::Command;

const ABORT: i32 = 128 + libc::SIGABRT;
const CHECKED: [&str; 2] = ["--debug-hooks", "--guard=min=1,every=1"];
/// For a runtime that is the program's own.
const STATIC: [&str; 3] = ["-static-libgcc", "-Wl,-Bsymbolic", "-l:libstdc++.a"];

/// The library of C++ bugs, in a file of this name, linked with further arguments. None without a C++ compiler.
fn library(name: &str, arguments: &[&str]) -> Option<PathBuf> {
    let compiler = Command::new("c++").arg("--version").output();
    if !compiler.is_ok_and(|it| it.status.success()) || cfg!(target_pointer_width = "32") {
        skipped("needs a C++ compiler for addresses of 64 bits");
        return None;
    }
    let is_own = if name == "own-operators" {
        "-DOWN"
    } else {
        "-UOWN"
    };
    let flags = ["-c", "-fPIC", "-std=c++17", is_own];
    let object = compile("../heap_bugs/cpp_bugs.cpp", &format!("{name}.o"), &flags);
    let library = object.with_extension("so");
    let mut link = Command::new("c++");
    link.args(["-shared", "-o"]).arg(&library).arg(&object);
    assert!(link.args(arguments).status().unwrap().success());
    Some(library)
}

fn bug(library: &Path, options: &[&str], name: &str) -> Outcome {
    let library = library.display();
    let code = format!(
        "import ctypes
assert ctypes.CDLL('{library}').cpp_bug({name:?}.encode()) == 0
print('went on')"
    );
    Run::host().args(options).code(&code).run()
}

#[test]
fn a_block_that_another_family_frees_is_named_by_the_function_that_made_it() {
    if is_free_threaded() {
        return skipped(NO_OWN_DEBUG_HOOKS);
    }
    let Some(library) = library("families", &[]) else {
        return;
    };
    for (name, found, made) in [
        (
            "array-deleted",
            "operator delete()",
            "operator new[], of another family",
        ),
        (
            "deleted-as-array",
            "operator delete[]()",
            "operator new, of another family",
        ),
        ("new-freed", "free()", "operator new, of another family"),
        ("array-freed", "free()", "operator new[], of another family"),
        (
            "malloc-deleted",
            "operator delete()",
            "a function of another family",
        ),
        (
            "malloc-deleted-as-array",
            "operator delete[]()",
            "a function of another family",
        ),
        (
            "strdup-deleted",
            "operator delete[]()",
            "a function of another family",
        ),
        ("vector-freed", "free()", "operator new, of another family"),
        (
            "new-resized",
            "realloc()",
            "operator new[], of another family",
        ),
        (
            "aligned-deleted-plainly",
            "operator delete()",
            "operator new of an aligned type, of another family",
        ),
    ] {
        for option in CHECKED {
            let outcome = bug(&library, &[option], name);
            assert_eq!(outcome.code(), ABORT, "{name} {option}: {outcome:#?}");
            let line = outcome.stderr.lines().next().unwrap_or_default();
            let begins = line.starts_with(&format!("pyhost: {found}: invalid pointer 0x"));
            // One is resized by a new block and a free.
            assert!(begins || name == "new-resized", "{line}");
            assert!(line.ends_with(&format!(", made by {made}")), "{line}");
        }
        let outcome = bug(&library, &[], name);
        assert_eq!(outcome.stdout, "went on\n", "{name}: {outcome:#?}");
    }
}

#[test]
fn what_is_right_stays_so_whatever_runtime_the_library_has() {
    for arguments in [&[][..], &STATIC[..2], &STATIC] {
        let name = format!("right-families-{}", arguments.len());
        let Some(library) = library(&name, arguments) else {
            return;
        };
        for option in CHECKED {
            let outcome = bug(&library, &[option], "nothing-wrong");
            assert_eq!(
                (outcome.code(), &*outcome.stdout),
                (0, "went on\n"),
                "{outcome:#?}"
            );
        }
    }
}

#[test]
fn a_library_that_has_operators_of_its_own_keeps_them_without_the_options() {
    let Some(library) = library("own-operators", &[]) else {
        return;
    };
    let code = format!(
        "import ctypes
library = ctypes.CDLL('{}')
assert library.cpp_bug(b'nothing-wrong') == 0
print(library.own_calls() > 100)",
        library.display()
    );
    let outcome = Run::host().code(&code).ok();
    assert_eq!(outcome.stdout, "True\n");
}

#[test]
fn a_forced_failure_is_a_bad_alloc_and_leaves_one_request_for_each() {
    let Some(library) = library("failing-families", &[]) else {
        return;
    };
    let code = format!(
        "import ctypes, pyhost
make = ctypes.CDLL('{}').cpp_bug
with pyhost.fail('native=1'):
    assert make(b'lost-new') == 2
assert make(b'nothing-wrong') == 0
print('done')",
        library.display()
    );
    let options = ["--debug-hooks", "--fail=when=open"];
    let outcome = Run::host().args(options).code(&code).ok();
    assert_eq!(outcome.stdout, "done\n");
}

#[test]
fn a_preloaded_runtime_is_told_and_left_alone() {
    if is_free_threaded() {
        return skipped(NO_OWN_DEBUG_HOOKS);
    }
    let Some(library) = library("preloaded-families", &[]) else {
        return;
    };
    let code = format!(
        "import ctypes
assert ctypes.CDLL('{}').cpp_bug(b'array-deleted') == 0",
        library.display()
    );
    let run = Run::host().env("LD_PRELOAD", &library).arg("--debug-hooks");
    let outcome = run.code(&code).ok();
    let line = "pyhost: --debug-hooks, --guard: a preloaded library has a C++ runtime; a block of operator new that is freed by free, or the reverse, is not found\n";
    assert_eq!(outcome.stderr, line);
}
