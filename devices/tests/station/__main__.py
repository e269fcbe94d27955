"""The service of a small machine: that of server.py, on a port that others reach, and what a test asks of the machine.

POST /hog     takes memory until a request is refused, and ends with that MemoryError.
POST /die     ends the process as a kill does.
GET /machine  answers how many processes the kernel killed, the memory, and this process's sizes.
GET /product  answers the sum of a product of matrices, of NumPy if the word `numpy` was given.
"""

import http.server
import json
import os
import pathlib
import signal
import sys
import traceback  # noqa: F401  (before memory is short: socketserver imports it to show an error)

import server

if "numpy" in sys.argv[2:]:
    import numpy


def fields(path):
    """The numbers of a file such as /proc/meminfo, by name."""
    words = (line.replace(":", " ").split() for line in pathlib.Path(path).read_text().splitlines())
    return {line[0]: int(line[1]) for line in words if len(line) > 1 and line[1].isdigit()}


class Station(server.Handler):
    def do_POST(self):
        if self.path == "/hog":
            kept = []
            while True:
                kept.append(bytearray(100_000))
        elif self.path == "/die":
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            super().do_POST()

    def do_GET(self):
        if self.path == "/product":
            matrix = numpy.arange(40_000, dtype=float).reshape(200, 200)
            return self.answer({"sum": float((matrix @ numpy.ones((200, 200))).sum())})
        if self.path != "/machine":
            return super().do_GET()
        memory, own = fields("/proc/meminfo"), fields("/proc/self/status")
        self.answer({
            "killed": fields("/proc/vmstat")["oom_kill"],
            "swap": memory["SwapTotal"],
            "total": memory["MemTotal"],
            "available": memory["MemAvailable"],
            "resident": own["VmRSS"],
            "peak": own["VmHWM"],
            "process": os.getpid(),
        })


http.server.ThreadingHTTPServer(("0.0.0.0", int(sys.argv[1])), Station).serve_forever()
