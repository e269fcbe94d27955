/* A data handler for NumPy, of the kind that NEP 49 itself gives as its example: a header in front of each block notes
   the block's size, and `free` and `realloc` look for it. Its memory is malloc's.

   The data that NumPy sees is shifted by the header: a block that reaches another handler's `free`, or a foreign block
   that reaches this one's, does not go unseen. Any thread; `realloc` and `free` without the GIL too. */
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#define NPY_TARGET_VERSION NPY_1_22_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SHIFT 64
#define NAME "shifting"

/* The mark of a block, and what replaces it once the block was given back. */
static const char LIVE[16] = "shifted, live", FREED[16] = "shifted, freed";

typedef struct {
  char mark[sizeof LIVE];
  size_t size;
} Header;
_Static_assert(sizeof(Header) <= SHIFT, "the header fits in front of the data");

/* Where the memory comes from; the handler's context. */
typedef struct {
  void *(*malloc)(size_t);
  void *(*calloc)(size_t, size_t);
  void *(*realloc)(void *, size_t);
  void (*free)(void *);
} Source;

static atomic_size_t allocations, frees, bad_frees, bad_reallocs, wrong_sizes, live_bytes;

static void *shifted(char *block, size_t size) {
  Header *header = (Header *)block;
  memcpy(header->mark, LIVE, sizeof LIVE);
  header->size = size;
  live_bytes += size;
  return block + SHIFT;
}

static void *shifting_malloc(void *context, size_t size) {
  Source *source = context;
  char *block = size > SIZE_MAX - SHIFT ? NULL : source->malloc(size + SHIFT);
  if (block == NULL) return NULL;
  allocations++;
  return shifted(block, size);
}

static void *shifting_calloc(void *context, size_t count, size_t size) {
  Source *source = context;
  if (size != 0 && count > (SIZE_MAX - SHIFT) / size) return NULL;
  char *block = source->calloc(1, count * size + SHIFT);
  if (block == NULL) return NULL;
  allocations++;
  return shifted(block, count * size);
}

static void *shifting_realloc(void *context, void *data, size_t size) {
  Source *source = context;
  if (data == NULL) return shifting_malloc(context, size);
  char *block = (char *)data - SHIFT;
  if (memcmp(block, LIVE, sizeof LIVE) != 0) {
    bad_reallocs++;
    return NULL;
  }
  size_t before = ((Header *)block)->size;
  char *moved = size > SIZE_MAX - SHIFT ? NULL : source->realloc(block, size + SHIFT);
  if (moved == NULL) return NULL;
  live_bytes -= before;
  return shifted(moved, size);
}

static void shifting_free(void *context, void *data, size_t size) {
  Source *source = context;
  if (data == NULL) return;
  Header *header = (Header *)((char *)data - SHIFT);
  if (memcmp(header->mark, LIVE, sizeof LIVE) != 0) {
    bad_frees++; /* and is left where it is: whose it may be is unknown */
    return;
  }
  /* Of an array without elements NumPy 1.22 tells 1, whatever it asked for. */
  if (header->size != size && size > 1) wrong_sizes++;
  frees++;
  live_bytes -= header->size;
  memcpy(header->mark, FREED, sizeof FREED);
  source->free(header);
}

static Source source = {malloc, calloc, realloc, free};
/* For ever: arrays hold pointers to it. */
static PyDataMem_Handler handler = {
    NAME, 1, {&source, shifting_malloc, shifting_calloc, shifting_realloc, shifting_free}};
static PyObject *capsule;

static PyObject *set(PyObject *self, PyObject *none) { return PyDataMem_SetHandler(capsule); }

static PyObject *restore(PyObject *self, PyObject *previous) {
  return PyDataMem_SetHandler(previous == Py_None ? NULL : previous);
}

static PyObject *counters(PyObject *self, PyObject *none) {
  return Py_BuildValue("{s:n,s:n,s:n,s:n,s:n,s:n}", "allocations", (Py_ssize_t)allocations, "frees",
                       (Py_ssize_t)frees, "bad_frees", (Py_ssize_t)bad_frees, "bad_reallocs",
                       (Py_ssize_t)bad_reallocs, "wrong_sizes", (Py_ssize_t)wrong_sizes, "live_bytes",
                       (Py_ssize_t)live_bytes);
}

static PyObject *free_badly(PyObject *self, PyObject *none) {
  char foreign[SHIFT + 1] = "";
  shifting_free(&source, foreign + SHIFT, 1);
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"set", set, METH_NOARGS, "Sets the handler in the current context; returns the one before."},
    {"restore", restore, METH_O, "Sets a handler that `set` returned, or NumPy's default for None."},
    {"counters", counters, METH_NOARGS, "What the handler counted so far."},
    {"free_badly", free_badly, METH_NOARGS, "Has the handler free what is not its own, to show that it counts that."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "shifting_handler", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit_shifting_handler(void) {
  import_array();
  capsule = PyCapsule_New(&handler, "mem_handler", NULL);
  PyObject *made = capsule == NULL ? NULL : PyModule_Create(&module);
  if (made != NULL && PyModule_AddStringConstant(made, "NAME", NAME) != 0) Py_CLEAR(made);
  return made;
}
