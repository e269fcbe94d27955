/* Threads outside Python: each allocates, leaves some blocks for others to free, and ends; some
   free in the destructor of a key of their own, after the allocator's. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LEFT 64
static void *left[LEFT];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void end(void *block) {
  free(block);
  char *late = malloc(40);
  memset(late, 2, 40);
  free(late);
}

static void make_key(void) { pthread_key_create(&key, end); }

static void *work(void *seed) {
  unsigned state = (unsigned)(size_t)seed * 2654435761u + 1;
  for (int step = 0; step < 2000; step++) {
    state = state * 1664525u + 1013904223u;
    size_t size = (state >> 16) % 100 == 0 ? 100000 : (state >> 16) % 600 + 1;
    char *block = malloc(size);
    block[0] = block[size - 1] = 1;
    pthread_mutex_lock(&lock);
    void *old = left[state % LEFT];
    left[state % LEFT] = block;
    pthread_mutex_unlock(&lock);
    free(old);
  }
  pthread_setspecific(key, malloc(100));
  return NULL;
}

void churn(int rounds, int threads) {
  pthread_once(&once, make_key);
  pthread_t ids[256];
  for (int round = 0; round < rounds; round++) {
    for (int i = 0; i < threads; i++) pthread_create(&ids[i], NULL, work, (void *)(size_t)(round * 1000 + i));
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
  }
  for (int i = 0; i < LEFT; i++) { free(left[i]); left[i] = NULL; }
}

static volatile int stop;
static void *forever(void *unused) {
  (void)unused;
  while (!stop) churn(1, 2);
  return NULL;
}
static pthread_t background;
void start_background(void) { stop = 0; pthread_create(&background, NULL, forever, NULL); }
void stop_background(void) { stop = 1; pthread_join(background, NULL); }
