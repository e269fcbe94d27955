"""Builds the C half of the heap bugs of cffi: `cffi_bugs.py FOLDER` writes FOLDER/_cffi_bugs.c."""

import sys

import cffi

ffi = cffi.FFI()
ffi.cdef("""
    void write_at(void *block, long offset);
    int read_at(void *block, long offset);
    void *malloc(size_t size);
    void *realloc(void *block, size_t size);
    void free(void *block);
    void *from_python(size_t size);
    char *duplicate(char *text);
    void keep(void *block);
    void write_kept(long offset);
""")
ffi.set_source("_cffi_bugs", """
    #include <stdlib.h>
    #include <string.h>
    static void write_at(void *block, long offset) { ((volatile char *)block)[offset] = 'X'; }
    static int read_at(void *block, long offset) { return ((volatile char *)block)[offset]; }
    void *PyMem_RawMalloc(size_t size); /* not in the limited API of before 3.13 */
    static void *from_python(size_t size) { return PyMem_RawMalloc(size); }
    static char *duplicate(char *text) { return strdup(text); }
    static void *kept;
    static void keep(void *block) { kept = block; }
    static void write_kept(long offset) { write_at(kept, offset); }
""")

if __name__ == "__main__":
    ffi.emit_c_code(f"{sys.argv[1]}/_cffi_bugs.c")
