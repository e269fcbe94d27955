"""Servers and clients."""

import contextlib
import itertools

from . import ROWS, TEXTS, package


@package("aiohttp", "Cython, C")
def aiohttp():
    from aiohttp import http_parser, http_writer

    def call():
        import asyncio

        async def parse():
            parser = http_parser.HttpRequestParser(protocol=None, loop=asyncio.get_running_loop(), limit=2**16)
            parser.feed_data(b"GET /a?b=c HTTP/1.1\r\nHost: d\r\nX-E: f\r\n\r\n")
            with contextlib.suppress(Exception):
                parser.feed_data(b"wrong\r\n\r\n")
        asyncio.run(parse())
        http_writer._serialize_headers("HTTP/1.1 200 OK", {"A": "b", "C": "d"})
    return call


@package("yarl", "Cython")
def yarl():
    import yarl

    def call():
        url = yarl.URL("http://example.com/a b/ü?c=d&e=é#f")
        (url / "g").with_query(h="i j").human_repr()
        yarl.URL.build(scheme="http", host="x", path="/%zz y")
        with contextlib.suppress(ValueError):
            yarl.URL("http://[::1")
    return call


@package("multidict", "C")
def multidict():
    import multidict

    def call():
        made = multidict.CIMultiDict([("a", "1"), ("A", "2"), ("b", "3")])
        made.add("c", "4")
        made.getall("a")
        made.popone("b")
        made.copy().extend({"d": "5"})
        list(multidict.MultiDictProxy(multidict.MultiDict(made)).items())
        with contextlib.suppress(KeyError):
            made["missing"]
    return call


@package("frozenlist", "Cython, C++")
def frozenlist():
    from frozenlist import FrozenList

    def call():
        made = FrozenList([1, 2])
        made.append(3)
        made.freeze()
        hash(made)
        with contextlib.suppress(RuntimeError):
            made.append(4)
    return call


@package("propcache", "Cython")
def propcache():
    from propcache import cached_property, under_cached_property

    class Thing:
        def __init__(self):
            self._cache = {}

        @cached_property
        def one(self):
            return [1]

        @under_cached_property
        def two(self):
            return [2]

    def call():
        thing = Thing()
        assert thing.one is thing.one and thing.two is thing.two
    return call


@package("httptools", "Cython, C")
def httptools():
    import httptools

    class Seen:
        def on_header(self, name, value):
            self.header = name, value

        def on_url(self, url):
            self.url = httptools.parse_url(url)

    def call():
        httptools.HttpRequestParser(Seen()).feed_data(b"GET /a?b=c HTTP/1.1\r\nHost: d\r\n\r\n")
        with contextlib.suppress(httptools.HttpParserError):
            httptools.HttpRequestParser(Seen()).feed_data(b"wrong\r\n\r\n")
    return call


@package("uvloop", "Cython, C", calls=100)
def uvloop():
    import asyncio

    import uvloop

    async def work():
        queue = asyncio.Queue()
        task = asyncio.create_task(queue.get())
        await queue.put(1)
        await task
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(queue.get(), 0.001)

    return lambda: uvloop.run(work())


@package("websockets", "C")
def websockets():
    from websockets import speedups
    from websockets.frames import Frame, Opcode

    def call():
        speedups.apply_mask(b"text" * 10, b"mask")
        Frame(Opcode.TEXT, b"text").serialize(mask=True)
        with contextlib.suppress(ValueError):
            speedups.apply_mask(b"text", b"short")
    return call


@package("greenlet", "C++")
def greenlet():
    import greenlet

    def call():
        main = greenlet.getcurrent()

        def run(value):
            for _ in range(3):
                value = main.switch(value + 1)
            return value

        made = greenlet.greenlet(run)
        made.switch(1)
        made.switch(2)
        left = greenlet.greenlet(run)
        left.switch(5)
        with contextlib.suppress(KeyError):
            made.throw(KeyError)
    return call


@package("gevent", "Cython, cffi", calls=200)
def gevent():
    import gevent
    from gevent.pool import Pool
    from gevent.queue import Queue

    def call():
        queue = Queue()
        gevent.joinall([gevent.spawn(queue.put, number) for number in range(3)])
        Pool(2).map(lambda value: value + 1, [queue.get() for _ in range(3)])
        with gevent.Timeout(0.001, False):
            gevent.sleep(1)
    return call


@package("pyzmq", "Cython, C++", "/zmq/", calls=50)
def zmq():
    import zmq

    context = zmq.Context()
    numbers = itertools.count()

    def call():
        # A name is free again some time after it was closed.
        name = f"inproc://{next(numbers)}"
        with context.socket(zmq.PAIR) as one, context.socket(zmq.PAIR) as other:
            one.bind(name)
            other.connect(name)
            one.send_json(ROWS)
            other.recv_json()
            with contextlib.suppress(zmq.Again):
                one.recv(zmq.NOBLOCK)
    return call


@package("tornado", "C")
def tornado():
    from tornado import speedups

    return lambda: speedups.websocket_mask(b"mask", b"text" * 20)


@package("hiredis", "C")
def hiredis():
    import hiredis

    def call():
        reader = hiredis.Reader()
        reader.feed(b"*2\r\n$3\r\nabc\r\n:5\r\n-ERR wrong\r\n")
        assert reader.gets() == [b"abc", 5]
        reader.gets()
        hiredis.pack_command(("SET", "a", b"b"))
        reader.feed(b"?")
        with contextlib.suppress(hiredis.ProtocolError):
            reader.gets()
    return call


@package("grpcio", "Cython, C++", "/grpc/", calls=20)
def grpc():
    from concurrent import futures

    import grpc

    class Echo(grpc.GenericRpcHandler):
        def service(self, details):
            return grpc.unary_unary_rpc_method_handler(lambda request, context: request)

    server = grpc.server(futures.ThreadPoolExecutor(1), [Echo()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    import atexit

    atexit.register(lambda: server.stop(None).wait())

    def call():
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            assert channel.unary_unary("/a/b")(b"text", timeout=20) == b"text"
    return call


@package("SQLAlchemy", "Cython", calls=50)
def sqlalchemy():
    import sqlalchemy as sa

    engine = sa.create_engine("sqlite://")
    table = sa.Table("t", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.String))

    def call():
        with engine.begin() as connection:
            table.create(connection)
            connection.execute(table.insert(), [{"name": text} for text in TEXTS[:10]])
            connection.execute(sa.select(table).where(table.c.id > 3)).mappings().all()
            table.drop(connection)
    return call


@package("asyncpg", "Cython, C", "/asyncpg/")
def asyncpg():
    from asyncpg.protocol import protocol  # noqa: F401
    from asyncpg.pgproto import pgproto

    def call():
        made = pgproto.WriteBuffer.new_message(b"Q") if hasattr(pgproto.WriteBuffer, "new_message") else None
        del made
        pgproto.UUID("12345678123456781234567812345678").hex
        with contextlib.suppress(ValueError):
            pgproto.UUID("no uuid")
    return call
