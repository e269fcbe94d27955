"""Runs the command blocks of README.md, docs/ and devices/, and compares what they print with what the documents say.

    check.py --pyhost PATH --pyhostctl PATH [--packages FOLDER] [DOCUMENT...]

A block is run by its kind:

    ```console    each line from "$ " on is a command; the lines after it are what it prints
    ```sh         one script, which must end with status 0
    ```python     runs under the host, after programs/common/preamble.py

Other blocks are left alone. All run in a fresh folder with the files of programs/common and of
programs/NAME, for a document NAME.md, with pyhost and pyhostctl on PATH and NumPy for import. Each is given
30 seconds. A comment on the line before a block changes that:

    <!-- test: skip, REASON -->         it is not run, and counted
    <!-- test: before, COMMANDS -->     runs COMMANDS in the same shell first
    <!-- test: figures -->              its numbers vary from run to run, and so may the order of its lines

In what is printed, "..." stands for any lines, or at the end of a line for any text. Sizes with a unit, seconds,
addresses, dates, process numbers and versions count as equal; other numbers do not, unless the comment
says so. Output is compared on CPython 3.11, which the documents show; on others the commands must work.
"""
import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"
SHOWN = (3, 11)
SECONDS = 30

REFUSED = "unknown option|unexpected argument|unrecognized|bad value|command not found"

VARYING = [
    (r"0x[0-9a-f]+", "ADDRESS"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "DATE"),
    (r"(?<![\w.])[+-]?\d+\.\d+ (B|[KMGT]iB)", "SIZE"),
    (r"(?<![\w.])\d+(\.\d+)? s\b", "SECONDS"),
    (r"\bprocess \d+", "process PID"),
    (r"'[^' ]*/[^' ]*'", "'PATH'"),
    (r'pid="\d+"', 'pid="PID"'),
    (r"(Python|NumPy) \d+\.\d+\.\d+", r"\1 VERSION"),
]


class Block:
    """One fenced block of a document."""

    def __init__(self, document, line, kind, text, remarks):
        self.document, self.line, self.kind, self.text = document, line, kind, text
        self.skip = next((rest for word, rest in remarks if word == "skip"), None)
        self.before = "\n".join(rest for word, rest in remarks if word == "before")
        self.figures = any(word == "figures" for word, _ in remarks)

    def __str__(self):
        return "%s:%d" % (self.document, self.line)


def blocks_of(name, text):
    """Every block that runs something, in order; ValueError for a remark that is not understood."""
    found, remarks = [], []
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        remark = re.fullmatch(r"\s*<!-- test: (\w+)(?:, (.*))? -->", line)
        if remark:
            word, rest = remark.groups()
            if word not in ("skip", "before", "figures") or (word != "figures") != bool(rest):
                raise ValueError("%s:%d: bad remark: %s" % (name, number, line.strip()))
            remarks.append((word, rest))
            continue
        fence = re.fullmatch(r"\s*```(\w*)", line)
        if fence:
            inside = []
            for _, line in lines:
                if line.strip() == "```":
                    break
                inside.append(line)
            if fence[1] in ("console", "sh", "python"):
                found.append(Block(name, number, fence[1], "\n".join(inside), remarks))
            elif remarks:
                raise ValueError("%s:%d: a remark on a block that is not run" % (name, number))
        elif remarks and line.strip():
            raise ValueError("%s:%d: a remark without a block" % (name, number))
        if line.strip():
            remarks = []
    return found


def is_whole(command):
    """Whether a shell needs no further line for the command."""
    if command.endswith("\\"):
        return False
    return subprocess.run(["bash", "-n", "-c", command], capture_output=True).returncode == 0


def commands_of(text):
    """The commands of a console block, each with the lines that it prints."""
    found = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append([line[2:], []])
        elif not found:
            raise ValueError("output without a command: " + line)
        elif not found[-1][1] and not is_whole(found[-1][0]):
            found[-1][0] += "\n" + line
        else:
            found[-1][1].append(line)
    return found


def normalised(line, figures):
    line = re.sub(r".*: line \d+: +\d+ (Segmentation fault|Killed|Aborted).*", r"\1", line)
    for pattern, word in VARYING:
        line = re.sub(pattern, word, line)
    if figures:
        line = re.sub(r"#+\.*", "BAR", line)
        line = re.sub(r"(?<![\w.])[+-]?\d+(\.\d+)?(?![\w.])", "N", line)
        line = re.sub(r"\b(SIZE|N B)\b", "N", line)
    return re.sub(r"\s+", " ", line).strip()


def same_line(expected, printed, figures):
    """Whether a line is as the document has it."""
    printed = normalised(printed, figures)
    if expected.rstrip().endswith("...") and expected.strip() != "...":
        return printed.startswith(normalised(expected.rstrip()[:-3], figures))
    return normalised(expected, figures) == printed


def same(expected, printed, figures):
    """The first line of the document that is not printed, or what is printed and not in it; None where
    they agree."""
    if figures:
        absent = (e for e in expected if e.strip() != "..." and not any(same_line(e, p, True) for p in printed))
        return next(absent, None)
    at, skipping = 0, False
    for line in expected:
        if line.strip() == "...":
            skipping = True
            continue
        while skipping and at < len(printed) and not same_line(line, printed[at], False):
            at += 1
        if at >= len(printed) or not same_line(line, printed[at], False):
            return line
        at, skipping = at + 1, False
    return None if skipping or at == len(printed) else "nothing more than: " + printed[at]


