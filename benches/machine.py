"""The facts that a result records: the machine, the versions, and the command that was given."""

import datetime
import os
import pathlib
import platform
import re

import launch

PAGES = pathlib.Path("/sys/kernel/mm/transparent_hugepage")


def describe(bench, facts, linkage, host_as_given, arguments):
    """Returns the facts by name, in the order in which they are told."""
    return {
        **own_facts(),
        "python": " ".join(facts["version"].split()), "linkage": linkage,
        "pyhost": version_of([host_as_given, "--host-version"]),
        "valgrind": version_of(["valgrind", "--version"]), "libc": " ".join(platform.libc_ver()),
        "mode": "short" if bench.short else "full",
        "command": "python3 benches/run.py " + " ".join(without_folders(arguments)),
        "executables": " ".join(digest[:12] for digest in facts["executables"]),
    }


def own_facts():
    """Returns the day and the facts of the machine alone."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "processor": processor(), "cores": os.cpu_count(), "kernel": platform.release(),
        "transparent huge pages": huge_pages(),
    }


def processor():
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        text = ""
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return model.group(1).strip() if model else platform.machine()


def huge_pages():
    """Returns the chosen words of the kernel's settings, such as "madvise, defrag madvise"."""
    return ", defrag ".join(chosen(PAGES / name) for name in ("enabled", "defrag"))


def chosen(path):
    try:
        word = re.search(r"\[(\w+(?:\+\w+)?)\]", path.read_text(encoding="ascii"))
    except OSError:
        return "unknown"
    return word.group(1) if word else "unknown"


def version_of(command):
    try:
        output, errors = launch.output_of(command)
        return (output or errors).strip().splitlines()[0]
    except (launch.Failed, IndexError):
        return "unknown"


def without_folders(arguments):
    """Returns the command's arguments without this machine's folders."""
    return [pathlib.PurePath(word).name if word.startswith("/") else word for word in arguments]
