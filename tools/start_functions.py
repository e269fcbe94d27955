"""Which functions of an executable run in a start, for the linker to lay them together.

QEMU's emulator of single programs says which instructions run (-d in_asm). Names are written without the compiler's hashes,
so that a list fits later compilers; a name that fits nothing does nothing.
"""

import bisect
import os
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
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
# What options run comes after all that a start without any runs.
WITH_OPTIONS = [["--retain", "small", "--region", "24M", "-c", "pass"], ["--stats", "--cap", "1G", "-c", "pass"]]


def output_of(*command, **settings):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, **settings).stdout.strip()


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
