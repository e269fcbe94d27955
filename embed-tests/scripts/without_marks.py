"""Runs a command for which madvise(2) knows no guard pages (MADV_GUARD_INSTALL), as before Linux 6.13."""

import ctypes
import os
import platform
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
MADVISE = {"x86_64": 28, "aarch64": 233}[platform.machine()]
GUARD_INSTALL = 102
EINVAL = 22
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, FAIL = 0x7FFF0000, 0x00050000

# Offsets in `struct seccomp_data`: the call's number, and the lower half of its third argument.
PROGRAM = [
    (LOAD, 0, 0, 0),
    (EQUAL, 0, 2, MADVISE),
    (LOAD, 0, 0, 32),
    (EQUAL, 1, 0, GUARD_INSTALL),
    (RETURN, 0, 0, ALLOW),
    (RETURN, 0, 0, FAIL | EINVAL),
]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def main(command):
    libc = ctypes.CDLL(None, use_errno=True)
    words = b"".join(struct.pack("HBBI", *line) for line in PROGRAM)
    program = Program(len(PROGRAM), words)
    for call in [(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0)]:
        if libc.prctl(*call) != 0:
            sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
