"""Runs CPython's own test suite by stock Python and by the host, and compares the results case by case.

    python3 embed-tests/cpython_suite/compare.py --python PYTHON --pyhost PYHOST [--slice] [--debug-hooks]

PYTHON and PYHOST must be of one release. Every run is kept below OUT (target/cpython-suite of the checkout), and is
not done again while the executable stays the same; so the command can be interrupted and goes on where it was.

Where a module's cases differ, the module is run again by both, and each differing case gets a category:
- flaky on stock: stock itself has given every outcome that the host has;
- known: listed in known_differences.json, with its reason;
- flaky on pyhost: the host has at times given an outcome that stock never gave;
- DIFFERENT: the host has never given stock's outcome.
With --debug-hooks the host has that option, and stock PYTHONMALLOC=debug.

The last two make the exit status 1. The last line is `N passed, N failed`, in cases. This file is the command line
and the order of events; record_cases.py says how the cases are observed.
"""

import argparse
import concurrent.futures
import pathlib
import sys
import threading

import classify
import report
from interpreters import DEBUG_HOOKS, MODULES, SLICE, UnusableInterpreter, examine, host_version
from run import Runner, Stopped, default_signals, ignore_interrupts
from store import Store

HERE = pathlib.Path(__file__).resolve().parent
DEFAULT_OUT = HERE.parent.parent / "target" / "cpython-suite"
KNOWN_DIFFERENCES = HERE / "known_differences.json"
INTERRUPTED = 130


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True, help="stock Python, with its test suite")
    parser.add_argument("--pyhost", help="the host, built for the same release")
    parser.add_argument("--stock-only", action="store_true", help="run and keep stock's results only")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--modules", nargs="+", metavar="TEST", help="these test modules (default: the full list)")
    which.add_argument("--slice", action="store_true", help="the short list: " + ", ".join(SLICE))
    parser.add_argument("--debug-hooks", action="store_true", help="the host with it, stock with PYTHONMALLOC=debug")
    parser.add_argument("--out", type=pathlib.Path, default=DEFAULT_OUT, help="where results are kept (%(default)s)")
    parser.add_argument("--repeat-stock", type=int, default=1, metavar="N", help="runs by stock at the least (1)")
    parser.add_argument("--again", type=int, default=3, metavar="N",
                        help="further runs by both, at most, where cases differ (3)")
    parser.add_argument("--timeout", type=float, default=900, metavar="SECONDS", help="for one module (900)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="modules at a time (1)")
    parser.add_argument("--report", metavar="FILE.md", help="put this release's results into a Markdown file")
    parser.add_argument("--extra-tests", metavar="DIR",
                        help="a Lib/test folder for the modules that this Python was installed without")
    options = parser.parse_args(arguments)
    if not options.stock_only and not options.pyhost:
        parser.error("--pyhost is needed, or --stock-only")
    return options


class Comparison:
    """The two interpreters, their kept runs and the known differences; `module` may be called on any thread."""

    def __init__(self, options):
        self.options = options
        variables = DEBUG_HOOKS if options.debug_hooks else {"stock": (), "pyhost": ()}
        self.stock = examine("stock", options.python, variables["stock"])
        self.pyhost = None if options.stock_only else examine("pyhost", options.pyhost, variables["pyhost"])
        if self.pyhost and self.pyhost.release != self.stock.release:
            raise UnusableInterpreter(f"python is {self.stock.release}, but pyhost is {self.pyhost.release}")
        self.store = Store(options.out, self.stock.release + "-debug-hooks" * options.debug_hooks, options.timeout)
        self.runner = Runner(options.timeout, options.extra_tests)
        self.known = classify.read_known(KNOWN_DIFFERENCES, self.stock.minor)
        self._print_lock = threading.Lock()

    def modules(self):
        """Returns the modules asked for that this Python has, and those that it lacks."""
        asked = SLICE if self.options.slice else self.options.modules or MODULES
        names = [self.stock.module_name(module) for module in asked]
        able = [name for name in names if self.runner.can_run(self.stock, name)]
        return able, [name for name in names if name not in able]

    def module(self, module):
        """Runs a module as often as it takes, and returns its ModuleResult."""
        stock_runs = self.runs(self.stock, module, self.options.repeat_stock)
        if not self.pyhost:
            return report.ModuleResult(module, stock_runs, [], [])
        pyhost_runs = self.runs(self.pyhost, module, 1)
        cases = classify.compare(stock_runs, pyhost_runs, self.known)
        for further in range(1, self.options.again + 1):
            if not any(case.category in classify.BAD for case in cases):
                break
            pyhost_runs = self.runs(self.pyhost, module, 1 + further)
            stock_runs = self.runs(self.stock, module, self.options.repeat_stock + further)
            cases = classify.compare(stock_runs, pyhost_runs, self.known)
        return report.ModuleResult(module, stock_runs, pyhost_runs, cases)

    def runs(self, interpreter, module, number):
        """Returns the kept runs, after having done those that are missing up to `number`."""
        runs = self.store.runs(interpreter, module)
        for new in range(len(runs) + 1, number + 1):
            record = self.runner.run(interpreter, module, self.store.log_path(interpreter.kind, module, new))
            self.store.keep(interpreter, module, new, record)
            self.say(f"{interpreter.release} {interpreter.kind} {module} run {new}: "
                     f"{len(record['cases'])} cases, {record['end']}, {record['seconds']} s")
        return self.store.runs(interpreter, module)

    def say(self, line):
        with self._print_lock:
            print(line, flush=True)


def run_all(comparison, modules):
    """Runs the modules, some at a time, and returns their results in the order of the list."""
    with concurrent.futures.ThreadPoolExecutor(comparison.options.jobs) as pool:
        try:
            return list(pool.map(comparison.module, modules))
        except BaseException:
            ignore_interrupts()
            comparison.runner.stop.set()
            raise


def finish(comparison, results, missing):
    """Prints and writes the outcome, and returns the exit status."""
    if not comparison.pyhost:
        print("\n" + report.stock_terminal(results, missing))
        return 0
    print("\n" + report.terminal(results, missing, comparison.known))
    if comparison.options.report:
        section = report.markdown(comparison.stock, comparison.pyhost, host_version(comparison.options.pyhost),
                                  results, missing, comparison.known)
        report.write_section(comparison.options.report, section)
    cases = [case for result in results for case in result.cases]
    failed = sum(case.category in classify.BAD for case in cases)
    print(f"\n{len(cases) - failed} passed, {failed} failed")
    return 1 if failed or not cases else 0


def main(arguments):
    options = parse(arguments)
    default_signals()
    try:
        comparison = Comparison(options)
        able, missing = comparison.modules()
        return finish(comparison, run_all(comparison, able), missing)
    except UnusableInterpreter as error:
        print(f"compare.py: {error}", file=sys.stderr)
        return 2
    except (KeyboardInterrupt, Stopped):
        print("compare.py: interrupted; what has ended is kept", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
