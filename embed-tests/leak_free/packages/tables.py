"""Numbers and tables."""

import contextlib
import io

from . import ROWS, package


@package("numpy", "C, C++")
def numpy():
    import numpy as np

    def call():
        array = np.arange(3000, dtype=float).reshape(30, 100)
        other = np.sort(array[::-1] * 2 + np.ones(100), axis=1).astype("f4")
        np.concatenate([array, other]).sum(axis=0)
        np.linalg.inv(np.eye(5) * 2)
        np.array(["a", "bb", None], dtype=object)
        np.fft.rfft(array[0])
        with contextlib.suppress(ValueError):
            array @ array
    return call


@package("scipy", "C, C++, Cython", calls=50)
def scipy():
    import numpy as np
    from scipy import optimize, signal, sparse, spatial, stats

    points = np.random.default_rng(1).random((60, 3))

    def call():
        spatial.cKDTree(points).query(points[:5], k=3)
        matrix = sparse.random(40, 40, 0.1, format="csr", random_state=1)
        (matrix @ matrix.T).tocsc().sum()
        optimize.minimize(lambda x: ((x - 2) ** 2).sum(), np.zeros(2), method="L-BFGS-B")
        signal.lfilter([1, 0.5], [1, -0.2], points[:, 0])
        stats.rankdata(points[:, 1])
        spatial.ConvexHull(points)
    return call


@package("pandas", "Cython, C", calls=50)
def pandas():
    import pandas as pd

    rows = [{"key": number % 7, "name": f"n{number}", "value": number * 0.5} for number in range(200)]

    def call():
        frame = pd.DataFrame(rows)
        frame.groupby("key")["value"].agg(["sum", "mean"])
        frame.merge(frame[["key", "value"]].head(5), on="key").sort_values("name")
        pd.read_csv(io.StringIO(frame.to_csv(index=False)))
        pd.to_datetime(["2024-01-01", "2024-02-03"]) + pd.Timedelta(days=3)
        with contextlib.suppress(ValueError):
            pd.to_numeric(pd.Series(["1", "x"]))
    return call


@package("bottleneck", "C", bug=r"(?s)blocks leaked.*numpy\.ndarray, allocated at")
def bottleneck():
    import bottleneck as bn
    import numpy as np

    values = np.array([[1.0, np.nan, 3.0], [4.0, 5.0, np.nan]])

    def call():
        bn.nanmean(values, axis=1)
        bn.move_median(values[0], window=2, min_count=1)
        bn.rankdata(values)
        bn.push(values)
        with contextlib.suppress(ValueError):
            bn.move_sum(values, window=9)
    return call


@package("numexpr", "C++")
def numexpr():
    import numexpr as ne
    import numpy as np

    ne.set_num_threads(1)
    a, b = np.arange(1000.0), np.arange(1000.0) + 1

    def call():
        ne.evaluate("2 * a + 3 * b ** 2", {"a": a, "b": b})
        ne.evaluate("sum(where(a > b, a, b))", {"a": a, "b": b})
        with contextlib.suppress(KeyError):
            ne.evaluate("a + missing", {"a": a})
    return call


@package("PyWavelets", "Cython, C")
def pywt():
    import numpy as np
    import pywt

    signal = np.sin(np.arange(256) / 5)

    def call():
        pywt.waverec(pywt.wavedec(signal, "db2", level=3), "db2")
        pywt.dwt2(signal.reshape(16, 16), "haar")
        pywt.Wavelet("sym4").wavefun(level=2)
    return call


@package("scikit-learn", "Cython, C++", calls=20)
def sklearn():
    import numpy as np
    from sklearn import cluster, ensemble, linear_model, neighbors

    generator = np.random.default_rng(1)
    points = generator.random((60, 4))
    labels = (points[:, 0] > 0.5).astype(int)

    def call():
        ensemble.RandomForestClassifier(3, random_state=1).fit(points, labels).predict(points)
        cluster.KMeans(3, n_init=1, random_state=1).fit(points)
        linear_model.LogisticRegression().fit(points, labels)
        neighbors.KNeighborsClassifier(3).fit(points, labels).predict(points[:5])
    return call


@package("pyarrow", "C++, Cython", calls=100)
def pyarrow():
    import pyarrow as pa
    import pyarrow.compute as pc

    def call():
        table = pa.Table.from_pylist(ROWS)
        pc.sum(table["id"]).as_py()
        table.filter(pc.greater(table["at"], 3)).to_pylist()
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        pa.ipc.open_stream(sink.getvalue()).read_all()
        with contextlib.suppress(pa.ArrowInvalid):
            pa.array([1, "x"])
    return call


