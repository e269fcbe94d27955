"""What programs do every day, a few milliseconds each: everyday.py [ROUNDS [NAME ...]]; see patterns.py."""

import array
import ast
import asyncio
import base64
import bisect
import collections
import contextlib
import copy
import csv
import dataclasses
import datetime
import decimal
import difflib
import enum
import fractions
import functools
import hashlib
import heapq
import html.parser
import io
import itertools
import json
import logging
import pathlib
import pickle
import random
import re
import sqlite3
import string
import struct
import tempfile
import textwrap
import threading
import tokenize
import unicodedata
import urllib.parse
import xml.etree.ElementTree as ElementTree
import zlib

import patterns

N = 10_000
NUMBERS = list(range(N))
SHUFFLED = random.Random(1).sample(NUMBERS, N)
WORDS = [f"word{number % 3000}" for number in NUMBERS]
TEXT = "\n".join(f"{number}: a line of {word}, and more of it" for number, word in enumerate(WORDS[:2000]))
ROWS = [{"id": number, "name": word, "tags": [word, "x"], "price": number / 7} for number, word in enumerate(WORDS[:3000])]
DOCUMENT = json.dumps(ROWS)
TABLE = "\n".join(",".join(map(str, row.values())) for row in ROWS)
XML = "<a>" + "".join(f'<b n="{number}">text {number}</b>' for number in range(2000)) + "</a>"
SOURCE = "\n".join(f"def f{number}(a, b=1):\n    return [a + b * x for x in range({number})]\n" for number in range(100))
BINARY = random.Random(2).randbytes(300_000)


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def moved(self, by):
        return Point(self.x + by, self.y + by)


@dataclasses.dataclass(frozen=True)
class Item:
    name: str
    price: float
    tags: tuple = ()


class Color(enum.Enum):
    RED, GREEN, BLUE = range(3)


class Links(html.parser.HTMLParser):
    def handle_starttag(self, tag, attrs):
        self.found = [tag, *attrs]


def generated(count):
    for number in range(count):
        yield number * 2


def recursive(depth):
    return 1 + recursive(depth - 1) if depth else 0


def fibonacci():
    @functools.cache
    def of(n):
        return n if n < 2 else of(n - 1) + of(n - 2)

    return of(400)


def raised():
    caught = 0
    for number in range(N):
        try:
            int("x" if number % 2 else "1")
        except ValueError:
            caught += 1
    return caught


def counted():
    counts = collections.Counter(WORDS)
    groups = collections.defaultdict(list)
    for word in WORDS:
        groups[word[-1]].append(word)
    return counts.most_common(10), groups


def stored():
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.execute("create table t (id integer, name text)")
        database.executemany("insert into t values (?, ?)", enumerate(WORDS[:3000]))
        return database.execute("select name, count(*) from t group by name order by 2").fetchall()


def written():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "lines")
        file.write_text(TEXT)
        with file.open() as lines:
            return [line.rstrip() for line in lines]


def logged():
    logger, stream = logging.Logger("x"), io.StringIO()
    logger.addHandler(logging.StreamHandler(stream))
    for number in range(1000):
        logger.warning("number %d of %s", number, "many")
    return stream.getvalue()


async def tasks():
    queue = asyncio.Queue()

    async def one(number):
        await asyncio.sleep(0)
        await queue.put(number)

    await asyncio.gather(*map(one, range(500)))


