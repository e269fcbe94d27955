"""The lines of tracked blocks that nest and overlap, in several threads, beside what the blocks are known to take.

    track_lines.py exact        with --lines=1
    track_lines.py sampled      with another interval: prints how many of the estimates lie within their errors
"""
import os
import sys
import threading

import pyhost

SIZES = (300, 1000, 5000, 40_000)


def make(size, count):
    return [bytes(size) for _ in range(count)]


def other(size, count):
    return [bytes(size) for _ in range(count)]


def of(lines, view, function, account="obj"):
    """Bytes and the least error of the rows below a function."""
    rows = [row for row in lines[view] if any(call["function"].endswith(function) for call in row["stack"])]
    rows = [row for row in rows if row["account"] == account]
    return sum(row["bytes"] for row in rows), max((row["error_bytes"] for row in rows), default=0)


def near(lines, view, function, size, count):
    taken, _ = of(lines, view, function)
    # Under --debug-hooks each block has a record and pads, which its size class adds to.
    most = size * count * 3 // 2 if pyhost.memory_stats()["debug_hooks"] else size * count * 4 // 3
    assert size * count <= taken <= most + 20_000, (view, function, taken, size * count)


def exact():
    # What reading imports would be in the blocks below, and may be their peak.
    with pyhost.track() as first:
        pass
    assert first.lines is not None
    before = make(1000, 500)
    pyhost.mark("here")
    with pyhost.track() as outer:
        with pyhost.track() as inner:
            gone = make(1000, 3000)
            del gone
            kept = other(1000, 1000)
            near(inner.lines, "at_peak", "make", 1000, 3000)  # while the block runs
        del before
        more = make(1000, 200)
    near(inner.lines, "at_peak", "make", 1000, 3000)
    assert of(inner.lines, "at_peak", "other")[0] == 0, inner
    near(inner.lines, "grown", "other", 1000, 1000)
    assert of(inner.lines, "grown", "make")[0] == 0, inner
    near(inner.lines, "allocated", "make", 1000, 3000)
    near(outer.lines, "at_peak", "make", 1000, 3000)
    # 500 from another call were freed in it: a stack that shrank is left out.
    near(outer.lines, "grown", "make", 1000, 200)
    near(outer.lines, "allocated", "make", 1000, 3200)
    near(outer.lines, "grown", "other", 1000, 1000)
    near(pyhost.lines(), "grown", "other", 1000, 1000)  # since the mark

    # What grows in an account alone, and its own peak.
    with pyhost.track(account="raw") as raw:
        buffer = pyhost.buffer(4 << 20, account="raw")
        del buffer
        moved = other(1000, 5000)
        del moved
    assert {row["account"] for row in raw.lines["at_peak"]} == {"raw"}, raw.lines
    assert of(raw.lines, "at_peak", "exact", "raw")[0] >= 4 << 20, raw
    assert raw.lines["grown"] == [] or raw.lines["grown"][0]["bytes"] < 10_000, raw.lines

    # Blocks of threads overlap in any way, each with its own begin and end; peaks and marks of the process stay.
    steps = threading.Barrier(3, timeout=60)
    tracks = {}

    def work(name, size):
        steps.wait()
        with pyhost.track() as t:
            tracks[name] = t, make(size, 1000)
            steps.wait()
        steps.wait()

    threads = [threading.Thread(target=work, args=(name, size)) for name, size in (("a", 2000), ("b", 3000))]
    [thread.start() for thread in threads]
    for _ in range(3):
        steps.wait()
    [thread.join() for thread in threads]
    for name, (t, rows) in tracks.items():
        assert len(rows) == 1000 and of(t.lines, "grown", "work")[0] >= 1000 * len(rows[0]), (name, t)
    near(pyhost.lines(), "grown", "other", 1000, 1000)

    # One object for several blocks; texts; an empty block.
    with inner:
        pass
    assert of(inner.lines, "allocated", "make")[0] == 0 and "lines that grew" not in str(inner), inner
    shown = str(outer)
    assert "lines that grew up to the block's peak (every allocation):" in shown, shown
    assert f"{os.path.basename(__file__)}:16 in " in shown and ":20 in" not in shown.split("in the block")[0], shown

    # A forked child has its parent's blocks, and its own.
    if hasattr(os, "fork"):
        with pyhost.track() as both:
            child = os.fork()
            if child == 0:
                with pyhost.track() as own:
                    mine = make(1000, 400)
                near(own.lines, "grown", "make", 1000, 400)
                near(both.lines, "grown", "make", 1000, 400)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        assert of(both.lines, "grown", "make")[0] == 0, both

    # Most lines are those of the account, to the byte: what the block shrank is its own blocks alone here.
    with pyhost.track() as t:
        all_kept = make(700, 5000)
    grown = sum(row["bytes"] for row in t.lines["grown"] if row["account"] == "obj")
    assert grown >= t.accounts["obj"].growth_bytes >= grown - 2000, (grown, t)
    assert [kept, more, all_kept]


def sampled():
    cases = within = 0
    for turn in range(6):
        kept = []
        with pyhost.track() as t:
            for size in SIZES:
                function = f"of_{size}"
                scope = {}
                exec(f"def {function}():\n return [bytes({size}) for _ in range({400_000 // size * 4})]", scope)
                kept.append((function, scope[function]()))
        for function, rows in kept:
            truth = sum(sys.getsizeof(row) for row in rows)
            found, error = of(t.lines, "grown", function)
            error = error or 3 * t.lines["interval_bytes"]
            cases += 1
            # Blocks are rounded up by an eighth at most.
            within += found - error <= truth * 9 / 8 + 20_000 and found + error >= truth
    print(within, cases)


if __name__ == "__main__":
    {"exact": exact, "sampled": sampled}[sys.argv[1]]()
    print("done")
