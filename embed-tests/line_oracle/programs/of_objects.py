"""Sites of Python's own objects: large and small, growing, shrinking, and freed in part before the peak."""

import array
import collections
import fractions

from sites import site


@site
def a_large_block():
    return bytes(1_000_000)


@site
def a_block_of_two_intervals():
    return bytes(33_000)


@site
def a_block_of_one_interval():
    return bytes(16_000)


@site
def tiny_bytes():
    return [bytes(8) for _ in range(9_000)]


@site
def small_bytes():
    return [bytes(167) for _ in range(2_000)]


@site
def medium_bytes():
    return [bytes(1_900) for _ in range(150)]


@site
def big_bytes():
    return [bytes(20_000) for _ in range(12)]


@site
def bytes_of_all_sizes():
    return [bytes(17 * number) for number in range(220)]


@site
def a_few_bytes():
    return [bytes(400) for _ in range(60)]


@site
def a_long_list():
    return [None] * 60_000


@site
def a_growing_list():
    kept = []
    for number in range(40_000):
        kept.append(None)
    return kept


@site
def lists_in_a_list():
    return [[None, None, None] for _ in range(2_500)]


@site
def a_shrunk_list():
    kept = [None] * 80_000
    del kept[20_000:]
    return kept


@site
def a_dict():
    return dict.fromkeys(range(5_000))


@site
def dicts():
    return [{"name": None, "other": None} for _ in range(1_200)]


@site
def a_set():
    return {number * 7919 for number in range(6_000)}


@site
def frozen_sets():
    return [frozenset((1, number)) for number in range(900)]


@site
def tuples():
    return [(number, None) for number in range(4_000)]


@site
def texts():
    return [str(number) * 3 for number in range(10_000, 16_000)]


@site
def wide_texts():
    return ["\N{SNOWMAN}" * 80 + str(number) for number in range(1_200)]


@site
def a_joined_text():
    return "".join(str(number) for number in range(60_000))


@site
def floats():
    return [number / 3 for number in range(12_000)]


@site
def large_ints():
    return [1 << (600 + number % 90) for number in range(3_000)]


@site
def complex_numbers():
    return [complex(number, 1) for number in range(7_000)]


@site
def a_bytearray():
    kept = bytearray()
    while len(kept) < 300_000:
        kept += b"0123456789" * 20
    return kept


@site
def a_shrunk_bytearray():
    kept = bytearray(700_000)
    del kept[100_000:]
    return kept


@site
def arrays():
    return [array.array("d", range(100)) for _ in range(250)]


@site
def a_deque():
    return collections.deque(range(30_000))


@site
def an_ordered_dict():
    return collections.OrderedDict.fromkeys(range(2_000))


@site
def instances():
    class Plain:
        def __init__(self, number):
            self.number, self.text = number, None
    return [Plain(number) for number in range(2_500)]


@site
def slotted_instances():
    class Slotted:
        __slots__ = "number", "text"

        def __init__(self, number):
            self.number, self.text = number, None
    return [Slotted(number) for number in range(4_000)]


@site
def closures():
    def make(number):
        return lambda: number
    return [make(number) for number in range(1_500)]


@site
def classes():
    return [type(f"Made{number}", (), {"__slots__": ()}) for number in range(150)]


@site
def fractions_of_the_library():
    return [fractions.Fraction(number, 7) for number in range(1, 2_000)]


@site
def a_chain_of_pairs():
    kept = None
    for _ in range(5_000):
        kept = [kept]
    return kept


@site
def half_of_it_freed():
    kept = [bytes(900) for _ in range(800)]
    del kept[::2]
    return kept


@site(when="before")
def gone_before_the_peak():
    return [bytes(700) for _ in range(1_500)]


@site(when="before")
def a_large_block_gone_before_the_peak():
    return bytes(2_000_000)


@site(when="late")
def after_the_peak():
    return [bytes(300) for _ in range(1_000)]


@site(when="late")
def a_list_after_the_peak():
    return [None] * 30_000
