"""pyhost.leaks(): functions that leave something behind, and functions of the standard library that do not.

With the name of a part that part alone; prints `checked` at the end.
"""

import ctypes
import gc
import json
import mmap
import re
import signal
import sys
import sysconfig
import threading
import time

import pyhost

# With threads it never frees a type (CPython 3.13), which a message of email makes, too.
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
kept = []
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]


class Node:
    def __init__(self):
        self.data = bytearray(3000)


def line_of(function, offset):
    return function.__code__.co_firstlineno + offset


def node():
    kept.append(Node())


def reference():
    text = str(kept) + "x" * 1000  # as C code that forgets a Py_DECREF
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(text))


def error_path():
    try:
        libc.malloc(2000)
        raise ValueError
    except ValueError:
        pass


def array():
    kept.append(pyhost.buffer(5000, account="numpy"))


def raw():
    kept.append(pyhost.buffer(700, account="raw"))


def cycle_kept_by_a_thread():
    threading.local().x = 1
    kept.append([kept])


def leaky():
    pyhost.lines()  # the part of the module that shows lines is no leak of the first function
    # Function, accounts that grow, bytes a call at least, and the line.
    for function, accounts, least, offset in [
        (node, {"mem", "obj"}, 3000, None), (reference, {"obj"}, 1000, 1), (error_path, {"native"}, 2000, 2),
        (array, {"numpy", "obj"}, 5000, 1), (raw, {"raw", "obj"}, 700, 1), (cycle_kept_by_a_thread, {"obj"}, 64, 2),
    ]:
        kept.clear()
        found = pyhost.leaks(function)
        assert found, function
        assert accounts - {"mem"} <= set(found.accounts) <= accounts | {"mem", "arena"}, found
        assert least <= found.bytes_per_call < least + 1500 + least // 4, str(found)
        assert 32 <= found.repeat <= 1040 and found.blocks_per_call >= 1
        if found.lines is None:  # malloc is left to another allocator
            assert "--no-lines" in sys.argv
        elif offset is not None:
            places = [(row["file"], row["line"]) for row in found.lines]
            assert (__file__, line_of(function, offset)) in places, (function, found.lines)
        assert json.loads(json.dumps(found.to_dict()))["bytes_per_call"] == found.bytes_per_call
        assert function.__name__ in str(found) and f"with every call ({found.repeat} calls)" in str(found), str(found)
    kept.clear()
    found = pyhost.leaks(node, repeat=20, warmup=0)
    assert found.repeat >= 40 and found.repeat % 20 == 0
    [row] = [row for row in found.types if row["type"] == "__main__.Node"]
    # A free-threaded Python finds them in another order.
    last = row["held_by"] if FREE_THREADED else f"__main__.kept[{found.repeat - 1}]"
    assert row == {"type": "__main__.Node", "objects_per_call": 1, "held_by": last}, found.types
    assert re.fullmatch(r"__main__\.kept\[\d+\]", last), found.types
    if sys.argv[1:2] != ["pymalloc"]:
        assert any(row["block_bytes"] >= 3000 and row["blocks_per_call"] == 1 for row in found.sizes), found.sizes
    kept.clear()
    # A mapping that is never unmapped is beside the blocks of the heaps.
    assert "mapped" not in pyhost.leaks(lambda: mmap.mmap(-1, 1 << 20).close()).accounts


def bounded():
    """What grows, but is given back in batches or grows no further, is a cache."""
    import collections
    import functools
    import re

    numbers, emptied, last = iter(range(10**9)), {}, collections.deque(maxlen=300)

    def emptied_in_batches():
        if len(emptied) >= 100:
            emptied.clear()
        emptied[next(numbers)] = bytes(300)

    @functools.lru_cache(128)
    def remembered(number):
        return bytes(number % 100 + 100)

    for function in (emptied_in_batches, lambda: remembered(next(numbers)), lambda: re.compile(f"a{next(numbers)}b+"),
                     lambda: last.append(bytes(next(numbers) % 100 + 200))):
        emptied.clear()
        for found in pyhost.leaks(function), pyhost.leaks(function, repeat=500):
            assert not found and not found.accounts and "nothing grows with every call" in str(found), str(found)
            for account, most in found.bounded.items():
                assert 0 <= most < 1 << 20 and f"bounded: {account} grew by" in str(found), str(found)
        emptied.clear()
    assert "obj" in pyhost.leaks(emptied_in_batches).bounded

    filling = collections.deque(maxlen=180)

    def slow():
        time.sleep(0.012)
        filling.append(bytes(next(numbers) % 100 + 200))

    assert not pyhost.leaks(slow), "a slow function has fewer calls in the same time"
    assert not pyhost.leaks(lambda: None).bounded


