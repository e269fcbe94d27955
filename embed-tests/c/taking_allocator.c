/* Preloaded before a Python: puts allocators of its own, with a header before each block, in the place of
   CPython's MEM and OBJ before main, as profilers do. A block that it did not make ends the process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator.h"

enum { MEM = 1, OBJ = 2 };
static const size_t MAGIC = 0x7461676765640001;
static Allocator original[3];
static unsigned long made;

static void *tagged(size_t *block) {
  if (!block)
    return NULL;
  made++;
  block[0] = MAGIC;
  return block + 2;
}

static size_t *header_of(void *pointer) {
  size_t *block = (size_t *)pointer - 2;
  if (block[0] != MAGIC) {
    fprintf(stderr, "a foreign block\n");
    abort();
  }
  return block;
}

static void *take(void *ctx, size_t size) {
  Allocator *below = ctx;
  return tagged(below->malloc(below->ctx, size + 16));
}

static void *take_zeroed(void *ctx, size_t count, size_t size) {
  Allocator *below = ctx;
  return tagged(below->calloc(below->ctx, 1, count * size + 16));
}

static void *resize(void *ctx, void *pointer, size_t size) {
  Allocator *below = ctx;
  if (!pointer)
    return take(ctx, size);
  return tagged(below->realloc(below->ctx, header_of(pointer), size + 16));
}

static void give(void *ctx, void *pointer) {
  Allocator *below = ctx;
  if (pointer)
    below->free(below->ctx, header_of(pointer));
}

unsigned long blocks_made(void) { return made; }

__attribute__((constructor)) static void install(void) {
  void (*get)(int, Allocator *) = (void (*)(int, Allocator *))dlsym(RTLD_DEFAULT, "PyMem_GetAllocator");
  void (*set)(int, Allocator *) = (void (*)(int, Allocator *))dlsym(RTLD_DEFAULT, "PyMem_SetAllocator");
  if (!get || !set)
    return;
  for (int domain = MEM; domain <= OBJ; domain++) {
    get(domain, &original[domain]);
    Allocator own = {&original[domain], take, take_zeroed, resize, give};
    set(domain, &own);
  }
}
