//! Who frees an array's memory: buffers that C made, by every pattern of `ownership.pyx`; a second
//! data handler beside the host's; and the two mistakes of `python-scripts`.

use crate::environments::{Environment, numpys};
use crate::free_threaded::is_free_threaded;
use crate::host::{Outcome, Run, figure, script};
use crate::skipping::skipped;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const ROUNDS: &str = "10000";

/// A NumPy with the two extension modules that were compiled for it.
struct Built {
    environment: &'static Environment,
    python_path: OsString,
}

/// All of [`numpys`], oldest first. Compiled once: Cython takes its time.
fn built() -> &'static [Built] {
    static BUILT: OnceLock<Vec<Built>> = OnceLock::new();
    BUILT.get_or_init(|| {
        let build = |environment: &'static Environment| {
            let folders = [
                environment.site_packages.clone(),
                environment.extension("ownership.pyx"),
                environment.extension("shifting_handler.c"),
            ];
            Built {
                environment,
                python_path: std::env::join_paths(folders).unwrap(),
            }
        };
        numpys().iter().map(build).collect()
    })
}

impl Built {
    /// Runs one pattern, or all.
    fn nothing_leaks(&self, pattern: &str, variables: &[(&str, &str)]) {
        let mut run = Run::host()
            .env("PYTHONPATH", &self.python_path)
            .arg(script("numpy_ownership.py"))
            .args([pattern, ROUNDS])
            .timeout(300);
        for (name, value) in variables {
            run = run.env(name, value);
        }
        let outcome = run.run();
        assert_eq!(
            (outcome.code(), outcome.last_line()),
            (0, "nothing leaked"),
            "{} {pattern} {variables:?} {outcome:#?}",
            self.environment.name
        );
    }
}

/// With every NumPy; every other run is with debug hooks. A process each: caches that one pattern has
/// filled do not hide what another leaks.
fn nothing_leaks(patterns: &[&str]) {
    for (place, built) in built().iter().enumerate() {
        for (number, pattern) in patterns.iter().enumerate() {
            let hooks = ["0", "1"][(place + number) % 2];
            built.nothing_leaks(pattern, &[("PYHOST_DEBUG_HOOKS", hooks)]);
        }
    }
}

#[test]
fn a_malloced_buffer_that_an_array_owns_is_native_and_goes_with_the_array() {
    nothing_leaks(&["owned", "owned_through_a_view"]);
}

#[test]
fn a_malloced_buffer_that_an_object_or_a_capsule_frees_is_native_and_goes_with_its_last_array() {
    nothing_leaks(&["kept_by_its_base", "held_by_its_owner", "in_capsule"]);
}

#[test]
fn a_c_array_reaches_numpy_through_a_typed_memoryview_without_a_copy() {
    nothing_leaks(&["viewed", "copied", "remembered"]);
}

#[test]
fn a_second_handler_serves_its_own_arrays_and_the_host_all_others() {
    nothing_leaks(&["second_handler"]);
}

#[test]
fn every_pattern_holds_with_every_allocator_of_arrays() {
    let newest = built().last().unwrap();
    for allocator in ["mimalloc", "pool", "bfc", "system"] {
        newest.nothing_leaks("all", &[("PYHOST_NUMPY", allocator)]);
    }
}

fn python_script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("python-scripts")
        .join(name)
}

#[test]
fn the_report_tells_buffers_whose_pointer_was_overwritten() {
    const SIZE: i64 = 400_000;
    let script = python_script("leaks_overwritten_pointers.py");
    for environment in numpys() {
        let stock = environment.stock().arg(&script).ok();
        assert_eq!(stock.last_line(), "tracemalloc sees a buffer: False");
        let with = |buffers: &str| -> (Outcome, i64, i64) {
            let run = environment.host().arg(&script).arg(buffers);
            let (outcome, report) = run.reported();
            assert_eq!(outcome.code(), 0, "{outcome:#?}");
            let live = |name| figure(&report, "native", name);
            (outcome, live("live_bytes"), live("live_blocks"))
        };
        let ((_, bytes_before, blocks_before), (outcome, bytes, blocks)) = (with("1"), with("50"));
        assert_eq!(outcome.stdout, stock.stdout);
        let name = &environment.name;
        // The other blocks of the process differ from run to run by a few.
        let blocks_lost = blocks - blocks_before;
        assert!((46..=52).contains(&blocks_lost), "{name}: {blocks_lost}");
        let bytes_lost = bytes - bytes_before;
        let expected = 49 * SIZE;
        assert!(
            (expected..expected * 5 / 4).contains(&bytes_lost),
            "{name}: {bytes_lost}, expected about {expected}"
        );
    }
}

#[test]
fn an_array_that_frees_the_memory_of_a_bytes_ends_the_process() {
    if is_free_threaded() {
        return skipped(
            "a free-threaded Python has bytes on its own heap, whose blocks free() does not know",
        );
    }
    let script = python_script("frees_memory_of_a_bytes.py");
    for environment in numpys() {
        let stock = environment.stock().arg(&script).run();
        assert_eq!(stock.code(), 134, "{}: {stock:#?}", environment.name);
        // libc's words: of 2.36, and of 2.43.
        let is_said = ["invalid pointer", "invalid size"].map(|text| stock.stderr.contains(text));
        assert!(is_said.contains(&true), "{stock:#?}");
        for hooks in ["0", "1"] {
            let host = environment
                .host()
                .env("PYHOST_DEBUG_HOOKS", hooks)
                .arg(&script)
                .run();
            assert_eq!(host.code(), 134, "{}: {host:#?}", environment.name);
            assert_eq!(host.stdout, stock.stdout, "{}", environment.name);
            let lines: Vec<&str> = host
                .stderr
                .lines()
                .filter(|line| line.starts_with("pyhost: "))
                .collect();
            let [line] = lines[..] else {
                panic!("{}: one line of the host: {host:#?}", environment.name);
            };
            assert!(
                line.starts_with("pyhost: free(): invalid pointer 0x")
                    && line.contains(": 32 bytes into a block of ")
                    && line.contains(" bytes of the account obj"),
                "{}: {line}",
                environment.name
            );
        }
    }
}
