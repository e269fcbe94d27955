/* Threads that call malloc and free: random sizes, most of them small, and one block in eight is left in a shared
   mailbox, where whichever thread comes by next frees it. Every thread does the same number of steps. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define KEPT 512
#define LETTERS 1024

static _Atomic(char *) mailbox[LETTERS];
static long steps_of_each;
static pthread_barrier_t start;

static size_t some_size(unsigned chance) {
  unsigned kind = chance % 1000, rest = chance / 1000;
  if (kind == 0) return 20000 + rest % 100000;
  if (kind < 20) return 1024 + rest % 8000;
  if (kind < 250) return 128 + rest % 900;
  return 8 + rest % 120;
}

static void *work(void *number) {
  static _Thread_local char *kept[KEPT];
  unsigned state = (unsigned)(size_t)number * 2654435761u + 12345u;
  pthread_barrier_wait(&start);
  for (long step = 0; step < steps_of_each; step++) {
    state = state * 1664525u + 1013904223u;
    size_t size = some_size(state >> 4);
    char *block = malloc(size);
    block[0] = block[size - 1] = 1;
    char *old;
    if (step % 8 == 0) {
      old = atomic_exchange(&mailbox[(state >> 8) % LETTERS], block);
    } else {
      char **place = &kept[(state >> 8) % KEPT];
      old = *place;
      *place = block;
    }
    free(old);
  }
  for (int i = 0; i < KEPT; i++) {
    free(kept[i]);
    kept[i] = NULL;
  }
  return NULL;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Returns the seconds from the moment that all threads stand ready to the end of the last. */
double churn(int threads, long steps) {
  pthread_t ids[64];
  steps_of_each = steps;
  pthread_barrier_init(&start, NULL, (unsigned)threads + 1);
  for (int i = 0; i < threads; i++) pthread_create(&ids[i], NULL, work, (void *)(size_t)(i + 1));
  double began = now();
  pthread_barrier_wait(&start);
  for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
  double seconds = now() - began;
  pthread_barrier_destroy(&start);
  for (int i = 0; i < LETTERS; i++) free(atomic_exchange(&mailbox[i], NULL));
  return seconds;
}
