/* Random calls of a NumPy data handler (NEP 49) from threads outside Python, against a shadow map: every block's size
   and contents are known, no two live blocks may overlap, and what calloc gives must be zero. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct handler {
  char name[127];
  uint8_t version;
  void *ctx;
  void *(*malloc)(void *, size_t);
  void *(*calloc)(void *, size_t, size_t);
  void *(*realloc)(void *, void *, size_t);
  void (*free)(void *, void *, size_t);
};

struct block {
  unsigned char *start;
  size_t size;
  unsigned char fill;
};

#define SLOTS 512
static struct block blocks[SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct handler *handler;
static int steps, failures;
static size_t alignment;
static volatile int running;

static void fail(const char *what, struct block *block) {
  fprintf(stderr, "array_storm: %s: %p, %zu bytes\n", what, (void *)block->start, block->size);
  __atomic_add_fetch(&failures, 1, __ATOMIC_SEQ_CST);
}

static unsigned next(unsigned *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static size_t some_size(unsigned *state) {
  unsigned kind = next(state) % 100;
  if (kind < 70) return next(state) % 1200;
  if (kind < 95) return next(state) % 100000;
  return next(state) % 3000000;
}

/* The bytes that are written and checked: all of a small block, some of a large one. */
static size_t stride(size_t size) { return size < 20000 ? 1 : 509; }

static void paint(struct block *block, size_t from) {
  for (size_t at = from; at < block->size; at += stride(block->size)) block->start[at] = block->fill;
  if (block->size > from) block->start[block->size - 1] = block->fill;
}

static void check(struct block *block, size_t size, unsigned char fill) {
  for (size_t at = 0; at < size; at += stride(block->size))
    if (block->start[at] != fill) {
      fail(fill ? "contents changed" : "not zero", block);
      return;
    }
}

static void step(unsigned *state) {
  unsigned slot = next(state) % SLOTS;
  struct block block;
  pthread_mutex_lock(&lock);
  block = blocks[slot];
  blocks[slot].start = NULL;
  pthread_mutex_unlock(&lock);
  unsigned kind = next(state) % 4;
  if (!block.start) {
    block.size = some_size(state);
    if (kind == 0) {
      block.start = handler->calloc(handler->ctx, block.size, 1);
      if (block.start) check(&block, block.size, 0);
    } else {
      block.start = handler->malloc(handler->ctx, block.size);
    }
    if (!block.start) {
      fail("no memory", &block);
      return;
    }
    block.fill = 1 + next(state) % 255;
    paint(&block, 0);
  } else if (kind == 0) {
    size_t before = block.size, after = some_size(state);
    check(&block, before, block.fill);
    block.size = before; /* painted with the stride of this size */
    unsigned char *moved = handler->realloc(handler->ctx, block.start, after);
    if (!moved) {
      fail("no memory", &block);
      return;
    }
    block.start = moved;
    size_t kept = before < after ? before : after;
    for (size_t at = 0; at < kept; at += stride(before))
      if (moved[at] != block.fill) {
        fail("contents lost by realloc", &block);
        break;
      }
    block.size = after;
    paint(&block, 0);
  } else {
    check(&block, block.size, block.fill);
    handler->free(handler->ctx, block.start, block.size / 2); /* NumPy's sizes are guesses, too */
    handler->free(handler->ctx, NULL, 0);
    return;
  }
  if ((size_t)block.start % alignment) fail("not aligned", &block);
  pthread_mutex_lock(&lock);
  struct block old = blocks[slot];
  blocks[slot] = block;
  pthread_mutex_unlock(&lock);
  if (old.start) handler->free(handler->ctx, old.start, old.size);
}

static void *work(void *seed) {
  unsigned state = (unsigned)(size_t)seed * 2654435761u + 1;
  for (int count = 0; running || count < steps; count++) step(&state);
  return NULL;
}

#define MAX_THREADS 16
static pthread_t threads[MAX_THREADS];
static int thread_count;

void storm_start(struct handler *given, size_t aligned_to, int how_many, int how_long, int seed, int endless) {
  handler = given;
  alignment = aligned_to;
  steps = how_long;
  running = endless;
  thread_count = how_many;
  for (int index = 0; index < thread_count; index++)
    pthread_create(&threads[index], NULL, work, (void *)(size_t)(seed * 100 + index + 1));
}

/* Waits for the threads; the failures so far. */
int storm_join(void) {
  running = 0;
  for (int index = 0; index < thread_count; index++) pthread_join(threads[index], NULL);
  thread_count = 0;
  return failures;
}

static int by_address(const void *a, const void *b) {
  const struct block *left = a, *right = b;
  return left->start < right->start ? -1 : left->start > right->start;
}

/* What lives: blocks, bytes that were asked for, and bytes by `usable_size` where it is not null. Checks that no two
   blocks overlap. While no thread runs. */
void storm_live(size_t *count, size_t *bytes, size_t *usable, size_t (*usable_size)(void *)) {
  static struct block sorted[SLOTS];
  *count = *bytes = *usable = 0;
  for (int slot = 0; slot < SLOTS; slot++)
    if (blocks[slot].start) {
      sorted[(*count)++] = blocks[slot];
      *bytes += blocks[slot].size;
      if (usable_size) *usable += usable_size(blocks[slot].start);
      check(&blocks[slot], blocks[slot].size, blocks[slot].fill);
    }
  qsort(sorted, *count, sizeof *sorted, by_address);
  for (size_t index = 1; index < *count; index++)
    if (sorted[index - 1].start + sorted[index - 1].size > sorted[index].start) fail("overlap", &sorted[index]);
}

static void *release(void *unused) {
  for (int slot = 0; slot < SLOTS; slot++) {
    if (blocks[slot].start) handler->free(handler->ctx, blocks[slot].start, blocks[slot].size);
    blocks[slot].start = NULL;
  }
  return unused;
}

/* Frees what lives, in a thread that allocated none of it. */
void storm_release(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, release, NULL);
  pthread_join(thread, NULL);
}
