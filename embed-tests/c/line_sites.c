/* An extension module that allocates blocks by each of CPython's functions and by C's own, and keeps them in a table of
   its own: no object of Python's grows with it. It also watches pymalloc's arenas: which site is running when each is
   made, since a later site may be the one that has it freed. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <string.h>

#define MOST 32768
static void *held[MOST];
static int used;

static void *calloc_one(size_t size) { return calloc(1, size); }

static void *aligned(size_t size) {
  void *block = NULL;
  return posix_memalign(&block, 256, size) == 0 ? block : NULL;
}

static const struct family {
  const char *name;
  void *(*allocate)(size_t);
  void *(*resize)(void *, size_t);
} families[] = {
    {"raw", PyMem_RawMalloc, PyMem_RawRealloc}, {"mem", PyMem_Malloc, PyMem_Realloc},
    {"obj", PyObject_Malloc, PyObject_Realloc}, {"native", malloc, realloc},
    {"calloc", calloc_one, realloc},            {"aligned", aligned, realloc},
};

static const struct family *family(const char *name) {
  for (size_t index = 0; index < sizeof families / sizeof *families; index++)
    if (strcmp(families[index].name, name) == 0) return &families[index];
  PyErr_SetString(PyExc_ValueError, "no such function");
  return NULL;
}

static PyObject *keep(void *block) {
  if (block == NULL) return PyErr_NoMemory();
  if (used == MOST) {
    PyErr_SetString(PyExc_OverflowError, "the table is full");
    return NULL;
  }
  held[used++] = block;
  Py_RETURN_NONE;
}

/* hold(family, size, count) */
static PyObject *hold(PyObject *self, PyObject *arguments) {
  (void)self;
  const char *name;
  Py_ssize_t size, count;
  if (!PyArg_ParseTuple(arguments, "snn", &name, &size, &count)) return NULL;
  const struct family *of = family(name);
  if (of == NULL) return NULL;
  for (Py_ssize_t number = 0; number < count; number++) {
    PyObject *kept = keep(of->allocate(size));
    if (kept == NULL) return NULL;
  }
  Py_RETURN_NONE;
}

/* resize(family, size, then, count): blocks of `size` bytes, each of which is resized to `then`. */
static PyObject *resize(PyObject *self, PyObject *arguments) {
  (void)self;
  const char *name;
  Py_ssize_t size, then, count;
  if (!PyArg_ParseTuple(arguments, "snnn", &name, &size, &then, &count)) return NULL;
  const struct family *of = family(name);
  if (of == NULL) return NULL;
  for (Py_ssize_t number = 0; number < count; number++) {
    void *block = of->allocate(size);
    if (block == NULL) return PyErr_NoMemory();
    PyObject *kept = keep(of->resize(block, then));
    if (kept == NULL) return NULL;
  }
  Py_RETURN_NONE;
}

/* call(function, times) */
static PyObject *call(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *function;
  Py_ssize_t times;
  if (!PyArg_ParseTuple(arguments, "On", &function, &times)) return NULL;
  for (Py_ssize_t number = 0; number < times; number++) {
    PyObject *result = PyObject_CallObject(function, NULL);
    if (result == NULL) return NULL;
    Py_DECREF(result);
  }
  Py_RETURN_NONE;
}

/* The arenas that are live, each with the number of the site that it was made in. The GIL protects the table. */
#define MOST_ARENAS 4096
static struct arena {
  void *block;
  size_t size;
  long site;
} arenas[MOST_ARENAS];
static PyObjectArenaAllocator before;
static long running;

static void *arena_alloc(void *context, size_t size) {
  (void)context;
  void *block = before.alloc(before.ctx, size);
  for (int index = 0; block != NULL; index++) {
    if (index == MOST_ARENAS) Py_FatalError("the table of arenas is full");
    if (arenas[index].block == NULL) {
      arenas[index] = (struct arena){block, size, running};
      break;
    }
  }
  return block;
}

static void arena_free(void *context, void *block, size_t size) {
  (void)context;
  for (int index = 0; index < MOST_ARENAS; index++)
    if (arenas[index].block == block) arenas[index].block = NULL;
  before.free(before.ctx, block, size);
}

static PyObject *watch_arenas(PyObject *self, PyObject *nothing) {
  (void)self, (void)nothing;
  PyObjectArenaAllocator watching = {NULL, arena_alloc, arena_free};
  PyObject_GetArenaAllocator(&before);
  PyObject_SetArenaAllocator(&watching);
  Py_RETURN_NONE;
}

/* enter(site): the arenas that are made from now on are this site's. */
static PyObject *enter(PyObject *self, PyObject *site) {
  (void)self;
  running = PyLong_AsLong(site);
  if (running == -1 && PyErr_Occurred()) return NULL;
  Py_RETURN_NONE;
}

/* arenas_of(site): bytes of the live arenas that were made in it. */
static PyObject *arenas_of(PyObject *self, PyObject *site) {
  (void)self;
  size_t sum = 0;
  long wanted = PyLong_AsLong(site);
  if (wanted == -1 && PyErr_Occurred()) return NULL;
  for (int index = 0; index < MOST_ARENAS; index++)
    if (arenas[index].block != NULL && arenas[index].site == wanted) sum += arenas[index].size;
  return PyLong_FromSize_t(sum);
}

static PyMethodDef methods[] = {
    {"watch_arenas", watch_arenas, METH_NOARGS, NULL},
    {"enter", enter, METH_O, NULL},
    {"arenas_of", arenas_of, METH_O, NULL},
    {"hold", hold, METH_VARARGS, NULL},
    {"resize", resize, METH_VARARGS, NULL},
    {"call", call, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "line_sites", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_line_sites(void) { return PyModule_Create(&module); }
