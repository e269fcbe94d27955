/* The functions by which libraries map memory, as the executable exports them.

   What a library calls is `mmap`: the dynamic linker finds it in the executable first. What the executable's own
   objects call, mimalloc among them, the linker has renamed to `__wrap_mmap` (`--wrap`, see build.rs and
   src/heap/system_memory/wrapped_calls.rs), so that the two need not be told apart at run time. In C, because the caller's address is
   known here alone. */

#include <stddef.h>

/* The offset of mmap64, of 64 bits everywhere. */
typedef long long offset_t;

void *pyhost_mmap(void *start, size_t size, int access, int flags, int file, offset_t offset, const void *caller);
int pyhost_munmap(void *start, size_t size);
void *pyhost_mremap(void *start, size_t old_size, size_t size, int flags, void *target, const void *caller);
int pyhost_mprotect(void *start, size_t size, int access);
int pyhost_madvise(void *start, size_t size, int advice);

void *mmap(void *start, size_t size, int access, int flags, int file, long offset) {
    return pyhost_mmap(start, size, access, flags, file, offset, __builtin_return_address(0));
}

#if __SIZEOF_LONG__ == 8
/* One address, as in libc: memray compares what it was linked to with what it finds. */
extern __typeof__(mmap) mmap64 __attribute__((alias("mmap")));
#else
void *mmap64(void *start, size_t size, int access, int flags, int file, offset_t offset) {
    return pyhost_mmap(start, size, access, flags, file, offset, __builtin_return_address(0));
}
#endif

int munmap(void *start, size_t size) { return pyhost_munmap(start, size); }

/* libc's takes `target` as a variable argument, which is passed as any other. */
void *mremap(void *start, size_t old_size, size_t size, int flags, void *target) {
    return pyhost_mremap(start, old_size, size, flags, target, __builtin_return_address(0));
}

int mprotect(void *start, size_t size, int access) { return pyhost_mprotect(start, size, access); }

int madvise(void *start, size_t size, int advice) { return pyhost_madvise(start, size, advice); }

/* The exported functions by names that are not renamed. */
#define EXPORTED(name) extern __typeof__(name) pyhost_exported_##name __attribute__((alias(#name)))
EXPORTED(mmap);
EXPORTED(mmap64);
EXPORTED(munmap);
EXPORTED(mremap);
EXPORTED(mprotect);
EXPORTED(madvise);
