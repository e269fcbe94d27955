/* Where the calling thread's Python code is: read off its frames without an allocation, a lock or
   a reference, so that an allocator may ask in the middle of anything. All of it starts at `living`,
   which decides whether the frames are alive.

   The frames are CPython's own structures, so this is compiled against the headers of the Python
   that the host is built for: cpython/frameobject.h up to 3.10, internal/pycore_frame.h from 3.11
   on, internal/pycore_interpframe.h from 3.14 on. From 3.14 on the offsets that the running Python
   publishes for debuggers (_Py_DebugOffsets) must be those of the headers, or no frame is read:
   an own build may have changed them. Read up to 3.15; no frame of a newer Python is read. */

#define _GNU_SOURCE /* memmem, process_vm_readv */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The first version whose frames were not read here. */
#define UNREAD 0x03100000

#if PY_VERSION_HEX >= UNREAD
/* Nothing but public names below. */
#elif PY_VERSION_HEX >= 0x030E0000
#define Py_BUILD_CORE 1
#include <internal/pycore_interpframe.h>
#include <internal/pycore_debug_offsets.h>
#include <internal/pycore_runtime.h>
#undef Py_BUILD_CORE
#include <opcode.h>
#elif PY_VERSION_HEX >= 0x030B0000
#define Py_BUILD_CORE 1
#undef _PyGC_FINALIZED /* 3.12 has an inline function of this name, too */
#include <internal/pycore_frame.h>
#include <internal/pycore_runtime.h>
#undef Py_BUILD_CORE
#include <opcode.h>
#else
#define Py_BUILD_CORE 1
#if PY_VERSION_HEX >= 0x03090000
#include <internal/pycore_runtime.h>
#else
#include <internal/pycore_pystate.h>
#endif
#undef Py_BUILD_CORE
#endif
#include <frameobject.h>

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* How many frames are looked at, so that a deep recursion costs no more. */
#define DEPTH 1000

#if PY_VERSION_HEX < UNREAD

/* Copies memory that may be gone: 1 if it was copied, 0 if nothing is there any more, -1 if a sandbox forbids the call. The
   system copies it, so that a bad address is an error and no fault. */
static int copy_memory(void *out, const void *from, size_t bytes)
{
    int before = errno;
    struct iovec own = {out, bytes}, there = {(void *)from, bytes};
    ssize_t copied = process_vm_readv(getpid(), &own, 1, &there, 1, 0);
    int answer = copied == (ssize_t)bytes ? 1 : copied >= 0 || errno == EFAULT ? 0 : -1;
    errno = before;
    return answer;
}

/* Copies the state of a thread that has given up the GIL, if it is alive. While Python is finalised the main thread frees the
   states of all others, which go on, and allocate: up to 3.13 they end by pthread_exit, for which glibc loads a library. That
   begins at any moment, so the state is copied before the last look whether it has begun. Frames are not freed there. */
static __attribute__((noinline)) const PyThreadState *copy_detached(PyThreadState *copy, const PyThreadState *thread)
{
    int answer = Py_IsInitialized() ? copy_memory(copy, thread, sizeof *copy) : 0;
    if (answer < 0)
        *copy = *thread;
    if (answer == 0 || copy->thread_id != PyThread_get_thread_ident() || !Py_IsInitialized())
        return NULL;
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030D0000
    if (copy->cframe == &thread->root_cframe)
        copy->cframe = &copy->root_cframe;
#endif
    return copy;
}

/* The calling thread's state if it is alive: itself while the thread has the GIL, without which nobody frees it, else a copy. */
static inline const PyThreadState *living(PyThreadState *copy)
{
    const PyThreadState *thread = PyGILState_GetThisThreadState();
#if PY_VERSION_HEX >= 0x030D0000
    int is_attached = PyThreadState_GetUnchecked() == thread;
#else
    int is_attached = _PyThreadState_UncheckedGet() == thread;
#endif
    return is_attached || thread == NULL ? thread : copy_detached(copy, thread);
}

