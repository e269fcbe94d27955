"""A pytest plugin: the memory that each test takes, limits on it, and a baseline to compare a run with.

Under the host: pyhost -m pytest -p pyhost_pytest, or pytest_plugins = ["pyhost_pytest"] in a conftest.py, or
-p pyhost_pytest in addopts. With pytest 7.2 or later; under pytest-xdist the workers run under the host as well.
In a Python without the host, where the wheel is installed, options and markers are taken and nothing is measured.

A test's figures are those of its function: fixtures are set up before and torn down after, and pytest's own calls do not
count. What other threads allocate meanwhile counts. PYTEST_DONT_REWRITE
"""

import collections
import contextlib
import errno
import faulthandler
import functools
import gc
import inspect
import json
import os
import pickle
import signal
import sys
import tempfile
import traceback
import unittest
import warnings

import pytest
from _pytest.runner import call_and_report

import pyhost

if pyhost.active:
    from pyhost import _signed, _size, _table, _text, check_heap, fail, leaks, memory_stats, track
else:
    def _size(_):
        return 1  # no size is compared with anything

_PROPERTY = "pyhost_memory"
_SCHEMA = "pyhost-memory-baseline/1"
_TOP = 10
# Lines that are named for a test.
_LINES = 5
# Failing requests of a test that are looked at for leaks: those after which more was live.
_GROWING = 100
_ACCOUNTS = ("raw", "mem", "obj", "arena", "numpy", "native", "mapped", "total")
# A peak may be this much too high a thread, so no smaller difference is a regression.
_NOISE = 64 * 1024


class _Limit:
    """A limit on the growth of an account, or of all together."""

    def __init__(self, size, account=None):
        self.shown = _shown(size)
        self.bytes = _bytes(size)
        if account is not None and account not in _ACCOUNTS:
            raise ValueError(f"bad account {account!r}; expected None or one of {', '.join(_ACCOUNTS)}")
        self.account = account or "total"


class _LeakLimit:
    """A limit on what a test leaves behind with every call."""

    def __init__(self, size="0 B", repeat=16, warmup=4):
        self.shown = _shown(size)
        self.bytes = 0 if size in (0, "0", "0 B", "0B") else _bytes(size)
        self.repeat = repeat
        self.warmup = warmup


class _Failures:
    """The requests for memory that are to fail in a test, one after the other."""

    def __init__(self, accounts=None, above=None, most=1000):
        names = [] if accounts is None else accounts.split("+") if isinstance(accounts, str) else [""]
        if any(name not in _ACCOUNTS[:-1] for name in names):
            raise ValueError(f"bad accounts {accounts!r}; expected None, or one of {', '.join(_ACCOUNTS[:-1])}, or several "
                             "with + between them")
        if type(most) is not int or most < 1:
            raise ValueError(f"bad most {most!r}; expected a whole number from 1 on")
        self.rule = (f"{accounts}=" if names else "") + ("" if above is None else f"above={_bytes(above)},")
        self.most = most


def _shown(size):
    return size if isinstance(size, str) else f"{size} bytes"


def _bytes(size):
    """Reads a size such as "24 MB": K, M and G are powers of 1024, KB, MB and GB of 1000."""
    if isinstance(size, bool) or not isinstance(size, (int, str)):
        raise ValueError("expected a size such as '24 MB', or a number of bytes")
    number = size if isinstance(size, int) else _size_of(size)
    if number <= 0:
        raise ValueError("expected a positive size such as '24 MB'")
    return number


def _size_of(text):
    number = _size(text.replace(" ", ""))
    if number is None:
        raise ValueError(f"bad size {text!r}; expected one such as '24 MB' or '64K'")
    return number


def _limit_of(item, name, kind, default):
    """The limit of a test: its marker's, or the default's; None without either."""
    marker = item.get_closest_marker(name)
    if marker is None:
        return default
    try:
        return kind(*marker.args, **marker.kwargs)
    except (TypeError, ValueError) as error:
        said = str(error).partition("__init__() ")[2] or str(error)
    # Outside of the handler, so that the error is not shown before what it means.
    pytest.fail(f"{item.nodeid}: {name}: {said}", pytrace=False)


