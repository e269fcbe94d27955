/* A hook over all domains of Python's memory, which passes each request on to the table that it has found. */
#include <stddef.h>

typedef struct {
    void *ctx;
    void *(*malloc)(void *, size_t);
    void *(*calloc)(void *, size_t, size_t);
    void *(*realloc)(void *, void *, size_t);
    void (*free)(void *, void *);
} Table;

extern void PyMem_GetAllocator(int, Table *);
extern void PyMem_SetAllocator(int, Table *);

/* Not in a row, as tracemalloc's are. */
static struct { Table table; long between; } beneath[3];

static void *pass_malloc(void *ctx, size_t size) {
    Table *table = ctx;
    return table->malloc(table->ctx, size);
}

static void *pass_calloc(void *ctx, size_t count, size_t size) {
    Table *table = ctx;
    return table->calloc(table->ctx, count, size);
}

static void *pass_realloc(void *ctx, void *block, size_t size) {
    Table *table = ctx;
    return table->realloc(table->ctx, block, size);
}

static void pass_free(void *ctx, void *block) {
    Table *table = ctx;
    table->free(table->ctx, block);
}

void begin(void) {
    for (int domain = 0; domain < 3; domain++) {
        Table *own = &beneath[domain].table;
        PyMem_GetAllocator(domain, own);
        Table table = {own, pass_malloc, pass_calloc, pass_realloc, pass_free};
        PyMem_SetAllocator(domain, &table);
    }
}
