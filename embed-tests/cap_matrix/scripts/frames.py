"""Generators, coroutines, closures, bound methods and running frames hold what grows."""

from growing import run


def numbers(size):
    held = bytes(size)
    yield held
    yield len(held)


async def coroutine(size):
    return bytes(size)


def closure(size):
    held = bytes(size)
    return lambda: held


class Closing:
    """A list of coroutines that closes them, lest each warns that it was never awaited."""

    def __init__(self):
        self.kept = []

    def add(self, made):
        try:
            self.kept.append(made)
        except MemoryError:
            made.close()
            raise

    def __del__(self):
        for made in self.kept:
            made.close()


run("frames", [
    ("data = []", "data.append(numbers(n))\nnext(data[-1])"),
    ("data = []", "data.append(numbers(n))"),
    ("data = Closing()", "data.add(coroutine(n))"),
    ("data = []", "data.append(closure(n))"),
    ("data = []", "data.append([i].append)"),
    ("data = []", "data.append(compile('a = %d' % i, 'made', 'exec'))"),
    ("data = []", "data.append(x for x in [i, bytes(n)])"),
], names={**globals()}, sizes=(48, 20_000))