#endif

#if PY_VERSION_HEX < 0x030B0000

typedef PyFrameObject frame_t;

static frame_t *innermost(void)
{
    PyThreadState copy;
    const PyThreadState *state = living(&copy);
    return state == NULL ? NULL : state->frame;
}

static frame_t *caller(frame_t *frame) { return frame->f_back; }
static PyCodeObject *code_of(frame_t *frame) { return frame->f_code; }

/* The offset of the current instruction, in bytes. */
static int offset_of(frame_t *frame)
{
#if PY_VERSION_HEX >= 0x030A0000
    return frame->f_lasti * 2;
#else
    return frame->f_lasti;
#endif
}

/* The handler that would get an error of the frame; -1 for none. From SETUP_FINALLY's blocks;
   those of a handler that runs (EXCEPT_HANDLER, 257) catch nothing. */
static intptr_t handler_of(frame_t *frame)
{
    for (int index = frame->f_iblock - 1; index >= 0; index--) {
        if (frame->f_blockstack[index].b_type != 257)
            return frame->f_blockstack[index].b_handler;
    }
    return -1;
}

static int leaves_by_jump(frame_t *frame)
{
    (void)frame;
    return 0;
}

static int layout_is_known(void) { return 1; }

#elif PY_VERSION_HEX < UNREAD

typedef _PyInterpreterFrame frame_t;

#if PY_VERSION_HEX >= 0x030E0000

/* Whether the running Python's frames are laid out as in the headers. The size of a code object
   stands for its fields that are not published: the first traceable instruction and the table of
   handlers. */
static int layout_is_known(void)
{
    static int known = -1;
    int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (answer >= 0)
        return answer;
    const _Py_DebugOffsets *offsets = (const _Py_DebugOffsets *)&_PyRuntime;
    answer = memcmp(offsets->cookie, _Py_Debug_Cookie, sizeof offsets->cookie) == 0 &&
             offsets->version >> 16 == PY_VERSION_HEX >> 16 &&
             offsets->free_threaded == _Py_Debug_Free_Threaded &&
             offsets->thread_state.current_frame == offsetof(PyThreadState, current_frame) &&
             offsets->interpreter_frame.previous == offsetof(frame_t, previous) &&
             offsets->interpreter_frame.executable == offsetof(frame_t, f_executable) &&
             offsets->interpreter_frame.instr_ptr == offsetof(frame_t, instr_ptr) &&
             offsets->interpreter_frame.owner == offsetof(frame_t, owner) &&
             offsets->code_object.size == sizeof(PyCodeObject) &&
             offsets->code_object.filename == offsetof(PyCodeObject, co_filename) &&
             offsets->code_object.name == offsetof(PyCodeObject, co_name) &&
             offsets->code_object.linetable == offsetof(PyCodeObject, co_linetable) &&
             offsets->code_object.co_code_adaptive == offsetof(PyCodeObject, co_code_adaptive);
    __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
    return answer;
}

#else
static int layout_is_known(void) { return 1; }
#endif

/* Frames that are not set up yet, and those of calls from C, are passed over. From 3.14 on the latter
   hold no code object: their owner is asked first. */
static frame_t *complete(frame_t *frame)
{
    while (frame != NULL && _PyFrame_IsIncomplete(frame))
        frame = frame->previous;
    return frame;
}

#if PY_VERSION_HEX < 0x030D0000

/* Something that changes C stacks is loaded (greenlet). Set once, and read by all threads. */
static int stacks_change;

/* The frame in the loop's record, which lies in the C stack; NULL if something else lies there. greenlet frees the copy of a
   stack when it has put that in place, but before the thread state's record is of that stack. */
