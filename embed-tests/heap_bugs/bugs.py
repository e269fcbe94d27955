"""Heap bugs, each a variant with a name: `bugs.py NAME` makes one. run.py has the table.

The argument --list prints the names with their rows of the table.
"""
import sys

import cpp_toolkits

ROWS = ("overflow write", "underflow", "read past the end", "use after free", "double free", "stale realloc", "wrong family", "C++ families",
        "free inside a block", "leak", "no NULL check", "control")
VARIANTS = {}


def bug(row, name, *arguments):
    """Registers a variant for each tuple of arguments; {} in the name stands for them."""
    def register(function):
        VARIANTS[name.format(*arguments)] = (row, lambda: function(*arguments))
        return function
    return register


def each(row, name, *cases):
    def register(function):
        for case in cases:
            bug(row, name, *case)(function)
        return function
    return register


@each("overflow write", "over-{0}-{1}-by-{3}", ("raw", 40, 0, 1), ("mem", 40, 0, 1), ("obj", 40, 0, 1), ("native", 40, 0, 1),
      ("native", 40, 0, 16), ("native", 33, 0, 1), ("native", 1, 0, 1), ("raw", 8000, 0, 1), ("mem", 8000, 0, 1), ("obj", 500, 0, 1),
      ("native", 8000, 0, 1), ("native", 8001, 0, 3), ("calloc", 100, 0, 1), ("aligned", 100, 0, 1), ("mem", 40, 0, 40))
def overflow(family, size, offset, count):
    block = c.allocate(family, size)
    c.poke(block, size + offset, count)
    c.release(family, block)


@each("overflow write", "far-over-{0}-{1}", ("native", 40), ("mem", 40))
def far_overflow(family, size):
    """Skips the first bytes behind the block, as a store to the next element of a record does."""
    block = c.allocate(family, size)
    c.poke(block, size + 8, 4)
    c.release(family, block)


@bug("overflow write", "over-resized")
def over_resized():
    block = c.resize("native", c.allocate("native", 40), 100)
    c.poke(block, 100, 1)
    c.release("native", block)


@each("overflow write", "over-and-kept-{0}", ("native",), ("mem",))
def over_and_kept(family):
    """The block is never freed."""
    global kept
    kept = c.allocate(family, 40)
    c.poke(kept, 40, 1)


@bug("overflow write", "over-then-realloc")
def over_then_realloc():
    block = c.allocate("native", 40)
    c.poke(block, 40, 1)
    c.release("native", c.resize("native", block, 4000))


@each("overflow write", "over-array-{0}", (3,), (1000,))
def over_array(count):
    import numpy
    array = numpy.zeros(count)
    c.poke(c.data_of(array), 8 * count, 1)


@bug("overflow write", "over-bytearray")
def over_bytearray():
    text = bytearray(2000)
    c.poke(c.data_of(text), 2001, 1)


@each("underflow", "under-{0}-{1}", ("raw", 40), ("mem", 40), ("obj", 40), ("native", 40), ("native", 8000), ("aligned", 100))
def underflow(family, size):
    block = c.allocate(family, size)
    c.poke(block, -1, 1)
    c.release(family, block)


@bug("underflow", "under-array")
def under_array():
    import numpy
    array = numpy.zeros(1000)
    c.poke(c.data_of(array), -1, 1)


@each("read past the end", "read-{0}-{1}", ("native", 40), ("native", 8000), ("mem", 40), ("mem", 8000), ("obj", 512), ("raw", 64))
def read_past(family, size):
    block = c.allocate(family, size)
    c.peek(block, size, 1)
    c.release(family, block)


@bug("read past the end", "read-array")
def read_array():
    import numpy
    array = numpy.zeros(1000)
    c.peek(c.data_of(array), 8000, 1)


@each("use after free", "write-freed-{0}-{1}", ("native", 40), ("native", 8000), ("mem", 40), ("obj", 500), ("raw", 8000))
def write_freed(family, size):
    block = c.allocate(family, size)
    c.release(family, block)
    c.poke(block, 20, 1)


@each("use after free", "read-freed-{0}-{1}", ("native", 40), ("native", 8000), ("mem", 40))
def read_freed(family, size):
    block = c.allocate(family, size)
    c.release(family, block)
    c.peek(block, 20, 1)


