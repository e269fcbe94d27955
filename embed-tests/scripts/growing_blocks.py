"""Blocks that grow and shrink through every size keep what they hold, and a long one that grows is moved, not copied.

Prints the bytes that a bytearray of 64 MiB, which grew by 64 KiB at a time, took at its peak, in shares of its size.
"""
import array
import random

MIB = 1 << 20


def highest():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


generator = random.Random(1)
for _ in range(25):
    data, mirror = bytearray(), []
    for _ in range(12):
        chunk = generator.randbytes(generator.choice((7, 500, 40_000, 300_000)))
        data += chunk
        mirror.append(chunk)
        if generator.random() < 0.2:
            del data[-len(chunk) // 2:]
            mirror = [bytes(data)]
    assert data == b"".join(mirror)
    numbers = array.array("q")
    for start in range(0, generator.randrange(200_000), 5_000):
        numbers.extend(range(start, start + 5_000))
    assert list(numbers) == list(range(len(numbers)))

items = []
for number in range(400_000):
    items.append(number)
assert items == list(range(400_000))
del items, numbers, data, mirror

before = highest()
data = bytearray()
chunk = bytes(range(256)) * 256
while len(data) < 64 * MIB:
    data += chunk
assert all(data[start:start + len(chunk)] == chunk for start in range(0, len(data), len(chunk)))
print("%.2f" % ((highest() - before) / len(data)))