class Machine:
    """Runs blocks, each in a folder of its own."""

    def __init__(self, pyhost, pyhostctl, packages):
        self.path = Path(tempfile.mkdtemp(prefix="documents-"))
        programs = self.path / "bin"
        programs.mkdir()
        for name, target in (("pyhost", pyhost), ("pyhostctl", pyhostctl)):
            (programs / name).symlink_to(Path(target).resolve())
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYHOST"))}
        self.variables = dict(kept, PATH="%s:%s" % (programs, os.environ["PATH"]), LC_ALL="C.UTF-8")
        if packages:
            self.variables["PYTHONPATH"] = str(Path(packages).resolve())

    def folder(self, document):
        place = Path(tempfile.mkdtemp(dir=self.path))
        for source in (PROGRAMS / "common", PROGRAMS / Path(document).stem):
            if source.is_dir():
                shutil.copytree(source, place, dirs_exist_ok=True)
        for name in ("python-scripts", "embed-tests"):
            (place / name).symlink_to(ROOT / name)
        (place / "run").mkdir(mode=0o700)
        return place

    def run(self, document, before, commands):
        """Runs commands in one shell; for each its status and what it printed on either stream."""
        place = self.folder(document)
        script = [before, "last=0"]
        for index, command in enumerate(commands):
            script.append("(exit $last)\n{\n%s\n} >out.%d 2>err.%d\nlast=$?\necho $last >status.%d" % ((command,) + 3 * (index,)))
        variables = dict(self.variables, XDG_RUNTIME_DIR=str(place / "run"))
        shell = subprocess.Popen(["bash"], cwd=place, env=variables, start_new_session=True, stdin=subprocess.PIPE,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        late = ""
        try:
            shell.communicate("\n".join(script) + "\n", timeout=SECONDS)
        except subprocess.TimeoutExpired:
            late = "still running after %d s" % SECONDS
        finally:
            # Its background processes, too: all are of its own session.
            try:
                os.killpg(shell.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            shell.wait()
        outcomes = []
        for index in range(len(commands)):
            read = lambda name: (place / ("%s.%d" % (name, index))).read_text(errors="replace") if (
                place / ("%s.%d" % (name, index))).exists() else ""
            lines = lambda name: read(name).replace("%s/" % place, "").splitlines()
            outcomes.append((read("status").strip() or late or "not run", lines("out"), lines("err")))
        return outcomes

    def check(self, block, compares):
        """The mistake in a block; None if there is none."""
        if block.kind == "console":
            commands = commands_of(block.text)
        elif block.kind == "sh":
            commands = [[block.text, []]]
        else:
            code = (PROGRAMS / "common/preamble.py").read_text() + block.text
            commands = [["pyhost - <<'END-OF-PYTHON'\n%s\nEND-OF-PYTHON" % code, []]]
        outcomes = self.run(block.document, block.before, [command for command, _ in commands])
        for (command, expected), (status, out, err) in zip(commands, outcomes):
            told = "\n".join(["  status " + status] + ["  | " + line for line in out + err])
            first = command.splitlines()[0]
            if not status.isdigit() or int(status) in (126, 127) or (block.kind != "console" and status != "0"):
                return "%s\n%s" % (first, told)
            if any(re.search(REFUSED, line) for line in err):
                return "%s\n%s" % (first, told)
            if compares and expected:
                # The two streams mix as a terminal shows them; here they are apart.
                differences = [same(expected, printed, block.figures) for printed in (out + err, err + out)]
                if None not in differences:
                    return "%s\n  the document says: %s\n%s" % (first, differences[0], told)
        return None

    def close(self):
        shutil.rmtree(self.path, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pyhost", required=True)
    parser.add_argument("--pyhostctl", required=True)
    parser.add_argument("--packages", help="a folder with NumPy")
    parser.add_argument("documents", nargs="*", help="all, without any")
    arguments = parser.parse_args()
    found = (path for folder in ("docs", "devices") for path in (ROOT / folder).rglob("*.md"))
    names = arguments.documents or ["README.md", *sorted(str(path.relative_to(ROOT)) for path in found)]
    version = subprocess.run([arguments.pyhost, "-I", "-c", "import sys; print(*sys.version_info[:2], 't' in sys.abiflags)"],
                             capture_output=True, text=True, check=True).stdout.split()
    is_free_threaded = version.pop() == "True"
    compares = tuple(map(int, version)) == SHOWN
    blocks = [block for name in names for block in blocks_of(name, (ROOT / name).read_text())]
    for block in blocks:
        if is_free_threaded and "pyhost.budget(" in block.text:
            block.skip = block.skip or "there is no budget without a GIL"
    skipped = [block for block in blocks if block.skip]
    run = [block for block in blocks if not block.skip]
    machine = Machine(arguments.pyhost, arguments.pyhostctl, arguments.packages)
    try:
        # Most of them wait most of the time.
        with ThreadPoolExecutor(4) as threads:
            outcomes = list(threads.map(lambda block: machine.check(block, compares), run))
    finally:
        machine.close()
    wrong = [(block, outcome) for block, outcome in zip(run, outcomes) if outcome is not None]
    for pair in wrong:
        print("FAILED %s: %s\n" % pair)
    for block in skipped:
        print("skipped %s: %s" % (block, block.skip))
    if not compares:
        print("the output was not compared: the documents show CPython %d.%d" % SHOWN)
    print("%d passed, %d failed, %d skipped" % (len(run) - len(wrong), len(wrong), len(skipped)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
