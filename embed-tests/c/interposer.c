/* A library that is preloaded, and interposes functions of libc: -DFUNCTIONS='F(clock_gettime) F(mmap)'.

   Each does what preloaded libraries do at their first call or at some: it looks up a name that nothing defines, whose
   error is text from malloc, looks up the real function, and allocates. It traps if its own thread calls it meanwhile,
   where a library that holds a lock would wait for ever: libc's malloc calls no function that can be interposed. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

struct function {
    void *real;
    const char *name;
    unsigned calls;
};

static __thread __attribute__((tls_model("initial-exec"))) int inside;

__attribute__((used, visibility("hidden"))) void *prepare(struct function *function) {
    if (inside) __builtin_trap();
    inside = 1;
    if (!function->real) {
        dlsym(RTLD_NEXT, "no_such_function");
        function->real = dlsym(RTLD_NEXT, function->name);
    }
    unsigned calls = __atomic_fetch_add(&function->calls, 1, __ATOMIC_RELAXED);
    for (size_t size = 10; size < 100000 && (calls < 50 || calls % 5000 == 0); size *= 7) {
        free(malloc(size));
        free(realloc(calloc(1, size), size * 2));
    }
    inside = 0;
    return function->real;
}

/* Any function, with any arguments: it jumps to the real one with what it was called with. */
#define F(NAME)                                                                                                        \
    __attribute__((used)) static struct function function_##NAME = {0, #NAME, 0};                                         \
    __asm__(".globl " #NAME "\n.type " #NAME ",@function\n" #NAME ":\n"                                                \
            "push %rbp\n mov %rsp, %rbp\n push %rdi\n push %rsi\n push %rdx\n push %rcx\n push %r8\n push %r9\n"       \
            "push %rax\n sub $136, %rsp\n"                                                                             \
            "movups %xmm0, (%rsp)\n movups %xmm1, 16(%rsp)\n movups %xmm2, 32(%rsp)\n movups %xmm3, 48(%rsp)\n"        \
            "movups %xmm4, 64(%rsp)\n movups %xmm5, 80(%rsp)\n movups %xmm6, 96(%rsp)\n movups %xmm7, 112(%rsp)\n"     \
            "lea function_" #NAME "(%rip), %rdi\n call prepare\n mov %rax, %r11\n"                                     \
            "movups (%rsp), %xmm0\n movups 16(%rsp), %xmm1\n movups 32(%rsp), %xmm2\n movups 48(%rsp), %xmm3\n"        \
            "movups 64(%rsp), %xmm4\n movups 80(%rsp), %xmm5\n movups 96(%rsp), %xmm6\n movups 112(%rsp), %xmm7\n"     \
            "add $136, %rsp\n pop %rax\n pop %r9\n pop %r8\n pop %rcx\n pop %rdx\n pop %rsi\n pop %rdi\n pop %rbp\n"   \
            "jmp *%r11\n.size " #NAME ", .-" #NAME "\n");

FUNCTIONS