static frame_t *frame_in_place(frame_t *frame)
{
    frame_t head;
    PyVarObject code;
    if (copy_memory(&head, frame, offsetof(frame_t, localsplus)) < 1 ||
        copy_memory(&code, head.f_code, sizeof code) < 1)
        return NULL;
    /* Before the first instruction, or at one. */
    size_t at = (size_t)head.prev_instr + sizeof(_Py_CODEUNIT) - (size_t)_PyCode_CODE(head.f_code);
    int is_frame = Py_TYPE(&code) == &PyCode_Type && at <= (size_t)Py_SIZE(&code) * sizeof(_Py_CODEUNIT);
    return is_frame ? frame : NULL;
}

#endif

static frame_t *innermost(void)
{
    PyThreadState copy;
    const PyThreadState *state = layout_is_known() ? living(&copy) : NULL;
    if (state == NULL)
        return NULL;
#if PY_VERSION_HEX >= 0x030D0000
    return complete(state->current_frame);
#else
    frame_t *frame = state->cframe == NULL ? NULL : state->cframe->current_frame;
    if (frame != NULL && __atomic_load_n(&stacks_change, __ATOMIC_RELAXED))
        frame = frame_in_place(frame);
    return complete(frame);
#endif
}

static frame_t *caller(frame_t *frame) { return complete(frame->previous); }

static PyCodeObject *code_of(frame_t *frame)
{
#if PY_VERSION_HEX >= 0x030E0000
    /* A tagged reference: whether it is counted is in its lowest bit. */
    return (PyCodeObject *)PyStackRef_AsPyObjectBorrow(frame->f_executable);
#elif PY_VERSION_HEX >= 0x030D0000
    return (PyCodeObject *)frame->f_executable;
#else
    return frame->f_code;
#endif
}

static int unit_of(frame_t *frame) { return _PyInterpreterFrame_LASTI(frame); }
static int offset_of(frame_t *frame) { return unit_of(frame) * (int)sizeof(_Py_CODEUNIT); }

static const uint8_t *read_number(const uint8_t *at, const uint8_t *end, int *number)
{
    int value = 0;
    while (at < end) {
        value = value << 6 | (*at & 63);
        if ((*at++ & 64) == 0)
            break;
    }
    *number = value;
    return at;
}

/* The handler that would get an error of the frame's current instruction; -1 for none. From the
   code's exception table (Objects/exception_handling_notes.txt). */
static intptr_t handler_of(frame_t *frame)
{
    PyObject *table = code_of(frame)->co_exceptiontable;
    if (table == NULL || !PyBytes_Check(table))
        return -1;
    const uint8_t *at = (const uint8_t *)PyBytes_AS_STRING(table);
    const uint8_t *end = at + PyBytes_GET_SIZE(table);
    int unit = unit_of(frame);
    while (at < end) {
        int start, length, target, depth;
        at = read_number(at, end, &start);
        at = read_number(at, end, &length);
        at = read_number(at, end, &target);
        at = read_number(at, end, &depth);
        if (start > unit)
            break;
        if (unit < start + length)
            return target;
    }
    return -1;
}

/* Whether the frame is at a backward jump where an error leaves past the handlers of the loop's body.
   Up to 3.12 the check for pending calls follows the jump, and the handler is looked for one
   instruction before its target. From 3.13 on it comes first: the jump of a `for` has the handler
   around the loop, that of a `while` has none. */
