"""Data structures and the rest."""

import contextlib
import json

from . import ROWS, TEXTS, package


@package("pydantic", "Rust", "/pydantic_core/")
def pydantic():
    import pydantic

    class Row(pydantic.BaseModel):
        id: int
        name: str
        tags: list[str]
        at: float
        none: None

    def call():
        made = [Row.model_validate(row) for row in ROWS]
        made[0].model_dump_json()
        Row.model_validate_json(json.dumps(ROWS[0]))
        with contextlib.suppress(pydantic.ValidationError):
            Row(id="x", name=5)
    return call


@package("rpds-py", "Rust", "/rpds/")
def rpds():
    from rpds import HashTrieMap, HashTrieSet, List

    def call():
        made = HashTrieMap({"a": 1}).insert("b", [2])
        made.discard("a").items()
        HashTrieSet([1, 2]).insert(3) | HashTrieSet([4])
        list(List([1, 2]).push_front(0))
        with contextlib.suppress(KeyError):
            made["missing"]
    return call


@package("immutables", "C")
def immutables():
    import immutables

    def call():
        made = immutables.Map({str(number): number for number in range(100)})
        with made.mutate() as changed:
            changed["a"] = 1
            del changed["5"]
            changed.finish().delete("7")
        with contextlib.suppress(KeyError):
            made.delete("missing")
    return call


@package("cytoolz", "Cython")
def cytoolz():
    import cytoolz

    def call():
        cytoolz.groupby(len, TEXTS)
        cytoolz.merge_with(list, {1: 2}, {1: 3})
        cytoolz.pipe(range(10), cytoolz.curried.map(str) if hasattr(cytoolz, "curried") else list, list)
        list(cytoolz.partition_all(3, range(10)))
        with contextlib.suppress(KeyError):
            cytoolz.get_in(["a", "b"], {}, no_default=True)
    return call


@package("lru-dict", "C", "/lru/")
def lru():
    from lru import LRU

    def call():
        made = LRU(20, callback=lambda key, value: None)
        for number in range(40):
            made[number] = [number]
        made.get(35), made.items()
        made.update({"a": 1})
        with contextlib.suppress(KeyError):
            made["missing"]
        made.clear()
    return call


@package("wrapt", "C")
def wrapt():
    import wrapt

    @wrapt.decorator
    def passed_on(wrapped, instance, args, kwargs):
        return wrapped(*args, **kwargs)

    def call():
        class Thing:
            @passed_on
            def method(self):
                return 1

        Thing().method()
        proxy = wrapt.ObjectProxy([1, 2])
        proxy.append(3)
        with contextlib.suppress(AttributeError):
            proxy.missing
    return call


@package("psutil", "C")
def psutil():
    import psutil

    me = psutil.Process()

    def call():
        me.memory_info(), me.num_fds(), me.threads()
        psutil.virtual_memory(), psutil.cpu_times(percpu=True)
        psutil.disk_partitions(all=True), psutil.net_if_addrs()
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(2**31 - 2)
    return call


@package("ciso8601", "C", "/ciso8601")
def ciso8601():
    import ciso8601

    def call():
        ciso8601.parse_datetime("2024-01-02T03:04:05.678+09:30")
        with contextlib.suppress(ValueError):
            ciso8601.parse_datetime("2024-13-45")
    return call


@package("cffi", "C", "/_cffi_backend")
def cffi():
    import cffi

    ffi = cffi.FFI()
    ffi.cdef("size_t strlen(const char *); struct pair { int a; double b; }; void qsort(void *, size_t, size_t, "
             "int (*)(const void *, const void *));")
    library = ffi.dlopen(None)

    def call():
        library.strlen(ffi.new("char[]", b"text"))
        pair = ffi.new("struct pair *", {"a": 1, "b": 2.5})
        handle = ffi.new_handle(pair)
        assert ffi.from_handle(handle) is pair
        compare = ffi.callback("int(const void *, const void *)", lambda one, other: 0)
        library.qsort(ffi.new("int[4]", [4, 3, 2, 1]), 4, 4, compare)
        ffi.buffer(ffi.gc(ffi.new("char[8]"), lambda kept: None))[:]
        with contextlib.suppress(TypeError):
            library.strlen(object())
    return call


@package("cymem", "Cython")
def cymem():
    from cymem.cymem import Address, Pool

    def call():
        kept = Pool()
        Address(100, 8)
        del kept
    return call


@package("preshed", "Cython, C++")
def preshed():
    from preshed.bloom import BloomFilter
    from preshed.counter import PreshCounter
    from preshed.maps import PreshMap

    def call():
        made = PreshMap(8)
        for number in range(1, 40):
            made[number] = number * 2
        list(made.items())
        counter = PreshCounter()
        counter.inc(5, 2)
        filtered = BloomFilter(size=1000)
        filtered.add(7)
        BloomFilter().from_bytes(filtered.to_bytes())
    return call


@package("zope.interface", "C", "/zope/interface/")
def zope_interface():
    from zope.interface import Interface, adapter, implementer

    class Spoken(Interface):
        pass

    @implementer(Spoken)
    class Thing:
        pass

    def call():
        registry = adapter.AdapterRegistry()
        registry.register([Spoken], Interface, "", lambda thing: thing)
        registry.lookup1(Spoken, Interface)
        assert Spoken.providedBy(Thing())
        with contextlib.suppress(TypeError):
            Spoken(5)
    return call


@package("setproctitle", "C", bug=r"(?s)^pyhost: 5 blocks leaked.*save_ps_display_args")
def setproctitle():
    import setproctitle

    setproctitle.setproctitle("a title")

    def call():
        setproctitle.setproctitle("another title")
        setproctitle.getproctitle()
    return call


@package("librt", "C")
def librt():
    from librt import base64

    return lambda: base64.b64decode(base64.b64encode(b"abc" * 30))


@package("onnxruntime", "C++", calls=50, alarm="leaves 800 B in 3 blocks")
def onnxruntime():
    import onnxruntime

    def call():
        onnxruntime.SessionOptions().graph_optimization_level
        onnxruntime.OrtValue.ortvalue_from_numpy(__import__("numpy").arange(10.0)).numpy()
        with contextlib.suppress(Exception):
            onnxruntime.InferenceSession(b"no model")
    return call


@package("faiss-cpu", "C++, SWIG", "/faiss/", calls=100)
def faiss():
    import faiss
    import numpy as np

    faiss.omp_set_num_threads(1)
    points = np.random.default_rng(1).random((50, 8), dtype=np.float32)

    def call():
        index = faiss.IndexFlatL2(8)
        index.add(points)
        index.search(points[:3], 2)
        faiss.deserialize_index(faiss.serialize_index(index))
        with contextlib.suppress(AssertionError):
            index.add(points[:, :3])
    return call


@package("lightgbm", "C++", calls=10)
def lightgbm():
    import lightgbm
    import numpy as np

    points = np.random.default_rng(1).random((60, 4))

    def call():
        data = lightgbm.Dataset(points, points[:, 0] > 0.5, params={"verbose": -1})
        made = lightgbm.train({"objective": "binary", "verbose": -1, "num_threads": 1}, data, 2)
        made.predict(points[:3])
    return call
