/* An extension module that allocates in every domain. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject *roundtrip(PyObject *self, PyObject *arg) {
  (void)self;
  char *data;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(arg, &data, &size) != 0) return NULL;
  char *raw = PyMem_RawMalloc(size), *mem = PyMem_Malloc(size), *obj = PyObject_Malloc(size);
  PyObject *result = NULL;
  if (raw && mem && obj) {
    memcpy(raw, data, size);
    memcpy(mem, raw, size);
    memcpy(obj, mem, size);
    result = PyBytes_FromStringAndSize(obj, size);
  }
  PyMem_RawFree(raw);
  PyMem_Free(mem);
  PyObject_Free(obj);
  return result;
}

static PyMethodDef methods[] = {{"roundtrip", roundtrip, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "extension", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_extension(void) { return PyModule_Create(&module); }
