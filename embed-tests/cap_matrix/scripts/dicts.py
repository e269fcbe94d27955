"""Dictionaries grow by subscript stores, setdefault, update, unions and nesting."""

from growing import run

run("dicts", [
    ("data = {}", "data[i] = 'x' * n"),
    ("data = {}", "data[i] = i"),
    ("data = {}", "data[str(i)] = None"),
    ("data = {}", "data.setdefault(i % 1000, []).append(bytes(n))"),
    ("data = {}", "data.update({i: {i: i}})"),
    ("data = {}", "data = {i: data, 'rest': bytes(n)}"),
    ("data = []", "data.append({i: bytes(n), 'name': str(i)})"),
    ("data = []", "data.append(dict.fromkeys(range(n), i))"),
], sizes=(48, 4000))
