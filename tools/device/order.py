"""Which functions of an executable run in a start, for the linker to lay them together.

QEMU's emulator of single programs says which instructions run (-d in_asm). Names are written without the compiler's hashes,
so that a list fits later compilers; a name that fits nothing does nothing.
"""

import bisect
import os
import re
import tempfile

from . import build
from .targets import output_of

# QEMU's address of an executable that can lie anywhere.
BASE = 0x4000000000
SCRIPTS = [
    ["-I", "-S", "-c", "pass"],
    ["-c", "pass"],
    [
        "-c",
        "import threading, json, re, subprocess; t = threading.Thread(target=print); t.start(); t.join()\n"
        "x = [str(i) * 5 for i in range(20000)]; del x; b = bytearray(5000000); del b[:100]\n"
        "import time; time.sleep(1.2); b = bytearray(3000000)",  # what was freed is given back after a second
    ],
]
# What a program may run after the start.
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
# What options run comes after all that a start without any runs.
WITH_OPTIONS = [["--retain", "small", "--region", "24M", "-c", "pass"], ["--stats", "--cap", "1G", "-c", "pass"]]
OF_CPYTHON = """/* What CPython runs in a start and after it: see tools/device/order.py. */
SECTIONS {
  .text.cpython : {
%s
  }
}
INSERT BEFORE .text;
"""


def functions(executable):
    """(address, size, name) of each function."""
    words = [line.split() for line in output_of("nm", "-S", executable).splitlines()]
    return sorted((int(w[0], 16), int(w[1], 16), w[3]) for w in words if len(w) == 4 and w[2] in "tTwW")


def pattern(name):
    """The name as the linker matches it, of any compiler: legacy names end in a hash, and `$` is no letter of a pattern;
    in the other kind of names the crates have hashes."""
    name = re.sub(r"17h[0-9a-f]{16}E", "17h*", name)
    return re.sub(r"Cs[0-9a-zA-Z]+_", "Cs*_", name).replace("$", "?")


def that_run(executable, arguments, emulator=("qemu-x86_64-static",), **variables):
    """The functions of which an instruction runs, in the order in which they begin to: {address: names}. libc has several names
    for some. `emulator`: a program of QEMU's, with its options."""
    names, ends, ran = {}, {}, {}
    for start, size, name in functions(executable):
        names.setdefault(start, []).append(name)
        ends[start] = start + size
    starts = list(names)
    # Where QEMU loads it, less the addresses that it names.
    loaded = BASE if "DYN" in output_of("readelf", "-h", executable) else 0
    debian = output_of("tools/debian-programs", "qemu-user-static")
    with tempfile.NamedTemporaryFile("r") as log:
        program, *options = emulator
        command = [f"{debian}/usr/bin/{program}", *options, "-d", "in_asm", "-D", log.name, executable, *arguments]
        output_of(*command, env=os.environ | variables)
        for line in log:
            if line.startswith("0x"):
                address = int(line[: line.index(":")], 16) - loaded
                place = bisect.bisect_right(starts, address) - 1
                if place >= 0 and address < ends[starts[place]]:
                    ran[starts[place]] = names[starts[place]]
    return ran


def patterns(executable, arguments, *emulator, **variables):
    ran = that_run(executable, arguments, *emulator, **variables)
    names = dict.fromkeys(pattern(name) for of_one in ran.values() for name in of_one)
    return [name for name in names if re.fullmatch(r"[\w.?*]+", name)]


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
