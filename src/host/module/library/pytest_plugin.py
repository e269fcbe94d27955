"""A pytest plugin: the memory that each test takes, limits on it, and a baseline to compare a run with.

Under the host: pyhost -m pytest -p pyhost_pytest, or pytest_plugins = ["pyhost_pytest"] in a conftest.py, or
-p pyhost_pytest in addopts. With pytest 7.2 or later; under pytest-xdist the workers run under the host as well.
In a Python without the host, where the wheel is installed, options and marker are taken and nothing is measured.

A test's figures are those of its call: fixtures are set up before and torn down after. What other threads allocate
meanwhile counts. PYTEST_DONT_REWRITE
"""

import errno
import gc
import inspect
import json
import os
import sys
import unittest

import pytest

import pyhost

if pyhost.active:
    from pyhost import _size, _table, _text, leaks, memory_stats, track
else:
    def _size(_):
        return 1  # no size is compared with anything

_PROPERTY = "pyhost_memory"
_SCHEMA = "pyhost-memory-baseline/1"
_TOP = 10
# Lines that are named for a test.
_LINES = 5
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
    config.addinivalue_line(
        "markers",
        "limit_memory(size, account=None): fail the test if its peak grows by more than size, such as '24 MB', in "
        "account ('raw', 'mem', 'obj', 'arena', 'numpy', 'native'), or in all together (pyhost).",
    )
    config.addinivalue_line(
        "markers",
        "limit_leaks(size='0 B', repeat=16, warmup=4): call the test again and again, with the same fixtures, and fail it if "
        "more than size is left behind with every call (pyhost).",
    )
    if not pyhost.active:
        return
    option = config.option
    if option.memory_update and not option.memory_baseline:
        raise pytest.UsageError("--memory-update: expected --memory-baseline FILE, too")
    is_worker = hasattr(config, "workerinput")
    config.pluginmanager.register(_Meter(config), "pyhost_meter")
    if is_worker:
        config.pluginmanager.register(_Worker(), "pyhost_worker")
    else:
        config.pluginmanager.register(_Reporter(config), "pyhost_reporter")


def pytest_report_header():
    if not pyhost.active:
        return "pyhost: no memory is measured, since this Python does not run under the host; run 'pyhost -m pytest'"


def _process():
    """What this process has taken in all, for the totals."""
    figures = memory_stats()
    return {"peak_bytes": figures["total"]["peak_bytes"],
            "peak_resident_bytes": figures["process"]["peak_resident_bytes"]}


class _Meter:
    """Measures the tests of this process and holds them to their limits."""

    def __init__(self, config):
        size = config.option.memory_limit
        self.default = None if size is None else _Limit(size)
        # A peak that is compared between runs must not depend on when the collector last ran.
        self.collects = config.option.memory_collect or config.option.memory_baseline
        # Lines cost: a test's are rendered only where they may be shown.
        self.shows = config.option.memory_top or config.option.memory_baseline

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem):
        limit = _limit_of(pyfuncitem, "limit_leaks", _LeakLimit, None)
        if limit is None:
            return None
        test = pyfuncitem.obj
        if inspect.iscoroutinefunction(test) or inspect.isasyncgenfunction(test):
            _refuse_leaks(pyfuncitem)
        arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        try:
            found = leaks(lambda: test(**arguments), repeat=limit.repeat, warmup=limit.warmup)
        except (TypeError, ValueError, RuntimeError) as error:
            if not str(error).startswith("leaks: "):
                raise
            said = str(error).partition("leaks: ")[2]
        else:
            if found.bytes_per_call <= limit.bytes and (limit.bytes or not found):
                return True
            found.name = pyfuncitem.nodeid
            said = f"leaves more than {limit.shown} with every call\n{found}"
        pytest.fail(f"{pyfuncitem.nodeid}: limit_leaks: {said}", pytrace=False)

    # The innermost wrapper: what pytest's own take is not the test's.
    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_call(self, item):
        limit = _limit_of(item, "limit_memory", _Limit, self.default)
        if item.get_closest_marker("limit_leaks") and _is_of_unittest(item):
            _refuse_leaks(item)
        account = limit.account if limit else "total"
        if self.collects:
            gc.collect()
        tracked = track(account=account)
        with tracked:
            outcome = yield
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
            "limit_bytes": limit.bytes if limit else None,
            "exceeded": exceeded,
        }
        if by_line is not None:
            figures["lines_at_peak"] = _lines(by_line, "at_peak")
            if tracked.growth_bytes > _NOISE:
                figures["lines_grown"] = _lines(by_line, "grown")
        item.user_properties[:] = [(key, value) for key, value in item.user_properties if key != _PROPERTY]
        item.user_properties.append((_PROPERTY, figures))
        if exceeded:
            # As pytest.fail() in the test would: so that xfail, reruns and --maxfail take it for what it is.
            outcome.force_exception(pytest.fail.Exception(_exceeded(item.nodeid, limit, tracked, figures), pytrace=False))


