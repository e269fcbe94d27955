"""Ordinary programs, then the ledger must equal a walk of the heaps: json, sqlite3, re, threads, exceptions, gc."""
import concurrent.futures
import gc
import json
import re
import sqlite3
import tracemalloc
import zlib

from ledger_walk import check


def parse(number):
    text = json.dumps([{"number": number, "text": "x" * (i % 50), "list": list(range(i % 20))} for i in range(2000)])
    return len(json.loads(text)), zlib.crc32(text.encode()), len(re.findall(r"\d+", text))


def store():
    with sqlite3.connect(":memory:") as base:
        base.execute("create table t(a, b)")
        base.executemany("insert into t values (?, ?)", ((i, "y" * (i % 100)) for i in range(5000)))
        return base.execute("select count(*), sum(length(b)) from t").fetchone()


def fail(depth):
    if depth == 0:
        raise RuntimeError("deep")
    fail(depth - 1)


def recurse():
    try:
        fail(500)
    except RuntimeError:
        pass
    cycle = []
    cycle.append(cycle)
    del cycle
    return gc.collect() >= 0


with concurrent.futures.ThreadPoolExecutor(6) as executor:
    for work in (lambda _: parse(_), lambda _: store(), lambda _: recurse()):
        results = list(executor.map(work, range(12)))
        assert len(results) == 12
check("threads")
tracemalloc.start(5)
parse(1)
recurse()
assert tracemalloc.get_traced_memory()[1] > 0
check("tracing")
tracemalloc.stop()
gc.freeze()
gc.unfreeze()
check("traced")
print("exact")
