"""A process that waits for SIGUSR2 twice, told by its own report file, and says what it saw of the signal."""
import json
import os
import signal
import sys
import time

path = sys.argv[1]
assert signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL, signal.getsignal(signal.SIGUSR2)


def wait_for_report(number):
    while True:
        try:
            with open(path) as file:
                report = json.load(file)
        except FileNotFoundError:
            time.sleep(0.01)
            continue
        if report["accounts"]["obj"]["live_bytes"] > number * 20_000_000:
            return report
        time.sleep(0.01)


kept = bytes(20_000_000)
print("ready", flush=True)
first = wait_for_report(1)
kept += bytes(20_000_000)
print("again", flush=True)
second = wait_for_report(2)
for report in first, second:
    assert report["process"]["ended_by"] is None and report["process"]["exit_status"] is None
    assert report["process"]["pid"] == os.getpid()
    assert report["partial"] is False
    rows = report["balance"]["rows"]
    total = sum(row["resident_bytes"] for row in rows) + report["balance"]["remainder_bytes"]
    assert total == report["balance"]["resident_bytes"], report["balance"]
    classes = {name: sum(size["live_bytes"] for size in sizes) for name, sizes in report["size_classes"].items()}
    assert classes["mem"] == report["accounts"]["mem"]["live_bytes"]
    assert classes["obj"] > 20_000_000
assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)], "no part is left"
# The script's own handler takes the host's place, and gives it back.
seen = []
before = signal.signal(signal.SIGUSR2, lambda number, frame: seen.append(number))
assert before is signal.SIG_DFL, before
os.remove(path)
os.kill(os.getpid(), signal.SIGUSR2)
assert seen == [signal.SIGUSR2] and not os.path.exists(path)
print("done", flush=True)
