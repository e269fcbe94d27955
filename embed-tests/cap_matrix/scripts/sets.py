"""Sets and frozensets grow by adding, by union, and kept in lists."""

from growing import run

run("sets", [
    ("data = set()", "data.add(i)"),
    ("data = set()", "data.add((i, n))"),
    ("data = set()", "data.add('%d' % i)"),
    ("data = set()", "data |= {i, -i}"),
    ("data = frozenset()", "data = data | frozenset(range(len(data), 2 * len(data) + n))"),
    ("data = []", "data.append(set(range(n)))"),
    ("data = []", "data.append(frozenset((i, i + 1)))"),
], sizes=(48, 4000))
