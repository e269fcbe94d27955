"""Sends code into a running process (CPython 3.14). Prints its exit status, and what the code found there."""

import os
import subprocess
import sys
import tempfile

WAITING = """
import os, sys, time
def waits(done):
    kept, end = 'a local of the script', time.monotonic() + 50
    print('ready', flush=True)
    while not os.path.exists(done) and time.monotonic() < end: [number for number in range(1000)]
waits(sys.argv[1])
"""

SENT = """
import os, sys
frame = sys._getframe()
while frame.f_code.co_name != 'waits': frame = frame.f_back
with open({done!r} + '.new', 'w') as out: out.write(frame.f_locals['kept'])
os.rename({done!r} + '.new', {done!r})
"""

with tempfile.TemporaryDirectory() as folder:
    sent, done = os.path.join(folder, "sent.py"), os.path.join(folder, "done")
    with open(sent, "w") as file:
        file.write(SENT.format(done=done))
    with subprocess.Popen([sys.executable, "-c", WAITING, done], stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        sys.remote_exec(child.pid, sent)
        status = child.wait(60)
    with open(done) as file:
        print(status, file.read())
