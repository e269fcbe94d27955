"""The hog is a thread beside the main one, which waits for it."""

from growing import run

run("hog_thread", [
    ("data = []", "data.append(bytes(n))"),
    ("data = {}", "data[i] = 'x' * n"),
    ("data = []", "data.append([object() for j in range(n)])"),
    ("data = []", "data.append((i, str(i)))"),
    ("data = bytearray()", "data += bytes(n)"),
], whole=[
    "data = [bytes(n) for i in itertools.count()]",
    "data = list(map(str, itertools.count()))",
    "data = sorted(itertools.count())",
], sizes=(48, 20_000), in_thread=True)
