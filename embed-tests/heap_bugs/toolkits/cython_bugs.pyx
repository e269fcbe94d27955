# cython: language_level=3, emit_linenums=True
"""Heap bugs of a module in Cython. The volatile bytes may neither be joined nor dropped."""
cimport cython
from cpython.mem cimport PyMem_Malloc, PyMem_Realloc, PyMem_Free
from cpython.ref cimport Py_INCREF
from libc.stdlib cimport malloc, calloc, realloc, free

cdef extern from *:
    """
    static void write_at(void *block, Py_ssize_t offset) { ((volatile char *)block)[offset] = 'X'; }
    static int read_at(void *block, Py_ssize_t offset) { return ((volatile char *)block)[offset]; }
    static void *hidden(void *block) { void *volatile kept = block; return kept; }
    """
    void write_at(void *block, Py_ssize_t offset) nogil
    int read_at(void *block, Py_ssize_t offset) nogil
    void *hidden(void *block) nogil


def over_malloc():
    block = hidden(malloc(40))
    write_at(block, 40)
    free(block)


def over_calloc():
    block = hidden(calloc(10, 4))
    write_at(block, 43)
    free(block)


def over_pymem():
    block = hidden(PyMem_Malloc(40))
    write_at(block, 40)
    PyMem_Free(block)


@cython.boundscheck(False)
@cython.wraparound(False)
cdef void fill(double[:] numbers, Py_ssize_t count) noexcept:
    cdef Py_ssize_t index
    for index in range(count):
        numbers[index] = 1.0


def over_memoryview():
    import numpy
    fill(numpy.zeros(1000), 1001)


@cython.boundscheck(False)
@cython.wraparound(False)
cdef double sum_of(double[:] numbers, Py_ssize_t count) noexcept:
    cdef double total = 0
    cdef Py_ssize_t index
    for index in range(count):
        total += numbers[index]
    return total


def read_memoryview():
    import numpy
    return sum_of(numpy.zeros(1000), 1001)


def under_malloc():
    block = hidden(malloc(8000))
    write_at(block, -1)
    free(block)


def read_malloc():
    block = hidden(malloc(8000))
    read_at(block, 8000)
    free(block)


def write_freed():
    block = hidden(malloc(40))
    free(block)
    write_at(block, 20)


def read_freed():
    block = hidden(PyMem_Malloc(4000))
    PyMem_Free(block)
    read_at(block, 20)


def write_moved():
    block = hidden(malloc(40))
    moved = hidden(realloc(block, 4000))
    write_at(block, 20)
    free(moved)


cdef class Owner:
    """Frees a block with each of its copies."""
    cdef void *block

    def __dealloc__(self):
        free(self.block)


def twice_by_owners():
    cdef Owner first = Owner(), second = Owner()
    first.block = second.block = hidden(malloc(100))


def twice_pymem():
    block = hidden(PyMem_Malloc(40))
    again = hidden(block)
    PyMem_Free(block)
    PyMem_Free(again)


def stale_pymem():
    block = hidden(PyMem_Malloc(40))
    again = hidden(block)
    PyMem_Free(block)
    PyMem_Realloc(again, 100)


def malloc_freed_as_pymem():
    PyMem_Free(hidden(malloc(40)))


def pymem_freed_as_malloc():
    free(hidden(PyMem_Malloc(40)))


def inside():
    block = <char *>hidden(malloc(400))
    free(block + 16)


def lost_malloc():
    hidden(malloc(40))


def lost_pymem():
    hidden(PyMem_Malloc(4000))


def lost_reference():
    kept = [object()]
    Py_INCREF(kept)


def raises_on_the_way(text):
    block = hidden(malloc(300))
    write_at(block, 0)
    number = int(text)
    free(block)
    return number


def lost_on_an_error():
    for _ in range(5):
        try:
            raises_on_the_way("none")
        except ValueError:
            pass
