/* Follows a pointer of a freed block, by the register that elsewhere holds the frame. */
#include <stdlib.h>

void load_freed(void)
{
#if defined(__x86_64__)
    void **block = malloc(64);
    free(block);
    __asm__ volatile("push %%rbp\n\tmov (%0), %%rbp\n\tmov 8(%%rbp), %%rax\n\tpop %%rbp" : : "r"(block) : "rax", "memory");
#endif
}