def _argument(read):
    """An option's type, whose errors pytest shows as those of its command line."""
    def convert(text):
        import argparse

        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return convert


def _tolerance(text):
    """Reads "10%" or a size: how far above its baseline a peak of so many bytes may be."""
    if not text.endswith("%"):
        return "bytes", _size_of(text)
    try:
        percent = float(text[:-1])
    except ValueError:
        percent = -1
    if not 0 <= percent < 1e6:
        raise ValueError(f"bad tolerance {text!r}; expected one such as '10%' or '1M'")
    return "percent", percent


def _count(text):
    if not text.isdigit() or text == "0":
        raise ValueError(f"bad number {text!r}; expected one such as 10")
    return int(text)


def pytest_addoption(parser):
    group = parser.getgroup("pyhost", "memory, by the host pyhost")
    # What xdist hands to its workers must be plain: a size stays a text, which the type has checked.
    group.addoption("--memory-limit", metavar="SIZE", type=_argument(lambda text: _bytes(text) and text),
                    help="fail tests whose peak grows by more than SIZE, such as 24MB; the marker limit_memory wins")
    group.addoption("--memory-top", metavar="N", type=_argument(_count),
                    help="show the N tests whose peak grew most (10 where there are limits)")
    group.addoption("--memory-check-heap", action="store_true",
                    help="look at every block after each test, as the marker check_heap does (pyhost --debug-hooks)")
    group.addoption("--memory-forked", action="store_true",
                    help="run each test in a forked child, as the marker forked does: a test that ends its process fails, and "
                         "the run goes on")
    group.addoption("--memory-collect", action="store_true",
                    help="collect garbage before each test, so that its figures owe nothing to what ran before; "
                         "--memory-baseline does so, too")
    group.addoption("--memory-baseline", metavar="FILE",
                    help="compare peaks with those in FILE, which is written where it is not there")
    group.addoption("--memory-update", action="store_true", help="write the peaks of this run to the baseline")
    group.addoption("--memory-tolerance", metavar="T", default="10%",
                    type=_argument(lambda text: _tolerance(text) and text),
                    help="how far above its baseline a peak may be, in percent or bytes [10%%]")
    group.addoption("--memory-fail-on-regression", action="store_true",
                    help="end with status 1 where a peak is above its baseline")


def pytest_configure(config):
    for marker in (
        "limit_memory(size, account=None): fail the test if its peak grows by more than size, such as '24 MB', in "
        "account ('raw', 'mem', 'obj', 'arena', 'numpy', 'native'), or in all together (pyhost).",
        "limit_leaks(size='0 B', repeat=16, warmup=4): call the test again and again, with the same fixtures, and fail it if "
        "more than size is left behind with every call (pyhost).",
        "check_heap: look at every block after the test, and fail it if one was written to outside of its bytes or after it "
        "was freed; with pyhost --debug-hooks (pyhost).",
        "fail_requests(accounts=None, above=None, most=1000): call the test once, and then again and again, with the same "
        "fixtures; in each call the next request for memory fails, and any exception but MemoryError, or a leak, fails the test; with "
        "pyhost --fail when=open (pyhost).",
        "forked: run the test in a forked child, so that the run goes on if the test ends its process (pyhost).",
    ):
        config.addinivalue_line("markers", marker)
    if not pyhost.active:
        return
    option = config.option
    if not option.memory_baseline:
        for name in ("update", "fail_on_regression"):
            if getattr(option, f"memory_{name}"):
                raise pytest.UsageError(f"--memory-{name.replace('_', '-')}: expected --memory-baseline FILE, too")
    config.pluginmanager.register(_Meter(config), "pyhost_meter")
    config.pluginmanager.register(_Repeater(), "pyhost_repeater")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Reporter(config), "pyhost_reporter")


