/* Proves at build time that the Rust mirrors in ffi.rs match mimalloc's own structures.
   Nothing of this file is linked in. A failure here means that libmimalloc-sys was updated:
   read the new types.h, free.c and alloc.c, then mend ffi.rs and the files of heap/hot. */

#include "mimalloc.h"
#include "mimalloc/internal.h"

#define AT(type, field, offset) \
  _Static_assert(offsetof(type, field) == (offset), #type "." #field " moved")
#define WORD sizeof(void*)
/* A value of targets of 64 bits, and of those of 32. */
#define OF(long_word, short_word) (WORD == 8 ? (long_word) : (short_word))

AT(mi_page_t, xthread_id, 0);
AT(mi_page_t, free, WORD);
AT(mi_page_t, used, 2 * WORD);
AT(mi_page_t, capacity, 2 * WORD + 2);
AT(mi_page_t, reserved, 2 * WORD + 4);
AT(mi_page_t, retire_expire, 2 * WORD + 6);
AT(mi_page_t, free_is_zero, 2 * WORD + 7);
AT(mi_page_t, local_free, 2 * WORD + 8);
AT(mi_page_t, xthread_free, 3 * WORD + 8);
AT(mi_page_t, block_size, 4 * WORD + 8);
AT(mi_page_t, page_start, 5 * WORD + 8);
AT(mi_page_t, theap, 6 * WORD + 8);
AT(mi_page_t, heap, 7 * WORD + 8);

AT(mi_page_t, next, 8 * WORD + 8);
AT(mi_page_t, prev, 9 * WORD + 8);

AT(mi_page_queue_t, first, 0);
AT(mi_page_queue_t, block_size, 2 * WORD + 4);
_Static_assert(sizeof(mi_page_queue_t) == 2 * WORD + 8, "a queue of pages");
_Static_assert(MI_BIN_COUNT == 104, "the queues of pages");
_Static_assert(MI_LARGE_MAX_OBJ_SIZE == WORD * MI_ARENA_SLICE_SIZE, "the largest block that shares its page");
AT(mi_theap_t, pages, OF(272, 212) + 129 * WORD);
AT(mi_theap_t, page_count, OF(176, 164));
AT(mi_theap_t, pages_free_direct, OF(272, 212));

_Static_assert(MI_SMALL_SIZE_MAX == 128 * WORD, "the limit of the direct page table");
_Static_assert(MI_MAX_ALIGN_SIZE == 16, "sizes from 16 bytes on are multiples of that, see lib.rs");
_Static_assert(MI_PAGE_META_IS_SEPARATED == 1, "a page begins with its blocks, see arrays/array_blocks.rs");
_Static_assert(MI_PAGE_HAS_INTERIOR_POINTERS == 2, "the flag of pages with aligned blocks");
_Static_assert(MI_ARENA_SLICE_SHIFT == OF(16, 15), "the page map's granularity");
#if defined(__x86_64__)
_Static_assert(MI_MAX_VABITS == 47, "the addresses of the page map");
#else
_Static_assert(MI_MAX_VABITS == OF(48, 32), "the addresses of the page map");
#endif
_Static_assert(MI_PAGE_MAP_SUB_SHIFT == 13, "the page map's second level");
_Static_assert(MI_PAGE_MAP_FLAT == 0, "a page map of two levels");
_Static_assert(MI_PADDING_SIZE == 0, "no padding behind blocks: block_size is the usable size");
#if MI_ENCODE_FREELIST
#error "plain free lists are expected"
#endif
_Static_assert(MI_PAGE_MIN_COMMIT_SIZE == MI_ARENA_SLICE_SIZE, "commits within a page, likewise");
_Static_assert(MI_ARENA_MIN_SIZE == OF(512, 256) * MI_ARENA_SLICE_SIZE, "the unit of arenas");
#if defined(__arm__) && !MI_USE_BUILTIN_THREAD_POINTER
#error "a thread's number is its thread pointer, see build.rs"
#endif
