# cython: language_level=3
"""Arrays over buffers that C made, by every answer to the question of who frees them.

Each function takes rows and columns, and whether the elements are float instead of double; element number i, row by
row, is i. All but `copied` share the buffer's memory with NumPy. Any NumPy from 1.22 on.
"""

cimport numpy as cnp
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_INCREF
from cython cimport floating, view
from libc.stdint cimport SIZE_MAX
from libc.stdlib cimport free, malloc

import numpy as np

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    void PyArray_ENABLEFLAGS(cnp.ndarray array, int flags)
    # Steals the reference to the base, also on failure.
    int PyArray_SetBaseObject(cnp.ndarray array, PyObject *base) except -1

cdef const char *BUFFER = b"ownership.buffer"


cdef void count_up(floating *data, Py_ssize_t length) noexcept:
    cdef Py_ssize_t index
    for index in range(length):
        data[index] = <floating> index


cdef void *make_buffer(Py_ssize_t rows, Py_ssize_t columns, bint single) except NULL:
    """A filled buffer, for which the caller must find an owner."""
    if rows <= 0 or columns <= 0:
        raise ValueError("expected at least one row and one column")
    cdef size_t item = sizeof(float) if single else sizeof(double)
    if <size_t> rows > SIZE_MAX // item // <size_t> columns:
        raise MemoryError
    cdef void *data = malloc(<size_t> rows * <size_t> columns * item)
    if data == NULL:
        raise MemoryError
    if single:
        count_up(<float *> data, rows * columns)
    else:
        count_up(<double *> data, rows * columns)
    return data


cdef cnp.ndarray borrow(void *data, Py_ssize_t rows, Py_ssize_t columns, bint single):
    """An array that uses the buffer and neither frees it nor keeps anything alive."""
    cdef cnp.npy_intp[2] shape = [rows, columns]
    return cnp.PyArray_SimpleNewFromData(2, shape, cnp.NPY_FLOAT if single else cnp.NPY_DOUBLE, data)


cdef view.array lend(void *data, Py_ssize_t rows, Py_ssize_t columns, bint single):
    """Cython's own array over the buffer: a pointer alone does not tell its shape. It does not free, either."""
    if single:
        return <float[:rows, :columns]> <float *> data
    return <double[:rows, :columns]> <double *> data


cdef set_base(cnp.ndarray array, object base):
    Py_INCREF(base)
    PyArray_SetBaseObject(array, <PyObject *> base)


# The array frees.

def owned(Py_ssize_t rows, Py_ssize_t columns, bint single=False):
    """The array owns the buffer. It has no data handler, and NumPy then calls `free`."""
    cdef void *data = make_buffer(rows, columns, single)
    cdef cnp.ndarray array
    try:
        array = borrow(data, rows, columns, single)
    except:
        free(data)
        raise
    PyArray_ENABLEFLAGS(array, cnp.NPY_ARRAY_OWNDATA)
    return array


def owned_through_a_view(Py_ssize_t rows, Py_ssize_t columns, bint single=False):
    """The same of an array that NumPy made from a typed memoryview, which stays its base and frees nothing."""
    cdef void *data = make_buffer(rows, columns, single)
    cdef cnp.ndarray array
    cdef float[:, ::1] floats
    cdef double[:, ::1] doubles
    try:
        if single:
            floats = lend(data, rows, columns, single)
            array = np.asarray(floats)
        else:
            doubles = lend(data, rows, columns, single)
            array = np.asarray(doubles)
    except:
        free(data)
        raise
    PyArray_ENABLEFLAGS(array, cnp.NPY_ARRAY_OWNDATA)
    return array


# An object frees.

cdef class Buffer:
    """Owns a buffer. Its arrays keep it alive, so that they may outlive every other reference to it."""

    cdef void *data
    cdef readonly Py_ssize_t rows, columns
    cdef readonly bint single

    def __cinit__(self, Py_ssize_t rows, Py_ssize_t columns, bint single=False):
        self.data = make_buffer(rows, columns, single)
        self.rows, self.columns, self.single = rows, columns, single

    def __dealloc__(self):
        free(self.data)

    def array(self):
        """A new array whose base is this object. The object must not hold it: NumPy's arrays take no part in
        garbage collection, and the two would live for ever."""
        cdef cnp.ndarray array = borrow(self.data, self.rows, self.columns, self.single)
        set_base(array, self)
        return array


cdef class Holder:
    """Owns a buffer and holds the array, which does not know of it: the array dangles once the holder is gone."""

    cdef void *data
    cdef readonly cnp.ndarray array

    def __cinit__(self, Py_ssize_t rows, Py_ssize_t columns, bint single=False):
        self.data = make_buffer(rows, columns, single)
        self.array = np.asarray(lend(self.data, rows, columns, single))

    def __dealloc__(self):
        free(self.data)


# A capsule frees.

cdef void free_buffer(object capsule) noexcept:
    free(PyCapsule_GetPointer(capsule, BUFFER))


def in_capsule(Py_ssize_t rows, Py_ssize_t columns, bint single=False):
    """The array's base is a capsule whose destructor frees."""
    cdef void *data = make_buffer(rows, columns, single)
    cdef object capsule
    try:
        capsule = PyCapsule_New(data, BUFFER, free_buffer)
    except:
        free(data)
        raise
    cdef cnp.ndarray array = borrow(data, rows, columns, single)
    set_base(array, capsule)
    return array


# The memoryview's array frees.

def viewed(Py_ssize_t rows, Py_ssize_t columns, bint single=False):
    """A typed memoryview, handed to NumPy without a copy; Cython's array below it was told to free."""
    cdef void *data = make_buffer(rows, columns, single)
    cdef view.array lender
    try:
        lender = lend(data, rows, columns, single)
    except:
        free(data)
        raise
    lender.callback_free_data = free
    cdef float[:, ::1] floats
    cdef double[:, ::1] doubles
    if single:
        floats = lender
        return np.asarray(floats)
    doubles = lender
    return np.asarray(doubles)


# Nobody need free.

cdef double[4][6] TABLE


def static_table():
    """A C array of the module itself, whose shape Cython knows: every call shares the same memory."""
    cdef double[:, ::1] table = TABLE
    return np.asarray(table)


def copied(Py_ssize_t rows, Py_ssize_t columns, bint single=False):
    """NumPy's own copy; the buffer is gone when this returns."""
    cdef void *data = make_buffer(rows, columns, single)
    try:
        return np.array(lend(data, rows, columns, single))
    finally:
        free(data)


# The caller frees, and may forget.

cdef void *LAST = NULL


def remembered(Py_ssize_t rows, Py_ssize_t columns, bint single=False):
    """The buffer is known to one global pointer: `release` must be called before the next, and after the last use."""
    global LAST
    LAST = make_buffer(rows, columns, single)
    return np.asarray(lend(LAST, rows, columns, single))


def release():
    global LAST
    free(LAST)
    LAST = NULL