def threads():
    started = [threading.Thread(target=sum, args=(NUMBERS,)) for _ in range(20)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def heap():
    kept = []
    for number in SHUFFLED:
        heapq.heappush(kept, number)
    return [heapq.heappop(kept) for _ in NUMBERS]


def queued():
    waiting = collections.deque()
    for number in NUMBERS:
        waiting.append((number, str(number)))
        if len(waiting) > 100:
            waiting.popleft()


def cached():
    cache = collections.OrderedDict()
    for number in SHUFFLED * 2:
        cache[number % 700] = [number]
        cache.move_to_end(number % 700)
        if len(cache) > 500:
            cache.popitem(last=False)


def cycles():
    for number in range(3000):
        first, second = [number], {"x": number}
        first.append(second)
        second["y"] = first


def tokens():
    return list(tokenize.generate_tokens(io.StringIO(SOURCE).readline))


PATTERNS = {
    "list comprehension": lambda: [number * 2 for number in NUMBERS * 3],
    "dict comprehension": lambda: {word: number for number, word in enumerate(WORDS)},
    "set of strings": lambda: {word + "x" for word in WORDS},
    "nested lists": lambda: [[number] * 3 for number in NUMBERS],
    "tuples": lambda: [(number, number) for number in NUMBERS * 2],
    "sort": lambda: sorted(SHUFFLED * 2),
    "sort by key": lambda: sorted(WORDS, key=lambda word: (len(word), word)),
    "zip and unzip": lambda: list(zip(*zip(NUMBERS, WORDS, strict=True), strict=True)),
    "slices": lambda: [NUMBERS[start:start + 100] for start in range(0, N, 10)],
    "list.insert": lambda: [kept.insert(0, number) for kept in [[]] for number in range(3000)],
    "dict.update": lambda: [dict(row, extra=1) | {"id": 2} for row in ROWS],
    "dict deletion": lambda: [kept.pop(number) for kept in [dict.fromkeys(NUMBERS)] for number in SHUFFLED],
    "set operations": lambda: [set(NUMBERS) & set(SHUFFLED[:5000]), set(NUMBERS) - set(SHUFFLED[:50])],
    "Counter, defaultdict": counted,
    "deque": queued,
    "OrderedDict as a cache": cached,
    "heapq": heap,
    "bisect.insort": lambda: [bisect.insort(kept, number) for kept in [[]] for number in SHUFFLED[:4000]],
    "itertools": lambda: list(itertools.combinations(range(40), 3)),
    "groupby": lambda: [list(group) for _, group in itertools.groupby(sorted(WORDS), key=len)],
    "generator": lambda: list(generated(20_000)),
    "recursion": lambda: [recursive(500) for _ in range(20)],
    "functools.cache": fibonacci,
    "objects": lambda: [Point(number, number).moved(1) for number in NUMBERS],
    "dataclasses": lambda: [Item("x", number) for number in range(4000)],
    "namedtuples": lambda: list(map(collections.namedtuple("Pair", "a b"), NUMBERS, NUMBERS)),
    "enum": lambda: [Color(number % 3) for number in NUMBERS],
    "exceptions": raised,
    "cycles": cycles,
    "deepcopy": lambda: copy.deepcopy(ROWS[:500]),
    "f-strings": lambda: [f"{number}: {number / 3:.2f} of {word}" for number, word in enumerate(WORDS)],
    "% formatting": lambda: ["%05d %s" % (number, word) for number, word in enumerate(WORDS)],
    "str.join": lambda: ",".join(WORDS * 3),
    "str.split": lambda: TEXT.split(),
    "str.splitlines": lambda: [line.upper() for line in TEXT.splitlines()],
    "str.replace": lambda: [TEXT.replace("line", "row").replace("a", "bb") for _ in range(10)],
    "str.translate": lambda: TEXT.translate(str.maketrans(string.ascii_lowercase, string.ascii_uppercase)),
    "str +=": lambda: functools.reduce(lambda text, word: text + word, WORDS[:3000], ""),
    "encode and decode": lambda: [(TEXT + "ä").encode().decode() for _ in range(30)],
    "bytes.join": lambda: [b"".join([BINARY[:50_000]] * 6) for _ in range(10)],
    "bytearray": lambda: [grown.extend(BINARY[start:start + 500]) for grown in [bytearray()] for start in range(0, 300_000, 500)],
    "memoryview": lambda: [bytes(memoryview(BINARY)[start:start + 999]) for start in range(0, 300_000, 100)],
    "unicodedata": lambda: unicodedata.normalize("NFD", TEXT + "äöü" * 3000),
    "textwrap": lambda: textwrap.fill(TEXT[:20_000]),
    "difflib": lambda: list(difflib.unified_diff(WORDS[:500], WORDS[100:600])),
    "re.findall": lambda: re.findall(r"(\d+): (\w+)", TEXT),
    "re.sub": lambda: re.sub(r"\bline\b", lambda found: found[0].upper(), TEXT),
    "json.dumps": lambda: json.dumps(ROWS),
    "json.loads": lambda: json.loads(DOCUMENT),
    "pickle": lambda: pickle.loads(pickle.dumps(ROWS)),
    "csv": lambda: list(csv.reader(io.StringIO(TABLE))),
    "csv.DictReader": lambda: list(csv.DictReader(io.StringIO(TABLE))),
    "XML": lambda: ElementTree.tostring(ElementTree.fromstring(XML)),
    "HTML": lambda: Links().feed(XML),
    "urllib.parse": lambda: [urllib.parse.urlparse(f"https://x.y/{word}?a={word}#z").query for word in WORDS[:2000]],
    "base64": lambda: base64.b64decode(base64.b64encode(BINARY)),
    "zlib": lambda: zlib.decompress(zlib.compress(BINARY, 1)),
    "hashlib": lambda: [hashlib.sha256(BINARY[start:start + 1000]).hexdigest() for start in range(0, 300_000, 300)],
    "struct": lambda: [struct.unpack("<IHB", struct.pack("<IHB", number, 7, 1)) for number in NUMBERS],
    "array": lambda: array.array("d", NUMBERS).tolist(),
    "datetime": lambda: [datetime.datetime(2026, 1, 1) + datetime.timedelta(hours=number) for number in NUMBERS],
    "decimal": lambda: sum(decimal.Decimal(number) / 7 for number in range(4000)),
    "fractions": lambda: sum(fractions.Fraction(number, 7) for number in range(1000)),
    "large integers": lambda: [3**number for number in range(0, 3000, 10)],
    "sqlite": stored,
    "a file": written,
    "logging": logged,
    "asyncio": lambda: asyncio.run(tasks()),
    "threads": threads,
    "ast.parse": lambda: ast.unparse(ast.parse(SOURCE)),
    "compile": lambda: compile(SOURCE, "x", "exec"),
    "tokenize": tokens,
}

if __name__ == "__main__":
    patterns.main(PATTERNS)
