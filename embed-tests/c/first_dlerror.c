/* Preloaded before a Python: says what dlerror() has for a program that has not called dlopen or dlsym yet. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int Py_RunMain(void) {
  const char *error = dlerror();
  fprintf(stderr, "dlerror: %s\n", error ? error : "none");
  int (*next)(void) = (int (*)(void))dlsym(RTLD_NEXT, "Py_RunMain");
  return next();
}