@package("polars", "Rust", "/_polars_runtime_32/", calls=200)
def polars():
    import polars as pl

    def call():
        frame = pl.DataFrame({"key": [1, 2, 1, 3], "value": [1.0, 2.0, 3.0, None], "name": ["a", "b", "c", "d"]})
        frame.group_by("key").agg(pl.col("value").sum()).sort("key")
        frame.lazy().filter(pl.col("value") > 1).with_columns(double=pl.col("value") * 2).collect()
        frame.to_dicts()
        with contextlib.suppress(pl.exceptions.ColumnNotFoundError):
            frame.select("missing")
    return call


@package("duckdb", "C++", "/_duckdb", calls=5)
def duckdb():
    import duckdb

    def call():
        with duckdb.connect(":memory:", config={"threads": 1}) as database:
            database.execute("create table t as select range as i, range % 3 as k from range(100)")
            database.execute("select k, sum(i) from t where i > ? group by k", [5]).fetchall()
            with contextlib.suppress(duckdb.Error):
                database.execute("select nothing from nowhere")
    return call


@package("h5py", "Cython, C", calls=100)
def h5py():
    import h5py
    import numpy as np

    values = np.arange(1000.0)

    def call():
        with h5py.File("loop.h5", "w", driver="core", backing_store=False) as file:
            group = file.create_group("a")
            kept = group.create_dataset("b", data=values, compression="gzip")
            kept.attrs["unit"] = "m"
            assert kept[10] == 10 and group["b"].shape == (1000,)
            with contextlib.suppress(KeyError):
                file["missing"]
    return call


@package("numba", "C++, C", calls=300, bug=r"(?s)^pyhost: 2 blocks leaked.*Dispatcher::addDefinition")
def numba():
    import numba
    import numpy as np

    @numba.njit
    def total(values):
        found = 0.0
        for value in values:
            found += value
        return found

    values = np.arange(100.0)

    def call():
        total(values)
        with contextlib.suppress(numba.TypingError):
            total("text" and None)
    call()
    return call


@package("blosc2", "C, Cython", calls=200, bug=r"(?s)^pyhost: 400 blocks leaked.*200 of 136 .*200 of 40 bytes|leaves 192 B in 2 blocks")
def blosc2():
    import blosc2
    import numpy as np

    values = np.arange(5000)

    def call():
        blosc2.decompress(blosc2.compress(values.tobytes(), typesize=8))
        kept = blosc2.asarray(values)
        assert kept[17] == 17
        with contextlib.suppress(ValueError, RuntimeError):
            blosc2.decompress(b"no frame of blosc's")
    return call


@package("pyroaring", "Cython, C", "/pyroaring.")
def pyroaring():
    from pyroaring import BitMap

    def call():
        one, other = BitMap(range(0, 1000, 3)), BitMap([5, 6, 7])
        one |= other
        BitMap.deserialize((one & other).serialize()).to_array()
        list(one ^ other)
    return call


@package("bitarray", "C")
def bitarray():
    from bitarray import bitarray, util

    def call():
        bits = bitarray("0110") * 40
        bits.extend([1, 0, 1])
        (bits & ~bits).count()
        list(bits.search(bitarray("11")))
        util.deserialize(util.serialize(bits))
        with contextlib.suppress(ValueError):
            bitarray("012")
    return call


@package("gmpy2", "C, Cython")
def gmpy2():
    import gmpy2
    from gmpy2 import mpfr, mpq, mpz

    def call():
        number = mpz(3) ** 200 + 7
        gmpy2.is_prime(number)
        mpq(number, 12) + mpq(1, 3)
        str(gmpy2.sqrt(mpfr("2.5")) * 3)
        gmpy2.powmod(number, 5, 1009)
        with contextlib.suppress(ZeroDivisionError):
            mpz(1) // 0
    return call


@package("igraph", "C", calls=200)
def igraph():
    import igraph

    def call():
        graph = igraph.Graph.Famous("Zachary")
        graph.degree()
        graph.shortest_paths(0) if hasattr(graph, "shortest_paths") else graph.distances(0)
        graph.vs["name"] = [str(number) for number in range(graph.vcount())]
        graph.subgraph(range(10)).get_edgelist()
        graph.betweenness()
    return call


@package("dm-tree", "C++")
def tree():
    import tree

    structure = {"a": [1, 2, (3, 4)], "b": {"c": None}}

    def call():
        tree.map_structure(lambda leaf: leaf, structure)
        tree.flatten_with_path(structure)
        with contextlib.suppress(ValueError, TypeError):
            tree.assert_same_structure(structure, [1])
    return call
