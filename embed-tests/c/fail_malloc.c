/* Lets one request of the process's malloc family fail: preloaded into stock Python, to show what native code does
 * there. fail_native(n): the nth request from now on by any code but libpython's own, whose domains set_nomemory
 * reaches. realloc is a request, free none. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

static atomic_long left;
static uintptr_t python_start, python_end;

static int find_python(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size, (void)data;
    if (!strstr(info->dlpi_name, "libpython3.")) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_LOAD) {
            uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            uintptr_t end = start + info->dlpi_phdr[i].p_memsz;
            python_start = python_start && python_start < start ? python_start : start;
            python_end = python_end > end ? python_end : end;
        }
    }
    return 1;
}

void fail_native(long number)
{
    dl_iterate_phdr(find_python, NULL);
    atomic_store(&left, number);
}

static int fails(void *caller)
{
    uintptr_t from = (uintptr_t)caller;
    if (atomic_load(&left) <= 0 || (from >= python_start && from < python_end)) {
        return 0;
    }
    if (atomic_fetch_sub(&left, 1) != 1) {
        return 0;
    }
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *pointer, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(pointer, size);
}