static int leaves_by_jump(frame_t *frame)
{
    int unit = unit_of(frame);
    if (unit < 0)
        return 0;
    switch (_Py_OPCODE(_PyCode_CODE(code_of(frame))[unit])) {
#if PY_VERSION_HEX >= 0x030D0000
    case JUMP_BACKWARD:
    case INSTRUMENTED_JUMP_BACKWARD:
#ifdef JUMP_BACKWARD_JIT
    case JUMP_BACKWARD_JIT:
    case JUMP_BACKWARD_NO_JIT:
#endif
        return handler_of(frame) < 0;
#else
    case JUMP_BACKWARD:
#ifdef JUMP_BACKWARD_QUICK
    case JUMP_BACKWARD_QUICK:
#endif
#ifdef INSTRUMENTED_JUMP_BACKWARD
    case INSTRUMENTED_JUMP_BACKWARD:
#endif
#ifdef POP_JUMP_BACKWARD_IF_TRUE
    case POP_JUMP_BACKWARD_IF_TRUE:
    case POP_JUMP_BACKWARD_IF_FALSE:
    case POP_JUMP_BACKWARD_IF_NONE:
    case POP_JUMP_BACKWARD_IF_NOT_NONE:
#endif
        return 1;
#endif
    default:
        return 0;
    }
}

#else

typedef struct { int unused; } frame_t;
static int layout_is_known(void) { return 0; }
static frame_t *innermost(void) { return NULL; }
static frame_t *caller(frame_t *frame) { return (void)frame, NULL; }
static PyCodeObject *code_of(frame_t *frame) { return (void)frame, NULL; }
static int offset_of(frame_t *frame) { return (void)frame, 0; }
static intptr_t handler_of(frame_t *frame) { return (void)frame, -1; }
static int leaves_by_jump(frame_t *frame) { return (void)frame, 0; }

#endif

/* The mark of a text whose beginning is cut off: three dots, which no path begins with. */
#define CUT "\xe2\x80\xa6"

/* Copies the text of a string object as UTF-8, of one that is too long CUT and its end; the length. */
static size_t copy_text(PyObject *text, char *out, size_t room)
{
    if (text == NULL || !PyUnicode_Check(text))
        return 0;
#if PY_VERSION_HEX < 0x030C0000
    if (!PyUnicode_IS_READY(text))
        return 0;
#endif
    int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    Py_ssize_t count = PyUnicode_GET_LENGTH(text);
    /* From the end, as many letters as there is room for; fewer if there is none for all of them. */
    size_t length = 0;
    Py_ssize_t first = count, marked = count;
    while (first > 0) {
        Py_UCS4 letter = PyUnicode_READ(kind, data, first - 1);
        length += letter < 0x80 ? 1 : letter < 0x800 ? 2 : letter < 0x10000 ? 3 : 4;
        if (length > room)
            break;
        first--;
        if (length + sizeof CUT - 1 <= room)
            marked = first;
    }
    char *at = out;
    if (first > 0 && room >= sizeof CUT - 1) {
        first = marked;
        memcpy(at, CUT, sizeof CUT - 1);
        at += sizeof CUT - 1;
    }
    for (Py_ssize_t index = first; index < count; index++) {
        Py_UCS4 letter = PyUnicode_READ(kind, data, index);
        if (letter < 0x80) {
            *at++ = (char)letter;
        } else if (letter < 0x800) {
            *at++ = (char)(0xC0 | letter >> 6);
            *at++ = (char)(0x80 | (letter & 63));
        } else if (letter < 0x10000) {
            /* A lone surrogate has no UTF-8. */
            if (letter >= 0xD800 && letter < 0xE000)
                letter = 0xFFFD;
            *at++ = (char)(0xE0 | letter >> 12);
            *at++ = (char)(0x80 | (letter >> 6 & 63));
            *at++ = (char)(0x80 | (letter & 63));
        } else {
            *at++ = (char)(0xF0 | letter >> 18);
            *at++ = (char)(0x80 | (letter >> 12 & 63));
            *at++ = (char)(0x80 | (letter >> 6 & 63));
            *at++ = (char)(0x80 | (letter & 63));
        }
    }
    return (size_t)(at - out);
}

/* The letters of a string object that has a byte for each; NULL of another one. */
static const char *bytes_of(PyObject *text, size_t *length)
{
    if (text == NULL || !PyUnicode_Check(text) || PyUnicode_KIND(text) != PyUnicode_1BYTE_KIND)
        return NULL;
    *length = (size_t)PyUnicode_GET_LENGTH(text);
    return PyUnicode_DATA(text);
}

