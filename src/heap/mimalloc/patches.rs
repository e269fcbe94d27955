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
];

/// A file, and what is taken out there: the counters of blocks and pages by size class, which only mimalloc's own statistics
/// show. A thread has a part of each heap that it uses, and 3,552 of the part's 8,136 bytes are these. Without them a thread that
/// waits has 76 KiB resident, where it had 93.
pub const REMOVED: &[(&str, &[&str])] = &[
    (
        "include/mimalloc-stats.h",
        &[
            "mi_stat_count_t   malloc_bins[MI_BIN_HUGE+1];",
            "mi_stat_count_t   page_bins[MI_BIN_HUGE+1];",
        ],
    ),
    (
        "src/init.c",
        &["  { MI_INIT74(MI_STAT_COUNT_NULL) }, \\\n  { MI_INIT74(MI_STAT_COUNT_NULL) }, \\\n"],
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
