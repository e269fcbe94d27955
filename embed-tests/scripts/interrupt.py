"""Starts argv[1] in a terminal of its own, types Ctrl-C into its loop, prints how it ended."""
import os
import pty
import sys
import termios

CODE = """
import time
try:
    print("ready", flush=True)
    time.sleep(60)
finally:
    print("cleaned up", flush=True)
"""

pid, terminal = pty.fork()
if pid == 0:
    # A terminal drops what was written and not yet read when Ctrl-C is typed, unless told otherwise.
    attributes = termios.tcgetattr(0)
    attributes[3] |= termios.NOFLSH
    termios.tcsetattr(0, termios.TCSANOW, attributes)
    os.environ["PYHOST_STATS"] = "off"
    os.execv(sys.argv[1], ["python", "-c", CODE])

shown = b""
typed = False
while True:
    try:
        data = os.read(terminal, 4096)
    except OSError:
        break
    if not data:
        break
    shown += data
    if b"ready\r\n" in shown and not typed:
        typed = True
        os.write(terminal, b"\x03")
_, status = os.waitpid(pid, 0)
lines = shown.decode().replace("\r\n", "\n").replace("^C", "").splitlines()
# Where the interrupt found the script, in print or in sleep, is chance: the traceback's frames are left out.
print("\n".join(line for line in lines if not line.startswith(" ")))
print("signal", os.WTERMSIG(status) if os.WIFSIGNALED(status) else None)
