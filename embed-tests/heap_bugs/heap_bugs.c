/* The primitives that bugs.py makes heap bugs of: what a C extension does to memory, with addresses as numbers.
   Nothing here keeps an address. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static void *address(PyObject *number) { return PyLong_AsVoidPtr(number); }

static PyObject *allocate(PyObject *self, PyObject *arguments)
{
    const char *family;
    Py_ssize_t size;
    void *block = NULL;
    if (!PyArg_ParseTuple(arguments, "sn", &family, &size))
        return NULL;
    if (!strcmp(family, "raw"))
        block = PyMem_RawMalloc(size);
    else if (!strcmp(family, "mem"))
        block = PyMem_Malloc(size);
    else if (!strcmp(family, "obj"))
        block = PyObject_Malloc(size);
    else if (!strcmp(family, "native"))
        block = malloc(size);
    else if (!strcmp(family, "calloc"))
        block = calloc(1, size);
    else if (!strcmp(family, "aligned") && posix_memalign(&block, 64, size))
        block = NULL;
    return PyLong_FromVoidPtr(block);
}

static PyObject *resize(PyObject *self, PyObject *arguments)
{
    const char *family;
    PyObject *number;
    Py_ssize_t size;
    void *block = NULL;
    if (!PyArg_ParseTuple(arguments, "sOn", &family, &number, &size))
        return NULL;
    if (!strcmp(family, "raw"))
        block = PyMem_RawRealloc(address(number), size);
    else if (!strcmp(family, "mem"))
        block = PyMem_Realloc(address(number), size);
    else if (!strcmp(family, "obj"))
        block = PyObject_Realloc(address(number), size);
    else
        block = realloc(address(number), size);
    return PyLong_FromVoidPtr(block);
}

static PyObject *release(PyObject *self, PyObject *arguments)
{
    const char *family;
    PyObject *number;
    if (!PyArg_ParseTuple(arguments, "sO", &family, &number))
        return NULL;
    if (!strcmp(family, "raw"))
        PyMem_RawFree(address(number));
    else if (!strcmp(family, "mem"))
        PyMem_Free(address(number));
    else if (!strcmp(family, "obj"))
        PyObject_Free(address(number));
    else
        free(address(number));
    Py_RETURN_NONE;
}

/* Volatile bytes: the compiler may neither join nor drop an access. */
static PyObject *poke(PyObject *self, PyObject *arguments)
{
    PyObject *number;
    Py_ssize_t offset, count;
    if (!PyArg_ParseTuple(arguments, "Onn", &number, &offset, &count))
        return NULL;
    volatile char *place = (char *)address(number) + offset;
    for (Py_ssize_t index = 0; index < count; index++)
        place[index] = 'X';
    Py_RETURN_NONE;
}

static PyObject *peek(PyObject *self, PyObject *arguments)
{
    PyObject *number;
    Py_ssize_t offset, count;
    unsigned sum = 0;
    if (!PyArg_ParseTuple(arguments, "Onn", &number, &offset, &count))
        return NULL;
    volatile char *place = (char *)address(number) + offset;
    for (Py_ssize_t index = 0; index < count; index++)
        sum += (unsigned char)place[index];
    return PyLong_FromUnsignedLong(sum);
}

/* Writes an address into a block, as a list does with its next element. */
static PyObject *link_to(PyObject *self, PyObject *arguments)
{
    PyObject *from, *to;
    if (!PyArg_ParseTuple(arguments, "OO", &from, &to))
        return NULL;
    *(void **)address(from) = address(to);
    Py_RETURN_NONE;
}

static PyObject *data_of(PyObject *self, PyObject *object)
{
    Py_buffer view;
    if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE))
        return NULL;
    PyObject *number = PyLong_FromVoidPtr(view.buf);
    PyBuffer_Release(&view);
    return number;
}

static PyObject *usable(PyObject *self, PyObject *number)
{
    return PyLong_FromSize_t(malloc_usable_size(address(number)));
}

static PyObject *keep_a_reference(PyObject *self, PyObject *object)
{
    Py_INCREF(object);
    Py_RETURN_NONE;
}

static PyObject *duplicate(PyObject *self, PyObject *text)
{
    Py_ssize_t length;
    const char *bytes = PyUnicode_AsUTF8AndSize(text, &length);
    return bytes ? PyLong_FromVoidPtr(strdup(bytes)) : NULL;
}

/* Loses a block on the way out by an error. */
static PyObject *fails_on_the_way(PyObject *self, PyObject *size)
{
    char *block = malloc(PyLong_AsSize_t(size));
    if (block == NULL)
        return PyErr_NoMemory();
    memset(block, 1, PyLong_AsSize_t(size));
    /* gcc 16 would leave out a block that nobody sees. */
    __asm__ volatile("" : : "r"(block) : "memory");
    PyErr_SetString(PyExc_ValueError, "on the way");
    return NULL;
}

/* Uses a block without a look at whether there is one. */
static PyObject *unchecked(PyObject *self, PyObject *arguments)
{
    const char *family;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(arguments, "sn", &family, &size))
        return NULL;
    volatile char *block = !strcmp(family, "mem") ? PyMem_Malloc(size) : malloc(size);
    block[0] = 1;
    !strcmp(family, "mem") ? PyMem_Free((void *)block) : free((void *)block);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"allocate", allocate, METH_VARARGS, NULL},
    {"resize", resize, METH_VARARGS, NULL},
    {"release", release, METH_VARARGS, NULL},
    {"poke", poke, METH_VARARGS, NULL},
    {"peek", peek, METH_VARARGS, NULL},
    {"link_to", link_to, METH_VARARGS, NULL},
    {"data_of", data_of, METH_O, NULL},
    {"usable", usable, METH_O, NULL},
    {"keep_a_reference", keep_a_reference, METH_O, NULL},
    {"duplicate", duplicate, METH_O, NULL},
    {"fails_on_the_way", fails_on_the_way, METH_O, NULL},
    {"unchecked", unchecked, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "heap_bugs", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_heap_bugs(void) { return PyModule_Create(&module); }
