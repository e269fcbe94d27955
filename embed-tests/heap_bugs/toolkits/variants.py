"""Heap bugs of modules that toolkits make: `variants.py NAME` makes one, --list prints the names with their rows of the table.

Those of C++ and of Rust are listed by their modules, those of Cython and of cffi here.
"""

import importlib
import sys

TOOLKITS = ("cython", "pybind11", "nanobind", "pyo3", "cffi")

CYTHON = {
    "over_malloc": "overflow write", "over_calloc": "overflow write", "over_pymem": "overflow write", "over_memoryview": "overflow write",
    "read_memoryview": "read past the end", "under_malloc": "underflow", "read_malloc": "read past the end",
    "write_freed": "use after free", "read_freed": "use after free", "write_moved": "use after free",
    "twice_by_owners": "double free", "twice_pymem": "double free", "stale_pymem": "stale realloc",
    "malloc_freed_as_pymem": "wrong family", "pymem_freed_as_malloc": "wrong family", "inside": "free inside a block",
    "lost_malloc": "leak", "lost_pymem": "leak", "lost_reference": "leak", "lost_on_an_error": "leak",
}
# What pybind11 and nanobind have beside C++.
BOUND = {"wrong_capsule": "C++ families", "capsules_of_one_block": "double free", "over_array": "overflow write", "read_array": "read past the end",
         "read_borrowed": "use after free", "write_borrowed": "use after free", "lost_reference": "leak"}


def of_bound(module, name):
    if name not in BOUND:
        module.make(name)
    elif name == "read_borrowed":
        module.borrowed().value
    elif name == "write_borrowed":
        module.borrowed().value = 5
    elif name in ("over_array", "read_array") and module.__name__ == "nanobind_bugs":
        import numpy
        getattr(module, name)(numpy.zeros(1000))
    else:
        getattr(module, name)()


def over_new(ffi, lib):
    lib.write_at(ffi.new("char[40]"), 40)


def over_new_struct(ffi, lib):
    lib.write_at(ffi.new("long[1000]"), 8000)


def over_bytearray(ffi, lib):
    text = bytearray(2000)
    lib.write_at(ffi.from_buffer(text), 2001)


def over_malloc(ffi, lib):
    block = ffi.gc(lib.malloc(40), lib.free)
    lib.write_at(block, 40)


def under_malloc(ffi, lib):
    block = ffi.gc(lib.malloc(8000), lib.free)
    lib.write_at(block, -1)


def read_malloc(ffi, lib):
    lib.read_at(ffi.gc(lib.malloc(8000), lib.free), 8000)


def write_kept(ffi, lib):
    """C keeps the address of what Python has dropped."""
    lib.keep(ffi.new("char[4000]"))
    lib.write_kept(100)


def read_freed(ffi, lib):
    block = lib.malloc(40)
    lib.free(block)
    lib.read_at(block, 8)


def twice_by_gc(ffi, lib):
    block = ffi.gc(lib.malloc(40), lib.free)
    lib.free(block)
    del block


def stale_realloc(ffi, lib):
    block = lib.malloc(40)
    lib.free(block)
    lib.realloc(block, 80)


def raw_freed(ffi, lib):
    ffi.gc(lib.from_python(40), lib.free)


def inside(ffi, lib):
    lib.free(lib.malloc(400) + 16)


def lost_malloc(ffi, lib):
    lib.malloc(300)


def lost_text(ffi, lib):
    lib.duplicate(ffi.new("char[]", b"some text that is lost"))


CFFI = {over_new: "overflow write", over_new_struct: "overflow write", over_bytearray: "overflow write", over_malloc: "overflow write",
        under_malloc: "underflow", read_malloc: "read past the end", write_kept: "use after free", read_freed: "use after free",
        twice_by_gc: "double free", stale_realloc: "stale realloc", raw_freed: "wrong family", inside: "free inside a block",
        lost_malloc: "leak", lost_text: "leak"}


def names(toolkit):
    """Returns the bugs of a toolkit, each with its row."""
    if toolkit == "cython":
        return CYTHON
    if toolkit == "cffi":
        return {function.__name__: row for function, row in CFFI.items()}
    found = dict(importlib.import_module(f"{toolkit}_bugs").names())
    return found if toolkit == "pyo3" else {**found, **BOUND}


def make(variant):
    toolkit, _, name = variant.partition("-")
    if toolkit == "cffi":
        from _cffi_bugs import ffi, lib
        functions = {function.__name__: function for function in CFFI}
        return functions[name](ffi, lib)
    module = importlib.import_module(f"{toolkit}_bugs")
    if toolkit == "cython":
        return getattr(module, name)()
    return module.make(name) if toolkit == "pyo3" else of_bound(module, name)


if __name__ == "__main__":
    if sys.argv[1] == "--list":
        for toolkit in TOOLKITS:
            for name, row in names(toolkit).items():
                print(f"{toolkit}-{name}\t{row}")
    else:
        make(sys.argv[1])
        print("went on")
