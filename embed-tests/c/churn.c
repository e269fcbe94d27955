/* Threads outside Python: each allocates, by malloc and in the raw domain, leaves some blocks for
   others to free, and ends; some free in the destructor of a key of their own, after the
   allocator's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LEFT 64
static void *left[LEFT], *left_raw[LEFT];
static void *(*raw_malloc)(size_t);
static void (*raw_free)(void *);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void end(void *block) {
  free(block);
  char *late = malloc(40);
  memset(late, 2, 40);
  free(late);
}

static void prepare(void) {
  pthread_key_create(&key, end);
  raw_malloc = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "PyMem_RawMalloc");
  raw_free = (void (*)(void *))dlsym(RTLD_DEFAULT, "PyMem_RawFree");
}

static void *work(void *seed) {
  unsigned state = (unsigned)(size_t)seed * 2654435761u + 1;
  for (int step = 0; step < 2000; step++) {
    state = state * 1664525u + 1013904223u;
    size_t size = (state >> 16) % 100 == 0 ? 100000 : (state >> 16) % 600 + 1;
    int is_raw = step % 2;
    char *block = is_raw ? raw_malloc(size) : malloc(size);
    block[0] = block[size - 1] = 1;
    pthread_mutex_lock(&lock);
    void **place = &(is_raw ? left_raw : left)[state % LEFT], *old = *place;
    *place = block;
    pthread_mutex_unlock(&lock);
    if (is_raw) raw_free(old);
    else free(old);
  }
  pthread_setspecific(key, malloc(100));
  return NULL;
}

void churn(int rounds, int threads) {
  pthread_once(&once, prepare);
  pthread_t ids[256];
  for (int round = 0; round < rounds; round++) {
    for (int i = 0; i < threads; i++) pthread_create(&ids[i], NULL, work, (void *)(size_t)(round * 1000 + i));
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
  }
  pthread_mutex_lock(&lock);
  for (int i = 0; i < LEFT; i++) {
    free(left[i]);
    raw_free(left_raw[i]);
    left[i] = left_raw[i] = NULL;
  }
  pthread_mutex_unlock(&lock);
}

static void *alone(void *unused) {
  (void)unused;
  void *blocks[300], *raw_blocks[300];
  for (size_t i = 0; i < 300; i++) {
    blocks[i] = malloc(i * i);
    raw_blocks[i] = raw_malloc(i * i);
  }
  for (size_t i = 0; i < 300; i++) {
    free(blocks[i]);
    raw_free(raw_blocks[i]);
  }
  return NULL;
}

/* Fresh threads that share no lock with those above: for a forked child. */
void fresh_threads(void) {
  pthread_t ids[2];
  for (int i = 0; i < 2; i++) pthread_create(&ids[i], NULL, alone, NULL);
  for (int i = 0; i < 2; i++) pthread_join(ids[i], NULL);
}

static volatile int stop;
static void *forever(void *unused) {
  (void)unused;
  while (!stop) churn(1, 2);
  return NULL;
}
static pthread_t background;
void start_background(void) {
  pthread_once(&once, prepare); // a child of a fork may need what it sets before the thread has begun
  stop = 0;
  pthread_create(&background, NULL, forever, NULL);
}
void stop_background(void) { stop = 1; pthread_join(background, NULL); }
