/* A library that frees and resizes blocks of the program's by libc's functions, bound in every way but the usual one. With
   RTLD_DEEPBIND the plain names lead past the program, too. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

extern void *__libc_malloc(size_t);
extern void *__libc_realloc(void *, size_t);
extern void __libc_free(void *);

typedef void freeing(void *);
typedef void *resizing(void *, size_t);

static char *block(void) { return strdup("made inside libc"); }

static void *libc_itself(void) { return dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD); }

/* How many of the ways there are; it does not come back from one that libc refuses. */
int bound_past(void) {
    free(block());
    free(realloc(block(), 100000));
    __libc_free(block());
    free(__libc_realloc(block(), 100000));
    free(__libc_malloc(100));
    ((freeing *)dlsym(RTLD_NEXT, "free"))(block());
    ((freeing *)dlsym(RTLD_NEXT, "__libc_free"))(block());
    ((freeing *)dlsym(RTLD_DEFAULT, "__libc_free"))(block());
    ((freeing *)dlsym(libc_itself(), "free"))(block());
    free(((resizing *)dlsym(RTLD_NEXT, "realloc"))(block(), 100000));
    free(((void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc"))(10, 100));
#ifdef __x86_64__
    ((freeing *)dlvsym(RTLD_NEXT, "free", "GLIBC_2.2.5"))(block());
    ((freeing *)dlvsym(RTLD_DEFAULT, "free", "GLIBC_2.2.5"))(block());
    ((freeing *)dlvsym(libc_itself(), "cfree", "GLIBC_2.2.5"))(block());
#endif
    /* A name that is not of the family is found after this library, and one that is nowhere is not. */
    return dlsym(RTLD_NEXT, "getpid") && !dlsym(RTLD_NEXT, "no_such_name");
}
