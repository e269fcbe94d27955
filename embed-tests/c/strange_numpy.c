/* An extension module that calls itself NumPy's, with a table of functions of the ABI and API versions that the
   environment gives (STRANGE_ABI, STRANGE_FEATURE), and nothing behind the slots of handlers. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static unsigned number(const char *name) {
  const char *text = getenv(name);
  return text ? (unsigned)strtoul(text, NULL, 16) : 0;
}
static unsigned abi(void) { return number("STRANGE_ABI"); }
static unsigned feature(void) { return number("STRANGE_FEATURE"); }
static void *table[400] = {[0] = abi, [211] = feature};
static PyObject *nothing;

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_multiarray_umath", NULL, -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__multiarray_umath(void) {
  PyObject *made = PyModule_Create(&module);
  if (getenv("STRANGE_DEFAULT")) { /* a default handler's capsule that no context variable holds */
    nothing = PyCapsule_New(table, "mem_handler", NULL);
    table[304] = PyObject_Repr; /* takes and gives an object, and sets no variable */
  }
  table[306] = &nothing;
  if (made && !getenv("STRANGE_NO_TABLE")) PyModule_AddObject(made, "_ARRAY_API", PyCapsule_New(table, NULL, NULL));
  return made;
}
