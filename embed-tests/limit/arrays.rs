//! The cost of array data: of arrays that grow, of freed arrays, and of arrays that no machine could hold.

use crate::environments::newest_numpy;
use crate::host::Run;
use crate::skipping::skipped;

fn hosted(allocator: &str) -> Run {
    newest_numpy()
        .host()
        .env("PYHOST_NUMPY", allocator)
        .timeout(300)
}

/// Functions of the scripts below.
const FUNCTIONS: &str = "import time
import numpy as np, pyhost
def status(name):
    with open('/proc/self/status') as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name))
def live():
    return pyhost.memory_stats()['accounts']['numpy']['live_bytes']
";

#[test]
fn arrays_that_grow_take_little_more_than_what_is_live() {
    let code = format!(
        "{FUNCTIONS}
np.ones(10).resize(20, refcheck=False)
before = status('VmRSS')
arrays = []
for _ in range(4):
    array = np.arange(1000.0)
    while array.nbytes < 9 << 20:
        array.resize(array.size + array.size // 8, refcheck=False)
    assert (array[:1000] == np.arange(1000.0)).all()
    arrays.append(array)
print(live() >> 20, status('VmRSS') - before >> 20, status('VmHWM') - before >> 20)"
    );
    for allocator in ["mimalloc", "pool", "bfc", "system"] {
        let outcome = hosted(allocator).code(&code).ok();
        let figures: Vec<u64> = outcome
            .stdout
            .split_whitespace()
            .map(|word| word.parse().unwrap())
            .collect();
        let [live, resident, peak] = figures[..] else {
            panic!("{outcome:#?}");
        };
        assert!(live >= 36, "{allocator} {live}");
        assert!(resident <= live + live / 4 + 4, "{allocator} {figures:?}");
        assert!(peak <= live + live / 2 + 4, "{allocator} {figures:?}");
    }
}

#[test]
fn an_array_of_the_pool_that_grows_into_room_of_its_block_stays() {
    // mimalloc's sizes are an eighth apart, so one step in many needs another block.
    let code = format!(
        "{FUNCTIONS}
array = np.zeros(1 << 20, 'u1')
moves, address = 0, array.ctypes.data
for _ in range(200):
    array.resize(array.size + 4096, refcheck=False)
    moves += address != array.ctypes.data
    address = array.ctypes.data
print(moves)"
    );
    let outcome = hosted("pool").code(&code).ok();
    let moves: u32 = outcome.stdout.trim().parse().unwrap();
    assert!(moves <= 20, "{moves} moves of 200 resizes");
}

#[test]
fn blocks_that_leave_the_pool_go_back_to_the_system() {
    let code = format!(
        "{FUNCTIONS}
before = status('VmRSS')
arrays = [np.ones(4 << 20) for _ in range(4)]
del arrays
print(status('VmRSS') - before >> 20)"
    );
    let outcome = hosted("pool,limit=32M").code(&code).ok();
    // Below 0 where what NumPy's import had freed went back, too.
    let left: i64 = outcome.stdout.trim().parse().unwrap();
    assert!(left <= 40, "{left} MiB are resident after the arrays");
}

#[test]
fn the_region_gives_memory_back_that_stays_free() {
    // Array data is used no more: the program goes on with objects.
    let code = format!(
        "{FUNCTIONS}
before = status('VmRSS')
arrays = [np.ones(1 << 20) for _ in range(24)]
kept = arrays[5]
del arrays
end = time.monotonic() + 20
while time.monotonic() < end and status('VmRSS') - before > 40 << 20:
    objects = [[number] for number in range(100_000)]
print(status('VmRSS') - before >> 20, kept.sum() == 1 << 20)"
    );
    for profile in ["balanced", "small"] {
        let outcome = hosted("bfc")
            .args(["--numpy=bfc,region=256M", "--retain", profile])
            .code(&code)
            .ok();
        let (left, kept) = outcome.stdout.trim().split_once(' ').unwrap();
        let left: i64 = left.parse().unwrap();
        assert!(left <= 40, "{profile}: {left} MiB are resident");
        assert_eq!(kept, "True", "{profile}");
    }
}

#[test]
fn a_full_region_names_the_lines_that_ask_and_that_made_the_largest_arrays() {
    let code = "import numpy as np
keep = np.ones(1 << 20)
def ask():
    return np.ones(1 << 21)
try:
    ask()
except MemoryError:
    pass";
    let outcome = hosted("bfc").arg("--numpy=bfc,region=20M").code(code).ok();
    let said = &outcome.stderr;
    assert!(
        said.contains("\n  <string>:4 in ask\n  <string>:6 in <module>\n"),
        "{said}"
    );
    assert!(
        said.contains("\nlive: 8.0 MiB, made at <string>:2\n"),
        "{said}"
    );
    assert!(!said.contains(": 0 chunks"), "{said}");
}

#[test]
fn memory_that_no_machine_has_is_refused_as_without_the_host() {
    let rule = std::fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap_or_default();
    if rule.trim() != "0" {
        return skipped("vm.overcommit_memory is not 0, the kernel grants or refuses otherwise");
    }
    let code = "import numpy as np, pyhost
def refused(ask):
    try:
        ask()
    except MemoryError:
        return True
    return False
for account in ('raw', 'mem', 'obj', 'numpy', 'native'):
    assert refused(lambda: pyhost.buffer(1 << 40, account=account)), account
assert refused(lambda: np.zeros(1 << 40, 'u1'))
assert refused(lambda: np.ones(9).resize(1 << 40, refcheck=False))
stats = pyhost.memory_stats()
assert stats['total']['peak_bytes'] < 1 << 30, stats['total']
print(stats['accounts']['numpy']['failed'] >= 3)";
    for allocator in ["mimalloc", "pool", "bfc", "system"] {
        let outcome = hosted(allocator).code(code).ok();
        assert_eq!(outcome.stdout, "True\n", "{allocator}");
    }
}