def pytest_report_header():
    if not pyhost.active:
        return "pyhost: no memory is measured, since this Python does not run under the host; run 'pyhost -m pytest'"


def _process():
    """What this process has taken in all, for the totals."""
    figures = memory_stats()
    return {"peak_bytes": figures["total"]["peak_bytes"],
            "peak_resident_bytes": figures["process"]["peak_resident_bytes"]}


def _is_forked(item):
    """Whether a test runs in a child. A debugger needs the terminal, and so does what shows the set-up of fixtures."""
    option = functools.partial(item.config.getoption, default=False)
    is_wanted = option("memory_forked") or item.get_closest_marker("forked") is not None
    return is_wanted and not (option("usepdb") or option("setupshow"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    if not _is_forked(item):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in _Fork(item).reports(nextitem):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


class _Fork:
    """A test whose set-up forks between the fixtures of wider scopes, which are the parent's, and those of the function."""

    def __init__(self, item):
        self.item, self.hook, self.plugin = item, item.config.hook, item.config.pluginmanager.getplugin
        self.child = None  # its id: 0 in the child, None before the fork
        self.ended = None  # how, unless it left its reports
        self.output = "", ""
        self.file = tempfile.TemporaryFile()
        item.setup, item.teardown = self._set_up, lambda: self.child == 0 and type(item).teardown(item)

    def reports(self, nextitem):
        item, has_request = self.item, hasattr(self.item, "_request")
        if has_request and not item._request:
            item._initrequest()  # it runs once more
        try:
            reports = [call_and_report(item, "setup", log=False)]
            if self.child == 0:
                if reports[0].passed:
                    reports.append(call_and_report(item, "call", log=False))
                reports.append(call_and_report(item, "teardown", log=False, nextitem=item.parent))
                self._leave(reports, None)
        except BaseException as error:  # pytest.exit(), an interrupt, an error of a plugin
            if self.child != 0:
                raise
            self._leave([], error)
        if self.child:
            reports = [*reports, self._failed()] if self.ended else self._received()
        yield from reports
        if item.session.shouldfail or item.session.shouldstop:
            nextitem = None
        report = call_and_report(item, "teardown", log=False, nextitem=nextitem)
        if report.failed or reports[-1].when != "teardown":
            yield report
        del item.setup, item.teardown
        if has_request:
            item._request, item.funcargs = False, None

    def _set_up(self):
        item, fixtures = self.item, getattr(self.item, "_fixtureinfo", None)
        if _is_of_unittest(item):
            with contextlib.suppress(AttributeError):
                item._testcase = item.parent.obj(item.name)  # fixtures of its class need it before pytest 8.2
        for name in fixtures.names_closure if fixtures else ():
            definitions = fixtures.name2fixturedefs.get(name)
            if definitions and definitions[-1].scope != "function":
                item._request.getfixturevalue(name)
        self._flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of the parent's threads, from 3.12 on
            self.child = os.fork()
        if self.child:
            self._wait()
            return
        if faulthandler.is_enabled():
            faulthandler.enable(2)  # pytest's is the terminal
        self.warnings = warnings.catch_warnings(record=True).__enter__()
        type(item).setup(item)

    def _flush(self):
        for stream in filter(None, (sys.stdout, sys.stderr, self.plugin("terminalreporter"))):
            stream.flush()

    def _leave(self, reports, error):
        """Ends the child, which leaves reports, warnings, and what it was ended by."""
        try:
            config = self.item.config
            reports = [self.hook.pytest_report_to_serializable(config=config, report=report) for report in reports]
            caught = [warnings.WarningMessage(str(it.message), it.category, it.filename, it.lineno) for it in self.warnings]
            self.file.write(pickle.dumps((reports, caught, error)))
            self.file.flush()
            self._flush()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)

    def _wait(self):
        try:
            code = os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])
            if self.file.seek(0, os.SEEK_END):
                return
            self.ended = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        except BaseException as error:  # an interrupt, or a time-out that a plugin raises
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self.child, signal.SIGKILL)
                os.waitpid(self.child, 0)
            if isinstance(error, (KeyboardInterrupt, pytest.exit.Exception)):
                raise
            self.ended = f"was ended: {error}"
        if self.plugin("capturemanager"):
            self.output = self.plugin("capturemanager").read_global_capture()

    def _received(self):
        self.file.seek(0)
        reports, caught, error = pickle.load(self.file)
        for warning in caught:
            self.item.ihook.pytest_warning_recorded.call_historic(kwargs={
                "warning_message": warning, "nodeid": self.item.nodeid, "when": "runtest", "location": None})
        if error is not None:
            raise error
        return [self.hook.pytest_report_from_serializable(config=self.item.config, data=report) for report in reports]

    def _failed(self):
        """The report of a test that has ended its process, with the host's lines."""
        is_hosts, said, others = False, [f"the test's process {self.ended}"], []
        for line in self.output[1].splitlines():
            is_hosts = line.startswith(("pyhost: ", "pyhost[")) or is_hosts and line.startswith(" ")
            if is_hosts or not line.startswith('  File "') or not ("/_pytest/" in line or "/pluggy/" in line):
                (said if is_hosts else others).append(line)
        self.item.add_report_section("call", "stdout", self.output[0])
        self.item.add_report_section("call", "stderr", "\n".join(others))
        call = pytest.CallInfo.from_call(lambda: pytest.fail("\n".join(said), pytrace=False), "call")
        return self.item.ihook.pytest_runtest_makereport(item=self.item, call=call)


