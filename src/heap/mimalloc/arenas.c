/* What mimalloc keeps for itself: its arenas, the threads that it knows, and its blocks in the main heap.

   The lists are read by pages.rs while the heap's gate is closed, so that none of them changes. Nothing but
   pyhost_purge writes, and nothing allocates or locks. The structures are internal to the pinned version of mimalloc. */

#include "mimalloc.h"
#include "mimalloc/internal.h"
#include "mimalloc/prim.h"
#include "bitmap.h"

/* The numbers of the options that are set. */
const int PYHOST_ALLOW_LARGE_OS_PAGES = mi_option_allow_large_os_pages;
const int PYHOST_ARENA_EAGER_COMMIT = mi_option_arena_eager_commit;
const int PYHOST_ARENA_MAX_OBJECT_SIZE = mi_option_arena_max_object_size; /* in KiB */
const int PYHOST_ARENA_RESERVE = mi_option_arena_reserve; /* in KiB */
const int PYHOST_DISALLOW_OS_ALLOC = mi_option_disallow_os_alloc;
const int PYHOST_MAX_VABITS = mi_option_max_vabits;
const int PYHOST_PAGEMAP_COMMIT = mi_option_pagemap_commit;
const int PYHOST_PAGE_COMMIT_ON_DEMAND = mi_option_page_commit_on_demand;
const int PYHOST_PAGE_FULL_RETAIN = mi_option_page_full_retain;
const int PYHOST_PURGE_DELAY = mi_option_purge_delay; /* in milliseconds */
const int PYHOST_RESERVE_HUGE_OS_PAGES = mi_option_reserve_huge_os_pages;
const int PYHOST_RESERVE_OS_MEMORY = mi_option_reserve_os_memory; /* in KiB */

/* Called for an entry of a list: its address, and of an arena its bytes, and how many of them at its start are
   mimalloc's own description of it. Only pyhost_each_used is about a heap that its caller names. */
typedef void visit_t(void* arg, size_t entry, size_t bytes, size_t own);

/* Is 1 in the mimalloc that patches.rs has changed, and in no other. */
extern const int pyhost_patched;

/* Tells of each arena. */
void pyhost_each_arena(mi_heap_t* ignored, visit_t* visit, void* arg) {
  if (!pyhost_patched) return;
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
void pyhost_each_thread(mi_heap_t* ignored, visit_t* visit, void* arg) {
  mi_heap_t* const heap = mi_atomic_load_ptr_acquire(mi_heap_t, &_mi_subproc_main()->heap_main);
  if (heap == NULL) return;
  for (mi_theap_t* theap = heap->theaps; theap != NULL; theap = theap->hnext) {
    mi_tld_t* const tld = theap->tld;
    if (tld != NULL) visit(arg, tld->thread_id, 0, 0);
  }
}

/* Tells of mimalloc's own blocks in the main heap, as far as it has a list of them: each other heap's
   description, and that heap's part of each arena. */
void pyhost_each_own_block(mi_heap_t* ignored, visit_t* visit, void* arg) {
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

/* A visitor and its argument. */
typedef struct { visit_t* visit; void* arg; } visitor_t;

static bool visit_used(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size, void* arg) {
  const visitor_t* const visitor = arg;
  if (area->block_size > 0 && area->used > 0) visitor->visit(visitor->arg, area->block_size, area->used, 0);
  return true;
}

/* Tells of each page of a heap, null for the main one, that has live blocks: their usable bytes, and how many they are. */
void pyhost_each_used(mi_heap_t* heap, visit_t* visit, void* arg) {
  visitor_t visitor = { visit, arg };
  mi_heap_visit_blocks(heap, false, &visit_used, &visitor);
}

/* The first word of mi_thread_locals_t (threadlocal.c): 0 in the one that every thread begins with. */
extern mi_decl_thread size_t* mi_thread_locals;

/* The calling thread's table of heaps, a block of the main heap; null before there is one. */
void* pyhost_thread_table(void) {
  return (*mi_thread_locals == 0 ? NULL : mi_thread_locals);
}

/* The bits of a word that are set. Most words have all or none, and processors of the base have no instruction to count. */
static size_t set_bits(mi_bfield_t word) {
  return (word == 0 ? 0 : ~word == 0 ? MI_BFIELD_BITS : mi_popcount(word));
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
        *used -= set_bits(free);
        *waiting += set_bits(free & purge);
      }
    }
  }
}

