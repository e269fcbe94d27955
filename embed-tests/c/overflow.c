/* Writes one byte past a block of malloc's. */
#include <stdlib.h>

void overflow(size_t size);

void overflow(size_t size) {
  volatile char *block = malloc(size);
  block[size] = 1;
  free((void *)block);
}
