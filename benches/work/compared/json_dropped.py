"""JSON that is read and dropped, again and again: at the end nothing of it is left."""

import json

from measured import many, size_of, work

text = "[%s]" % ", ".join(f'{{"number": {i}, "name": "{i:0500}", "values": [{i * 0.5}, {i}]}}' for i in range(many(80_000)))
with work(lambda: size_of(json.loads(text))):
    for _ in range(2):
        found = json.loads(text)  # the line
        del found
