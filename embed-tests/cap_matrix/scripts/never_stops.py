"""A hog that catches every MemoryError and goes on: the host ends it."""

from growing import NEVER_FORMS, run


class Plain:
    def __init__(self, value):
        self.value, self.pair = value, (value, value)


run("never_stops", [
    ("data = []", "data.append(bytes(n))"),
    ("data = []", "data.append(object())"),
    ("data = {}", "data[i] = i * 1.5"),
    ("data = []", "data.append(Plain(i))"),
    ("data = None", "data = (data, str(i))"),
    ("data = []", "data.append([j for j in range(100)])"),
    ("data = []", "data.append('text %d' % i)"),
], forms=NEVER_FORMS, names={"Plain": Plain}, sizes=(48, 2000))
