/* Preloaded: a thread that allocates and frees in the raw domain from before `main` until the
   process is gone, as a library's thread may. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

static void *loop(void *unused) {
  (void)unused;
  void *(*raw_malloc)(size_t) = NULL, *(*raw_realloc)(void *, size_t) = NULL;
  void (*raw_free)(void *) = NULL;
  while (!raw_malloc || !raw_free || !raw_realloc) {
    raw_malloc = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "PyMem_RawMalloc");
    raw_realloc = (void *(*)(void *, size_t))dlsym(RTLD_DEFAULT, "PyMem_RawRealloc");
    raw_free = (void (*)(void *))dlsym(RTLD_DEFAULT, "PyMem_RawFree");
  }
  for (size_t round = 0;; round++) {
    char *block = raw_malloc(24 + round % 100);
    if (!block) continue;
    memset(block, 1, 24);
    block = raw_realloc(block, 300);
    if (block) raw_free(block);
  }
  return NULL;
}

__attribute__((constructor)) static void start(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, loop, NULL);
  pthread_detach(thread);
}