static int starts_with(PyObject *text, const char *start)
{
    size_t length = strlen(start), whole;
    const char *bytes = bytes_of(text, &whole);
    return bytes != NULL && whole >= length && memcmp(bytes, start, length) == 0;
}

static int ends_with(PyObject *text, const char *end)
{
    size_t length = strlen(end), whole;
    const char *bytes = bytes_of(text, &whole);
    return bytes != NULL && whole >= length && memcmp(bytes + whole - length, end, length) == 0;
}

static int has_part(PyObject *text, const char *part)
{
    size_t whole;
    const char *bytes = bytes_of(text, &whole);
    return bytes != NULL && memmem(bytes, whole, part, strlen(part)) != NULL;
}

static int is_numpys(const char *file, size_t length)
{
    return memmem(file, length, "/numpy/", 7) != NULL ||
           (length >= 20 && memcmp(file, "<__array_function__ ", 20) == 0);
}

/* Whether this Python's frames can be read. */
int pyhost_place_is_known(void) { return layout_is_known(); }

/* Whether a file is of what serves others: event loops, servers, pools, queues. An error in its code ends a
   connection, a pool's thread or the loop, while one in the code that it calls ends a single request. */
static int serves(PyObject *file)
{
    static const char *const folders[] = {"/asyncio/",     "/uvicorn/",   "/hypercorn/", "/gunicorn/", "/h11/",
                                          "/anyio/",       "/trio/",      "/tornado/",   "/aiohttp/",  "/http/",
                                          "/gevent/",      "/eventlet/",  "/waitress/",  "/cheroot/",  "/celery/",
                                          "/kombu/",       "/billiard/",  "/logging/",   "/concurrent/futures/"};
    static const char *const files[] = {"/socketserver.py", "/selectors.py",      "/socket.py",
                                        "/ssl.py",          "/threading.py",      "/queue.py",
                                        "/wsgiref/handlers.py", "/werkzeug/serving.py"};
    for (size_t index = 0; index < sizeof folders / sizeof *folders; index++) {
        if (has_part(file, folders[index]))
            return 1;
    }
    for (size_t index = 0; index < sizeof files / sizeof *files; index++) {
        if (ends_with(file, files[index]))
            return 1;
    }
    return 0;
}

/* Whether a file is Python's own or of an installed package. */
static int is_of_library(PyObject *file)
{
    return has_part(file, "/lib/python3") || has_part(file, "/site-packages/") ||
           has_part(file, "/dist-packages/") || starts_with(file, "<frozen ");
}

/* Whether the calling thread is inside an import, where an error would leave half a module behind: 1, or 2 if the
   innermost frame itself is of what imports. 3 if the innermost frame is of what serves, or, if libraries count, of
   a library that it calls; and if a traceback is printed: the error would hide the one that is printed. */
int pyhost_is_fragile(int libraries_count)
{
    int depth = 0, may_serve = 1;
    for (frame_t *frame = innermost(); frame != NULL && depth++ < DEPTH; frame = caller(frame)) {
        PyObject *file = code_of(frame)->co_filename;
        if (may_serve && serves(file))
            return 3;
        may_serve = may_serve && libraries_count && is_of_library(file);
        if (ends_with(file, "/traceback.py") || ends_with(file, "/linecache.py"))
            return 3;
        if (starts_with(file, "<frozen importlib"))
            return depth == 1 ? 2 : 1;
    }
    return 0;
}

#if PY_VERSION_HEX < UNREAD
/* Whether an error is a MemoryError, or was raised while one was handled. */
static int is_of_memory(PyObject *error)
{
    for (int depth = 0; error != NULL && depth < 8; depth++) {
        if (!PyExceptionInstance_Check(error))
            return 0;
        if (PyObject_TypeCheck(error, (PyTypeObject *)PyExc_MemoryError))
            return 1;
        error = ((PyBaseExceptionObject *)error)->context;
    }
    return 0;
}