/* Gives back a run of free slices, unless another thread takes one of them at this moment. */
static bool purge_run(mi_arena_t* arena, size_t first, size_t slices) {
  if (!mi_bbitmap_try_clearNC(arena->slices_free, first, slices)) return false;
  /* As mi_arena_purge: set, since only setting counts those that were committed. */
  size_t committed;
  mi_bitmap_setN(arena->slices_committed, first, slices, &committed);
  const bool all = (committed == slices);
  const bool recommit = _mi_os_purge_ex((uint8_t*)arena + first * MI_ARENA_SLICE_SIZE, slices * MI_ARENA_SLICE_SIZE, all,
                                        committed * MI_ARENA_SLICE_SIZE, arena->commit_fun, arena->commit_fun_arg);
  if (recommit || !all) mi_bitmap_clearN(arena->slices_committed, first, slices);
  mi_bbitmap_setN(arena->slices_free, first, slices);
  return true;
}

/* Called for a run of slices that wait, of one word of the bitmap. mimalloc leaves the mark of a slice that is taken
   again: it would give back such a run slice by slice, each by a system call, and in a process of several threads with an
   interrupt of the other processors. */
static bool purge_what_is_free(size_t first, size_t slices, mi_arena_t* arena, void* arg) {
  size_t* const left = (size_t*)arg;
  const size_t end = first + slices;
  while (first < end) {
    if (*left == 0) {
      mi_bitmap_setN(arena->slices_purge, first, end - first, NULL);
      return false;
    }
    const mi_bchunk_t* const chunk = &arena->slices_free->chunks[first / MI_BCHUNK_BITS];
    const size_t bit = first % MI_BFIELD_BITS;
    const mi_bfield_t free = mi_atomic_load_relaxed(&chunk->bfields[(first % MI_BCHUNK_BITS) / MI_BFIELD_BITS]) >> bit;
    size_t run = (~free == 0 ? MI_BFIELD_BITS : mi_ctz(~free));
    if (run > end - first) run = end - first;
    if (run > *left) run = *left;
    if (run > 1 && !purge_run(arena, first, run)) run = 1;
    if (run == 1) purge_run(arena, first, 1);
    *left -= (run < *left ? run : *left);
    first += (run > 0 ? run : 1);
  }
  return true;
}

/* Gives back what waits for it until that are so many bytes, the lowest addresses of the first arena first. Any thread inside the
   gate. */
void pyhost_purge(size_t bytes) {
  size_t left = bytes / MI_ARENA_SLICE_SIZE + (bytes % MI_ARENA_SLICE_SIZE != 0);
  mi_subproc_t* const subproc = _mi_subproc_main();
  const size_t count = mi_atomic_load_acquire(&subproc->arena_count);
  for (size_t i = 0; i < count && i < MI_MAX_ARENAS; i++) {
    mi_arena_t* const arena = mi_atomic_load_ptr_acquire(mi_arena_t, &subproc->arenas[i]);
    if (arena == NULL || arena->memid.is_pinned) continue;
    const bool all = _mi_bitmap_forall_setc_ranges(arena->slices_purge, &purge_what_is_free, arena, &left);
    if (!all) return;
    mi_atomic_storei64_release(&arena->purge_expire, (mi_msecs_t)0);
  }
}

/* Has the arena that holds an address ask `commit` before it uses slices and when it gives some back; without an address
   every arena, and marks all that they have free to be given back. Returns whether there is such an arena. */
