"""The collections module's containers and heaps grow."""

import collections
import heapq

from growing import run

run("containers", [
    ("data = collections.deque()", "data.append(i * 1.5)"),
    ("data = collections.deque()", "data.appendleft(bytes(n))"),
    ("data = collections.deque()", "data.extend(range(n))"),
    ("data = collections.OrderedDict()", "data[i] = i"),
    ("data = collections.defaultdict(list)", "data[i % 100].append(bytes(n))"),
    ("data = collections.Counter()", "data[i] += 1"),
    ("data = []", "heapq.heappush(data, (-i, bytes(n)))"),
    ("data = []", "data.append(collections.ChainMap({i: bytes(n)}))"),
], names={"collections": collections, "heapq": heapq}, sizes=(48, 4000))
