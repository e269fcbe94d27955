"""Runs one of the programs below; prints its seconds, and what is resident at the peak and after its data is dropped.

    programs.py NAME [SHARE [FILE]]

As JSON: seconds of the program alone, and KiB by the kernel: the peak, at once after it has dropped its data, and after
1 s of sleep. SHARE makes the data smaller: 0.1 is a tenth. FILE is read by "sales", which writes it if it is missing.
"""

import asyncio
import gc
import io
import json
import pathlib
import pickle
import random
import sys
import time
import xml.etree.ElementTree as ET

SHARE = float((sys.argv[2:] or [1])[0])


def many(number):
    return max(1, int(number * SHARE))


def parse_json():
    rows = [{"id": i, "name": f"name {i}", "tags": ["a", "b", str(i)], "at": i * 0.5} for i in range(many(40_000))]
    text = json.dumps(rows)
    return sum(len(json.loads(text)) for _ in range(4)) + len(json.dumps(json.loads(text)))


def parse_xml():
    text = "<all>" + "".join(f'<row id="{i}"><name>name {i}</name><at>{i * 0.5}</at></row>'
                             for i in range(many(40_000))) + "</all>"
    found = 0
    for _ in range(4):
        tree = ET.fromstring(text)
        found += sum(len(row.find("name").text) for row in tree.iter("row"))
    return found + len(ET.tostring(tree))


def collect():
    """Garbage collection over 600,000 lists, a third of them in cycles."""
    lists = [[i] for i in range(many(600_000))]
    for i in range(0, len(lists), 3):
        lists[i].append(lists[i])
    found = sum(gc.collect() for _ in range(6))
    del lists[::2]
    return found + gc.collect()


def walk():
    """A random walk over a graph of 300,000 nodes that were made in another order than they are visited."""
    draw = random.Random(1)
    nodes = [{"number": i, "next": []} for i in range(many(300_000))]
    for node in nodes:
        node["next"] = [nodes[draw.randrange(len(nodes))] for _ in range(3)]
    node, found = nodes[0], 0
    for i in range(many(1_500_000)):
        node = node["next"][i % 3]
        found += node["number"]
    return found


def large_dict():
    table = {}
    for i in range(many(900_000)):
        table[i * 7919 % 1_000_003] = str(i)
    found = sum(len(table[key]) for key in list(table)[::2])
    for key in list(table)[::3]:
        del table[key]
    return found + len({value: key for key, value in table.items()})


def strings():
    words = [f"word{i % 5000}" * (i % 5 + 1) for i in range(many(200_000))]
    found = 0
    for _ in range(5):
        text = " ".join(words)
        found += len({word.upper().replace("O", "0") for word in text.split()}) + len(text.encode())
    return found


class Point:
    def __init__(self, x, y):
        self.x, self.y, self.more = x, y, (x, y)


def objects():
    found = 0
    for turn in range(6):
        points = [Point(i, float(i + turn)) for i in range(many(150_000))]
        found += sum(point.x for point in points if point.y > 10)
    return found


def tasks():
    async def one(queue, i):
        await asyncio.sleep(0)
        await queue.put({"i": i, "text": str(i)})

    async def all_of_them():
        queue, found = asyncio.Queue(), 0
        for _ in range(4):
            await asyncio.gather(*(one(queue, i) for i in range(many(20_000))))
            while not queue.empty():
                found += len(queue.get_nowait()["text"])
        return found

    return asyncio.run(all_of_them())


def pickled():
    rows = [(i, f"name {i}", [i, i * 0.5], {"a": i}) for i in range(many(100_000))]
    found = 0
    for _ in range(3):
        file = io.BytesIO()
        pickle.dump(rows, file)
        file.seek(0)
        found += len(pickle.load(file))
    return found


def split():
    parts, found = [f"part {i}" for i in range(many(300_000))], 0
    for _ in range(6):
        found += len(":".join(parts).split(":"))
    return found


def lists():
    """700,000 lists, of which 600,000 are dropped."""
    made = [[i] for i in range(many(700_000))]
    kept.append(made[:len(made) // 7])
    return len(made)


def large_collect():
    """Garbage collection over 10 million tuples in lists."""
    made = [[(i, i + 1)] for i in range(many(5_000_000))]
    return sum(gc.collect() for _ in range(3)) + len(made)


def very_large_dict():
    table = {i: i for i in range(many(20_000_000))}
    return sum(table[i * 7919 % len(table)] for i in range(0, len(table), 7))


def large_walk():
    """As walk, over 3 million nodes."""
    draw = random.Random(1)
    nodes = [[i, None, None] for i in range(many(3_000_000))]
    for node in nodes:
        node[1:] = nodes[draw.randrange(len(nodes))], nodes[draw.randrange(len(nodes))]
    node, found = nodes[0], 0
    for i in range(many(4_000_000)):
        node = node[1 + i % 2]
        found += node[0]
    return found


def sales():
    """python-scripts/sales.py with NumPy and pandas: 100 MB read, joined, grouped and fitted."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python-scripts"))
    import sales as script

    sys.argv = ["sales.py", "--rows", str(many(1_620_000)), sys.argv[3]]
    script.main()


NINE = {
    "JSON": parse_json, "XML": parse_xml, "garbage collection": collect, "walk over a graph": walk,
    "large dict": large_dict, "strings": strings, "objects": objects, "asyncio": tasks, "pickle": pickled,
}
MORE = {"join and split": split, "six of seven lists dropped": lists, "sales": sales}
LARGE = {
    "garbage collection over 10 million objects": large_collect, "dict of 20 million": very_large_dict,
    "walk over 3 million nodes": large_walk,
}
kept = []


def resident(name):
    with open("/proc/self/status", encoding="ascii") as file:
        [line] = [line for line in file if line.startswith(name + ":")]
    return int(line.split()[1])


if __name__ == "__main__":
    began = time.perf_counter()
    {**NINE, **MORE, **LARGE}[sys.argv[1]]()
    facts = {"seconds": time.perf_counter() - began}
    gc.collect()
    facts["after"] = resident("VmRSS")
    time.sleep(1)
    facts["later"] = resident("VmRSS")
    facts["peak"] = resident("VmHWM")
    print(json.dumps(facts))
