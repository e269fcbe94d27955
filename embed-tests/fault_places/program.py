"""A program of several phases, in one of which a request for memory is made to fail.

    program.py PHASE ACCOUNTS N

Each phase first prepares, then does its work. Only the work has the Nth request of ACCOUNTS (such
as raw+mem+obj) fail: by pyhost.fail under the host; under python by _testcapi.set_nomemory, which
knows those three alone, and for native by a library that is preloaded. An N of 0 lets none fail. The work's result is printed, so that a result
that is wrong can be told from one that is right; then the program goes on to its end.
"""

import gc
import hashlib
import sys


class Phase:
    def prepare(self):
        """The work before any request may fail."""

    def work(self):
        """The work while requests may fail; returns the text to print."""
        raise NotImplementedError


class Imports(Phase):
    """Modules with much Python code, found, unmarshalled and executed."""

    def work(self):
        import decimal
        import json
        import logging.config
        import sqlite3
        import ssl

        return [module.__name__ for module in (decimal, json, logging, sqlite3, ssl)]


class Compile(Phase):
    """Source to code objects, without a cache."""

    def prepare(self):
        import textwrap

        self.source = open(textwrap.__file__).read()

    def work(self):
        code = compile(self.source, "again", "exec")
        names = {}
        exec(code, names)
        return names["shorten"]("several words that are too many", 20)


class Json(Phase):
    def prepare(self):
        import json

        self.json = json

    def work(self):
        value = {"rows": [{"id": i, "name": f"row {i}", "size": i / 3} for i in range(40)]}
        text = self.json.dumps(value, indent=1, sort_keys=True)
        back = self.json.loads(text)
        slow = self.json.dumps(back, default=str, indent="\t", ensure_ascii=False)
        return back == value, len(slow)


class Sqlite(Phase):
    def prepare(self):
        import sqlite3

        self.sqlite3 = sqlite3

    def work(self):
        base = self.sqlite3.connect(":memory:")
        base.row_factory = self.sqlite3.Row
        base.create_function("twice", 1, lambda value: 2 * value)
        base.execute("create table t (id integer primary key, name text, data blob)")
        with base:
            rows = ((f"name {i}", bytes(20 * i)) for i in range(40))
            base.executemany("insert into t (name, data) values (?, ?)", rows)
        found = [tuple(row) for row in base.execute("select twice(id), name, length(data) from t")]
        dump = "\n".join(base.iterdump())
        base.close()
        return found[-1], len(dump)


