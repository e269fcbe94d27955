/* What mimalloc keeps outside its pages: its arenas, and the threads that it knows.

   Called by pages.rs while the heap's gate is closed, so that neither list changes. Nothing here
   allocates, locks or writes. The structures are internal to the pinned version of mimalloc. */

#include "mimalloc.h"
#include "mimalloc/internal.h"

/* Tells of each arena: where it begins, its bytes, and how many of them at its start are mimalloc's
   own description of it. */
void pyhost_each_arena(void (*visit)(void* arg, size_t start, size_t bytes, size_t own), void* arg) {
  mi_subproc_t* const subproc = _mi_subproc_main();
  const size_t count = mi_atomic_load_acquire(&subproc->arena_count);
  for (size_t i = 0; i < count && i < MI_MAX_ARENAS; i++) {
    mi_arena_t* const arena = mi_atomic_load_ptr_acquire(mi_arena_t, &subproc->arenas[i]);
    if (arena != NULL) {
      visit(arg, (size_t)arena, arena->slice_count * MI_ARENA_SLICE_SIZE,
            arena->info_slices * MI_ARENA_SLICE_SIZE);
    }
  }
}

/* Tells of each thread that has a part of the main heap, by its thread pointer. */
void pyhost_each_thread(void (*visit)(void* arg, size_t thread), void* arg) {
  mi_heap_t* const heap = mi_atomic_load_ptr_acquire(mi_heap_t, &_mi_subproc_main()->heap_main);
  if (heap == NULL) return;
  for (mi_theap_t* theap = heap->theaps; theap != NULL; theap = theap->hnext) {
    mi_tld_t* const tld = theap->tld;
    if (tld != NULL) visit(arg, tld->thread_id);
  }
}
