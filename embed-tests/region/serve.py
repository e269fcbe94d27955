"""Runs a service under a host whose heap is bounded, and reads its resident size from outside.

    serve.py HOST [--region 24M] [--seconds 60] [--requests 1000] [-- HOST OPTIONS]

Starts `HOST --region SIZE server.py`, sends it at least so many requests over so many seconds, checks
each answer, and reads /proc/PID/status after each. Prints the largest resident size, the kernel's
own high-water mark, the bounds of docs/limit/region.md, and `holds` or what does not. Status 0 if all
holds, else 1.
"""
import argparse
import collections
import http.client
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
# docs/limit/region.md allows this beyond the region: anonymous memory, and all memory.
BESIDE_ANONYMOUS = 4 * MIB
BESIDE = 20 * MIB
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size(text):
    match = re.fullmatch(r"(\d+)([KMG])", text)
    if not match:
        raise argparse.ArgumentTypeError(f"expected a size such as 24M, not {text!r}")
    return int(match[1]) * UNITS[match[2]]


def status(pid):
    """The memory lines of /proc/PID/status, in bytes."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = (line.split() for line in lines if line.endswith(" kB"))
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in fields}


class Client:
    """Sends measurements and asks for summaries, and knows what the answers must be."""

    KEPT = 5000

    def __init__(self, port):
        self.port = port
        self.random = random.Random(4)
        self.known = collections.deque(maxlen=self.KEPT)
        self.sent = 0

    def request(self):
        self.sent += 1
        if self.sent % 3:
            rows = [[self.random.randrange(20), self.random.random()] for _ in range(50)]
            self.known.extend(rows)
            answer = self.talk("POST", "/", json.dumps(rows))
            expected = {"stored": 50, "kept": len(self.known)}
        else:
            sensor = self.random.randrange(20)
            values = [value for known, value in self.known if known == sensor]
            answer = self.talk("GET", f"/?sensor={sensor}")
            rows = answer.pop("rows", None)
            answer.pop("mean", None)
            if [row["value"] for row in rows] != values:
                raise ValueError(f"request {self.sent}: not the rows that were stored")
            expected = {"sensor": sensor, "count": len(values)}
        if answer != expected:
            raise ValueError(f"request {self.sent}: {answer}, not {expected}")

    def talk(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise ValueError(f"request {self.sent}: status {response.status}")
        return json.loads(text)


def serve(arguments, report):
    """Runs the service; the largest figures that were read, how often, and the requests."""
    command = [arguments.host, "--region", arguments.region, f"--stats=file={report}"]
    command += [*arguments.options, str(pathlib.Path(__file__).with_name("server.py"))]
    service = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        client = Client(int(service.stdout.readline()))
        start = time.monotonic()
        largest, reads = collections.Counter(), 0
        while client.sent < arguments.requests or time.monotonic() < start + arguments.seconds:
            client.request()
            for name, value in status(service.pid).items():
                largest[name] = max(largest[name], value)
            reads += 1
            due = start + client.sent * arguments.seconds / arguments.requests
            time.sleep(max(0, min(due - time.monotonic(), 1)))
        service.stdin.close()
        ended = service.wait(30)
    finally:
        service.kill()
        service.wait()
    return largest, reads, client.sent, time.monotonic() - start, ended


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("host")
    parser.add_argument("--region", default="24M")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--requests", type=int, default=1000)
    own, options = sys.argv[1:], []
    if "--" in own:
        options = own[own.index("--") + 1:]
        own = own[:own.index("--")]
    arguments = parser.parse_args(own)
    arguments.options = options
    region = size(arguments.region)
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder, "report.json")
        largest, reads, requests, seconds, ended = serve(arguments, report)
        told = json.loads(report.read_text())
    committed = told["region"]["peak_committed_bytes"]
    print(f"Python {told['python']['version']}, region {arguments.region}: {requests} requests in "
          f"{seconds:.1f} s, {reads} readings, status {ended}")
    failed = 0
    for name, value, bound in [
        ("peak committed", committed, region),
        ("largest anonymous", largest["RssAnon"], region + BESIDE_ANONYMOUS),
        ("largest resident", largest["VmRSS"], region + BESIDE),
        ("kernel's peak", largest["VmHWM"], region + BESIDE),
    ]:
        failed += value > bound
        verdict = "holds" if value <= bound else "is passed"
        print(f"{name:18} {value / MIB:6.1f} MiB, bound {bound / MIB:5.1f} MiB {verdict}")
    print(f"of which mapped files {largest['RssFile'] / MIB:.1f} MiB, locked {largest['VmLck'] / MIB:.1f} MiB; "
          f"{told['region']['refused_commits']} commits refused")
    return 1 if failed or ended else 0


if __name__ == "__main__":
    sys.exit(main())