/* Whether the calling thread is inside a handler of a MemoryError. Without the GIL it is not known. */
int pyhost_handles_memory_error(void)
{
    int depth = 0;
    PyThreadState copy;
    const PyThreadState *state = innermost() == NULL ? NULL : living(&copy);
    const _PyErr_StackItem *item = state == NULL || state == &copy ? NULL : state->exc_info;
    for (; item != NULL && depth++ < DEPTH; item = item->previous_item) {
        if (is_of_memory(item->exc_value))
            return 1;
    }
    return 0;
}
#else
int pyhost_handles_memory_error(void) { return 0; }
#endif

/* Finds the handler that would get an error that is raised here: its frame and its place in the
   code, both 0 if there is none. 0 if the thread runs no Python code, 2 if the error
   would leave by a jump, else 1. */
int pyhost_handler(uintptr_t *frame_out, intptr_t *handler_out)
{
    frame_t *frame = innermost();
    *frame_out = 0;
    *handler_out = 0;
    if (frame == NULL)
        return 0;
    if (leaves_by_jump(frame))
        return 2;
    for (int depth = 0; frame != NULL && depth < DEPTH; depth++, frame = caller(frame)) {
        intptr_t handler = handler_of(frame);
        if (handler >= 0) {
            *frame_out = (uintptr_t)frame;
            *handler_out = handler;
            break;
        }
    }
    return 1;
}

/* Writes the file that the calling thread is at, its end where it is too long, and gives the line:
   that of the innermost frame which is not NumPy's, and how many frames were read. 0 without Python code. */
size_t pyhost_line(char *file, size_t room, int *line, int *frames)
{
    size_t length = 0;
    *line = 0;
    int depth = 0;
    for (frame_t *frame = innermost(); frame != NULL && depth++ < DEPTH; frame = caller(frame)) {
        *frames = depth;
        PyCodeObject *code = code_of(frame);
        length = copy_text(code->co_filename, file, room);
        *line = PyCode_Addr2Line(code, offset_of(frame));
        if (!is_numpys(file, length))
            break;
    }
    return length;
}

/* The UTF-8 of a string object: its own memory, or a copy in `room`; of a longer one CUT and its end. */
static const char *utf8_of(PyObject *text, char *room, size_t size, size_t *length)
{
    if (text != NULL && PyUnicode_Check(text) && PyUnicode_IS_COMPACT_ASCII(text)) {
        *length = (size_t)PyUnicode_GET_LENGTH(text);
        if (*length <= size)
            return (const char *)PyUnicode_DATA(text);
    }
    *length = copy_text(text, room, size);
    return room;
}

#if PY_VERSION_HEX >= 0x030A0000
#define LINES_OF(code) ((code)->co_linetable)
#else
#define LINES_OF(code) ((code)->co_lnotab)
#endif

/* A hash of bytes; of a longer text than 4 KiB only of so many words of it, spread evenly. */
static uint64_t hash_of(const char *bytes, size_t length)
{
    size_t words = length / 8, step = words / 512 + 1;
    uint64_t hash = length, word = 0;
    for (size_t index = 0; index < words; index += step) {
        memcpy(&word, bytes + 8 * index, 8);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15;
        hash ^= hash >> 29;
    }
    word = 0;
    memcpy(&word, bytes + 8 * words, length % 8);
    hash = (hash ^ word) * 0x9E3779B97F4A7C15;
    return hash ^ hash >> 32;
}

/* How many code objects have ended, by their addresses. */
static uint32_t ended[1 << 8];
static destructor free_code;

static uint32_t *ended_at(PyCodeObject *code)
{
    uint64_t mixed = (uint64_t)(uintptr_t)code * 0x9E3779B97F4A7C15;
    return &ended[mixed >> 56];
}

