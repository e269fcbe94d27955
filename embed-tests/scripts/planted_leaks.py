"""Plants lost blocks and expects the leak check to find each: `planted_leaks.py PYHOST...`, any Python.

Nothing but a number of Python's keeps their addresses, and a number is no pointer. With addresses of 32 bits any word of a
program may look like one, such as the hash of a string; so long blocks are planted where addresses have 64.
"""
import re
import subprocess
import sys

PLANT = """
import ctypes, sys
kind, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if kind == "reference":
    lose = lambda: ctypes.pythonapi.Py_IncRef(ctypes.py_object(object()))
else:
    malloc = ctypes.CDLL(None).malloc if kind == "native" else getattr(ctypes.pythonapi, kind)
    malloc.restype = ctypes.c_void_p
    lose = lambda: ctypes.memset(malloc(ctypes.c_size_t(size)), 0, size)
for _ in range(count):
    lose()
"""


def caught(host, kind, count, size, usable):
    command = [host, "--leak-check=native", "-c", PLANT, kind, str(count), str(size)]
    done = subprocess.run(command, stderr=subprocess.PIPE, universal_newlines=True, timeout=120)
    name = ", object" if kind == "reference" else ""
    found = re.search(r"^  \w+ +(\d+) of %d bytes%s$" % (usable, name), done.stderr, re.MULTILINE)
    return int(found.group(1)) if found else 0, done.stderr


def kinds(host):
    """What is planted: the kind, the bytes that are asked for, the usable bytes."""
    code = "import struct; print(struct.calcsize('P'), object().__sizeof__())"
    asked = subprocess.run([host, "-c", code], stdout=subprocess.PIPE, check=True)
    word, size_of_object = map(int, asked.stdout.split())
    small = [("reference", 0, size_of_object), ("PyMem_RawMalloc", 3000, 3072), ("PyMem_Malloc", 100, 112),
             ("PyObject_Malloc", 3000, 3072), ("native", 100, 112)]
    return small + [("native", 2000000, 2031616)] * (word == 8)


def main(hosts):
    missed = False
    for host in hosts:
        for kind, size, usable in kinds(host):
            # Of long ones as many as the device build's region of 32 MiB holds.
            for count in (1, 2, 20) if size < 1000000 else (1, 2, 7):
                number, errors = caught(host, kind, count, size, usable)
                if number != count:
                    missed = True
                    print("%s: %s: %d of %d of %d bytes\n%s" % (host, kind, number, count, size, errors))
    print("missed some" if missed else "all caught")
    return missed


sys.exit(main(sys.argv[1:]))
