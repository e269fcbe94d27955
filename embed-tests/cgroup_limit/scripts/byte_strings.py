"""Byte strings of a few KB up to some MB."""

import itertools

from until_refused import until_refused

data, sizes = [], itertools.cycle((5_000, 100_000, 3_000_000))
until_refused(lambda: data.append(bytes(b"x" * next(sizes))), data.clear)
