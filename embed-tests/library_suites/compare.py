"""Runs NumPy's own tests, and some of pandas', SciPy's and scikit-learn's, by stock Python and by the host.

    python3 embed-tests/library_suites/compare.py --python PYTHON --pyhost PYHOST --numpy 2.4 [--slice] [--debug-hooks]

PYTHON and PYHOST must be of one release. The libraries are those pinned as suites-numpy-2.4 in ../environments, which
make.py there installs first; suites.py lists what is run. The results are compared case by case, kept below OUT
(target/library-suites of the checkout) and classified as cpython_suite/compare.py does it, whose modules this uses: a
run is not done again while the executable, the pins and the tests asked for stay the same, and a suite whose cases
differ is run again by both, whole. In known_differences.json `versions` are NumPy's.

A case is named by its path below site-packages. `(module)` stands for the process: if it crashed, its last case is named.
With --debug-hooks the host has that option, and stock has PYTHONMALLOC=debug. The exit status is 1 if a case is DIFFERENT,
or flaky on pyhost, or if stock has run no case of a suite; 2 if nothing could be run. The last line is `N passed, N failed`,
in cases.
"""

import argparse
import concurrent.futures
import dataclasses
import hashlib
import pathlib
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / "cpython_suite"), str(HERE.parent / "environments")]

import classify  # noqa: E402
import make  # noqa: E402
import report  # noqa: E402
import results as rendering  # noqa: E402
import suites  # noqa: E402
from interpreters import DEBUG_HOOKS, UnusableInterpreter, host_version  # noqa: E402
from run import MODULE_CASE, Stopped, default_signals, ignore_interrupts  # noqa: E402
from run_suite import SuiteRunner, examine  # noqa: E402
from store import Store  # noqa: E402

