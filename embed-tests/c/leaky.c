/* An extension module that loses a block, or keeps one. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>

void *leaky_kept;

static PyObject *leak(PyObject *self, PyObject *arg) {
  (void)self;
  const char *kind = PyUnicode_AsUTF8(arg);
  if (!kind) return NULL;
  void *block = NULL;
  if (!strcmp(kind, "raw")) block = PyMem_RawMalloc(100);
  else if (!strcmp(kind, "mem")) block = PyMem_Malloc(100);
  else if (!strcmp(kind, "obj")) block = PyObject_Malloc(100);
  else if (!strcmp(kind, "native")) block = malloc(100);
  else if (!strcmp(kind, "kept")) block = leaky_kept = PyMem_Malloc(100);
  else if (!strcmp(kind, "reference")) block = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
  else if (!strcmp(kind, "list")) block = Py_BuildValue("[[iii]s]", 100000, 200000, 300000, kind);
  if (!block) return PyErr_Format(PyExc_ValueError, "%s", kind);
  if (block != (void *)0 && strcmp(kind, "reference") && strcmp(kind, "list")) memset(block, 0, 100);
  Py_RETURN_NONE;
}

/* Gives up the counting of a reference that its caller has. */
static PyObject *leak_reference(PyObject *self, PyObject *arg) {
  (void)self;
  Py_INCREF(arg);
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"leak", leak, METH_O, NULL}, {"leak_reference", leak_reference, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "leaky", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_leaky(void) {
  PyObject *made = PyModule_Create(&module);
#ifdef Py_GIL_DISABLED
  if (made) PyUnstable_Module_SetGIL(made, Py_MOD_GIL_NOT_USED);
#endif
  return made;
}
