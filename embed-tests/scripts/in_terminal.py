"""Runs the interactive interpreter of argv[1] in a terminal, asks it 6 * 7, leaves, prints what it showed."""
import os
import pty
import select
import sys
import time

pid, terminal = pty.fork()
if pid == 0:
    os.environ["TERM"] = "dumb"
    os.execv(sys.argv[1], [sys.argv[1], "-q"])

shown = b""


def read_until(word, seconds=30):
    global shown
    end = time.monotonic() + seconds
    while word not in shown and time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                shown += os.read(terminal, 4096)
            except OSError:
                return


read_until(b">>> ")
os.write(terminal, b"print(6 * 7)\n")
read_until(b"\n42")
os.write(terminal, b"exit()\n")
read_until(b"no such text", 5)
_, status = os.waitpid(pid, 0)
sys.stdout.write(shown.decode(errors="replace").replace("\r\n", "\n"))
sys.exit(1 if status else 0)
