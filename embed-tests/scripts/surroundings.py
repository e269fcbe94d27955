"""Prints the facts that a process can see of itself at the start: the same under stock Python and the host."""
import os
import resource
import signal
import sys
import threading

for number in sorted(signal.valid_signals() if hasattr(signal, "valid_signals") else range(1, 65)):
    try:
        print(number, signal.getsignal(number))
    except ValueError:
        pass
print("mask", signal.pthread_sigmask(signal.SIG_BLOCK, []))
with open("/proc/self/status") as status:
    for line in status:
        if line.split(":")[0] in ("SigBlk", "SigIgn", "SigCgt", "Threads"):
            name, value = line.split()
            if name == "SigCgt:":
                # The host names a block that libc's own free refuses (docs/debug/tools.md). Python sees SIG_DFL, as above.
                value = hex(int(value, 16) & ~(1 << signal.SIGABRT - 1))
            print(name, value)
print("descriptors", sorted(os.listdir("/proc/self/fd")))
print("limits", [resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")])
print("environment", sorted(name for name in os.environ if name != "_"))
print("threads", threading.active_count(), threading.main_thread().name)
print("streams", sys.stdin.encoding, sys.stdout.encoding, sys.stderr.errors, sys.stdin.fileno(), sys.stdout.fileno())
print("umask", os.umask(0), "cwd", os.getcwd() == os.path.realpath("."), "session", os.getpgrp() == os.getpgid(0))