def references():
    """What C code leaves where it forgets a Py_DECREF of an object that stays."""
    increase = ctypes.pythonapi.Py_IncRef
    increase.argtypes, increase.restype = [ctypes.py_object], None
    made = []

    def of_a_type():
        found = Node()
        increase(Node)
        return found

    def of_a_module():
        increase(json)

    def of_a_constant():
        increase("a constant that stays")

    def of_a_function():
        increase(line_of)

    def of_a_new_type():
        made[:] = [type("Made", (), {})]
        increase(made[0])

    on_this_version = "t" not in sys.abiflags
    for function, name, offset in [(of_a_type, "the type __main__.Node", 2), (of_a_module, "the module json", 1),
                                   (of_a_constant, "'a constant that stays'", 1), (of_a_function, "an object of the type function", 1)]:
        found = pyhost.leaks(function)
        if not on_this_version or function is of_a_constant and sys.version_info >= (3, 12) and not found:
            continue  # a constant may be immortal
        assert found and not found.accounts and not found.bytes_per_call, str(found)
        place = {"file": __file__, "line": line_of(function, offset), "function": function.__name__, "package": None}
        assert found.references == [{"object": name, "references_per_call": 1, **place}], found.references
        assert "leaves references with every call, and no memory" in str(found) and f"1 to {name}" in str(found), str(found)
        assert json.loads(json.dumps(found.to_dict()))["references"] == found.references
    assert pyhost.leaks(of_a_new_type).bytes_per_call > 500
    # References that Python knows.
    assert not pyhost.leaks(lambda: kept.append(None)).references
    kept.clear()


def clean():
    import array
    import asyncio
    import csv
    import datetime
    import decimal
    import email.message
    import hashlib
    import io
    import os
    import pickle
    import queue
    import re
    import socket
    import sqlite3
    import struct
    import subprocess
    import tempfile
    import xml.etree.ElementTree as ElementTree
    import zlib

    place = os.path.join(tempfile.mkdtemp(), "file")

    def text_file():
        with open(place, "w") as file:
            file.write("text")
        with open(place) as file:
            file.read()

    def database():
        connection = sqlite3.connect(":memory:")
        connection.execute("create table t (n)")
        connection.executemany("insert into t values (?)", [(n,) for n in range(100)])
        connection.execute("select sum(n) from t").fetchall()
        connection.close()

    def threads():
        mailbox = queue.Queue()
        thread = threading.Thread(target=lambda: mailbox.put([0] * 100))
        thread.start()
        thread.join()
        mailbox.get()

    def loop():
        async def work():
            await asyncio.gather(*(asyncio.sleep(0) for _ in range(10)))
        asyncio.run(work())

    def sockets():
        one, other = socket.socketpair()
        one.sendall(b"x" * 1000)
        other.recv(1000)
        one.close()
        other.close()

    def message():
        found = email.message.EmailMessage()
        found["Subject"] = "subject"
        found.set_content("text")
        return found.as_string()

    def cycles():
        found = [[] for _ in range(100)]
        for one in found:
            one.append(found)

    def raises():
        try:
            {}["key"]
        except KeyError as error:
            return error.__traceback__

    def classes():
        return type("Made", (Node,), {"f": lambda self: 1})().f()

    for function in [
        lambda: None,
        lambda: json.loads(json.dumps({str(n): [n, n / 3] for n in range(100)})),
        lambda: re.sub(r"(\w+) (\w+)", r"\2 \1", "one two " * 100),
        lambda: list(csv.reader(io.StringIO("a,b\n1,2\n" * 100))),
        lambda: pickle.loads(pickle.dumps([Node() for _ in range(10)])),
        lambda: zlib.decompress(zlib.compress(bytes(10000))),
        lambda: hashlib.sha256(bytes(10000)).hexdigest(),
        lambda: ElementTree.tostring(ElementTree.fromstring("<a>" + "<b c='d'/>" * 100 + "</a>")),
        lambda: decimal.Decimal(2).sqrt() + decimal.Decimal("1.5"),
        lambda: datetime.datetime(2026, 1, 2).strftime("%A %d %B"),
        lambda: struct.pack("<qd", 1, 2.5) + array.array("q", range(100)).tobytes(),
        lambda: subprocess.run([sys.executable, "-I", "-S", "-c", "print(1)"], stdout=subprocess.PIPE).stdout,
        text_file, database, threads, loop, sockets, cycles, raises, *([] if FREE_THREADED else [message, classes]),
    ]:
        found = pyhost.leaks(function)
        assert not found, str(found)
        assert not found.bytes_per_call and "nothing grows" in str(found), str(found)


