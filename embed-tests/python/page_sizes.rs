//! Kernels with pages of 16 and 64 KiB, as far as libc shows them: `c/large_pages.c` is preloaded.
//!
//! `embed-tests/large_pages.sh` runs all tests of the heaps so.

use crate::free_threaded::takes;
use crate::host::{PYHOST, PYHOSTCTL, Run, compile, folder, script};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const SIZES: [usize; 2] = [16 << 10, 64 << 10];

fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        compile(
            "large_pages.c",
            "large_pages.so",
            &["-shared", "-fPIC", "-Wl,-Bsymbolic"],
        )
    })
}

/// A program on pages of so many bytes.
fn on_pages(program: impl AsRef<std::ffi::OsStr>, bytes: usize) -> Run {
    Run::program(program)
        .env("LD_PRELOAD", library())
        .env("PAGE_BYTES", bytes.to_string())
}

#[test]
fn a_large_block_that_shrinks_or_grows_keeps_its_bytes_whatever_the_size_of_a_page() {
    let code = "import mmap, sys
assert mmap.PAGESIZE == int(sys.argv[1])
for length in range(300_000, 2_000_000, 44_000):
    data = bytearray(b'\\xa5' * 2_000_000)
    del data[length:]
    assert len(data) == length == data.count(0xa5), ('shrunk', length, data.count(0xa5))
    data = bytearray(b'\\xa5' * length)
    for more in (1000, 100_000, 3_000_000):
        data += b'\\xa5' * more
        assert data.count(0xa5) == len(data), ('grown', length, more)
print('whole')";
    for bytes in SIZES {
        let options = [&[][..], &["--region", "64M"], &["--guard=all"]];
        for options in options.into_iter().filter(|options| takes(options)) {
            let run = on_pages(PYHOST, bytes).args(options).code(code);
            let outcome = run.arg(bytes.to_string()).ok();
            assert_eq!(outcome.stdout, "whole\n", "{bytes} {options:?}");
        }
    }
}

#[test]
fn the_ledger_is_exact_and_malloc_keeps_its_contract_whatever_the_size_of_a_page() {
    for bytes in SIZES {
        for name in ["exact_domains.py", "exact_native.py"] {
            let outcome = on_pages(PYHOST, bytes).arg(script(name)).arg("1").ok();
            assert_eq!(outcome.last_line(), "exact", "{bytes} {name} {outcome:#?}");
        }
        let outcome = on_pages(PYHOST, bytes)
            .arg(script("native_contract.py"))
            .ok();
        let line = "\nvalloc 0 0 True\n";
        assert!(outcome.stdout.contains(line), "{bytes} {outcome:#?}");
    }
}

#[test]
fn a_ledger_in_a_file_and_a_timeline_work_whatever_the_size_of_a_page() {
    // The parent and a forked child, each as the other is shown by pyhostctl.
    let code = "
import json, os, subprocess, sys
controller, directory = sys.argv[1:]
def live(pid):
    shown = subprocess.run([controller, '--dir', directory, 'report', str(pid)],
                           check=True, capture_output=True, text=True)
    return json.loads(shown.stdout)['accounts']['obj']['live_bytes'] >> 20
size = (1 << 20) - sys.getsizeof(b'')
data = [bytes(size) for _ in range(20)]
child = os.fork()
if child == 0:
    data += [bytes(size) for _ in range(80)]
    assert 19 < live(os.getppid()) < 50 and 99 < live(os.getpid()) < 150
    os.kill(os.getpid(), 9)
assert os.waitpid(child, 0)[1] == 9
assert 19 < live(os.getpid()) < 50 and 99 < live(child) < 150
os.kill(os.getpid(), 9)
";
    for bytes in SIZES {
        let place = folder("pages");
        let directory = place.join("hosts");
        let timeline = place.join("timeline");
        let outcome = on_pages(PYHOST, bytes)
            .arg(format!("--live={}", directory.display()))
            .code(code)
            .arg(PYHOSTCTL)
            .arg(&directory)
            .run();
        assert_eq!(outcome.code(), 128 + libc::SIGKILL, "{bytes} {outcome:#?}");
        on_pages(PYHOST, bytes)
            .env("PYHOST_TIMELINE", &timeline)
            .code("data = bytes(5 << 20)")
            .ok();
        let text = std::fs::read_to_string(&timeline).unwrap();
        let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!(last["ended_by"], "exit", "{bytes} {text}");
    }
}

#[test]
fn leaks_are_found_whatever_the_size_of_a_page() {
    let code = "import ctypes
ctypes.pythonapi.Py_IncRef(ctypes.py_object(object()))";
    for bytes in SIZES {
        let outcome = on_pages(PYHOST, bytes)
            .arg("--leak-check=native")
            .code(code)
            .run();
        assert_eq!(outcome.code(), 23, "{bytes} {outcome:#?}");
    }
}
