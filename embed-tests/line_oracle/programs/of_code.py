"""Sites in generators, coroutines, recursion, callbacks, and code that was compiled from text."""

import asyncio
import functools
import itertools

from sites import site


@site
def in_a_generator():
    def pieces():
        for _ in range(700):
            yield bytes(450)
    return list(pieces())


@site
def in_nested_generators():
    def inner(number):
        for _ in range(number):
            yield bytes(333)

    def outer():
        for number in range(40):
            yield from inner(number)
    return list(outer())


@site
def in_a_generator_expression():
    return tuple(bytes(1_200) for _ in range(300))


@site
def suspended_generators():
    def one(number):
        kept = bytes(number)
        yield kept
        yield kept
    kept = [one(number) for number in range(100, 500)]
    for generator in kept:
        next(generator)
    return kept


@site
def in_a_coroutine():
    async def one():
        await asyncio.sleep(0)
        return bytes(800)

    async def all_of_them():
        return [await one() for _ in range(300)]
    return asyncio.run(all_of_them())


@site
def in_an_async_generator():
    async def pieces():
        for _ in range(300):
            await asyncio.sleep(0)
            yield bytes(640)

    async def all_of_them():
        return [piece async for piece in pieces()]
    return asyncio.run(all_of_them())


@site
def in_tasks():
    async def one(number):
        kept = []
        for _ in range(number):
            kept.append(bytes(512))
            await asyncio.sleep(0)
        return kept

    async def all_of_them():
        return await asyncio.gather(*(one(number) for number in range(30)))
    return asyncio.run(all_of_them())


@site
def at_the_end_of_a_recursion():
    def deep(level):
        return [bytes(2_000) for _ in range(120)] if level == 0 else deep(level - 1)
    return deep(250)


@site
def at_each_level_of_a_recursion():
    def deep(level):
        return (bytes(12_000), deep(level - 1) if level else None)
    return deep(20)


@site
def in_a_sort_key():
    kept = []

    def key(number):
        kept.append(bytes(260))
        return -number
    sorted(range(1_000), key=key)
    return kept


@site
def in_a_mapped_function():
    return list(map(bytes, itertools.repeat(350, 800)))


@site
def in_a_reduction():
    return functools.reduce(lambda kept, number: [kept, bytes(number)], range(100, 400), None)


@site
def in_a_constructor():
    class Holder:
        def __init__(self):
            self.kept = bytes(1_500)
    return [Holder() for _ in range(200)]


@site
def in_a_property():
    class Holder:
        @property
        def made(self):
            return bytes(5_000)
    holder = Holder()
    return [holder.made for _ in range(80)]


@site
def in_a_context_manager():
    class Managed:
        def __enter__(self):
            self.kept = [bytes(700) for _ in range(300)]

        def __exit__(self, *_):
            pass
    managed = Managed()
    with managed:
        return managed


@site
def in_an_exception_handler():
    kept = []
    for _ in range(200):
        try:
            raise KeyError
        except KeyError:
            kept.append(bytes(1_100))
    return kept


# Code whose file exists nowhere.
for kind, text in {
    "list": "def {name}():\n\n    return [bytes(480) for _ in range(500)]\n",
    "block": "def {name}():\n    return bytes(400_000)\n",
    "dict": "def {name}():\n    return dict.fromkeys(range(4_000))\n",
    "generator": "def {name}():\n    def pieces():\n        for _ in range(200):\n            yield bytes(999)\n"
                 "    return list(pieces())\n",
    "lambda": "{name} = lambda: (\n    [bytes(150) for _ in range(900)])\n",
    "nested": "def {name}():\n    names = {{}}\n    exec('kept = [bytes(222) for _ in range(700)]', names)\n"
              "    return names['kept']\n",
    "not ASCII": "def {name}():\n    return [bytes(3_000) for _ in range(90)]\n",
}.items():
    name = "compiled_" + kind.replace(" ", "_")
    file = f"<made of {kind}>" if kind != "not ASCII" else "<gemacht für ☃>"
    names = {}
    exec(compile(text.format(name=name), file, "exec"), names)
    names[name].__name__ = name
    site(names[name], file=file)
