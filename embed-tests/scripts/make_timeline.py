"""Writes a timeline by hand, as --timeline would: 8192 samples, caps that change, marks with names that no page
should trust, refusals, an end. `make_timeline.py FILE [PID]`."""

import json
import math
import sys

ACCOUNTS = ["raw", "mem", "obj", "arena", "numpy", "native"]
MIB = 1 << 20
SAMPLES = 8192
INTERVAL = 0.01


def ramp(x, start, end):
    """Returns 0 before `start`, 1 after `end`, and what lies between."""
    return min(max((x - start) / (end - start), 0.0), 1.0)


def sample(index):
    """Returns the figures of one moment of a program that loads, trains, and frees."""
    x = index / SAMPLES
    gone = 1 - ramp(x, 0.86, 0.88)
    live = {
        "raw": 0.4 + 0.2 * math.sin(x * 40) ** 2,
        "mem": 1.5 + 3 * ramp(x, 0.05, 0.2) + 1.2 * math.sin(x * 90) ** 2,
        "obj": 6 + 18 * ramp(x, 0.05, 0.3) * gone + 4 * math.sin(x * 25) ** 2 * ramp(x, 0.3, 0.35),
        "arena": 0.25,
        "numpy": (34 * ramp(x, 0.3, 0.31) * gone * (0.55 + 0.45 * ((x * 24) % 1))) if x > 0.3 else 0,
        "native": 4 + 7 * ramp(x, 0.1, 0.15) - 3 * ramp(x, 0.7, 0.9),
    }
    # One sample alone is the peak: a page that thins must keep it.
    if index == 5003:
        live["numpy"] += 21.5
    figures = {name: int(value * MIB) // 16 * 16 for name, value in live.items()}
    total = sum(figures.values())
    resident = int(9 * MIB + max(total * 1.04, 52 * MIB * ramp(x, 0.3, 0.45))) // 4096 * 4096
    return {"t": round(index * INTERVAL, 6), "resident": resident, "total": total, **figures}


def lines(pid):
    """Yields the lines of the file, in order of time but for the first."""
    head = {
        "timeline": "pyhost-timeline/1",
        "pid": pid,
        "started": "2026-11-22T02:46:29Z",
        "interval_seconds": INTERVAL,
        "accounts": ACCOUNTS,
        "command": "pyhost --timeline=T train.py",
    }
    events = [
        {"t": 0.0, "caps": {"total": 96 * MIB, "native": 4 << 30}},
        {"t": 3.9, "mark": "load"},
        {"t": 4.1, "mark": "</script><script>document.title='broken'</script>"},
        {"t": 4.2, "mark": "<img src=x onerror=alert(1)> & \"quotes\" 'and' `ticks`"},
        {"t": 24.6, "caps": {"total": 96 * MIB, "numpy": 40 * MIB, "native": 4 << 30}},
        {"t": 24.6, "mark": "training"},
        {"t": 38.0, "mark": "\u202eright to left\u0007 and a bell\nand a line"},
        {"t": 45.0, "mark": "名前の長い段階、とても長い名前の段階、もっと長い名前の段階"},
        {"t": 50.03, "refusals": 1, "refusal": "cap of 40.0 MiB (numpy) reached: numpy asked for 22544384 bytes"},
        {"t": 52.5, "refusals": 4, "refusal": "cap of 40.0 MiB (numpy) reached: <b>numpy</b> asked for 9000000 bytes"},
        {"t": 60.0, "caps": {"total": 80 * MIB, "native": 4 << 30}},
        {"t": 70.0, "mark": "evaluate"},
        {"t": 70.4, "mark": ""},
        {"t": 81.92, "ended_by": "exit", "exit_status": 0},
    ]
    yield head
    moments = [sample(index) for index in range(SAMPLES)] + events
    yield from sorted(moments, key=lambda moment: moment["t"])


def main():
    path, *rest = sys.argv[1:]
    with open(path, "w", encoding="utf-8") as out:
        for line in lines(int(rest[0]) if rest else 4711):
            out.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
