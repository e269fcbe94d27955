"""A pytest plugin that writes down each case's outcome as it happens: `-p record_outcomes --outcomes=EVENTS`.

Each start, outcome and stop of a case, and each file that cannot be collected, appends a JSON line to EVENTS, in the
words of cpython_suite/record_cases.py, whose class Events this uses: so a crash loses nothing but the case that it
ends. pytest's own --junit-xml is written at the end, and so lost in a crash.

The process under test loads this, stock Python or the host, on every Python that the host supports; a copy of it and
of record_cases.py lies on PYTHONPATH.
"""

from record_cases import DETAIL_LENGTH, Events


def pytest_addoption(parser):
    parser.addoption("--outcomes", metavar="EVENTS", help="append a JSON line for what happens to each case")


def pytest_configure(config):
    config.pluginmanager.register(Recorder(Events(config.getoption("outcomes"))))


class Recorder:
    """The hooks that pytest calls; all in the process that was started, none in what a case forks."""

    def __init__(self, events):
        self.events = events

    def pytest_runtest_logstart(self, nodeid):
        self.events.write(event="start", case=nodeid)

    def pytest_runtest_logreport(self, report):
        outcome = outcome_of(report)
        if outcome:
            self.write_outcome(report.nodeid, outcome, report)

    def pytest_runtest_logfinish(self, nodeid):
        self.events.write(event="stop", case=nodeid)

    def pytest_collectreport(self, report):
        if report.failed or report.skipped:
            self.write_outcome(f"collecting {report.nodeid}", "error" if report.failed else "skipped", report)

    def write_outcome(self, case, outcome, report):
        detail = {} if outcome == "passed" else {"detail": detail_of(report)}
        self.events.write(event="outcome", case=case, outcome=outcome, **detail)


def outcome_of(report):
    """Returns what one phase of a case (set-up, call, tear-down) says of it, or None where that is nothing."""
    if hasattr(report, "wasxfail"):
        return "unexpected success" if report.passed else "expected failure"
    if report.failed:
        return "failed" if report.when == "call" else "error"
    if report.skipped:
        return "skipped"
    return "passed" if report.when == "call" else None


def detail_of(report):
    """Returns why a case was skipped, or the end of its traceback, with the message as its last line."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[-1])
    crash = getattr(report.longrepr, "reprcrash", None)
    message = crash.message.strip().splitlines()[:1] if crash else []
    return "\n".join([report.longreprtext[-DETAIL_LENGTH:], *message])
