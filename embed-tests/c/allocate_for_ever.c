/* Called by a thread of Python that has given up the GIL: allocates and frees until the process is gone. */
#include <stdlib.h>
#include <string.h>

void allocate_for_ever(void)
{
    for (size_t round = 0;; round++) {
        char *block = malloc(24 + round % 1000);
        if (block)
            memset(block, 1, 24);
        free(block);
    }
}
