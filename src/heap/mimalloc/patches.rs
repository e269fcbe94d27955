//! What the host changes in the pinned source of mimalloc. The build script compiles a changed copy, whose functions are
//! linked in place of the crate's: the linker takes no object from a library for symbols that it has already.

/// A file below mimalloc's folder, what stands there once, and what takes its place.
pub const REPLACED: &[(&str, &str, &str)] = &[
    // Names the copy. arenas.c reads the name, so the copy is always linked. If the crate's object were linked, too, the linker
    // would refuse each symbol that is there twice.
    (
        "src/static.c",
        "#include \"alloc.c\"",
        "const int pyhost_patched = 1;\n#include \"alloc.c\"",
    ),
    // An arena of 16 GiB, the largest that is asked for, has more descriptions of pages than mimalloc lets an arena have. It was
    // refused: beyond 112 GiB of arenas each large block was a map of its own, until the system refused more maps.
    (
        "src/arena.c",
        "const size_t max_reserve = MI_ARENA_MAX_SIZE;",
        "const size_t max_reserve = MI_ARENA_MAX_SIZE / 2;",
    ),
    // A page whose first memory is refused stayed entered as its heap's. Another heap's page at that place was then counted for
    // both. As mimalloc 3.4 (its issue 1271).
    (
        "src/arena.c",
        "_mi_arenas_free(slice_start, alloc_size, memid);",
        "if (memid.memkind == MI_MEM_ARENA) {\n\
           mi_arena_pages_t* pages = mi_heap_arena_pages(_mi_theap_heap(theap), memid.mem.arena.arena);\n\
           mi_bitmap_clear(pages->pages, memid.mem.arena.slice_index);\n\
         }\n\
         _mi_arenas_free(slice_start, alloc_size, memid);",
    ),
    // More sizes of blocks: 8 a doubling up to 512 bytes, 16 up to 4 KiB, and 4 above, as mimalloc has throughout. The memory of
    // `bytes(n)`, n from 64 to 2,048, is 1.014 of stock's (at most 1.06), where it was 1.072 (1.26). A start takes 0.5% more
    // instructions: more sizes have a page. With 16 a doubling throughout `python -I -S` starts with 2% more memory, with 8 the mean
    // is 1.032.
    (
        "src/page-queue.c",
        "static mi_decl_noinline size_t mi_bin(size_t size) {\n",
        "static mi_decl_noinline size_t mi_bin(size_t size) {\n\
           if (size <= sizeof(void*)) return 1;\n\
           if (size > MI_LARGE_MAX_OBJ_SIZE) return MI_BIN_HUGE;\n\
           const size_t units = (size - 1) / 16;\n\
           if (units < 8) return units + 2;\n\
           const size_t b = MI_SIZE_BITS - 1 - mi_clz(units);\n\
           if (b < 5) return 8*b + ((units >> (b - 3)) & 7) - 14;\n\
           if (b < 8) return 16*b + ((units >> (b - 4)) & 15) - 54;\n\
           return 4*b + ((units >> (b - 2)) & 3) + 42;\n\
         }\n\
         static size_t mi_bin_before(size_t size) {\n",
    ),
    (
        "src/init.c",
        "#define MI_PAGE_QUEUES_EMPTY \\\n",
        "#define Q(units)    { NULL, NULL, 0, 16 * (units) }\n\
         #define FOUR(u)     Q(5*u), Q(6*u), Q(7*u), Q(8*u)\n\
         #define EIGHT(u)    Q(9*u), Q(10*u), Q(11*u), Q(12*u), Q(13*u), Q(14*u), Q(15*u), Q(16*u)\n\
         #define SIXTEEN(u)  Q(17*u), Q(18*u), Q(19*u), Q(20*u), Q(21*u), Q(22*u), Q(23*u), Q(24*u), \\\n\
           Q(25*u), Q(26*u), Q(27*u), Q(28*u), Q(29*u), Q(30*u), Q(31*u), Q(32*u)\n\
         #define MI_PAGE_QUEUES_EMPTY { QNULL(1), QNULL(1), Q(1), Q(2), Q(3), Q(4), FOUR(1), EIGHT(1), EIGHT(2), \\\n\
           SIXTEEN(2), SIXTEEN(4), SIXTEEN(8), \\\n\
           FOUR(64), FOUR(128), FOUR(256), FOUR(512), FOUR(1024), FOUR(2048), FOUR(4096), \\\n\
           QNULL(MI_LARGE_MAX_OBJ_WSIZE + 1), QNULL(MI_LARGE_MAX_OBJ_WSIZE + 2) }\n\
         #define MI_PAGE_QUEUES_BEFORE \\\n",
    ),
    (
        "include/mimalloc-stats.h",
        "#define MI_BIN_HUGE             (73U)",
        "#define MI_BIN_HUGE             (102U)",
    ),
    (
        "include/mimalloc/types.h",
        "#if MI_BIN_HUGE != 73U",
        "#if MI_BIN_HUGE != 102U",
    ),
    // A thread has a queue of pages for each of these sizes in each heap: 24 bytes, where it had 32.
    (
        "include/mimalloc/types.h",
        "  size_t     count;\n  size_t     block_size;\n",
        "  uint32_t   count;\n  uint32_t   block_size;\n",
    ),
];

