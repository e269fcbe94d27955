"""NumPy's arrays grow: kept in lists, concatenated, made by arithmetic, of objects, of structures."""

from growing import need, run

[np] = need("numpy")

run("numpy_arrays", [
    ("data = []", "data.append(np.ones(n))"),
    ("data = []", "data.append(np.zeros((n, 4), dtype='f4') + 1)"),
    ("data = np.ones(n)", "data = np.concatenate([data, data])"),
    ("data = np.ones(n)", "data = np.append(data, np.arange(len(data) // 4 + n))"),
    ("data = []", "data.append(np.arange(n).astype(object))"),
    ("data = []", "data.append(np.arange(n)[::-1].copy())"),
    ("data = []", "data.append(np.full(n, i) * 2.5 + np.arange(n))"),
    ("data = []", "data.append(np.array(['text'] * n))"),
    ("data = []", "data.append(np.zeros(n, dtype=[('a', 'i4'), ('b', 'f8')]))"),
    ("data = []", "data.append(np.broadcast_to(np.arange(n), (3, n)).sum(axis=0))"),
    ("data = []", "data.append(np.array(range(n)))"),
    ("data = []", "data.append(np.frombuffer(bytes(n * 8)).copy())"),
], whole=[
    "data = np.ones(10 ** 9)",
    "data = np.stack([np.ones(n * 100) for i in range(10 ** 9)])",
    "data = np.fromiter(itertools.count(), dtype='f8')",
], names={"np": np}, sizes=(200, 50_000))
