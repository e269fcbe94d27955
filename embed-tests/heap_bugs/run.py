#!/usr/bin/env python3
"""Makes the heap bugs of bugs.py under the host's options, and beside other tools, and prints how many each finds.

    run.py --pyhost target/release/pyhost --python python3.11 [--pyhostctl target/release/pyhostctl]
           [--tools NAME ...] [--only TEXT ...] [--verbose] [--record] [--report FILE.md]

Each bug is made in a process of its own, by a C extension that is built for the interpreter, or by C++ behind a toolkit
(cpp_toolkits.py); for ASan they are built a second time. A tool's verdict on a bug:

    found    a message names the kind of the bug
    vague    the process ended abnormally, or a message is about something else
    missed   nothing was said
    hang     the process did not end

The tools: `none` (the host without options), `hooks` (--debug-hooks), `guard` (--guard=min=1,every=1), `all` (--debug-hooks=guard with --guard=library=TEXT,align=1 of the bugs' modules and
--leak-check=native; the bugs of a missing check for NULL by `pyhostctl sweep`), `debug` (the interpreter with
PYTHONMALLOC=debug), `asan`, `valgrind` and `memray`. valgrind takes ten minutes. It and memray, which is asked for leaks
alone, run only if they are named.

The verdicts on the host are compared with those of expected.txt, which --record writes anew: better is a failure, too.
The verdicts on other tools are printed, not compared: they are as the machine has these tools. The last line is
`N passed, N failed`. Exit status: 0; 1 with what failed; 2 if it cannot run.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent / "environments"), str(HERE.parent / "cpython_suite")]

import bugs  # noqa: E402
import make  # noqa: E402
import report  # noqa: E402
import cpp_toolkits  # noqa: E402
from interpreters import host_version  # noqa: E402

HOSTS = ("none", "hooks", "guard", "all")
OTHERS = ("debug", "asan", "valgrind", "memray")
# A bound against hangs, not a measurement.
PATIENCE = {"valgrind": 300, "memray": 120}
MEMRAY_FINDS = ("leak",)
KINDS = ("found", "vague", "missed", "hang", "no", "quiet", "false")
INCLUDE = "import sysconfig; print(sysconfig.get_path('include'))"

FLAGS = ["-g", "-w", "-fno-omit-frame-pointer", "-shared", "-fPIC"]

# The words of a message that names the kind of the bug, of the host's and CPython's lines first, then of other tools.
OWN = {
    "overflow write": r"past the end of a (guarded )?block|written past its end|bad trailing pad byte",
    "underflow": r"before the start of a (guarded )?block|written before its start|bad leading pad byte",
    "read past the end": r"read \d+ bytes? past the end of a (guarded )?block",
    "use after free": r"at byte \d+ of a freed block|written to after it was freed",
    "double free": r"freed before|freed twice",
    "stale realloc": r"freed before",
    "wrong family": r"bad ID: Allocated using API '[rmo]', verified using API '[rmo]'|by a function of another family",
    "C++ families": r"made by .*of another family",
    "free inside a block": r"bytes into a block of|which does not start there",
    "leak": r"blocks? leaked",
    "no NULL check": r"crashed|SIGSEGV",
}
ASAN = {
    "overflow write": r"WRITE of size \d+[\s\S]*bytes? (after|to the right of)",
    "underflow": r"bytes? (before|to the left of)",
    "read past the end": r"READ of size \d+[\s\S]*bytes? (after|to the right of)",
    "use after free": r"heap-use-after-free",
    "double free": r"attempting double-free",
    "stale realloc": r"attempting double-free|heap-use-after-free",
    "wrong family": r"alloc-dealloc-mismatch",
    "C++ families": r"alloc-dealloc-mismatch|new-delete-type-mismatch",
    "free inside a block": r"attempting free on address which was not malloc",
    "leak": r"(?s)leak of.*_bugs",
}
VALGRIND = {
    "overflow write": r"Invalid write[\s\S]*bytes after a block",
    "underflow": r"Invalid write[\s\S]*bytes before a block",
    "read past the end": r"Invalid read[\s\S]*bytes after a block",
    "use after free": r"Invalid (read|write)[\s\S]*inside a block of size \S+ free'd",
    "double free": r"Invalid free[\s\S]*free'd",
    "stale realloc": r"Invalid free[\s\S]*free'd",
    "wrong family": r"Mismatched free",
    "C++ families": r"Mismatched (free|new)",
    "free inside a block": r"Invalid free[\s\S]*inside a block",
    "leak": r"(?s)(definitely|indirectly) lost.*_bugs",
}
# Of each group of live allocations of heap_bugs.c, as memray_leaks.py prints them.
MEMRAY = {"leak": r"heap_bugs\.c"}
GLIBC = {"double free": r"double free", "free inside a block": r"free\(\): invalid pointer"}


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pyhost", required=True, type=pathlib.Path)
    parser.add_argument("--pyhostctl", type=pathlib.Path, help="[beside --pyhost]")
    parser.add_argument("--python", required=True, help="the interpreter that the host was built for")
    parser.add_argument("--tools", nargs="+", choices=HOSTS + OTHERS, default=[*HOSTS, "debug", "asan"], metavar="NAME")
    parser.add_argument("--only", nargs="+", metavar="TEXT", default=[""], help="the bugs whose names contain one of them")
    parser.add_argument("--verbose", action="store_true", help="print the last lines of each process")
    parser.add_argument("--record", action="store_true", help="write expected.txt")
    parser.add_argument("--report", type=pathlib.Path, metavar="FILE.md", help="put the table into a Markdown file")
    options = parser.parse_args(arguments)
    options.pyhost = options.pyhost.resolve()
    options.pyhostctl = (options.pyhostctl or options.pyhost.with_name("pyhostctl")).resolve()
    return options


class Runner:
    script, expected = HERE / "bugs.py", HERE / "expected.txt"

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.packages = make.newest_numpy(options.python)
        try:
            self.toolkits = make.site_packages(make.environment(options.python, "toolkits"))
        except make.BadName as error:
            self.toolkits = None
            print(f"not tried: C++ behind toolkits: {error}")
        self.tools = [tool for tool in options.tools if self.build(tool)]
        self.rows = self.variants()

    def variants(self):
        """Returns the bugs by name, each with its row of the table."""
        rows = {name: row for name, (row, _) in bugs.VARIANTS.items()}
        is_tried = {name: self.toolkits or name.partition("-")[0] not in cpp_toolkits.TOOLKITS for name in rows}
        return {name: row for name, row in rows.items() if is_tried[name]}

    def build(self, tool):
        """Builds the extension for a tool. Returns False, and says so, if the machine does not have the tool."""
        if tool == "valgrind" and not shutil.which("valgrind"):
            print("not tried: valgrind: it is not installed")
            return False
        if tool == "memray":
            try:
                self.memray = make.site_packages(make.environment(self.options.python, "memray"))
            except make.BadName as error:
                print(f"not tried: memray: {error}")
                return False
        folder = self.folder / ("asan" if tool == "asan" else "plain")
        if folder.exists():
            return True
        folder.mkdir()
        include = subprocess.run([self.options.python, "-I", "-c", INCLUDE], check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
        try:
            self.compile(folder, include, ["-fsanitize=address"] if tool == "asan" else [])
        except make.Unmakable as error:
            if tool != "asan":
                raise
            print(f"not tried: asan: {str(error).splitlines()[-1]}")
            shutil.rmtree(folder)
            return False
        return True

    def compile(self, folder, include, sanitize):
        """Builds the extensions into a folder."""
        compile(["gcc", "-O1", *FLAGS, *sanitize, f"-I{include}", HERE / "heap_bugs.c", "-o", folder / "heap_bugs.so"])
        if self.toolkits is not None:
            try:
                cpp_toolkits.build([self.options.python], include, self.toolkits, folder, sanitize)
            except subprocess.CalledProcessError as error:
                raise make.Unmakable(f"{error.cmd[0]}: {error.stderr.strip()}") from None

    def command(self, tool, name, row, plain):
        """Returns a command and the variables that it needs."""
        host, bug, python = [self.options.pyhost], [self.script, name], [self.options.python]
        if tool == "all" and row == "no NULL check":
            accounts = name.rpartition("-")[2]
            return [self.options.pyhostctl, "sweep", "--host", host[0], "--accounts", accounts, "--above", "2M",
                    *bug], {}
        options = {"none": [], "hooks": ["--debug-hooks"], "guard": ["--guard=min=1,every=1"],
                   "all": ["--debug-hooks=guard", f"--guard=library={self.folder},align=1", "--leak-check=native"]}
        if tool in HOSTS:
            return [*host, *options[tool], *bug], {}
        if tool == "debug":
            return [*python, *bug], {"PYTHONMALLOC": "debug"}
        if tool == "asan":
            library = subprocess.run(["gcc", "-print-file-name=libasan.so"], text=True, stdout=subprocess.PIPE).stdout.strip()
            leaks = int(row == "leak")
            return [*python, *bug], {"PYTHONMALLOC": "malloc", "LD_PRELOAD": library,
                                     "ASAN_OPTIONS": f"detect_leaks={leaks}:alloc_dealloc_mismatch=1:allocator_may_return_null=1"}
        if tool == "memray":
            return [*python, HERE / "memray_leaks.py", self.folder / f"{name}.memray", *bug], {
                "PYTHONMALLOC": "malloc", "PYTHONPATH": os.pathsep.join(map(str, (plain, self.packages, self.memray)))}
        return ["valgrind", "--error-exitcode=97", "--leak-check=full", "--errors-for-leak-kinds=none", *python, *bug], {
            "PYTHONMALLOC": "malloc"}

    def judge(self, tool, name):
        """Makes a bug under a tool; returns the verdict and the end of what was said."""
        row = self.rows[name]
        if tool == "memray" and row not in MEMRAY_FINDS:
            return "no", ""
        plain = self.folder / ("asan" if tool == "asan" else "plain")
        command, variables = self.command(tool, name, row, plain)
        environment = {**make.clean_environment(), "PYTHONPATH": os.pathsep.join(map(str, filter(None, (plain, self.packages, self.toolkits)))),
                       "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", **variables}
        try:
            ended = subprocess.run(list(map(str, command)), env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                                   text=True, errors="replace", timeout=PATIENCE.get(tool, 60))
        except subprocess.TimeoutExpired:
            return "hang", ""
        said = ended.stdout + ended.stderr
        if row == "control":
            # A built-in rule for leaks says what it leaves out.
            lines = [line for line in said.splitlines() if "not reported" not in line]
            is_quiet = "Invalid" not in said if tool == "valgrind" else ended.returncode == 0 and lines == ["went on"]
            return ("quiet" if is_quiet else "false"), tail(said)
        words = {"asan": ASAN, "valgrind": VALGRIND, "memray": MEMRAY}.get(tool, OWN).get(row)
        if words and re.search(words, said) or tool in ("debug", "none") and re.search(GLIBC.get(row, r"(?!)"), said):
            # CPython's dump of a freed block may run away, whatever was said before.
            return ("found" if ended.returncode != -11 or "pyhost:" in said else "vague"), tail(said)
        is_quiet = ended.returncode == 0 and (tool != "valgrind" or "Invalid" not in said)
        if tool == "valgrind" and row == "leak":
            is_quiet = True
        if row == "no NULL check" and tool == "all":
            is_quiet = ended.returncode == 0
        return ("missed" if is_quiet else "vague"), tail(said)


def compile(command, **options):
    """Runs a compiler."""
    built = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    if built.returncode != 0:
        raise make.Unmakable(f"{command[0]}: {built.stderr.strip()}")


def tail(text):
    return "\n".join("    " + line for line in text.strip().splitlines()[-6:])


def table(runner, names, verdicts):
    """Returns the cells of a row for each kind of bug."""
    found = []
    for row in bugs.ROWS:
        of_row = [name for name in names if runner.rows[name] == row]
        if of_row:
            found.append([row, str(len(of_row)), *(cell([verdicts[tool, name] for name in of_row]) for tool in runner.tools)])
    return found


def cell(verdicts):
    count = {kind: verdicts.count(kind) for kind in KINDS}
    if count["no"] == len(verdicts):
        return "–"
    if count["quiet"] + count["false"] == len(verdicts):
        return f"{count['false']} false"
    vague = [f"{count['vague']}~"] if count["vague"] else []
    return ", ".join([str(count["found"]), *vague, *["H"] * count["hang"]])


def markdown(options, tools, rows):
    """Returns the section of a Python."""
    version = make.run([options.python, "-I", "-c", "import sys; print(sys.version)"]).stdout
    facts = [host_version(options.pyhost), "Python " + report.one_line(version)]
    asked = {"asan": ["gcc", "--version"], "valgrind": ["valgrind", "--version"]}
    facts += [make.run(command).stdout.splitlines()[0] for tool, command in asked.items() if tool in tools]
    if "memray" in tools:
        [pin] = re.findall(r"^memray==(.+)$", make.pin_file(make.minor_of(options.python), "memray").read_text(), re.MULTILINE)
        facts.append(f"memray {pin}")
    return "\n\n".join([report.heading_of(version.split()[0]), "\n".join(f"- {fact}" for fact in facts),
                        report.markdown_table(["bug", "planted", *tools], rows)]) + "\n"


def read_expected(path):
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    fields = (line.split() for line in lines if line and not line.startswith("#"))
    return {(tool, name): verdict for name, *pairs in fields for tool, verdict in (pair.split("=") for pair in pairs)}


def record(runner, verdicts):
    expected = {**read_expected(runner.expected), **{key: verdict for key, verdict in verdicts.items() if key[0] in HOSTS}}
    lines = ["# Verdicts on each bug by the host's options. Written by run.py --record."]
    for name in runner.rows:
        pairs = " ".join(f"{tool}={expected[tool, name]}" for tool in HOSTS if (tool, name) in expected)
        lines.append(f"{name} {pairs}")
    runner.expected.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(arguments, kind=Runner):
    options = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="heap-bugs-") as folder:
        try:
            runner = kind(options, pathlib.Path(folder))
        except (make.Unmakable, make.BadName, OSError) as error:
            print(f"run.py: {error}", file=sys.stderr)
            return 2
        names = [name for name in runner.rows if any(text in name for text in options.only)]
        keys = [(tool, name) for tool in runner.tools for name in names]
        with ThreadPoolExecutor(2) as pool:
            answers = dict(zip(keys, pool.map(lambda key: runner.judge(*key), keys)))
    verdicts = {key: verdict for key, (verdict, _) in answers.items()}
    if options.verbose:
        for key in keys:
            print(f"{key[0]} {key[1]}: {answers[key][0]}\n{answers[key][1]}")
    rows = table(runner, names, verdicts)
    print(report.plain_table(["bug", "planted", *runner.tools], rows))
    print("N found exactly, N~ vaguely, H: a hang")
    if options.report:
        report.write_section(options.report, markdown(options, runner.tools, rows))
    if options.record:
        record(runner, verdicts)
    expected = read_expected(runner.expected)
    compared = [key for key in keys if key[0] in HOSTS]
    failed = [key for key in compared if verdicts[key] != expected.get(key)]
    for tool, name in failed:
        print(f"failed: {name} under {tool}: {verdicts[tool, name]}, expected {expected.get((tool, name), 'nothing')}")
        print(answers[tool, name][1])
    print(f"{len(compared) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
