"""Runs commands that count checks on an emulated ARM machine (tools/in-arm), whose root is a Debian that is read-only."""

import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(HERE / "devices"))
from toolchain import targets  # noqa: E402

# Packages of the machine beside CPython.
SYSTEM = "coreutils,dash,bash,libc-bin,procps,util-linux"
# The option of tools/in-arm for a processor. The machine for aarch64 has none: it is named by its pages.
KINDS = {"aarch64": [], "armv7": ["--armhf"]}


def finish_root(root, version):
    """Does what the installation of packages would have done: bytecode of the standard library, which each start reads, the name
    of the compiler, and that of the machine."""
    made = root / "finished"
    if not made.exists():
        library = root / f"usr/lib/python{version}"
        interpreter = targets.root_of_this_machine(version).interpreter()
        # In one process: others would be started without the loader. Some files of the tests are no Python.
        command = [*interpreter, "-m", "compileall", "-q", "-s", root, "-p", "/", library]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if not (library / "__pycache__").exists():
            raise targets.Refused(f"compileall: no bytecode in {library}")
        compiler = root / "usr/bin/cc"
        if not os.path.lexists(compiler) and (root / "usr/bin/gcc").exists():
            compiler.symlink_to("gcc")
        (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
        made.touch()


def run(processor, pages, version, command, packages=()):
    """Runs a Python program of this checkout, with arguments, by the machine's CPython of that version. Its output is printed but
    for lines that count; how many checks passed and failed, by its last one."""
    if HERE.is_relative_to("/tmp") or HERE.is_relative_to("/run"):
        raise targets.Refused(f"the checkout is in '{HERE}'; expected one outside of /tmp and /run, which the machine has itself")
    kind, suite = KINDS[processor], targets.suite_of(version)
    needed = ",".join([f"python{version}", f"libpython{version}", f"libpython{version}-testsuite", SYSTEM, *packages])
    finish_root(pathlib.Path(targets.output_of("tools/in-arm", *kind, "--root", suite, needed)), version)
    words = ["tools/in-arm", *(kind or ["--pages", pages]), suite, needed, f"python{version}", *command]
    passed, failed = 0, 1
    with subprocess.Popen(words, cwd=HERE, stdout=subprocess.PIPE, text=True) as machine:
        for line in machine.stdout:
            if counts := re.fullmatch(r"(\d+) passed, (\d+) failed\n", line):
                passed, failed = map(int, counts.groups())
            else:
                print(line, end="", flush=True)
    if machine.returncode == 125:
        print("the machine did not come to the end of the checks")
    # A machine that failed without a line about a check counts as a failed check.
    return passed, failed or int(machine.returncode != 0)