@bug("use after free", "write-moved")
def write_moved():
    """By the address from before a realloc."""
    block = c.allocate("native", 40)
    moved = c.resize("native", block, 4000)
    c.poke(block, 20, 1)
    c.release("native", moved)


@bug("use after free", "write-freed-array")
def write_freed_array():
    import numpy
    array = numpy.zeros(1000)
    data = c.data_of(array)
    del array
    c.poke(data, 20, 1)


@each("double free", "twice-{0}-{1}", ("raw", 40), ("mem", 40), ("obj", 40), ("native", 40), ("native", 8000), ("mem", 8000),
      ("native", 2 << 20))
def twice(family, size):
    block = c.allocate(family, size)
    c.release(family, block)
    c.release(family, block)


@bug("double free", "twice-with-another-between")
def twice_with_another():
    first, second = c.allocate("native", 40), c.allocate("native", 40)
    for block in first, second, first:
        c.release("native", block)


@each("stale realloc", "stale-{0}-{1}", ("raw", 40), ("mem", 40), ("obj", 40), ("native", 40), ("native", 8000))
def stale(family, size):
    block = c.allocate(family, size)
    c.release(family, block)
    c.resize(family, block, size * 2)


@each("wrong family", "{0}-freed-as-{1}", ("raw", "mem"), ("mem", "obj"), ("obj", "raw"), ("native", "mem"), ("native", "raw"),
      ("mem", "native"), ("obj", "native"), ("raw", "native"))
def wrong_family(made, freed):
    c.release(freed, c.allocate(made, 40))


@each("free inside a block", "inside-{0}-{1}", ("native", 40), ("native", 8000), ("mem", 40), ("raw", 8000), ("obj", 500))
def inside(family, size):
    c.release(family, c.allocate(family, size) + 16)


@each("leak", "lost-{0}-{1}", ("raw", 40), ("mem", 40), ("obj", 40), ("native", 40), ("native", 8000), ("calloc", 100),
      ("aligned", 100), ("native", 1 << 20))
def lost(family, size):
    c.allocate(family, size)


@bug("leak", "lost-resized")
def lost_resized():
    c.resize("native", c.allocate("native", 40), 100)


@bug("leak", "lost-text")
def lost_text():
    c.duplicate("some text that is lost")


@bug("leak", "lost-list")
def lost_list():
    first, second, third = (c.allocate("native", 48) for _ in range(3))
    c.link_to(first, second)
    c.link_to(second, third)


@bug("leak", "lost-ring")
def lost_ring():
    first, second = (c.allocate("native", 48) for _ in range(2))
    c.link_to(first, second)
    c.link_to(second, first)


@bug("leak", "lost-on-an-error")
def lost_on_an_error():
    for _ in range(5):
        try:
            c.fails_on_the_way(300)
        except ValueError:
            pass


@bug("leak", "lost-object")
def lost_object():
    c.keep_a_reference([object()])


@bug("leak", "lost-bytes")
def lost_bytes():
    c.keep_a_reference(bytes(3000))


@each("no NULL check", "unchecked-{0}", ("native",), ("mem",))
def unchecked(family):
    # A size of its own, by which a forced failure can be aimed at it.
    c.unchecked(family, 3 << 20)


CPP = {
    "C++ families": ("array-deleted", "deleted-as-array", "new-freed", "array-freed", "malloc-deleted", "malloc-deleted-as-array",
                     "strdup-deleted", "vector-freed", "new-resized", "aligned-deleted-plainly"),
    "overflow write": ("over-new", "over-vector"),
    "read past the end": ("read-new",),
    "use after free": ("write-deleted", "read-deleted"),
    "double free": ("deleted-twice",),
    "leak": ("lost-new", "lost-vector"),
    # Not a bug: every tool is to say nothing.
    "control": ("nothing-wrong",),
}
for toolkit in cpp_toolkits.TOOLKITS:
    for row, names in CPP.items():
        each(row, "{0}-{1}", *((toolkit, name) for name in names))(cpp_toolkits.make)
each("C++ families", "{0}-{1}", ("pybind11", "capsule"), ("nanobind", "capsule"))(cpp_toolkits.make)


def make(name):
    # A function of its own: nothing of it stays on the stack of the module.
    VARIANTS[name][1]()


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        for name, (row, _) in VARIANTS.items():
            print(f"{name}\t{row}")
    else:
        import heap_bugs as c
        make(sys.argv[1])
        print("went on")
