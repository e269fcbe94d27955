"""Runs argv[1:] in a terminal of its own and prints what it showed."""
import os
import pty
import sys

pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
shown = b""
while True:
    try:
        data = os.read(terminal, 4096)
    except OSError:
        break
    if not data:
        break
    shown += data
os.waitpid(pid, 0)
sys.stdout.write(shown.decode().replace("\r\n", "\n"))
