/* The bugs of cpp_bugs.h for ctypes and cffi. Returns 0; 1 if the name is not known, 2 if memory is short. With OWN the library
   has operators new and delete of its own, and counts their calls. */
#include "cpp_bugs.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int cpp_bug(const char *name) {
    try {
        return !cpp_bugs::make(name);
    } catch (const std::bad_alloc &) {
        return 2;
    }
}

#ifdef OWN
static int calls;
EXPORTED int own_calls() { return calls; }
__attribute__((visibility("default"))) void *operator new(size_t size) {
    void *block = malloc(size ? size : 1);
    calls++;
    return block ? block : throw std::bad_alloc();
}
__attribute__((visibility("default"))) void operator delete(void *block) noexcept { free(block); }
__attribute__((visibility("default"))) void operator delete(void *block, size_t) noexcept { free(block); }
#endif
