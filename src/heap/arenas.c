/* What mimalloc keeps for itself: its arenas, the threads that it knows, and its blocks in the main heap.

   The lists are read by pages.rs while the heap's gate is closed, so that none of them changes. Nothing but
   pyhost_purge allocates, locks or writes. The structures are internal to the pinned version of mimalloc. */

#include "mimalloc.h"
#include "mimalloc/internal.h"
#include "mimalloc/prim.h"
#include "bitmap.h"

/* Called for an entry of a list: its address, and of an arena its bytes, and how many of them at its start are
   mimalloc's own description of it. */
typedef void visit_t(void* arg, size_t entry, size_t bytes, size_t own);

/* Tells of each arena. */
void pyhost_each_arena(visit_t* visit, void* arg) {
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
void pyhost_each_thread(visit_t* visit, void* arg) {
  mi_heap_t* const heap = mi_atomic_load_ptr_acquire(mi_heap_t, &_mi_subproc_main()->heap_main);
  if (heap == NULL) return;
  for (mi_theap_t* theap = heap->theaps; theap != NULL; theap = theap->hnext) {
    mi_tld_t* const tld = theap->tld;
    if (tld != NULL) visit(arg, tld->thread_id, 0, 0);
  }
}

/* Tells of mimalloc's own blocks in the main heap, as far as it has a list of them: each other heap's
   description, and that heap's part of each arena. */
void pyhost_each_own_block(visit_t* visit, void* arg) {
  mi_subproc_t* const subproc = _mi_subproc_main();
  mi_heap_t* const heap_main = mi_atomic_load_ptr_acquire(mi_heap_t, &subproc->heap_main);
  for (mi_heap_t* heap = subproc->heaps; heap != NULL; heap = heap->next) {
    if (heap == heap_main) continue;
    visit(arg, (size_t)heap, 0, 0);
    for (size_t i = 0; i < MI_MAX_ARENAS; i++) {
      mi_arena_pages_t* const part = mi_atomic_load_ptr_acquire(mi_arena_pages_t, &heap->arena_pages[i]);
      if (part != NULL) visit(arg, (size_t)part, 0, 0);
    }
  }
}

/* The first word of mi_thread_locals_t (threadlocal.c): 0 in the one that every thread begins with. */
extern mi_decl_thread size_t* mi_thread_locals;

/* The calling thread's table of heaps, a block of the main heap; null before there is one. */
void* pyhost_thread_table(void) {
  return (*mi_thread_locals == 0 ? NULL : mi_thread_locals);
}

/* Counts slices of all arenas: those in use, and those that are free and wait to be given back. Any thread: bits of the
   bitmaps may change meanwhile. */
void pyhost_count_slices(size_t* used, size_t* waiting) {
  mi_subproc_t* const subproc = _mi_subproc_main();
  const size_t count = mi_atomic_load_acquire(&subproc->arena_count);
  *used = *waiting = 0;
  for (size_t i = 0; i < count && i < MI_MAX_ARENAS; i++) {
    mi_arena_t* const arena = mi_atomic_load_ptr_acquire(mi_arena_t, &subproc->arenas[i]);
    if (arena == NULL) continue;
    *used += arena->slice_count;
    const size_t chunks = mi_bbitmap_chunk_count(arena->slices_free);
    for (size_t c = 0; c < chunks; c++) {
      for (size_t f = 0; f < MI_BCHUNK_FIELDS; f++) {
        const mi_bfield_t free = mi_atomic_load_relaxed(&arena->slices_free->chunks[c].bfields[f]);
        const mi_bfield_t purge = mi_atomic_load_relaxed(&arena->slices_purge->chunks[c].bfields[f]);
        *used -= mi_popcount(free);
        *waiting += mi_popcount(free & purge);
      }
    }
  }
}

/* Gives back all that waits for it. Any thread inside the gate. Of the thread's description mimalloc reads whose arenas
   they are, and a number. */
void pyhost_purge(void) {
  _mi_arenas_collect(true, true, _mi_theap_default()->tld);
}