DEFAULT_OUT = HERE.parent.parent / "target" / "library-suites"
KNOWN_DIFFERENCES = HERE / "known_differences.json"
INTERRUPTED = 130
PACKAGES = ("numpy", "pandas", "scipy", "scikit-learn")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True, help="stock Python")
    parser.add_argument("--pyhost", help="the host, built for the same release")
    parser.add_argument("--numpy", required=True, metavar="X.Y", help="the NumPy whose environment is taken")
    parser.add_argument("--stock-only", action="store_true", help="run and keep stock's results only")
    parser.add_argument("--slice", action="store_true", help="the short list")
    parser.add_argument("--suites", nargs="+", choices=suites.LIBRARIES, default=suites.LIBRARIES, metavar="LIBRARY",
                        help="those of: " + ", ".join(suites.LIBRARIES) + " (all)")
    parser.add_argument("--only", nargs="+", metavar="SUITE", help="these of the suites, such as numpy.lib")
    parser.add_argument("--debug-hooks", action="store_true", help="the host with it, stock with PYTHONMALLOC=debug")
    parser.add_argument("--out", type=pathlib.Path, default=DEFAULT_OUT, help="where results are kept (%(default)s)")
    parser.add_argument("--repeat-stock", type=int, default=1, metavar="N", help="runs by stock at the least (1)")
    parser.add_argument("--again", type=int, default=2, metavar="N",
                        help="further runs by both, at most, where cases differ (2)")
    parser.add_argument("--timeout", type=float, default=1800, metavar="SECONDS", help="for one suite (1800)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="suites at a time (2)")
    parser.add_argument("--report", metavar="FILE.md", help="put this pair's results into a Markdown file")
    parser.add_argument("--pyhost-options", nargs=argparse.REMAINDER, default=[], metavar="...",
                        help="what follows is given to the host; comes last")
    options = parser.parse_args(arguments)
    if not options.stock_only and not options.pyhost:
        parser.error("--pyhost is needed, or --stock-only")
    return options


def pinned_versions(pins):
    """Returns {package: version} of the libraries under test, from a pin file's text."""
    pairs = [line.split("==") for line in pins.splitlines() if "==" in line and not line.startswith("#")]
    found = {name.lower(): version for name, version in pairs}
    return {name: found[name] for name in PACKAGES}


class Comparison:
    """The two interpreters, their kept runs and the known differences; `suite` may be called on any thread."""

    def __init__(self, options):
        self.options = options
        folder = make.environment(options.python, f"suites-numpy-{options.numpy}")
        self.site_packages = make.site_packages(folder)
        pins = (folder / make.MADE_FROM).read_text(encoding="utf-8")
        self.versions = pinned_versions(pins)
        digest = hashlib.sha256(pins.encode()).hexdigest()
        variables = DEBUG_HOOKS if options.debug_hooks else {"stock": (), "pyhost": ()}
        self.stock = examine("stock", options.python, self.site_packages, digest, variables=variables["stock"])
        self.pyhost = None
        if not options.stock_only:
            self.pyhost = examine("pyhost", options.pyhost, self.site_packages, digest, options.pyhost_options,
                                  variables["pyhost"])
        if self.pyhost and self.pyhost.release != self.stock.release:
            raise UnusableInterpreter(f"python is {self.stock.release}, but pyhost is {self.pyhost.release}")
        name = f"{self.stock.release}-numpy-{options.numpy}" + "-debug-hooks" * options.debug_hooks
        self.store = Store(options.out, name, options.timeout)
        self.runner = SuiteRunner(options.timeout, folder / "bin")
        self.known = classify.read_known(KNOWN_DIFFERENCES, options.numpy)
        self._print_lock = threading.Lock()

    def suites(self):
        chosen = suites.chosen(self.options.suites, self.options.slice)
        return [suite for suite in chosen if not self.options.only or suite.title in self.options.only]

    def suite(self, suite):
        """Runs a suite as often as it takes, and returns its ModuleResult."""
        arguments = suite.arguments(self.site_packages)
        stock = dataclasses.replace(self.stock, arguments=arguments)
        stock_runs = self.runs(stock, suite, self.options.repeat_stock)
        if not self.pyhost:
            return report.ModuleResult(suite.title, stock_runs, [], [])
        pyhost = dataclasses.replace(self.pyhost, arguments=arguments)
        pyhost_runs = self.runs(pyhost, suite, 1)
        cases = classify.compare(stock_runs, pyhost_runs, self.known)
        for further in range(1, self.options.again + 1):
            if not any(case.category in classify.BAD for case in cases):
                break
            pyhost_runs = self.runs(pyhost, suite, 1 + further)
            stock_runs = self.runs(stock, suite, self.options.repeat_stock + further)
            cases = classify.compare(stock_runs, pyhost_runs, self.known)
        return report.ModuleResult(suite.title, stock_runs, pyhost_runs, cases)

    def runs(self, side, suite, number):
        """Returns the kept runs, after having done those that are missing up to `number`."""
        runs = self.store.runs(side, suite.title)
        for new in range(len(runs) + 1, number + 1):
            record = self.runner.run(side, suite.title, self.store.log_path(side.kind, suite.title, new))
            self.store.keep(side, suite.title, new, record)
            self.say(f"{side.release} {side.kind} {suite.title} run {new}: {story(record)}")
        return self.store.runs(side, suite.title)

    def say(self, line):
        with self._print_lock:
            print(line, flush=True)


def story(record):
    """Returns what a run came to, in a line; the last case too where the process did not end as pytest ends."""
    line = f"{len(record['cases'])} cases, {record['end']}, {record['seconds']} s"
    return "; ".join(filter(None, [line, record["cases"][MODULE_CASE].get("detail")]))


def run_all(comparison, chosen):
    """Runs the suites, some at a time, and returns their results in the order of the list."""
    with concurrent.futures.ThreadPoolExecutor(comparison.options.jobs) as pool:
        try:
            return list(pool.map(comparison.suite, chosen))
        except BaseException:
            ignore_interrupts()
            comparison.runner.stop.set()
            raise


def without_cases(results):
    """Returns the names of the suites of which stock has run no case, so that nothing was compared."""
    return [result.module for result in results if not set(result.stock_runs[0]["cases"]) - {MODULE_CASE}]


def finish(comparison, results):
    """Prints and writes the outcome, and returns the exit status."""
    idle = without_cases(results)
    if not comparison.pyhost:
        print("\n" + report.stock_terminal(results, []))
        return 1 if idle or not results else 0
    print("\n" + rendering.terminal(results, comparison.known))
    options = comparison.options
    if options.report:
        section = rendering.markdown(comparison.stock, comparison.pyhost, host_version(options.pyhost),
                                     comparison.versions, results, comparison.known)
        rendering.write_section(options.report, section)
    cases = [case for result in results for case in result.cases]
    failed = sum(case.category in classify.BAD for case in cases)
    if idle:
        print("\nstock ran no case of: " + ", ".join(idle) + "; see the logs in " + str(comparison.store.folder))
    print(f"\n{len(cases) - failed} passed, {failed} failed")
    return 1 if failed or idle or not cases else 0


def main(arguments):
    options = parse(arguments)
    default_signals()
    try:
        comparison = Comparison(options)
        return finish(comparison, run_all(comparison, comparison.suites()))
    except (UnusableInterpreter, make.BadName, make.Unmakable) as error:
        print(f"compare.py: {error}", file=sys.stderr)
        return 2
    except (KeyboardInterrupt, Stopped):
        print("compare.py: interrupted; what has ended is kept", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
