// A walk of the pages of a free-threaded CPython's own mimalloc, by CPython's own headers: threads, their heaps, the heaps' pages, and
// the segments that ended threads left. It knows nothing of the host. All other threads are at rest.
#define Py_BUILD_CORE_MODULE 1
#include <Python.h>
#include "internal/pycore_interp.h"
#include "internal/pycore_tstate.h"

struct found { Py_ssize_t bytes, blocks; };

// All segments that were ever seen. What a destroyed interpreter leaves lies in segments that no thread and no pool knows any more.
static struct { uintptr_t segment; int is_known; } seen[4096];
static int segments;

static void see(uintptr_t segment) {
    int number = 0;
    while (number < segments && seen[number].segment != segment) number++;
    if (number == 4096) abort();
    if (number == segments) seen[segments++].segment = segment;
    seen[number].is_known = 1;
}

static size_t size_of(const mi_page_t *page) {
#if MI_MALLOC_VERSION < 220
    return page->xblock_size < MI_HUGE_BLOCK_SIZE ? page->xblock_size : page->slice_count * (size_t)MI_SEGMENT_SLICE_SIZE;
#else
    return page->block_size;
#endif
}

static void add(const mi_page_t *page, struct found *found) {
    Py_ssize_t used = page->used;
    uintptr_t block = (uintptr_t)page->xthread_free & ~(uintptr_t)3; // freed by other threads
    for (; block; block = *(uintptr_t *)block) used--;
    found->blocks += used;
    found->bytes += used * size_of(page);
}

static void add_segment(mi_segment_t *segment, struct found found[]) {
    mi_slice_t *slice = segment->slices, *end = slice + segment->slice_entries;
    while (slice < end && slice->slice_count) {
        if (slice != segment->slices && size_of(slice) > 1 && slice->used > 0) add(slice, &found[slice->tag]);
        slice += slice->slice_count;
    }
}

static void add_segments(mi_segment_t *segment, struct found found[]) {
    for (; segment; segment = (mi_segment_t *)segment->abandoned_next) {
        see((uintptr_t)segment);
        add_segment(segment, found);
    }
}

static int is_mapped(uintptr_t address) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned long start, end;
    int found = 0;
    while (!found && fgets(line, sizeof line, maps)) {
        found = sscanf(line, "%lx-%lx rw", &start, &end) == 2 && strstr(line, " rw") && start <= address && address < end;
    }
    fclose(maps);
    return found;
}

// What is in use, by the memory of each heap; `left` is what destroyed interpreters left.
static void walk(struct found found[], struct found left[]) {
    for (int number = 0; number < segments; number++) seen[number].is_known = 0;
    for (PyInterpreterState *interpreter = PyInterpreterState_Head(); interpreter; interpreter = PyInterpreterState_Next(interpreter)) {
        PyThreadState *thread = PyInterpreterState_ThreadHead(interpreter);
        for (; thread; thread = PyThreadState_Next(thread)) {
            _PyThreadStateImpl *state = (_PyThreadStateImpl *)thread;
            for (int kind = 0; state->mimalloc.initialized && kind < _Py_MIMALLOC_HEAP_COUNT; kind++) {
                for (int queue = 0; queue <= MI_BIN_FULL; queue++) {
                    mi_page_t *page = state->mimalloc.heaps[kind].pages[queue].first;
                    for (; page; page = page->next) {
                        see((uintptr_t)page & ~(uintptr_t)MI_SEGMENT_MASK);
                        add(page, &found[kind]);
                    }
                }
            }
        }
        mi_abandoned_pool_t *pool = &interpreter->mimalloc.abandoned_pool;
        add_segments((mi_segment_t *)(pool->abandoned & ~(uintptr_t)MI_SEGMENT_MASK), found);
        add_segments((mi_segment_t *)pool->abandoned_visited, found);
    }
    for (int number = 0; number < segments; number++) {
        if (!seen[number].is_known && is_mapped(seen[number].segment)) add_segment((mi_segment_t *)seen[number].segment, left);
    }
}

// compare(getallocatedblocks, ledger): blocks that Python reports, bytes and blocks of OBJ by the walk, blocks that destroyed
// interpreters left, blocks of MEM, and the ledger's answer. In one call, so that no object is made between two of the looks.
static PyObject *compare(PyObject *module, PyObject *arguments) {
    PyObject *report, *ledger;
    if (!PyArg_ParseTuple(arguments, "OO", &report, &ledger)) return NULL;
    PyObject *name = PyUnicode_FromString("obj"), *number = PyObject_CallNoArgs(report); // collects what other threads freed
    if (!name || !number) return NULL;
    Py_ssize_t reported = PyLong_AsSsize_t(number);
    Py_DECREF(number);
    struct found found[16] = {0}, left[16] = {0}, all = {0}, lost = {0};
    walk(found, left);
    PyObject *answer = PyObject_CallOneArg(ledger, name);
    Py_DECREF(name);
    for (int kind = 1; kind < _Py_MIMALLOC_HEAP_COUNT; kind++) {
        lost.blocks += left[kind].blocks;
        all.bytes += found[kind].bytes + left[kind].bytes;
        all.blocks += found[kind].blocks + left[kind].blocks;
    }
    return Py_BuildValue("n(nn)nnN", reported, all.bytes, all.blocks, lost.blocks, found[0].blocks + left[0].blocks, answer);
}

static PyMethodDef methods[] = {{"compare", compare, METH_VARARGS}, {0}};
static PyModuleDef_Slot slots[] = {{Py_mod_gil, Py_MOD_GIL_NOT_USED}, {0}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "mimalloc_walk", NULL, 0, methods, slots};
PyMODINIT_FUNC PyInit_mimalloc_walk(void) { return PyModuleDef_Init(&definition); }
