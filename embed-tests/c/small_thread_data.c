#include <stdlib.h>

/* Thread-local data of a few bytes, which the loader takes from malloc; by `-ftls-model=initial-exec` at a fixed place below the
 * thread pointer, as libgomp's, where glibc has no address of it for dl_iterate_phdr. */
static __thread int calls;
static __thread void *kept;

int use(void) { return ++calls; }

void keep(void) { kept = malloc(100); }
