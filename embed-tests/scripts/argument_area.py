"""Looks for its arguments where libraries that set a process's title look, and sets one as they do."""
import ctypes
import os
import sys

libc = ctypes.CDLL(None)


def shown():
    with open("/proc/self/cmdline", "rb") as file:
        return file.read()


words = shown().split(b"\0")[:-1]
print(getattr(sys, "orig_argv", None) in (None, [os.fsdecode(word) for word in words]), sys.argv[1:])
for name in ["program_invocation_name", "program_invocation_short_name"]:
    found = ctypes.c_char_p.in_dll(libc, name).value
    print(os.path.basename(found) == os.path.basename(words[0]))
# The words lie in a row, and end where the environment begins.
end = ctypes.POINTER(ctypes.c_void_p).in_dll(libc, "environ")[0]
start = end - sum(len(word) + 1 for word in words)
print(ctypes.string_at(start, end - start) == b"\0".join(words) + b"\0")
ctypes.memmove(start, b"title".ljust(end - start, b"\0"), end - start)
print(shown().rstrip(b'\0'))
