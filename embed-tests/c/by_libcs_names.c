/* The malloc family by libc's other names for it, as a preloaded library that counts or logs calls has it. */
#include <stddef.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

void *malloc(size_t size) { return __libc_malloc(size); }

void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }

void *realloc(void *block, size_t size) { return __libc_realloc(block, size); }

void *memalign(size_t alignment, size_t size) { return __libc_memalign(alignment, size); }

void free(void *block) { __libc_free(block); }
