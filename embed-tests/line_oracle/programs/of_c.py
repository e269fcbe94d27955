"""Sites that call a C extension, which allocates by each of CPython's functions and by C's own."""

import ctypes
import mmap

import line_sites

from sites import site

KIBI = 1024


@site
def raw_blocks():
    return line_sites.hold("raw", 400, 900)


@site
def a_raw_block():
    return line_sites.hold("raw", 150 * KIBI, 1)


@site
def raw_blocks_resized():
    return line_sites.resize("raw", 100, 1_700, 150)


@site
def mem_blocks():
    return line_sites.hold("mem", 250, 1_200)


@site
def a_mem_block():
    return line_sites.hold("mem", 700 * KIBI, 1)


@site
def mem_blocks_resized():
    return line_sites.resize("mem", 3_000, 500, 200)


@site
def obj_blocks():
    return line_sites.hold("obj", 120, 3_000)


@site
def an_obj_block():
    return line_sites.hold("obj", 90 * KIBI, 1)


@site
def obj_blocks_resized():
    return line_sites.resize("obj", 40, 480, 500)


@site
def small_mallocs():
    return line_sites.hold("native", 24, 8_000)


@site
def mallocs():
    return line_sites.hold("native", 600, 500)


@site
def a_large_malloc():
    return line_sites.hold("native", 1_500 * KIBI, 1)


@site
def callocs():
    return line_sites.hold("calloc", 3_000, 90)


@site
def aligned_blocks():
    return line_sites.hold("aligned", 2_000, 120)


@site
def mallocs_resized():
    return line_sites.resize("native", 50, 5_000, 60)


@site
def mallocs_resized_to_little():
    return line_sites.resize("native", 20_000, 20, 700)


@site
def mem_blocks_resized_to_nothing():
    return line_sites.resize("mem", 20_000, 0, 700)


@site
def in_a_callback():
    kept = []

    def callback():
        kept.append(bytes(1_300))
    line_sites.call(callback, 200)
    return kept


@site
def mallocs_by_ctypes():
    malloc = ctypes.CDLL(None).malloc
    malloc.argtypes, malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    return [malloc(900) for _ in range(300)]


@site
def buffers_of_ctypes():
    return [ctypes.create_string_buffer(2_200) for _ in range(150)]


@site
def a_map():
    return mmap.mmap(-1, 1_000 * KIBI, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


@site
def small_maps():
    return [mmap.mmap(-1, 24 * KIBI, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) for _ in range(20)]


@site(when="before")
def a_map_gone_before_the_peak():
    return mmap.mmap(-1, 600 * KIBI, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


@site(when="late")
def mallocs_after_the_peak():
    return line_sites.hold("native", 700, 300)