def _is_of_unittest(item):
    return getattr(item, "cls", None) is not None and issubclass(item.cls, unittest.TestCase)


def _refuse_leaks(item):
    pytest.fail(f"{item.nodeid}: limit_leaks: expected a plain test function", pytrace=False)


def _lines(by_line, view):
    """The lines with the most bytes, as texts; those with less than a hundredth of the first are left out."""
    rows = by_line.top(_LINES, view)
    count = sum(100 * row["bytes"] >= rows[0]["bytes"] for row in rows)
    return [line.strip() for line in list(by_line._table(view, count))[1:]]  # without the title


def _exceeded(name, limit, tracked, measured):
    of = "all accounts together" if limit.account == "total" else f"account {limit.account}"
    lines = [f"{name}: peak growth of {_text(tracked.peak_growth_bytes)} ({tracked.peak_growth_bytes} bytes) in {of} "
             f"exceeds the limit of {limit.shown} ({limit.bytes} bytes)"]
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


def _signed(count):
    return ("-" if count < 0 else "+") + _text(abs(count))


class _Worker:
    """In a worker of xdist: tells the controller what the process took."""

    def pytest_sessionfinish(self, session):
        session.config.workeroutput[_PROPERTY] = _process()


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
        if self.path and os.path.exists(self.path) and not _is_empty(self.path):
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
            try:
                with open(unfinished, "x", encoding="utf-8") as file:
                    json.dump(content, file, indent=1)
                    file.write("\n")
                os.replace(unfinished, place)
            except OSError as error:
                if error.errno != errno.EEXIST and os.path.exists(unfinished):
                    os.remove(unfinished)
                raise
        except OSError as error:
            self.written = f"baseline {self.path} cannot be written: {error.strerror}"
        else:
            self.written = f"baseline {self.path} written: {len(self.passed)} of {len(tests)} tests are of this run"

    def pytest_terminal_summary(self, terminalreporter):
        top = self.config.option.memory_top
        limited = any(figures["limit_bytes"] is not None for figures in self.tests.values())
        if not self.tests or not (top or limited or self.path):
            return
        terminalreporter.write_sep("=", "memory (pyhost)")
        write = terminalreporter.write_line
        if top or limited:
            for line in self._top(top or _TOP):
                write(line)
        if top or limited:
            for line in self._left(top or _TOP):
                write(line)
        for line in self._totals():
            write(line)
        if self.compares:
            for line in self._compared():
                write(line)
        if self.written:
            write(self.written)

    def _top(self, count):
        ranked = sorted(self.tests.items(), key=lambda test: (-test[1]["peak_growth_bytes"], test[0]))
        rows = [("account", "peak growth", "growth", "allocations", "limit", "")]
        names = [""]
        for name, figures in ranked[:count]:
            limit = figures["limit_bytes"]
            rows.append((figures["account"], _text(figures["peak_growth_bytes"]), _signed(figures["growth_bytes"]),
                         str(figures["allocations"]), "-" if limit is None else _text(limit),
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
        told = "1 test measured" if len(self.tests) == 1 else f"{len(self.tests)} tests measured"
        if over:
            told += f", {over} over the limit"
        yield f"{told}; highest peak growth {_text(highest)}, {name}; growth of all {_signed(growth)}"
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


def _is_empty(path):
    return os.path.isfile(path) and os.path.getsize(path) == 0


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
