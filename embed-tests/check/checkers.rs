//! Tools that watch memory from inside the process: the host leaves every block to them.

use crate::host::{IS_INSIDE, PYHOST, Run, compile, stock};
use crate::skipping::skipped;
use std::path::{Path, PathBuf};
use std::process::Command;

const NOTICE: &str = "malloc and CPython's allocators are left to it (--malloc off)";

/// An extension library that writes one byte past a malloc'ed block.
fn overflow(arguments: &[&str]) -> PathBuf {
    let mut all = vec!["-shared", "-fPIC", "-O0"];
    all.extend(arguments);
    compile("overflow.c", "overflow.so", &all)
}

const CODE: &str = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).overflow(10)";

/// The path of gcc's AddressSanitizer library.
fn asan() -> PathBuf {
    sanitizer("asan")
}

/// The path of one of gcc's sanitizers.
fn sanitizer(name: &str) -> PathBuf {
    let output = Command::new("cc")
        .arg(format!("-print-file-name=lib{name}.so"))
        .output()
        .unwrap();
    let path = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    std::fs::canonicalize(path).expect("gcc's sanitizer")
}

#[test]
fn a_script_runs_below_each_sanitizer() {
    if IS_INSIDE {
        return skipped("a sanitizer must be the first library, which the host would be");
    }
    // ThreadSanitizer's functions do not work before its constructor, which comes after the host's first steps.
    for name in ["asan", "lsan", "tsan", "ubsan"] {
        let run = Run::host().env("LD_PRELOAD", sanitizer(name));
        let outcome = run
            .env("ASAN_OPTIONS", "detect_leaks=0")
            .env("LSAN_OPTIONS", "detect_leaks=0")
            .code("print(len([str(i) for i in range(10000)]))")
            .run();
        assert_eq!(outcome.stdout, "10000\n", "{name}: {outcome:?}");
    }
}

#[test]
fn an_overflow_gives_the_address_sanitizers_report_as_under_python() {
    if IS_INSIDE {
        let outcome = Run::host().env("LD_PRELOAD", asan()).code("print(1)").run();
        assert_eq!((outcome.code(), &*outcome.stdout), (1, ""), "{outcome:?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        return skipped("a sanitizer must be the first library, which the host would be");
    }
    let library = overflow(&["-fsanitize=address"]);
    let run = |run: Run| {
        run.env("LD_PRELOAD", asan())
            .env("ASAN_OPTIONS", "detect_leaks=0")
            .code(CODE)
            .arg(&library)
            .run()
    };
    let (host, python) = (run(Run::host()), run(Run::stock()));
    assert_eq!(host.code(), python.code(), "{host:#?}");
    // gcc's words up to 12, and later ones.
    let places = [
        "0 bytes to the right of 10-byte region",
        "0 bytes after 10-byte region",
    ];
    let mut said = places
        .into_iter()
        .filter(|text| python.stderr.contains(text));
    let place = said.next().unwrap_or(places[0]);
    for text in [
        "heap-buffer-overflow",
        "WRITE of size 1",
        place,
        "in overflow",
        "overflow.c:8",
    ] {
        assert!(
            python.stderr.contains(text),
            "stock: {text}\n{}",
            python.stderr
        );
        assert!(host.stderr.contains(text), "host: {text}\n{}", host.stderr);
    }
    assert!(host.stderr.contains(NOTICE), "{}", host.stderr);
    // Where it was allocated: the first frame after the sanitizer's own is the library's. In a development build, which unwinds,
    // malloc has a frame that the sanitizer does not see the end of.
    if !Path::new(PYHOST).parent().unwrap().ends_with("debug") {
        let allocation = host.stderr.split("allocated by thread").nth(1).unwrap();
        let frames: Vec<&str> = allocation
            .lines()
            .filter(|line| line.contains('#'))
            .collect();
        assert!(
            frames[0].contains("malloc") && frames[1].contains("in overflow"),
            "{frames:?}"
        );
    }
}

#[test]
fn an_overflow_gives_memchecks_report_as_under_python() {
    let library = overflow(&[]);
    let run = |program: &std::ffi::OsStr| {
        Run::program("valgrind")
            .env("PYTHONMALLOC", "malloc")
            .args(["-q", "--error-exitcode=0", "--trace-children=yes"])
            .arg(program)
            .args(["-I", "-S", "-c", CODE])
            .arg(&library)
            .timeout(300)
            .run()
    };
    let host = run(PYHOST.as_ref());
    let python = run(stock().as_os_str());
    assert_eq!(host.code(), python.code(), "{host:#?}");
    for text in [
        "Invalid write of size 1",
        "overflow (overflow.c:8)",
        "is 0 bytes after a block of size 10 alloc'd",
    ] {
        assert!(
            python.stderr.contains(text),
            "stock: {text}\n{}",
            python.stderr
        );
        assert!(host.stderr.contains(text), "host: {text}\n{}", host.stderr);
    }
    assert!(host.stderr.contains(NOTICE), "{}", host.stderr);
}

#[test]
fn native_given_outright_wins_over_what_a_tool_would_have() {
    if IS_INSIDE {
        return skipped("a sanitizer must be the first library, which the host would be");
    }
    let outcome = Run::host()
        .env("LD_PRELOAD", asan())
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .args(["--malloc", "count"])
        .code("import pyhost; print(pyhost.memory_stats()['host']['native'])")
        .run();
    assert_eq!(
        (outcome.code(), outcome.stdout.as_str()),
        (0, "count\n"),
        "{outcome:?}"
    );
    assert!(!outcome.stderr.contains(NOTICE));
}
