/* A hook over all domains of Python's memory, which passes each request on to the table that it has found. */
#include "allocator.h"

extern void PyMem_GetAllocator(int, Allocator *);
extern void PyMem_SetAllocator(int, Allocator *);

/* Not in a row, as tracemalloc's are. */
static struct { Allocator table; long between; } beneath[3];

static void *pass_malloc(void *ctx, size_t size) {
    Allocator *table = ctx;
    return table->malloc(table->ctx, size);
}

static void *pass_calloc(void *ctx, size_t count, size_t size) {
    Allocator *table = ctx;
    return table->calloc(table->ctx, count, size);
}

static void *pass_realloc(void *ctx, void *block, size_t size) {
    Allocator *table = ctx;
    return table->realloc(table->ctx, block, size);
}

static void pass_free(void *ctx, void *block) {
    Allocator *table = ctx;
    table->free(table->ctx, block);
}

void begin(void) {
    for (int domain = 0; domain < 3; domain++) {
        Allocator *own = &beneath[domain].table;
        PyMem_GetAllocator(domain, own);
        Allocator table = {own, pass_malloc, pass_calloc, pass_realloc, pass_free};
        PyMem_SetAllocator(domain, &table);
    }
}
