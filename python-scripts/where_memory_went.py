"""Memory that Python's own tools do not see: run it with `pyhost --stats`.

A list of dictionaries lives in `obj` and `mem`, a database in `native`: sqlite allocates by malloc, past CPython's
domains, so tracemalloc reports nothing of it. The table must show `native` with the higher peak.
"""
import sqlite3

rows = [{"number": number, "name": "row %d" % number} for number in range(20_000)]

base = sqlite3.connect(":memory:")
base.execute("create table rows(number integer, name text, payload blob)")
base.executemany("insert into rows values (:number, :name, zeroblob(1000))", rows)
count, size = base.execute("select count(*), sum(length(payload)) from rows").fetchone()
print(count, "rows,", size // 1_000_000, "MB of payload")
