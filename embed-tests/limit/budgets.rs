//! Budgets of units of work: see `embed-tests/budgets` for many units and servers.

use crate::expected::plain_package;
use crate::free_threaded::is_free_threaded;
use crate::host::{Run, script};
use crate::skipping::skipped;

const NO_BUDGETS: &str = "there is no budget without a GIL";

/// Runs the cases of `scripts/budgets.py` with options.
fn cases(options: &[&str]) {
    let run = Run::host().args(options).arg(script("budgets.py"));
    assert_eq!(run.ok().stdout, "ran\n", "{options:?}");
}

#[test]
fn a_unit_that_takes_more_than_its_budget_gets_an_error_and_nobody_else() {
    if is_free_threaded() {
        return skipped(NO_BUDGETS);
    }
    cases(&[]);
}

#[test]
fn budgets_and_sampled_lines_have_intervals_of_their_own() {
    if is_free_threaded() {
        return skipped(NO_BUDGETS);
    }
    cases(&["--lines=256K"]);
    cases(&["--lines=4K"]);
}

#[test]
fn where_no_request_is_refused_the_main_thread_has_its_error() {
    if is_free_threaded() {
        return skipped(NO_BUDGETS);
    }
    let code = "import pyhost
with pyhost.budget('4M') as unit:
    kept = []
    try:
        for _ in range(80_000): kept.append(bytes(1000))
    except MemoryError: pass
print(3_000 < len(kept) < 6_000 or len(kept), unit.refused)";
    for option in [
        "--debug-hooks",
        "--allocator=pymalloc",
        "--allocator=system",
    ] {
        let outcome = Run::host().args([option, "-c", code]).ok();
        assert_eq!(outcome.stdout, "True 1\n", "{option}");
    }
}

#[test]
fn budgets_hold_below_a_cap() {
    if is_free_threaded() {
        return skipped(NO_BUDGETS);
    }
    cases(&["--cap", "400M"]);
}

#[test]
fn below_a_cap_the_unit_that_has_most_gets_the_error() {
    if is_free_threaded() {
        return skipped(NO_BUDGETS);
    }
    for kind in ["tasks", "threads"] {
        let run = Run::host().args(["--cap", "96M"]);
        let outcome = run.arg(script("who_pays.py")).arg(kind).ok();
        let lines: Vec<&str> = outcome.stdout.lines().collect();
        assert_eq!(lines[0], "3 0", "{outcome:#?}");
        let is_of_cap = |line: &&str| line.starts_with("greedy total ");
        assert!(lines[1..].iter().all(is_of_cap), "{outcome:#?}");
        let told = outcome.stderr.contains("MiB of 'greedy'\n");
        assert!(told || kind == "tasks", "{outcome:#?}");
    }
}

#[test]
fn a_unit_does_not_pay_for_a_shortage_that_is_over() {
    if is_free_threaded() {
        return skipped(NO_BUDGETS);
    }
    let code = "import asyncio, pyhost
ballast, is_over = [bytes(2000) for _ in range(22_000)], asyncio.Event()
async def greedy():
    with pyhost.budget('128M', name='greedy') as unit:
        kept = [bytes(2000) for _ in range(15_000)]
        await is_over.wait()
        kept += [bytes(2000) for _ in range(5_000)]
    return unit.refused
async def innocent():
    kept = []
    try:
        with pyhost.budget('32M'):
            while True:
                kept.append('%d' % len(kept)); await asyncio.sleep(0)
    except MemoryError: kept.clear()
    ballast.clear(); is_over.set()
async def both(): print((await asyncio.gather(greedy(), innocent()))[0])
asyncio.run(both())";
    let run = Run::host().args(["--cap", "96M"]).code(code);
    assert_eq!(run.ok().stdout, "0\n");
}

#[test]
fn a_report_without_lines_stays_without_them() {
    if is_free_threaded() {
        return skipped(NO_BUDGETS);
    }
    let code = "import pyhost
with pyhost.budget('64M') as budget:
    kept = ['%d' % number for number in range(100_000)]
print(pyhost.lines(), 1_000_000 < budget.live_bytes < 20_000_000)";
    assert_eq!(Run::host().code(code).ok().stdout, "None True\n");
}

#[test]
fn the_middleware_is_imported_by_its_own_name_with_and_without_the_host() {
    for code in [
        "import pyhost.wsgi, pyhost.asgi; print(pyhost.wsgi.Budget, pyhost.asgi.Budget)",
        "from pyhost.wsgi import Budget as A; from pyhost.asgi import Budget as B; print(A, B)",
        "import pyhost; print(pyhost.wsgi.Budget, pyhost.asgi.Budget)",
    ] {
        let plain = Run::stock().env("PYTHONPATH", plain_package());
        for run in [Run::host(), Run::host().args(["-I", "-S"]), plain] {
            let classes = "<class 'pyhost.wsgi.Budget'> <class 'pyhost.asgi.Budget'>";
            assert_eq!(run.code(code).ok().last_line(), classes, "{code}");
        }
    }
    let outcome = Run::host()
        .code("import pyhost.wsgi; pyhost.wsgi.memory")
        .run();
    let told = "module 'pyhost.wsgi' has no attribute 'memory'";
    assert!(outcome.stderr.contains(told), "{outcome:#?}");
}

#[test]
fn a_wrong_time_to_retry_is_an_error() {
    let code = "import pyhost.asgi, pyhost.wsgi
for budget in pyhost.asgi.Budget, pyhost.wsgi.Budget:
    budget(None, '1M', retry_after=0)
    for bad in -1, 'a', True:
        try: budget(None, '1M', retry_after=bad)
        except ValueError as error: print(error)";
    let outcome = Run::host().args(["-c", code]).ok();
    let line = "Budget: bad value -1 of retry_after; expected whole seconds, 0 or more";
    assert_eq!(outcome.stdout.matches(line).count(), 2, "{outcome:#?}");
    assert_eq!(outcome.stdout.lines().count(), 6, "{outcome:#?}");
}
