#!/usr/bin/env python3
"""Runs a script under preloaded libraries that interpose one function of libc each, beside python.

    embed-tests/interposers/run.py --host target/debug/pyhost [--python PYTHON] [FUNCTION ...]

Without names: every function of libc that the host calls or exports, and those that its allocator calls by itself. Each
interposer (embed-tests/c/interposer.c) allocates and looks up symbols whenever it is called, and traps if it is called
meanwhile. What python does not survive either is left out. Then the libraries of Debian's packages that are installed
(libfaketime, libeatmydata, fakeroot, fakechroot, torsocks, proxychains4, the wrappers of cwrap, jemalloc, tcmalloc).

Prints what failed, and `N passed, N failed`. x86-64 and glibc; needs a C compiler and binutils.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SCRIPT = HERE.parent / "scripts/under_interposers.py"
SOURCE = HERE.parent / "c/interposer.c"
# Ways to run the host: the allocator's own paths differ.
OPTIONS = [[], ["--malloc", "plain"], ["--debug-hooks", "--lines", "--cap", "1G"]]
# Called by what the linker leads elsewhere, or by exported functions alone.
MORE = [
    "mmap", "mmap64", "munmap", "mremap", "mprotect", "madvise", "syscall", "getenv", "getrandom", "bcmp", "strlen",
    "memchr", "pthread_self", "pthread_getspecific", "pthread_mutex_trylock", "pthread_rwlock_rdlock", "sched_getcpu",
    "get_nprocs", "gettimeofday", "nanosleep", "clock_nanosleep", "open", "openat", "open64", "read", "close", "write",
    "snprintf", "sbrk", "brk", "getpagesize", "secure_getenv", "access", "getuid",
]
# The interposer itself calls them, or they are no functions that a library could define.
LEFT_OUT = {
    "malloc", "calloc", "realloc", "free", "dlsym", "__libc_start_main", "__tls_get_addr", "__cxa_finalize",
    "cfree", "__libc_malloc", "__libc_calloc", "__libc_realloc", "__libc_free",
}
# Options that read frames ask CPython for the thread's state, and CPython asks this function. They call it again inside of it.
READS_FRAMES = ("pthread_getspecific", OPTIONS[2])
PACKAGES = [
    "faketime/libfaketime.so.1", "faketime/libfaketimeMT.so.1", "libeatmydata.so", "libfakeroot/libfakeroot-sysv.so",
    "fakechroot/libfakechroot.so", "torsocks/libtorsocks.so", "libproxychains.so.4", "libuid_wrapper.so",
    "libnss_wrapper.so", "libsocket_wrapper.so", "libresolv_wrapper.so", "libpam_wrapper.so", "libjemalloc.so.2",
    "libtcmalloc_minimal.so.4", "libtcmalloc_minimal_debug.so.4",
]


def defined_in_libc():
    path = subprocess.run(["cc", "-print-file-name=libc.so.6"], capture_output=True, text=True, check=True).stdout.strip()
    lines = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in lines.splitlines()]
    return {name.split("@")[0] for _, kind, name in rows if kind in "TWi"}


def functions(host):
    lines = subprocess.run(["nm", "-D", host], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1].split("@")[0] for line in lines.splitlines()}
    return sorted((names | set(MORE)) & defined_in_libc() - LEFT_OUT)


def run(command, library):
    environment = {
        **os.environ, "LD_PRELOAD": str(library), "UID_WRAPPER": "1", "FAKETIME": "+1d", "PROXYCHAINS_QUIET_MODE": "1",
    }
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return "no end within 60 s", ""
    return done.returncode, done.stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", required=True)
    # Not a command such as pyenv's, which is a script.
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("functions", nargs="*")
    arguments = parser.parse_args()
    passed, failed = 0, 0

    def compare(name, library):
        nonlocal passed, failed
        stock = run([arguments.python, SCRIPT], library)
        if stock[0] != 0:
            print(f"left out: {name}: python ends with {stock[0]}", flush=True)
            return
        for options in OPTIONS:
            if (name, options) == READS_FRAMES:
                print(f"left out: {name} {' '.join(options)}: CPython's own call of it leads back to it", flush=True)
                continue
            host = run([arguments.host, *options, SCRIPT], library)
            if host == stock:
                passed += 1
            else:
                failed += 1
                print(f"failed: {name} {' '.join(options)}: {host[0]} {host[1]!r}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.functions or functions(arguments.host):
            library = pathlib.Path(folder, f"{name}.so")
            command = ["cc", "-O1", "-shared", "-fPIC", f"-DFUNCTIONS=F({name})", "-o", library, SOURCE, "-ldl"]
            subprocess.run(command, check=True)
            compare(name, library)
    if not arguments.functions:
        for name in PACKAGES:
            library = pathlib.Path("/usr/lib", sysconfig.get_config_var("MULTIARCH"), name)
            if library.exists():
                compare(name, library)
            else:
                print(f"left out: {name} is not installed", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