bool pyhost_adopt_arenas(const void* address, mi_commit_fun_t* commit) {
  mi_subproc_t* const subproc = _mi_subproc_main();
  const size_t count = mi_atomic_load_acquire(&subproc->arena_count);
  for (size_t i = 0; i < count && i < MI_MAX_ARENAS; i++) {
    mi_arena_t* const arena = mi_atomic_load_ptr_acquire(mi_arena_t, &subproc->arenas[i]);
    if (arena == NULL || arena->memid.is_pinned) continue;
    if (arena->commit_fun != NULL && arena->commit_fun != commit) continue; /* of a region */
    const size_t bytes = arena->slice_count * MI_ARENA_SLICE_SIZE;
    if (address != NULL && (size_t)address - (size_t)arena >= bytes) continue;
    arena->commit_fun = commit;
    if (address != NULL) return true;
    for (size_t slice = arena->info_slices; slice < arena->slice_count; slice++) {
      if (mi_bbitmap_is_setN(arena->slices_free, slice, 1)) mi_bitmap_setN(arena->slices_purge, slice, 1, NULL);
    }
  }
  return address == NULL;
}

/* Where a page of one block lies in its arena. */
typedef struct {
  mi_arena_t* arena;
  size_t first, slices;
} place_t;

/* Whether the page is of one block, in an arena, so that it can be made longer or shorter. */
static bool find_place(const mi_page_t* page, place_t* place) {
  if (page->memid.memkind != MI_MEM_ARENA || page->reserved != 1 || page->slice_committed > 0) return false;
  place->arena = page->memid.mem.arena.arena;
  place->first = page->memid.mem.arena.slice_index;
  place->slices = page->memid.mem.arena.slice_count;
  return page->page_start == (uint8_t*)place->arena + place->first * MI_ARENA_SLICE_SIZE;
}

/* How many slices of a page of one block the page map has: as mi_page_map_get_idx. */
static size_t mapped_slices(size_t bytes) {
  if (bytes > MI_LARGE_PAGE_SIZE) bytes = MI_LARGE_PAGE_SIZE - MI_ARENA_SLICE_SIZE;
  return mi_slice_count_of_size(bytes);
}

/* Gives a page of one block, which has `slices`, another size. */
static void set_size(mi_page_t* page, size_t size, size_t slices) {
  const size_t before = mapped_slices(page->block_size), after = mapped_slices(size);
  page->block_size = size;
  page->memid.mem.arena.slice_count = (uint32_t)slices;
  if (after > before) _mi_page_map_register(page);
  if (after < before) {
    _mi_page_map_unregister_range(page->page_start + after * MI_ARENA_SLICE_SIZE, (before - after) * MI_ARENA_SLICE_SIZE);
  }
}

/* Takes free slices, which may lie in several chunks of the bitmap. Takes none if one of them is in use. */
static bool take_slices(mi_arena_t* arena, size_t first, size_t slices) {
  size_t taken = 0;
  while (taken < slices) {
    const size_t at = first + taken;
    const size_t left_in_chunk = MI_BCHUNK_BITS - at % MI_BCHUNK_BITS;
    const size_t run = (slices - taken < left_in_chunk ? slices - taken : left_in_chunk);
    if (!mi_bbitmap_try_clearNC(arena->slices_free, at, run)) {
      if (taken > 0) mi_bbitmap_setN(arena->slices_free, first, taken);
      return false;
    }
    taken += run;
  }
  return true;
}

