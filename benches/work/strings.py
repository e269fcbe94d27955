"""Splits, joins and counts words: strings of many sizes, and dicts that grow and shrink.

    strings.py ROUNDS
"""

import sys

WORDS = ["w" * (i % 23 + 1) + str(i) for i in range(200)]


def strings(n):
    line = " ".join(WORDS)
    for i in range(n):
        counts = {}
        for word in line.split():
            key = word.upper()[:12]
            counts[key] = counts.get(key, 0) + i
        "\n".join(f"{key}={value}" for key, value in counts.items()).encode()


strings(int(sys.argv[1]))
