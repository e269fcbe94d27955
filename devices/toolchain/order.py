"""The functions of CPython that run in a start and after it, for the linker to lay them together."""

import re
import sys

from . import build
from .targets import HERE

sys.path.append(str(HERE / "tools"))
from start_functions import SCRIPTS, WITH_OPTIONS, patterns  # noqa: E402

# Functions that a program may run after the start.
PROGRAMS = [
    ["python-scripts/where_memory_went.py"],
    [
        "-c",
        "import collections, io, os, time\n"
        "class Word(str):\n"
        "    def __lt__(self, other): return len(self) < len(other) or super().__lt__(other)\n"
        "with open('README.md') as file: words = [Word(word.strip('.,').lower()) for line in file for word in line.split()]\n"
        "counts = collections.Counter(words)\n"
        "try: counts['a'] += len(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0]) / 0\n"
        "except ZeroDivisionError as error: print(repr(error), *sorted(counts)[:9], {*words} - {'a'}, sep='; ')\n"
        "print('%5.1f %s' % (time.time(), [*zip(*counts.items())]), f'{os.getpid():>9}', file=io.StringIO())",
    ],
]
OF_CPYTHON = """/* What CPython runs in a start and after it: see devices/toolchain/order.py. */
SECTIONS {
  .text.cpython : {
%s
  }
}
INSERT BEFORE .text;
"""


def of_cpython(root, target):
    """The linker's file for a libpython that was built from its source, each function a section. It is made once, from a host
    that is built without it. GCC puts what a source calls hot, and the parts of a function that it takes for unlikely,
    into sections of other names."""
    path = root.path / "function-order.ld"
    if path.exists():
        return path
    executable = build.build(root, target, True, "device", {"CARGO_PROFILE_DEVICE_STRIP": "none"}) / "pyhost"
    processor = "arm" if target.processor == "armv7" else target.processor
    emulator = [f"qemu-{processor}-static", *(["-L", root.system.path] if root.system else [])]
    runs = [patterns(executable, script, emulator, PYTHONHOME=str(root.path)) for script in (*SCRIPTS, *WITH_OPTIONS, *PROGRAMS)]
    # Numbers count what the compiler makes of one function.
    names = [re.sub(r"\.\d+\b", ".*", name) for name in dict.fromkeys(name for run in runs for name in run)]
    cold = [re.fullmatch(r"(.*)\.cold(\.\*)?", name) for name in names]
    sections = [
        f".text.unlikely.{part[1]}" if part else f".text.{name} .text.hot.{name} .text.unlikely.{name}"
        for name, part in zip(names, cold)
    ]
    path.write_text(OF_CPYTHON % "\n".join(f"    *({section})" for section in dict.fromkeys(sections)))
    return path