/* Makes slices that were taken accessible: as mi_arena_try_alloc_at. */
static bool commit_slices(mi_arena_t* arena, size_t first, size_t slices) {
  mi_bitmap_setN(arena->slices_dirty, first, slices, NULL);
  const size_t committed = mi_bitmap_popcountN(arena->slices_committed, first, slices);
  if (committed == slices) return true;
  uint8_t* const start = (uint8_t*)arena + first * MI_ARENA_SLICE_SIZE;
  const size_t bytes = slices * MI_ARENA_SLICE_SIZE;
  bool is_zero;
  const bool done = (arena->commit_fun != NULL
    ? arena->commit_fun(true, start, bytes, &is_zero, arena->commit_fun_arg)
    : _mi_os_commit_ex(start, bytes, &is_zero, bytes - committed * MI_ARENA_SLICE_SIZE));
  if (done) mi_bitmap_setN(arena->slices_committed, first, slices, NULL);
  return done;
}

/* Makes the block of a page of one block longer, by the slices behind it, which must be free. Returns whether it did.
   For the user of the block, inside the gate. What the new bytes hold is not defined. */
bool pyhost_extend_page(mi_page_t* page, size_t size) {
  place_t place;
  if (!find_place(page, &place)) return false;
  const size_t slices = mi_slice_count_of_size(size);
  if (place.first + slices > place.arena->slice_count) return false;
  /* All of it in one part of the page map, which is there: to make another one can fail. */
  size_t unused;
  const uint8_t* const last = page->page_start + (mapped_slices(size) - 1) * MI_ARENA_SLICE_SIZE;
  if (_mi_page_map_index(page->page_start, &unused) != _mi_page_map_index(last, &unused)) return false;
  if (slices > place.slices) {
    const size_t first = place.first + place.slices, more = slices - place.slices;
    if (!take_slices(place.arena, first, more)) return false;
    if (!commit_slices(place.arena, first, more)) {
      mi_bbitmap_setN(place.arena->slices_free, first, more);
      return false;
    }
  }
  set_size(page, size, slices > place.slices ? slices : place.slices);
  return true;
}

/* Makes the block of a page of one block shorter, and frees the slices behind it. Returns whether it did. What `was_used` waits
   to be given back; what was not is as it was before the block had it. For the user of the block, inside the gate. */
bool pyhost_shorten_page(mi_page_t* page, size_t size, bool was_used) {
  place_t place;
  if (!find_place(page, &place)) return false;
  const size_t slices = mi_slice_count_of_size(size);
  if (slices > place.slices || size > page->block_size) return false;
  if (slices == place.slices) {
    set_size(page, size, slices);
    return true;
  }
  const size_t first = place.first + slices, rest = place.slices - slices;
  mi_memid_t memid = page->memid;
  memid.mem.arena.slice_index = (uint32_t)first;
  memid.mem.arena.slice_count = (uint32_t)rest;
  set_size(page, size, slices);
  if (was_used || !_mi_os_has_overcommit()) {
    _mi_arenas_free(page->page_start + slices * MI_ARENA_SLICE_SIZE, rest * MI_ARENA_SLICE_SIZE, memid);
  }
  else {
    /* A fresh page whose memory is zero was so as a whole. */
    if (memid.initially_zero) mi_bitmap_clearN(place.arena->slices_dirty, first, rest);
    mi_bbitmap_setN(place.arena->slices_free, first, rest);
  }
  return true;
}

/* Takes back the blocks that a page was just extended by, of which `block` is the first, and was given out. Returns whether
   it did: all of them, up to the last that the page has made, must be in its list, in their order. The page stays, also if it is empty now. For
   the page's owner, inside the gate. */
bool pyhost_take_back(mi_page_t* page, void* block) {
  if (mi_page_thread_id(page) != _mi_thread_id() || page->local_free != NULL) return false;
  const size_t size = page->block_size, index = (size_t)((uint8_t*)block - page->page_start) / size;
  size_t next = index + 1;
  for (mi_block_t* b = page->free; b != NULL; b = (mi_block_t*)b->next, next++) {
    if (next >= page->capacity || (uint8_t*)b != page->page_start + next * size) return false;
  }
  if (next != page->capacity) return false;
  page->free = NULL;
  page->capacity = (uint16_t)index;
  page->used--;
  return true;
}
