"""Runs regrtest as `python -m test` does, and writes down each case's result as it happens.

Started as `EXE -m record_cases EVENTS [regrtest's arguments]` from a folder that holds a copy of this file; the
interpreter under test is EXE, so this file must run on every Python that the host supports. It swaps regrtest's
result class for one that appends a JSON line to EVENTS at each start and each outcome, then runs the module `test` as
`__main__`. From there on all is as with `-m test`: `__main__.__spec__`, from which multiprocessing starts its
children, is that of `test.__main__`.

Why not `-m test --junit-xml FILE`, the plainer way (read in 3.9.18, 3.11.7, 3.13.0):
- the file is written at the end, so that a crash or a time-out loses every case;
- a case with a failed subtest leaves an element without a name: `addSubTest` is not written;
- what befalls a class or a module as a whole (`setUpClass`, `setUpModule`) is not written;
- before 3.13 a control character in a message makes the file, and so the run, fail.
Nor `-v`, whose lines are torn by what the cases and their children print.

It must not keep a file open, start a thread or leave anything in the environment: cases count such things.
"""

import importlib
import json
import os
import runpy
import sys
import traceback

RESULT_MODULES = ("test.libregrtest.testresult", "test.support.testresult")  # since 3.11.5 or so; before
DETAIL_LENGTH = 4000


class Events:
    """Appends JSON lines to one file; only in the process that created it, not in children that a case forks."""

    def __init__(self, path):
        self.path = path
        self.owner = os.getpid()
        # Bound here, since cases replace functions of `os` while they run.
        self._getpid, self._open, self._write, self._close = os.getpid, os.open, os.write, os.close

    def write(self, **event):
        if self._getpid() != self.owner:
            return
        line = json.dumps(event) + "\n"
        file = self._open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            self._write(file, line.encode("ascii"))
        finally:
            self._close(file)


def name_of(test):
    """Returns the case's id: "test.test_sys.SysModuleTest.test_exit", or "setUpClass (test.test_x.Class)"."""
    return test.id() if callable(getattr(test, "id", None)) else str(test)


def detail_of(err):
    """Returns the end of the traceback, where the message is."""
    return "".join(traceback.format_exception(*err))[-DETAIL_LENGTH:]


def recording(base, events):
    """Returns a subclass of regrtest's result class that writes every start and outcome to `events`."""

    class RecordingResult(base):
        def startTest(self, test):
            events.write(event="start", case=name_of(test))
            super().startTest(test)

        def stopTest(self, test):
            super().stopTest(test)
            events.write(event="stop", case=name_of(test))

        def addSuccess(self, test):
            events.write(event="outcome", case=name_of(test), outcome="passed")
            super().addSuccess(test)

        def addFailure(self, test, err):
            events.write(event="outcome", case=name_of(test), outcome="failed", detail=detail_of(err))
            super().addFailure(test, err)

        def addError(self, test, err):
            events.write(event="outcome", case=name_of(test), outcome="error", detail=detail_of(err))
            super().addError(test, err)

        def addSkip(self, test, reason):
            # Since 3.12 a skipped subtest arrives here by itself; it belongs to its case.
            case = getattr(test, "test_case", test)
            events.write(event="outcome", case=name_of(case), outcome="skipped", detail=str(reason))
            super().addSkip(test, reason)

        def addExpectedFailure(self, test, err):
            events.write(event="outcome", case=name_of(test), outcome="expected failure")
            super().addExpectedFailure(test, err)

        def addUnexpectedSuccess(self, test):
            events.write(event="outcome", case=name_of(test), outcome="unexpected success")
            super().addUnexpectedSuccess(test)

        def addSubTest(self, test, subtest, err):
            if err is not None:
                events.write(event="subtest", case=name_of(test), detail=name_of(subtest) + "\n" + detail_of(err))
            super().addSubTest(test, subtest, err)

    return RecordingResult


def record_regrtest(events):
    """Replaces the result class in whichever module this Python's regrtest takes it from."""
    replaced = 0
    for name in RESULT_MODULES:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        module.RegressionTestResult = recording(module.RegressionTestResult, events)
        replaced += 1
    if not replaced:
        sys.exit("record_cases: this Python's regrtest has no RegressionTestResult in " + " or ".join(RESULT_MODULES))


if __name__ == "__main__":
    events_file = os.path.abspath(sys.argv.pop(1))
    record_regrtest(Events(events_file))
    runpy.run_module("test", run_name="__main__", alter_sys=True)
