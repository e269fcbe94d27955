/* CPython's PyMemAllocatorEx (cpython/pymem.h), for files that are compiled without its headers. */
#include <stddef.h>

typedef struct {
  void *ctx;
  void *(*malloc)(void *, size_t);
  void *(*calloc)(void *, size_t, size_t);
  void *(*realloc)(void *, void *, size_t);
  void (*free)(void *, void *);
} Allocator;