def arguments():
    for wrong, of in [((1,), TypeError), ((print, 1), TypeError)]:
        try:
            pyhost.leaks(*wrong)
        except of:
            pass
        else:
            raise AssertionError(wrong)
    for named in [{"repeat": 0}, {"repeat": -1}, {"repeat": 10**9}, {"repeat": 10**30}, {"repeat": "x"}, {"warmup": -1}, {"warmup": 1.5}]:
        try:
            pyhost.leaks(lambda: None, **named)
        except ValueError as error:
            assert str(error).startswith("leaks: "), error
        else:
            raise AssertionError(named)

    def fails():
        raise KeyError("its own")

    def within():
        try:
            pyhost.leaks(lambda: None)
        except RuntimeError as error:
            said.append(str(error))

    said = []
    for _ in range(2):
        try:
            pyhost.leaks(fails, warmup=0)
        except KeyError:
            pass
    pyhost.leaks(within, warmup=0, repeat=1)
    assert said and said[0].startswith("leaks: another"), said
    before = pyhost.lines()
    assert not pyhost.leaks(lambda: None)
    assert not pyhost.leaks(int, repeat=1)
    assert (pyhost.lines() is None) == (before is None)


def odd_types():
    """Types without a hash, and without a module; what says that it is a module, as libraries of cffi do."""
    class Library:
        __class__ = type(sys)

    sys.modules["library"] = Library()
    assert isinstance(sys.modules["library"], type(sys)) and not pyhost.leaks(lambda: None)
    del sys.modules["library"]
    class Meta(type):
        __eq__ = lambda self, other: self is other  # noqa: E731

    made = {"type": type, "__builtins__": {"type": type}}
    exec("Bare = type('Bare', (), {})", made)
    kept = []
    for kind in Meta("Odd", (), {}), made["Bare"]:
        found = pyhost.leaks(lambda: kept.append(kind()))
        assert found.types[0]["objects_per_call"] == 1, found
        assert found.types[0]["type"].endswith(kind.__qualname__), found


def interrupted():
    """A handler that raises ends one measurement, and no later one."""
    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    signal.signal(signal.SIGALRM, ring)
    gc.collect()
    gc.freeze()
    for turn in range(400):
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.00001 * (1 + turn % 40))
            pyhost.leaks(int, warmup=0, repeat=2)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Alarm:
            pass
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    assert not pyhost.leaks(int)
    assert pyhost.lines() is None


def at_once():
    """Of two threads one is refused at any moment, and its retries measure what is its own."""
    kept, found = [], {}

    def measure(size):
        def function():
            kept.append(bytearray(size))
            time.sleep(0.001)

        while size not in found:
            try:
                found[size] = pyhost.leaks(function)
            except RuntimeError:
                time.sleep(0.01)

    threads = [threading.Thread(target=measure, args=(size,)) for size in (5000, 7000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for size, leaks in found.items():
        assert leaks.blocks_per_call == 2 and size <= leaks.bytes_per_call < size * 1.3, leaks


parts = {"odd_types": odd_types, "interrupted": interrupted, "at_once": at_once, "leaky": leaky, "clean": clean, "arguments": arguments,
         "bounded": bounded, "references": references}
for name in sys.argv[1:2] if sys.argv[1:2] and sys.argv[1] in parts else parts:
    parts[name]()
print("checked")
