/* Where the calling thread's Python code is: read off its frames without an allocation, a lock or
   a reference, so that an allocator may ask in the middle of anything. All of it starts at `living`,
   which decides whether the frames are alive. What differs by version is in layout/frames.h. */

#define _GNU_SOURCE /* memmem, process_vm_readv */
#include "layout/frames.h"

/* The mark of a text whose beginning is cut off: three dots, which no path begins with. */
#define CUT "\xe2\x80\xa6"

/* Bytes of a letter in UTF-8. */
static size_t bytes_in(Py_UCS4 letter) { return letter < 0x80 ? 1 : letter < 0x800 ? 2 : letter < 0x10000 ? 3 : 4; }

/* Copies the text of a string object as UTF-8, of one that is too long CUT and its end; the length. */
static size_t copy_text(PyObject *text, char *out, size_t room)
{
    if (text == NULL || !PyUnicode_Check(text) || !is_ready(text))
        return 0;
    int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    Py_ssize_t count = PyUnicode_GET_LENGTH(text);
    if (PyUnicode_IS_COMPACT_ASCII(text) && (size_t)count <= room) {
        memcpy(out, data, (size_t)count);
        return (size_t)count;
    }
    /* From the end, as many letters as there is room for; fewer if there is none for all of them. */
    size_t length = 0;
    Py_ssize_t first = count, marked = count;
    while (first > 0) {
        length += bytes_in(PyUnicode_READ(kind, data, first - 1));
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
        static const uint8_t starts[] = {0, 0xC0, 0xE0, 0xF0};
        Py_UCS4 letter = PyUnicode_READ(kind, data, index);
        /* A lone surrogate has no UTF-8. */
        if (letter >= 0xD800 && letter < 0xE000)
            letter = 0xFFFD;
        size_t rest = bytes_in(letter) - 1;
        *at++ = (char)(starts[rest] | letter >> 6 * rest);
        while (rest-- > 0)
            *at++ = (char)(0x80 | (letter >> 6 * rest & 63));
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
    static const char *const parts[] = {"/asyncio/",         "/uvicorn/",      "/hypercorn/",      "/gunicorn/",
                                        "/h11/",             "/anyio/",        "/trio/",           "/tornado/",
                                        "/aiohttp/",         "/http/",         "/gevent/",         "/eventlet/",
                                        "/waitress/",        "/cheroot/",      "/celery/",         "/kombu/",
                                        "/billiard/",        "/logging/",      "/concurrent/futures/",
                                        "/socketserver.py",  "/selectors.py",  "/socket.py",       "/ssl.py",
                                        "/threading.py",     "/queue.py",      "/wsgiref/handlers.py",
                                        "/werkzeug/serving.py"};
    for (size_t index = 0; index < sizeof parts / sizeof *parts; index++) {
        const char *part = parts[index];
        if (part[strlen(part) - 1] == '/' ? has_part(file, part) : ends_with(file, part))
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

/* Finds the handler that would get an error that is raised here: its frame and its place in the code, both 0 if
   there is none. 0 if the thread runs no Python code, 2 if the error would leave by a jump, else 1. */
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

/* How many calls of Python the calling thread is in; as many as there may be if it runs another interpreter than the main one. */
int pyhost_depth(void)
{
    int depth = 0;
    PyThreadState *thread = PyGILState_GetThisThreadState();
    if (thread != NULL && thread->interp != PyInterpreterState_Main())
        return DEPTH;
    for (frame_t *frame = innermost(); frame != NULL && depth < DEPTH; frame = caller(frame))
        depth++;
    return depth;
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

typedef void (*take_call)(void *context, uint64_t number, PyCodeObject *code, int offset, int is_still);
typedef void (*take_texts)(void *context, const char *file, size_t file_length, const char *name, size_t name_length,
                           int line);

#ifdef OTHERS_ARE_KNOWN

/* Copies a string object or bytes; NULL if it is another object by now, or has no room. */
static void *copy_object(const void *object, void *room, size_t size)
{
    PyVarObject head;
    PyASCIIObject text;
    size_t bytes = 0;
    if (copy_memory(&head, object, sizeof head) < 1)
        return NULL;
    if (Py_TYPE(&head) == &PyBytes_Type)
        bytes = offsetof(PyBytesObject, ob_sval) + (size_t)Py_SIZE(&head) + 1;
    else if (Py_TYPE(&head) == &PyUnicode_Type && copy_memory(&text, object, sizeof text) > 0 && text.state.compact)
        bytes = (text.state.ascii ? sizeof text : sizeof(PyCompactUnicodeObject)) +
                ((size_t)text.length + 1) * text.state.kind;
    return bytes > 0 && bytes <= size && copy_memory(room, object, bytes) > 0 ? room : NULL;
}

/* Copies a code object, as far as pyhost_texts needs it; NULL if it is gone. By one thread at a time. */
static PyCodeObject *copy_code(const PyCodeObject *code)
{
    static PyCodeObject copy;
    static uint64_t file[160], name[80], lines[1 << 13];
    if (copy_memory(&copy, code, sizeof copy) < 1 || Py_TYPE(&copy) != &PyCode_Type)
        return NULL;
    copy.co_filename = copy_object(copy.co_filename, file, sizeof file);
    copy.co_qualname = copy_object(copy.co_qualname, name, sizeof name);
    LINES_OF(&copy) = copy_object(LINES_OF(&copy), lines, sizeof lines);
    FORGET_LINES(&copy);
    return copy.co_filename != NULL && copy.co_qualname != NULL && LINES_OF(&copy) != NULL ? &copy : NULL;
}

#else
#define copy_code(code) NULL
#endif

/* Gives file, function and line of a place in a code object of the calling thread's frames, or of a thread's that stands still.
   Of another one it is copied first, and nothing is given if it is gone. */
void pyhost_texts(PyCodeObject *code, int offset, int is_still, void *context, take_texts take)
{
    char file_room[512], name_room[256];
    if (!is_still && (code = copy_code(code)) == NULL)
        return;
    size_t file_length, name_length;
    const char *file = utf8_of(code->co_filename, file_room, sizeof file_room, &file_length);
    const char *name = utf8_of(code->co_qualname, name_room, sizeof name_room, &name_length);
    take(context, file, file_length, name, name_length, PyCode_Addr2Line(code, offset));
}

/* Calls that were read, innermost first. By one thread at a time. */
static struct { PyCodeObject *code; int offset; } calls[DEPTH];
static size_t calls_read;

/* Reads the calls of a thread that stands still; or does not, then 0 if they cannot be read. */
static int read_calls(frame_t *frame, int is_still)
{
    frame_t copy;
    for (calls_read = 0; frame != NULL && calls_read < DEPTH; frame = is_still ? caller(frame) : CALLER(&copy)) {
        frame_t *at = is_still ? frame : &copy;
        if (!is_still && copy_memory(&copy, frame, HEAD) < 1)
            return 0;
        if (is_still || IS_CALL(&copy)) {
            calls[calls_read].code = code_of(at);
            calls[calls_read++].offset = offset_of(at);
        }
    }
    return calls_read > 0;
}

/* Gives the calls that were read to `take`, outermost first. After pyhost_watch_codes. */
void pyhost_give_calls(int is_still, void *context, take_call take)
{
    while (calls_read-- > 0) {
        PyCodeObject *code = calls[calls_read].code;
        int offset = calls[calls_read].offset;
        take(context, number_of(code, offset), code, offset, is_still);
    }
}

/* Reads the calls of the calling thread, of a deeper stack the innermost 1,000; 0 if there are none. */
int pyhost_read_calls(void) { return read_calls(innermost(), 1); }

#ifdef OTHERS_ARE_KNOWN

static int is_running(void) { return Py_IsInitialized() && !pyhost_is_finalizing(); }

/* Takes the list of threads and the GIL's mutex, if nobody has them: 1, else 0. Until pyhost_leave_threads a thread without the
   GIL does not come back to its Python code, and no thread ends. Nothing is waited for: the caller may be inside the allocator. */
int pyhost_take_threads(void)
{
    if (!layout_is_known() || !is_running() || !take_list())
        return 0;
    /* Finalisation takes the list before it ends the GIL. */
    if (is_running() && pthread_mutex_trylock(&MAIN_GIL->mutex) == 0)
        return 1;
    leave_list();
    return 0;
}

void pyhost_leave_threads(void)
{
    pthread_mutex_unlock(&MAIN_GIL->mutex);
    leave_list();
}

/* The next thread of the main interpreter that may be in a call of C, other than one of what serves others; NULL at the end.
   Gives its clock, and whether it stands still: it has given up the GIL. Between the two functions above. */
PyThreadState *pyhost_next_thread(PyThreadState *thread, clockid_t *clock, int *is_still)
{
    struct _gil_runtime_state *gil = MAIN_GIL;
    int is_locked = __atomic_load_n((int *)&gil->locked, __ATOMIC_RELAXED) > 0;
    PyThreadState *holder = is_locked ? __atomic_load_n((PyThreadState **)&gil->last_holder, __ATOMIC_RELAXED) : NULL;
    thread = thread == NULL ? PyInterpreterState_ThreadHead(PyInterpreterState_Main()) : thread->next;
    for (; thread != NULL; thread = thread->next) {
        *is_still = thread != holder;
        frame_t *frame = *is_still ? complete(INNERMOST_OF(thread)) : INNERMOST_OF(thread);
        int may_call = frame != NULL && (!*is_still || (is_calling(frame) && !serves(code_of(frame)->co_filename)));
        if (may_call && pthread_getcpuclockid((pthread_t)thread->thread_id, clock) == 0)
            break;
    }
    return thread;
}

/* Reads the calls of a thread of pyhost_next_thread; 0 if they cannot be read. */
int pyhost_read_thread(PyThreadState *thread, int is_still)
{
    frame_t *frame = INNERMOST_OF(thread);
    return read_calls(is_still ? complete(frame) : frame, is_still);
}

/* A frame and its instruction, as one number that is compared. */
static uintptr_t instruction_of(frame_t *frame)
{
    return frame == NULL ? 0 : (uintptr_t)frame ^ (uintptr_t)offset_of(frame) << 40;
}

/* The instruction that the main thread is at, whose state stays as it is meanwhile: it calls this, or it has given up the GIL.
   0 if that cannot be known. */
uintptr_t pyhost_main_instruction(int is_caller)
{
    uintptr_t found = 0;
    if (is_caller)
        return instruction_of(innermost());
    if (!pyhost_take_threads())
        return 0;
    clockid_t clock;
    int is_still;
    PyThreadState *thread = NULL;
    while ((thread = pyhost_next_thread(thread, &clock, &is_still)) != NULL) {
        if (is_still && thread->thread_id == _PyRuntime.main_thread)
            found = instruction_of(complete(INNERMOST_OF(thread)));
    }
    pyhost_leave_threads();
    return found;
}

/* Whether an address lies in the interpreter's own state, where the GIL is. */
int pyhost_is_of_runtime(uintptr_t address) { return address - (uintptr_t)&_PyRuntime < sizeof _PyRuntime; }

#else

int pyhost_take_threads(void) { return 0; }
void pyhost_leave_threads(void) {}
void *pyhost_next_thread(void *thread, clockid_t *clock, int *is_still) { return NULL; }
int pyhost_read_thread(void *thread, int is_still) { return 0; }
int pyhost_is_of_runtime(uintptr_t address) { return 0; }
uintptr_t pyhost_main_instruction(int is_caller) { return 0; }

#endif

/* The number of a thread of pyhost_next_thread, or of the calling one if that is NULL: 0 if it is the main thread, UINTPTR_MAX if it runs no
   Python code, or if this Python's frames are not read. */
uintptr_t pyhost_thread_number(PyThreadState *thread)
{
    if (thread == NULL && innermost() != NULL)
        thread = PyGILState_GetThisThreadState();
#if PY_VERSION_HEX < UNREAD
    if (thread != NULL)
        return thread->thread_id == _PyRuntime.main_thread ? 0 : (uintptr_t)thread;
#endif
    return UINTPTR_MAX;
}

/* Whether the calling thread has the GIL. */
_Bool pyhost_has_gil(void)
{
    PyThreadState *thread = PyGILState_GetThisThreadState();
    return thread != NULL && thread == CURRENT_THREAD();
}

uintptr_t pyhost_interpreter_function(void) { return (uintptr_t)&PyObject_Malloc; }

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

/* The innermost call: its frame, whose address stays while it runs, a generator's also from one step to the next, its code, and
   the offset and the line that it is at. */
uintptr_t pyhost_innermost(PyCodeObject **code, int *offset, int *line)
{
    frame_t *frame = innermost();
    if (frame != NULL) {
        *code = code_of(frame);
        *offset = offset_of(frame);
        *line = PyCode_Addr2Line(*code, *offset);
    }
    return (uintptr_t)frame;
}

#if PY_VERSION_HEX < UNREAD

/* The value of a context variable in the calling thread's context, borrowed; NULL if it has none, or if the thread does not have the
   main interpreter's GIL. A context is a tree that never changes, in which variables are compared by identity, so nothing is allocated.
   CPython counts such a comparison as a call, which must not be one too many: an error would be set. */
PyObject *pyhost_context_value(PyObject *variable)
{
    PyThreadState *thread = PyGILState_GetThisThreadState();
    if (thread == NULL || thread != CURRENT_THREAD() || thread->interp != PyInterpreterState_Main() ||
        thread->context == NULL)
        return NULL;
    PyObject *value = NULL;
    CALLS_TYPE before = CALLS_OF(thread);
    CALLS_OF(thread) = FEW_CALLS;
    KEEP_OVERFLOW(thread);
    if (PyContextVar_Get(variable, NULL, &value) == 0)
        Py_XDECREF(value); /* the context has it */
    CALLS_OF(thread) = before;
    RESTORE_OVERFLOW(thread);
    return value;
}

/* Whether the thread has an error that pyhost_post_error has posted, as far as is known. */
static __thread int is_posted;

/* Has MemoryError raised in the calling thread, which has the GIL, at its next safe point, as PyThreadState_SetAsyncExc does, without its
   lock, which the caller may have: 1. 0 if another one waits there; or, unless it may be `elsewhere`, if the thread runs a context that another
   one is around: an event loop or a hub of greenlets may go on with the next task before the safe point. */
_Bool pyhost_post_error(_Bool elsewhere)
{
    PyThreadState *thread = PyGILState_GetThisThreadState();
    if (!pyhost_has_gil() || thread->async_exc != NULL)
        return 0;
    PyContext *context = (PyContext *)thread->context;
    if (!elsewhere && (context == NULL || context->ctx_prev != NULL || __atomic_load_n(&stacks_change, __ATOMIC_RELAXED)))
        return 0;
    Py_INCREF(PyExc_MemoryError);
    thread->async_exc = PyExc_MemoryError;
    is_posted = 1;
    SIGNAL(thread);
    return 1;
}

/* Takes back what pyhost_post_error has posted, if it was not raised. By the thread itself, with the GIL. */
void pyhost_take_error_back(void)
{
    PyThreadState *thread = is_posted ? PyGILState_GetThisThreadState() : NULL;
    if (thread != NULL && thread->async_exc == PyExc_MemoryError) {
        thread->async_exc = NULL;
        Py_DECREF(PyExc_MemoryError);
        UNSIGNAL(thread);
    }
    is_posted = 0;
}

/* Whether the garbage collector of the main interpreter runs: what allocates may be a finalizer of anybody's. */
_Bool pyhost_is_collecting(void) { return PyInterpreterState_Main()->gc.collecting; }

#else

PyObject *pyhost_context_value(PyObject *variable) { return (void)variable, NULL; }
_Bool pyhost_is_collecting(void) { return 0; }
_Bool pyhost_post_error(_Bool elsewhere) { return 0; }
void pyhost_take_error_back(void) {}

#endif

#if PY_VERSION_HEX < 0x030C0000

/* What is called in a watched code: with 1 at a line, with 0 if a call ends or yields, with -1 if it starts or goes on. */
static void (*at_line)(int event);
/* Where a code object has whether it is watched. */
static Py_ssize_t watched = -1;
static _PyFrameEvalFunction evaluate_next;
/* The trace function of the script or of a tool, while `trace` is in its place. */
static __thread Py_tracefunc scripts_trace;

static int trace(PyObject *object, PyFrameObject *frame, int what, PyObject *argument)
{
    if (what != PyTrace_EXCEPTION && what <= PyTrace_RETURN)
        at_line(what == PyTrace_LINE ? 1 : what == PyTrace_RETURN ? 0 : -1);
    return scripts_trace == NULL ? 0 : scripts_trace(object, frame, what, argument);
}

/* Puts `trace` in the place of the script's function, or takes it away. The object that belongs to that stays where it is. */
static void switch_trace(PyThreadState *state)
{
    Py_tracefunc before = state->c_tracefunc;
    state->c_tracefunc = before == trace ? scripts_trace : trace;
    if (before != trace)
        scripts_trace = before;
    int is_traced = state->c_tracefunc != NULL || state->c_profilefunc != NULL;
#if PY_VERSION_HEX >= 0x030A0000
    state->cframe->use_tracing = is_traced ? 255 : 0;
#else
    state->use_tracing = is_traced;
#endif
}

static int is_watched(frame_t *frame)
{
    void *mark = NULL;
    return _PyCode_GetExtra((PyObject *)code_of(frame), watched, &mark) == 0 && mark != NULL;
}

/* Behind a sys.settrace() of a watched frame: the frame is traced further. */
static int go_on(void *unused)
{
    PyThreadState *state = PyThreadState_GET();
    frame_t *frame = innermost();
    if (frame != NULL && state->c_tracefunc != trace && !state->tracing && is_watched(frame)) {
        switch_trace(state);
        at_line(-1);
    }
    return (void)unused, 0;
}

/* An audit hook: a watched line has what it added so far. The rest happens in the main thread alone, right behind the call. */
static int hear(const char *event, PyObject *arguments, void *unused)
{
    PyThreadState *state = _PyThreadState_UncheckedGet();
    if (state != NULL && state->c_tracefunc == trace && strcmp(event, "sys.settrace") == 0) {
        at_line(0);
        Py_AddPendingCall(go_on, NULL);
    }
    return (void)arguments, (void)unused, 0;
}

/* Runs a frame: traced if its code is watched, and otherwise not, also below one that is. */
static PyObject *evaluate(PyThreadState *state, frame_t *frame, int is_thrown)
{
    int wants = is_watched(frame);
    if (wants == (state->c_tracefunc == trace) || state->tracing)
        return evaluate_next(state, frame, is_thrown);
    switch_trace(state);
    PyObject *result = evaluate_next(state, frame, is_thrown);
    if (wants == (state->c_tracefunc == trace)) /* else the script has set another one meanwhile */
        switch_trace(state);
    return result;
}

#endif

/* Watches the lines of a code object in calls that start from now on: 1. 0 if this Python has sys.monitoring for it, -1 with an
   error. */
int pyhost_watch_lines(PyObject *code, void (*event)(int event))
{
#if PY_VERSION_HEX < 0x030C0000
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    at_line = event;
    if (watched < 0) {
        watched = _PyEval_RequestCodeExtraIndex(NULL);
        evaluate_next = _PyInterpreterState_GetEvalFrameFunc(interpreter);
        _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluate);
        if (PySys_AddAuditHook(hear, NULL) < 0)
            return -1;
#if PY_VERSION_HEX < 0x030A0000
        interpreter->ceval.tracing_possible++; /* as long as it may be switched */
#endif
    }
    return _PyCode_SetExtra(code, watched, &watched) == 0 ? 1 : -1;
#else
    (void)code, (void)event;
    return 0;
#endif
}
