"""The outcome of a run under a cap: one of the ends that are allowed, or a failure with its reason.

Plain data in, plain data out: no files, no processes. A script's first line says what it expects; see
scripts/growing.py. Of the ends that are allowed each has its condition; all else is a failure, so that no new kind of
trouble passes for want of a name.
"""

import dataclasses
import re

CAUGHT = "caught"
UNHANDLED = "unhandled"
FATAL = "fatal"
REFUSED = "refused"
FAILED = "FAILED"
OUTCOMES = (CAUGHT, UNHANDLED, FATAL, REFUSED, FAILED)

BAD_OPTION = 2
FATAL_STATUS = 53
MIB = 1 << 20
# A cap above this holds what any of the scripts needs to start.
START_UP_CEILING = 32 * MIB

BELOW_START_UP = "cap below start-up: "
MEMORY_ERROR = re.compile(r"(\w+\.)*_?(Array)?MemoryError(:|$)")
FATAL_LINE = re.compile(r"pyhost(\[\d+\])?: .*\bfatal\b")
# Words that no run may say, however it ends.
FORBIDDEN = ("lost sys.stderr", "Fatal Python error", "SystemError", "panicked at", "Assertion")


@dataclasses.dataclass(frozen=True)
class Run:
    """All that was seen of one run; `peak_bytes` is the ledger's, the others are of an outside reader."""

    cap: int
    status: int = None
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    ran_away: bool = False
    peak_bytes: int = None
    resident_anonymous: int = 0
    resident: int = 0
    baseline_anonymous: int = 0


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One of OUTCOMES, and for a failure its kind and a line of explanation."""

    name: str
    kind: str = ""
    detail: str = ""


def judge(run, slack):
    """Returns the run's Outcome. `slack` says how far resident anonymous memory may exceed a cap."""
    end = judge_end(run)
    if end.name == FAILED:
        return end
    return judge_ceiling(run, end.name, slack) or end


def judge_end(run):
    """Judges how the run ended: status, last lines."""
    if run.ran_away:
        return failed("ran away", f"killed at {in_mib(run.resident_anonymous)} of anonymous memory")
    if run.timed_out:
        return failed("hang", gist(run.stderr))
    if run.status < 0:
        return failed(f"signal {-run.status}", gist(run.stderr))
    said = next((word for word in FORBIDDEN if word in run.stderr), None)
    if said:
        return failed("said " + said, next(line for line in run.stderr.splitlines() if said in line)[:200])
    lines = run.stdout.splitlines()
    if run.status == BAD_OPTION:
        return judge_refusal(run)
    if not lines or not lines[0].startswith("expects "):
        return failed(f"no first line, status {run.status}", gist(run.stderr))
    expected = lines[0][len("expects "):].split(";")[0]
    if run.status == FATAL_STATUS:
        return judge_fatal(run, expected)
    if run.status == 1:
        return judge_unhandled(run, expected)
    if run.status != 0:
        return failed(f"status {run.status}", gist(run.stderr))
    if lines[-1] != f"{expected}; finished":
        return failed("last line", f"{lines[-1][:150]!r}, expected {expected!r}")
    return Outcome(CAUGHT)


def judge_refusal(run):
    """One line says that the cap is below what start-up needs; nothing has grown.

    Where the script says so, the host may have told of the refusals before.
    """
    lines = run.stderr.splitlines()
    told = lines[:-1] if lines and lines[-1].startswith(BELOW_START_UP) else []
    own = [line for line in lines[len(told):] if line]
    if len(own) != 1 or run.stdout or not all(line.startswith(("pyhost: ", "  ")) for line in told):
        return failed("refused with more than a line", gist(run.stderr))
    if run.cap > START_UP_CEILING:
        return failed("refused a cap that suffices", own[0][:200])
    return Outcome(REFUSED, detail=own[0][:200])


def judge_fatal(run, expected):
    """The documented end of a hog that never stops, with exactly one line that says so."""
    said = [line for line in run.stderr.splitlines() if FATAL_LINE.match(line)]
    if expected != "fatal":
        return failed("fatal, though the script stops", (said or [gist(run.stderr)])[0][:200])
    if len(said) != 1:
        return failed("fatal with other than one line", gist(run.stderr))
    return Outcome(FATAL)


def judge_unhandled(run, expected):
    """A traceback that ends with MemoryError, of a script that catches none.

    A hog that never stops may end so, too: what it does between two of its `try` asks for memory.
    """
    last = gist(run.stderr)
    if not MEMORY_ERROR.match(last):
        return failed("other exception", last)
    if expected not in ("unhandled", "fatal"):
        return failed("escaped", where(run.stderr))
    if "Traceback (most recent call last):" not in run.stderr:
        return failed("no traceback", last)
    return Outcome(UNHANDLED)


def judge_ceiling(run, name, slack):
    """Judges what the run had: a failure, or None."""
    if name == REFUSED:
        return None
    if run.peak_bytes is None:
        return failed("no report", f"status {run.status}")
    if run.peak_bytes > run.cap:
        return failed("live above the cap", f"peak {in_mib(run.peak_bytes)} of {in_mib(run.cap)}")
    if excess(run) > slack(run.cap):
        return failed("resident above the cap", f"{in_mib(run.resident_anonymous)} anonymous, of which "
                      f"{in_mib(run.baseline_anonymous)} at start, cap {in_mib(run.cap)}")
    return None


def excess(run):
    """Returns by how much anonymous memory exceeded the cap and what the process began with."""
    return run.resident_anonymous - run.baseline_anonymous - run.cap


def failed(kind, detail):
    return Outcome(FAILED, kind, detail)


def gist(text):
    """Returns the last line that says something."""
    return next((line.strip()[:200] for line in reversed(text.splitlines()) if line.strip()), "nothing on stderr")


def where(stderr):
    """Returns the last place of a traceback, then its last line."""
    places = [line.strip() for line in stderr.splitlines() if line.lstrip().startswith('File "')]
    return ": ".join([*places[-1:], gist(stderr)])[:300]


def in_mib(size):
    return f"{size / MIB:.1f} MiB"