static void code_ends(PyObject *code)
{
    __atomic_fetch_add(ended_at((PyCodeObject *)code), 1, __ATOMIC_RELAXED);
    free_code(code);
}

/* Has the ends of code objects counted. With the GIL; a second call does nothing. */
void pyhost_watch_codes(void)
{
    if (free_code == NULL) {
        free_code = PyCode_Type.tp_dealloc;
        PyCode_Type.tp_dealloc = code_ends;
    }
}

/* A number of a place in a code object, other than that of any other place, of an object that is gone, too; not 0. */
static uint64_t number_of(PyCodeObject *code, int offset)
{
    uint64_t mixed = (uint64_t)(uintptr_t)code * 0x9E3779B97F4A7C15;
    mixed ^= mixed >> 29;
    uint64_t count = __atomic_load_n(ended_at(code), __ATOMIC_RELAXED);
    mixed = (mixed ^ (count << 32 | (uint32_t)offset)) * 0xBF58476D1CE4E5B9;
    return (mixed ^ mixed >> 32) | (uint64_t)1 << 63;
}

/* A number of the innermost call's code and instruction, by their addresses; 0 without Python code. */
uint64_t pyhost_spot(void)
{
    frame_t *frame = innermost();
    if (frame == NULL)
        return 0;
    PyCodeObject *code = code_of(frame);
    const uint64_t parts[] = {(uintptr_t)code, (uintptr_t)code->co_filename, (uintptr_t)LINES_OF(code),
                              (uint64_t)(uint32_t)offset_of(frame) << 32 | (uint32_t)code->co_firstlineno};
    return hash_of((const char *)parts, sizeof parts);
}

typedef void (*take_call)(void *context, uint64_t number, PyCodeObject *code, int offset);
typedef void (*take_texts)(void *context, const char *file, size_t file_length, const char *name, size_t name_length,
                           int line);

/* Gives file, function and line of a place in a code object of one of the calling thread's frames. */
void pyhost_texts(PyCodeObject *code, int offset, void *context, take_texts take)
{
    char file_room[512], name_room[256];
    size_t file_length, name_length;
    const char *file = utf8_of(code->co_filename, file_room, sizeof file_room, &file_length);
    const char *name = utf8_of(code->co_name, name_room, sizeof name_room, &name_length);
    take(context, file, file_length, name, name_length, PyCode_Addr2Line(code, offset));
}

/* Out of line: a thread without Python code does not need so much of its stack. */
static __attribute__((noinline)) void give_calls(frame_t *frame, void *context, take_call take)
{
    frame_t *frames[DEPTH];
    size_t count = 0;
    for (; frame != NULL && count < DEPTH; frame = caller(frame))
        frames[count++] = frame;
    while (count-- > 0) {
        PyCodeObject *code = code_of(frames[count]);
        int offset = offset_of(frames[count]);
        take(context, number_of(code, offset), code, offset);
    }
}

/* Gives the calls of the calling thread to `take`, outermost first; of a deeper stack the innermost
   1,000. After pyhost_watch_codes. */
void pyhost_calls(void *context, take_call take)
{
    frame_t *frame = innermost();
    if (frame != NULL)
        give_calls(frame, context, take);
}

/* An address in the C stack of the innermost call of the interpreter's loop, mostly; another one, or 0, if the thread runs no
   Python code or the structures do not say it. Up to 3.12 the loop has a record of its own there, then a frame that stands
   for the call. */
uintptr_t pyhost_loop_frame(void)
{
#if PY_VERSION_HEX >= 0x030A0000 && PY_VERSION_HEX < UNREAD
    PyThreadState copy;
    const PyThreadState *state = layout_is_known() ? living(&copy) : NULL;
    if (state == NULL)
        return 0;
#if PY_VERSION_HEX < 0x030D0000
    /* That of a thread that runs no Python code lies in its state. */
    return state->cframe == &state->root_cframe ? 0 : (uintptr_t)state->cframe;
#else
    int depth = 0;
    for (frame_t *frame = state->current_frame; frame != NULL && depth++ < DEPTH; frame = frame->previous) {
#if PY_VERSION_HEX >= 0x030E0000
        if (frame->owner == FRAME_OWNED_BY_INTERPRETER)
#else
        if (frame->owner == FRAME_OWNED_BY_CSTACK)
#endif
            return (uintptr_t)frame;
    }
#endif
#endif
    return 0;
}