class Ssl(Phase):
    """A handshake between two ends in memory, without certificates."""

    def prepare(self):
        import ssl

        self.ssl = ssl

    def context(self, side):
        context = self.ssl.SSLContext(side)
        context.check_hostname = False
        context.verify_mode = self.ssl.CERT_NONE
        context.maximum_version = self.ssl.TLSVersion.TLSv1_2
        context.set_ciphers("AECDH:@SECLEVEL=0")
        return context

    def work(self):
        ssl = self.ssl
        up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = self.context(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(down, up)
        server = self.context(ssl.PROTOCOL_TLS_SERVER).wrap_bio(up, down, server_side=True)
        waiting = [client, server]
        for _ in range(10):
            for end in list(waiting):
                try:
                    end.do_handshake()
                    waiting.remove(end)
                except ssl.SSLWantReadError:
                    pass
        client.write(b"question " * 50)
        question = server.read(1000)
        server.write(question.upper())
        return client.read(1000)[:18], client.cipher()[0], server.version()


class Decimal(Phase):
    def prepare(self):
        import decimal

        self.decimal = decimal

    def work(self):
        decimal = self.decimal
        with decimal.localcontext() as context:
            context.prec = 120
            total = decimal.Decimal(0)
            for i in range(1, 30):
                total += decimal.Decimal(i).sqrt() / decimal.Decimal(f"{i}.{i}")
            power = decimal.Decimal(3) ** 200
            context.traps[decimal.DivisionByZero] = False
            endless = decimal.Decimal(1) / decimal.Decimal(0)
        return str(total), format(power, ".30e"), str(endless), hash(total)


class NumpyImport(Phase):
    def work(self):
        import numpy

        return numpy.__name__


class Numpy(Phase):
    def prepare(self):
        import numpy

        self.numpy = numpy

    def work(self):
        np = self.numpy
        a = np.arange(600.0).reshape(20, 30)
        b = a @ a.T + np.linspace(0, 1, 20)
        c = np.sort((a[:, ::2] * 3).ravel())[::-1]
        d = np.array([str(i) for i in range(50)], dtype=object)
        e = np.array(["x" * i for i in range(20)])
        f = np.concatenate([a, a]).astype("i4")
        g = np.fromiter((i * i for i in range(300)), dtype="i8")
        h = np.zeros(40, dtype=[("id", "i4"), ("name", "U8")])
        h["id"] = np.arange(40)
        i = np.ones(30)
        i.resize(60, refcheck=False)
        sums = [float(x.sum()) for x in (a, b, c, f, g, i)]
        return sums, d[:3].tolist(), e.dtype.str, int(h["id"][h["id"] > 20].sum()), repr(b[:1])


class Threads(Phase):
    """Threads of their own and of a pool, with locks, events and a queue between them."""

    def prepare(self):
        import concurrent.futures
        import queue
        import threading

        self.futures, self.queue, self.threading = concurrent.futures, queue, threading

    def work(self):
        jobs, done = self.queue.Queue(), []

        def worker():
            try:
                while (job := jobs.get()) is not None:
                    done.append(sum(range(job)))
            except BaseException as error:
                done.append(type(error).__name__)
                raise

        threads = [self.threading.Thread(target=worker, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        for job in range(30):
            jobs.put(job)
        for _ in threads:
            jobs.put(None)
        for thread in threads:
            thread.join(5)
        with self.futures.ThreadPoolExecutor(2) as pool:
            texts = list(pool.map(lambda number: f"{number:b}" * 3, range(30)))
        if "MemoryError" in done:
            raise MemoryError("in a thread")
        return sum(done), len("".join(texts))


class Objects(Phase):
    """The usual parts of programs: classes, generators, exceptions, formatting, regular expressions."""

    def prepare(self):
        import dataclasses
        import datetime
        import io
        import re

        self.dataclasses, self.datetime, self.io, self.re = dataclasses, datetime, io, re

    def work(self):
        @self.dataclasses.dataclass(order=True)
        class Point:
            x: int
            y: float = 0.5
            tags: list = self.dataclasses.field(default_factory=list)

        points = sorted(Point(i % 7, i / 2, [str(i)]) for i in range(30))
        table = {point.x: set(point.tags) | {"z"} for point in points}
        text = self.io.StringIO()
        for point in points[::5]:
            print(f"{point!r:>60}", point.x, sep="\t", file=text)
        words = self.re.findall(r"(\w+)=(?P<value>[\d.]+)", text.getvalue())
        day = self.datetime.datetime(2024, 2, 29) + self.datetime.timedelta(days=365)
        caught = []
        for value in ("1", "x", None):
            try:
                caught.append(int(value))
            except (ValueError, TypeError) as error:
                caught.append(str(error))
        big = str(7**300).encode().decode("latin-1").zfill(300)
        return len(table), words[:2], day.isoformat(), caught, len(big)


PHASES = {
    "imports": Imports,
    "compile": Compile,
    "objects": Objects,
    "json": Json,
    "sqlite": Sqlite,
    "ssl": Ssl,
    "decimal": Decimal,
    "numpy-import": NumpyImport,
    "numpy": Numpy,
    "threads": Threads,
}


def under_host(phase, accounts, number):
    import pyhost

    never = 1 << 62
    with pyhost.fail(f"{accounts}={number or never}") as fault:
        result = phase.work()
    return result, fault


def under_python(phase, accounts, number):
    import _testcapi

    if accounts == "native":
        return under_python_native(phase, number)
    if accounts != "raw+mem+obj":
        sys.exit("set_nomemory reaches raw+mem+obj alone")
    if number:
        _testcapi.set_nomemory(number - 1, number)
    try:
        result = phase.work()
    finally:
        if number:
            _testcapi.remove_mem_hooks()
    return result, None


def under_python_native(phase, number):
    """With ../c/fail_malloc.c preloaded."""
    import ctypes

    fail_native = ctypes.CDLL(None).fail_native
    fail_native.argtypes = [ctypes.c_long]
    fail_native(number)
    try:
        result = phase.work()
    finally:
        fail_native(0)
    return result, None


def main(name, accounts, number):
    phase = PHASES[name]()
    phase.prepare()
    # The same requests in each run: none of a collection that is due sooner or later.
    gc.collect()
    run = under_host if "pyhost" in sys.builtin_module_names else under_python
    result, fault = run(phase, accounts, int(number))
    digest = hashlib.sha256(repr(result).encode()).hexdigest()[:16]
    print("result", digest)
    if fault is not None:
        print("requests", fault.requests)
    gc.collect()


if __name__ == "__main__":
    main(*sys.argv[1:])