/// A file, and what is taken out there: the counters of blocks and pages by size class, which only mimalloc's own statistics
/// show, and fields that nothing uses. A thread has a part of each heap that it uses, and 3,776 of the part's bytes were these.
/// Without the counters a thread that waits has 76 KiB resident, where it had 93.
pub const REMOVED: &[(&str, &[&str])] = &[
    (
        "include/mimalloc-stats.h",
        &[
            "mi_stat_count_t   malloc_bins[MI_BIN_HUGE+1];",
            "mi_stat_count_t   page_bins[MI_BIN_HUGE+1];",
            "mi_stat_count_t   _stat_reserved[4];",
            "mi_stat_counter_t _stat_counter_reserved[4];",
            "MI_STAT_COUNT(segments) \\\n",
            "MI_STAT_COUNT(segments_abandoned) \\\n",
            "MI_STAT_COUNT(segments_cache) \\\n",
            "MI_STAT_COUNT(_segments_reserved) \\\n",
        ],
    ),
    (
        "src/init.c",
        &[
            "{ MI_INIT4(MI_STAT_COUNT_NULL) }, \\\n",
            "{ { 0 }, { 0 }, { 0 }, { 0 } }, \\\n",
            "  { MI_INIT74(MI_STAT_COUNT_NULL) }, \\\n  { MI_INIT74(MI_STAT_COUNT_NULL) }, \\\n",
        ],
    ),
    (
        "src/stats.c",
        &[
            "mi_stat_count_add_mt(&stats->page_bins[i], &src->page_bins[i]);",
            "mi_json_buf_print_count_bin(&hbuf, \"    \", &stats->malloc_bins[i], i, i!=MI_BIN_HUGE);",
            "mi_json_buf_print_count_bin(&hbuf, \"    \", &stats->page_bins[i], i, i!=MI_BIN_HUGE);",
        ],
    ),
    (
        "src/arena.c",
        &[
            "mi_theap_stat_increase(theap, page_bins[_mi_page_stats_bin(page)], 1);",
            "mi_theap_stat_decrease(current_theapx, page_bins[_mi_page_stats_bin(page)], 1);",
            "mi_theap_stat_decrease(theap, page_bins[sbin], 1);",
            "mi_theap_stat_increase(theap_target, page_bins[sbin], 1);",
            "mi_heap_stat_decrease(heap, page_bins[_mi_page_stats_bin(page)], 1);",
            "mi_heap_stat_decrease((mi_heap_t*)heap, page_bins[_mi_page_stats_bin(page)], 1);",
        ],
    ),
];
