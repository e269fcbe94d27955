"""Instances are made: with __dict__, with __slots__, dataclasses, named tuples, exceptions, in cycles, with __del__."""

import collections
import dataclasses

from growing import run


class Plain:
    def __init__(self, value):
        self.value = value
        self.name = "name"
        self.pair = (value, value)


class Many:
    pass


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a, self.b = a, [a]


class Finalised:
    def __init__(self, size):
        self.data = bytes(size)

    def __del__(self):
        self.data = [self.data, "gone"]


class Ring:
    def __init__(self, size):
        self.other = self
        self.data = bytes(size)


@dataclasses.dataclass
class Row:
    number: int
    text: str
    parts: list = dataclasses.field(default_factory=list)


Point = collections.namedtuple("Point", "x y z")

run("instances", [
    ("data = []", "data.append(Plain(i))"),
    ("data = []", "data.append(Many())\ndata[-1].a = i\ndata[-1].b = bytes(n)"),
    ("data = []", "data.append(Slotted(i))"),
    ("data = []", "data.append(Finalised(n))"),
    ("data = []", "data.append(Ring(n))"),
    ("data = []", "data.append(Row(i, str(i), [i]))"),
    ("data = []", "data.append(Point(i, str(i), bytes(n)))"),
    ("data = []", "data.append(ValueError('x' * n))"),
    ("data = []", "data.append(type('Made', (), {'i': i}))"),
    ("data = Many()", "setattr(data, 'name%d' % i, bytes(n))"),
], names={**globals()}, sizes=(48, 4000), cyclic=True)