/* Something that changes C stacks is loaded. */
void pyhost_stacks_change(void)
{
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030D0000
    __atomic_store_n(&stacks_change, 1, __ATOMIC_RELAXED);
#endif
}

/* Where the interpreter's code is: the function of its loop, and one that every interpreter has. */
uintptr_t pyhost_loop_function(void)
{
#if PY_VERSION_HEX < UNREAD
    return (uintptr_t)&_PyEval_EvalFrameDefault;
#else
    return 0;
#endif
}

uintptr_t pyhost_interpreter_function(void) { return (uintptr_t)&PyObject_Malloc; }

/* Whether a signal has come whose handler in Python has not run yet; -1 if that cannot be told. Any thread, without the
   GIL. A word of the runtime's own state, of which all releases of a minor version have had the same layout. */
int pyhost_signal_is_due(void)
{
#if PY_VERSION_HEX >= UNREAD
    return -1;
#elif PY_VERSION_HEX >= 0x030C0000
    return __atomic_load_n((const int *)&_PyRuntime.signals.is_tripped, __ATOMIC_ACQUIRE) != 0;
#else
    return __atomic_load_n((const int *)&_PyRuntime.ceval.signals_pending, __ATOMIC_ACQUIRE) != 0;
#endif
}

/* Gives the frame `depth` calls above the innermost: lengths of what was written to `file` and
   `name`, and the line. 0 if there is none. */
int pyhost_frame(int depth, char *file, size_t *file_length, char *name, size_t *name_length,
                 int *line)
{
    frame_t *frame = innermost();
    while (frame != NULL && depth-- > 0)
        frame = caller(frame);
    if (frame == NULL)
        return 0;
    PyCodeObject *code = code_of(frame);
    *file_length = copy_text(code->co_filename, file, *file_length);
    *name_length = copy_text(code->co_name, name, *name_length);
    *line = PyCode_Addr2Line(code, offset_of(frame));
    return 1;
}

/* Whether the innermost call's frame object takes so many bytes with what the collector keeps before it.
   While an error passes, CPython makes one for each line of the traceback, and one for the caller of each
   call that ends (take_ownership in Python/frame.c): up to 3.13 the error is lost if that cannot be
   had. Up to 3.10 every call has one from its beginning. */
int pyhost_is_frame(size_t bytes)
{
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030E0000
    frame_t *frame = innermost();
    if (frame == NULL)
        return 0;
    PyCodeObject *code = code_of(frame);
    size_t slots = (size_t)code->co_nlocalsplus + (size_t)code->co_stacksize;
    size_t object = PyFrame_Type.tp_basicsize + slots * PyFrame_Type.tp_itemsize;
    return bytes == 16 + ((object + 7) & ~(size_t)7);
#else
    (void)bytes;
    return 0;
#endif
}

/* Whether an error of the calling thread is lost: CPython 3.14 and 3.15 keep the MemoryError of a sub-interpreter to themselves,
   and what has called it gets None. */
int pyhost_loses_errors(void)
{
#if PY_VERSION_HEX >= 0x030E0000 && PY_VERSION_HEX < UNREAD
    PyThreadState copy;
    const PyThreadState *state = living(&copy);
    return state != NULL && state->interp != PyInterpreterState_Main();
#else
    return 0;
#endif
}

/* Whether Python is being finalised. */
int pyhost_is_finalizing(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing();
#else
    return _Py_IsFinalizing();
#endif
}