class _Repeater:
    """Calls the functions of tests that are to be called again and again."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem):
        for name, kind, call in _REPEATING:
            wanted = _limit_of(pyfuncitem, name, kind, None)
            if wanted is None or name == "fail_requests" and not _works(_try_to_fail):
                continue
            if inspect.iscoroutinefunction(pyfuncitem.obj) or inspect.isasyncgenfunction(pyfuncitem.obj):
                _refuse_repeats(pyfuncitem, name)
            arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
            # The first call alone is measured.
            said = call(pyfuncitem, wanted, lambda: pyfuncitem.obj(**arguments))
            if said is not None:
                pytest.fail(f"{pyfuncitem.nodeid}: {name}: {said}", pytrace=False)
            return True
        return None


def _look_for_leaks(item, limit, test):
    """What a test leaves behind, as text; None if that is within its limit."""
    try:
        found = leaks(test, repeat=limit.repeat, warmup=limit.warmup)
    except (TypeError, ValueError, RuntimeError) as error:
        if not str(error).startswith("leaks: "):
            raise
        return str(error).partition("leaks: ")[2]
    if found.bytes_per_call <= limit.bytes and (limit.bytes or not found):
        return None
    found.name = item.nodeid
    return f"leaves more than {limit.shown} with every call\n{found}"


def _fail_requests(item, wanted, test):
    """What a test does wrong when a request fails, as text; None if it is right."""
    test()  # its own failure is no finding
    growing = []
    for number in range(1, wanted.most + 1):
        fault, before = None, _live_blocks()
        try:
            with fail(f"{wanted.rule}{number}") as fault:
                test()
        except MemoryError:
            if fault is None or not fault.injected:
                raise
        except (KeyboardInterrupt, pytest.exit.Exception):
            raise
        except BaseException as error:  # a skip and a failure of pytest's are no Exception
            if fault is None or not fault.injected:
                raise
            calls = traceback.walk_tb(error.__traceback__)
            *_, (frame, line) = (call for call in calls if not call[0].f_locals.get("__tracebackhide__"))  # pytest's own
            kind = "".join(traceback.format_exception_only(type(error), error)).strip()
            return f"the {_ordinal(number)} request fails, and the test with it at {frame.f_code.co_filename}:{line}: {kind}"
        if not fault.injected:
            break  # it makes no further request
        if _live_blocks() > before:
            growing.append(number)
    def call():
        with contextlib.suppress(MemoryError), fail(f"{wanted.rule}{number}"):
            test()

    for number in growing[:_GROWING]:
        if found := leaks(call, repeat=4, warmup=2):
            found.name = item.nodeid
            return f"the {_ordinal(number)} request fails, and the test leaves memory behind\n{found}"
    return None


def _live_blocks():
    gc.collect()  # as fail() does when it begins: that empties CPython's free lists
    figures = memory_stats()["accounts"]
    return sum(figures[account]["live_blocks"] for account in _ACCOUNTS[:-2] if account != "arena")


def _ordinal(number):
    last = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{last}"


_REPEATING = (("limit_leaks", _LeakLimit, _look_for_leaks), ("fail_requests", _Failures, _fail_requests))


def _try_to_fail():
    with fail():
        pass


def _works(function):
    """Whether the host was started with the option that a function needs."""
    try:
        function()
    except RuntimeError:
        return False
    return True


class _HeapCheck:
    """Finds the blocks that a test has damaged."""

    def __init__(self, checks_all):
        self.checks_all = checks_all
        self.can_check = _works(check_heap)
        self.known = collections.Counter()

    def is_for(self, item):
        # No look at the end of a child finds what a forked test has damaged.
        return self.checks_all or item.get_closest_marker("check_heap") is not None or self.can_check and _is_forked(item)

    def begin(self, item):
        """Notes what was damaged before, unless that is known from the test before."""
        if not self.checks_all or _is_forked(item):
            self.known = collections.Counter(check_heap())

    def damaged(self):
        found = collections.Counter(check_heap())
        new, self.known = found - self.known, found
        return list(new.elements())


class _Meter:
    """Measures the tests of this process and holds them to their limits."""

    def __init__(self, config):
        self.heap = _HeapCheck(config.option.memory_check_heap)
        size = config.option.memory_limit
        self.default = None if size is None else _Limit(size)
        # A peak that is compared between runs must not depend on when the collector last ran.
        self.collects = config.option.memory_collect or config.option.memory_baseline
        # Lines cost: a test's are rendered only if they may be shown.
        self.shows = config.option.memory_top or config.option.memory_baseline

        # Of the test that runs: what measures its function, and whether it did.
        self.inner = None
        self.is_entered = False

    # The outermost wrapper, so that the innermost call is this one's: what other plugins put around a test is not the
    # test's (pytest-memray's tracker takes hundreds of KiB).
    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem):
        test, tracked = pyfuncitem.obj, self.inner
        if tracked is None or inspect.iscoroutinefunction(test) or inspect.isasyncgenfunction(test):
            yield
            return

        @functools.wraps(test)
        def measured(*args, **kwargs):
            __tracebackhide__ = True
            pyfuncitem.obj = test  # which markers and other plugins may call again
            self.is_entered = True
            with tracked:
                return test(*args, **kwargs)

        pyfuncitem.obj = measured
        yield
        pyfuncitem.obj = test

    # The innermost wrapper: what pytest's own take is not the test's.
    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_call(self, item):
        limit = _limit_of(item, "limit_memory", _Limit, self.default)
        repeats = [name for name, *_ in _REPEATING if item.get_closest_marker(name)]
        if repeats and _is_of_unittest(item):
            _refuse_repeats(item, repeats[0])
        checks = self.heap.is_for(item)
        account = limit.account if limit else "total"
        if self.collects:
            gc.collect()
        if checks and self.heap.can_check:
            self.heap.begin(item)
        tracked = track(account=account, precise=True)
        self.is_entered = False
        self.inner = track(account=account, precise=True)
        with tracked:
            outcome = yield
        if self.is_entered:
            tracked = self.inner
        self.inner = None
        peak = tracked.peak_growth_bytes
        exceeded = limit is not None and peak > limit.bytes and outcome.excinfo is None
        is_shown = exceeded or peak > _NOISE and (limit is not None or self.shows)
        by_line = tracked.lines if is_shown else None
        figures = {
            "path": str(item.path),
            "account": account,
            "peak_growth_bytes": peak,
            "growth_bytes": tracked.growth_bytes,
            "allocations": tracked.allocations,
            "limit": limit and limit.shown, "limit_bytes": limit and limit.bytes,
            "exceeded": exceeded,
        }
        if by_line is not None:
            figures["lines_at_peak"] = _lines(by_line, "at_peak")
            if tracked.growth_bytes > _NOISE:
                figures["lines_grown"] = _lines(by_line, "grown")
        needs = {"--debug-hooks": checks and not self.heap.can_check,
                 "--fail when=open": "fail_requests" in repeats and not _works(_try_to_fail)}
        figures["needs"] = [option for option, is_needed in needs.items() if is_needed]
        item.user_properties[:] = [(key, value) for key, value in item.user_properties if key != _PROPERTY]
        item.user_properties.append((_PROPERTY, figures))
        damaged = self.heap.damaged() if checks and self.heap.can_check else []
        # As pytest.fail() in the test would: so that xfail, reruns and --maxfail take it for what it is.
        said = "\n".join([f"{item.nodeid}: check_heap:", *damaged])
        if damaged and _fails_by_itself(item, outcome):
            item.add_report_section("call", "pyhost", said)  # its own failure stays
        elif damaged:
            (getattr(item, "_excinfo", None) or []).clear()  # a skip of unittest's would take the place
            outcome.force_exception(pytest.fail.Exception(said, pytrace=False))
        elif exceeded:
            outcome.force_exception(pytest.fail.Exception(_exceeded(item.nodeid, limit, tracked, figures), pytrace=False))

    def pytest_sessionfinish(self, session):
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[_PROPERTY] = _process()  # of a worker of xdist, for the controller


def _fails_by_itself(item, outcome):
    """Whether a test has failed; one that has skipped itself has not."""
    raised = [info.value for info in getattr(item, "_excinfo", None) or ()]  # by a method of unittest
    if outcome.excinfo is not None:
        raised.append(outcome.excinfo[1])
    return any(not isinstance(error, (pytest.skip.Exception, unittest.SkipTest)) for error in raised)


def _is_of_unittest(item):
    return getattr(item, "cls", None) is not None and issubclass(item.cls, unittest.TestCase)


def _refuse_repeats(item, name):
    pytest.fail(f"{item.nodeid}: {name}: expected a plain test function", pytrace=False)


def _lines(by_line, view):
    """The lines with the most bytes, as texts; those with less than a hundredth of the first are left out."""
    rows = by_line.top(_LINES, view)
    count = sum(100 * row["bytes"] >= rows[0]["bytes"] for row in rows)
    return [line.strip() for line in by_line._lines((view,), count) if line.startswith(" ")]  # without titles


def _exceeded(name, limit, tracked, measured):
    of = "all accounts together" if limit.account == "total" else f"account {limit.account}"
    exact = f"{limit.bytes} bytes"
    lines = [f"{name}: peak growth of {_text(tracked.peak_growth_bytes)} ({tracked.peak_growth_bytes} bytes) in {of} "
             f"exceeds the limit of {limit.shown}" + (f" ({exact})" if limit.shown != exact else "")]
    rows = [("account", "peak above begin", "growth", "allocations")]
    for account, figures in tracked.accounts.items():
        if figures.peak_growth_bytes:
            rows.append((account, _text(figures.peak_growth_bytes), _signed(figures.growth_bytes),
                         str(figures.allocations)))
    lines.append(_table(rows))
    if tracked.threads:
        lines.append(f"counted too: {tracked.other_allocations} allocations of other threads")
    if tracked.lines is None:
        lines.append("pyhost --lines -m pytest names the lines, --lines=1 without an error")
    if measured.get("lines_at_peak"):
        lines += ["lines that grew up to the test's peak:", *(f"  {line}" for line in measured["lines_at_peak"])]
    if measured.get("lines_grown"):
        lines += ["lines that grew in the test:", *(f"  {line}" for line in measured["lines_grown"])]
    return "\n".join(lines)


class _Reporter:
    """In the process that reports: gathers the figures of all tests, whoever ran them."""

    def __init__(self, config):
        self.config = config
        self.tests = {}
        self.passed = set()
        self.workers = {}
        self.baseline = None
        option = config.option
        self.path = option.memory_baseline and os.path.join(config.invocation_params.dir, option.memory_baseline)
        if self.path and os.path.exists(self.path) and (not os.path.isfile(self.path) or os.path.getsize(self.path)):
            self.baseline = _read(self.path)
        elif self.path and not os.path.isdir(os.path.dirname(self.path) or "."):
            raise pytest.UsageError(f"--memory-baseline: '{self.path}' cannot be written; expected a folder for it")
        self.compares = self.baseline is not None and not option.memory_update
        self.regressions = []
        self.new = 0
        self.written = None

    def pytest_runtest_logreport(self, report):
        if report.when != "call":
            return
        figures = dict(report.user_properties).get(_PROPERTY)
        if figures is not None:
            self.tests[report.nodeid] = figures
            (self.passed.add if report.passed else self.passed.discard)(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        output = getattr(node, "workeroutput", None) or {}
        if _PROPERTY in output:
            self.workers[node.gateway.id] = output[_PROPERTY]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        if not self.path or session.config.option.collectonly:
            return
        if self.compares:
            self._compare()
            if self.regressions and self.config.option.memory_fail_on_regression and not session.exitstatus:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        else:
            self._write()

    def _key(self, name):
        """A test's name in the baseline: from its own folder on, since an option that names a file may move rootdir."""
        path = os.path.relpath(self.tests[name]["path"], os.path.dirname(os.path.abspath(self.path)))
        return "".join((path.replace(os.sep, "/"), *name.partition("::")[1:]))

    def _compare(self):
        kind, amount = _tolerance(self.config.option.memory_tolerance)
        for name in sorted(self.passed):
            before, now = self.baseline.get(self._key(name)), self.tests[name]
            if before is None or before["account"] != now["account"]:
                self.new += 1
                continue
            was, is_ = before["peak_growth_bytes"], now["peak_growth_bytes"]
            allowed = amount if kind == "bytes" else was * amount / 100
            if is_ - was > max(allowed, _NOISE):
                self.regressions.append((is_ - was, name, was, is_))
        self.regressions.sort(reverse=True)

    def _write(self):
        kept = ("account", "peak_growth_bytes", "growth_bytes")
        tests = dict(self.baseline or {})
        for name in self.passed:
            tests[self._key(name)] = {key: self.tests[name][key] for key in kept}
        content = {"schema": _SCHEMA, "python": "%d.%d.%d" % sys.version_info[:3], "tests": dict(sorted(tests.items()))}
        place = os.path.realpath(self.path)  # a link stays one
        unfinished = f"{place}.{os.getpid()}.tmp"
        try:
            with open(unfinished, "x", encoding="utf-8") as file:
                json.dump(content, file, indent=1)
                file.write("\n")
            os.replace(unfinished, place)
        except OSError as error:
            self.written = f"baseline {self.path} cannot be written: {error.strerror}"
            if error.errno != errno.EEXIST and os.path.exists(unfinished):
                os.remove(unfinished)
        else:
            self.written = f"baseline {self.path} written: {len(self.passed)} of {len(tests)} tests are of this run"

    def pytest_terminal_summary(self, terminalreporter):
        top = self.config.option.memory_top
        limited = any(figures["limit"] for figures in self.tests.values())
        needs = collections.Counter(option for figures in self.tests.values() for option in figures["needs"])
        if not self.tests or not (top or limited or self.path or needs):
            return
        terminalreporter.write_sep("=", "memory (pyhost)")
        write = terminalreporter.write_line
        if top or limited:
            for line in (*self._top(top or _TOP), *self._left(top or _TOP)):
                write(line)
        for line in (*self._totals(), *(self._compared() if self.compares else ())):
            write(line)
        if self.written:
            write(self.written)
        for option, count in needs.items():
            write(f"{_tests(count)} not checked as marked: that needs pyhost {option} -m pytest")
        if self.config.pluginmanager.hasplugin("memray"):
            write("pytest-memray is loaded, so memray has malloc: `native` is not measured, and both plugins obey limit_memory "
                  "and limit_leaks; -p no:memray leaves memory to the host")

    def _top(self, count):
        ranked = sorted(self.tests.items(), key=lambda test: (-test[1]["peak_growth_bytes"], test[0]))
        rows = [("account", "peak growth", "growth", "allocations", "limit", "")]
        names = [""]
        for name, figures in ranked[:count]:
            rows.append((figures["account"], _text(figures["peak_growth_bytes"]), _signed(figures["growth_bytes"]),
                         str(figures["allocations"]), figures["limit"] or "-",
                         "over" if figures["exceeded"] else ""))
            names.append(name)
        lines = _table([row[:5] for row in rows]).split("\n")
        return [f"{line}  {row[5]:4}  {name}".rstrip() for line, row, name in zip(lines, rows, names)]

    def _left(self, count):
        """Of the tests that left most, which lines grew: with --lines."""
        left = [(figures["growth_bytes"], name) for name, figures in self.tests.items() if figures.get("lines_grown")]
        for growth, name in sorted(left, key=lambda test: (-test[0], test[1]))[:count]:
            yield f"left by {name}: {_signed(growth)}"
            for line in self.tests[name]["lines_grown"]:
                yield f"      {line}"

    def _totals(self):
        highest, name = max((figures["peak_growth_bytes"], name) for name, figures in self.tests.items())
        growth = sum(figures["growth_bytes"] for figures in self.tests.values())
        over = sum(figures["exceeded"] for figures in self.tests.values())
        text = f"{_tests(len(self.tests))} measured"
        if over:
            text += f", {over} over the limit"
        yield f"{text}; highest peak growth {_text(highest)}, {name}; growth of all {_signed(growth)}"
        if self.workers:
            peaks = [figures["peak_bytes"] for figures in self.workers.values()]
            resident = [figures["peak_resident_bytes"] for figures in self.workers.values()]
            yield (f"{len(peaks)} workers: peaks {_text(sum(peaks))} together, {_text(max(peaks))} the highest; "
                   f"resident {_text(sum(resident))} together, {_text(max(resident))} the highest")
        else:
            figures = _process()
            yield f"the process: peak {_text(figures['peak_bytes'])}, resident {_text(figures['peak_resident_bytes'])}"

    def _compared(self):
        tolerance = self.config.option.memory_tolerance
        known = len(self.passed) - self.new
        yield (f"baseline {self.path}: {known} tests compared, {self.new} not in it; {len(self.regressions)} above it "
               f"by more than {tolerance}" + (" (64 KiB at least)" if self.regressions else ""))
        for growth, name, was, is_ in self.regressions:
            share = f" ({growth / was * 100:+.0f}%)" if was else ""
            yield f"  {_text(was)} -> {_text(is_)}{share}  {name}"
            for line in self.tests[name].get("lines_at_peak", ()):
                yield f"      {line}"


def _tests(count):
    return "1 test" if count == 1 else f"{count} tests"


def _read(path):
    """The tests of a baseline."""
    trouble = f"--memory-baseline: '{path}' is no baseline of pyhost_pytest; expected one, or no file"
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except OSError as error:
        raise pytest.UsageError(f"--memory-baseline: '{path}' cannot be read: {error.strerror}") from None
    except ValueError:
        raise pytest.UsageError(trouble) from None
    tests = content.get("tests") if isinstance(content, dict) and content.get("schema") == _SCHEMA else None
    sound = isinstance(tests, dict) and all(
        isinstance(test, dict) and isinstance(test.get("account"), str)
        and type(test.get("peak_growth_bytes")) is int
        for test in tests.values())
    if not sound:
        raise pytest.UsageError(trouble)
    return tests
