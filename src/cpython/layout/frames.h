/* What frames.c must know of a version of CPython: how a thread's frames are laid out, and a few words of its other
   structures. frames.c includes it, once.

   The frames are CPython's own structures, so this is compiled against the headers of the Python
   that the host is built for: cpython/frameobject.h up to 3.10, internal/pycore_frame.h from 3.11
   on, internal/pycore_interpframe.h from 3.14 on. From 3.14 on the offsets that the running Python
   publishes for debuggers (_Py_DebugOffsets) must be those of the headers, or no frame is read:
   an own build may have changed them. Read up to 3.15; no frame of a newer Python is read. */

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
#include <internal/pycore_context.h>
#include <internal/pycore_tstate.h>
#undef Py_BUILD_CORE
#include <opcode.h>
#elif PY_VERSION_HEX >= 0x030B0000
#define Py_BUILD_CORE 1
#undef _PyGC_FINALIZED /* 3.12 has an inline function of this name, too */
#include <internal/pycore_context.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_runtime.h>
#undef Py_BUILD_CORE
#include <opcode.h>
#else
#define Py_BUILD_CORE 1
#include <internal/pycore_context.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
#undef Py_BUILD_CORE
#endif
#include <frameobject.h>

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Something that changes C stacks is loaded (greenlet). Set once, and read by all threads. */
static int stacks_change;

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

#if PY_VERSION_HEX >= 0x030D0000
#define CURRENT_THREAD() PyThreadState_GetUnchecked()
#else
#define CURRENT_THREAD() _PyThreadState_UncheckedGet()
#endif

/* What a thread's calls are counted by, as pyhost_context_value puts it aside: up to 3.9 with whether they were too many. */
#if PY_VERSION_HEX >= 0x030E0000
#define CALLS_OF(thread) (((_PyThreadStateImpl *)(thread))->c_stack_soft_limit)
#define CALLS_TYPE uintptr_t
#define FEW_CALLS 0
#elif PY_VERSION_HEX >= 0x030C0000
#define CALLS_OF(thread) ((thread)->c_recursion_remaining)
#define CALLS_TYPE int
#define FEW_CALLS 1000
#elif PY_VERSION_HEX >= 0x030B0000
#define CALLS_OF(thread) ((thread)->recursion_remaining)
#define CALLS_TYPE int
#define FEW_CALLS 1000
#else
#define CALLS_OF(thread) ((thread)->recursion_depth)
#define CALLS_TYPE int
#define FEW_CALLS 0
#endif
#if PY_VERSION_HEX < 0x030A0000
#define KEEP_OVERFLOW(thread) char overflowed = (thread)->overflowed
#define RESTORE_OVERFLOW(thread) ((thread)->overflowed = overflowed)
#else
#define KEEP_OVERFLOW(thread)
#define RESTORE_OVERFLOW(thread)
#endif

/* Has the thread look at its asynchronous exception at its next safe point, or all threads up to 3.12; or no longer. */
#if PY_VERSION_HEX >= 0x030D0000
#define ASYNC_BIT ((uintptr_t)1 << 3) /* _PY_ASYNC_EXCEPTION_BIT */
#define SIGNAL(thread) __atomic_fetch_or(&(thread)->eval_breaker, ASYNC_BIT, __ATOMIC_SEQ_CST)
#define UNSIGNAL(thread) __atomic_fetch_and(&(thread)->eval_breaker, ~ASYNC_BIT, __ATOMIC_SEQ_CST)
#else
#define CEVAL_OF(thread) ((thread)->interp->ceval)
#define SIGNAL(thread)                                                                                                  \
    (CEVAL_OF(thread).pending.async_exc = 1, __atomic_store_n((int *)&CEVAL_OF(thread).eval_breaker, 1, __ATOMIC_SEQ_CST))
#define UNSIGNAL(thread) (CEVAL_OF(thread).pending.async_exc = 0)
#endif

/* The calling thread's state if it is alive: itself while the thread has the GIL, without which nobody frees it, else a copy. */
static inline const PyThreadState *living(PyThreadState *copy)
{
    const PyThreadState *thread = PyGILState_GetThisThreadState();
    return CURRENT_THREAD() == thread || thread == NULL ? thread : copy_detached(copy, thread);
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

static frame_t *complete(frame_t *frame) { return frame; }
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

/* Whether the running Python's frames are laid out as in the headers. The size of a code object stands for its
   fields that are not published: the first traceable instruction and the table of handlers. */
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
             offsets->interpreter_state.ceval_gil == offsetof(PyInterpreterState, ceval.gil) &&
             offsets->interpreter_state.gil_runtime_state_locked == offsetof(PyInterpreterState, _gil.locked) &&
             offsets->interpreter_frame.previous == offsetof(frame_t, previous) &&
             offsets->interpreter_frame.executable == offsetof(frame_t, f_executable) &&
             offsets->interpreter_frame.instr_ptr == offsetof(frame_t, instr_ptr) &&
             offsets->interpreter_frame.owner == offsetof(frame_t, owner) &&
             offsets->code_object.size == sizeof(PyCodeObject) &&
             offsets->code_object.filename == offsetof(PyCodeObject, co_filename) &&
             offsets->code_object.name == offsetof(PyCodeObject, co_name) &&
             offsets->code_object.qualname == offsetof(PyCodeObject, co_qualname) &&
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

/* Whether the frame is at a backward jump where an error leaves past the handlers of the loop's body. Up to 3.12 the
   check for pending calls follows the jump, and the handler is looked for one instruction before its target. From
   3.13 on it comes first: the jump of a `for` has the handler around the loop, that of a `while` has none. */
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

#if PY_VERSION_HEX < UNREAD && !defined(Py_GIL_DISABLED)
#define OTHERS_ARE_KNOWN 1

/* The list of thread states is taken if nobody has it. Whoever frees a state takes it out of the list first. */
#if PY_VERSION_HEX >= 0x030D0000
static int take_list(void)
{
    uint8_t is_free = 0;
    uint8_t *lock = &_PyRuntime.interpreters.mutex._bits;
    return __atomic_compare_exchange_n(lock, &is_free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}
static void leave_list(void) { PyMutex_Unlock(&_PyRuntime.interpreters.mutex); }
#else
static int take_list(void) { return PyThread_acquire_lock(_PyRuntime.interpreters.mutex, NOWAIT_LOCK); }
static void leave_list(void) { PyThread_release_lock(_PyRuntime.interpreters.mutex); }
#endif

#if PY_VERSION_HEX >= 0x030C0000
#define MAIN_GIL (PyInterpreterState_Main()->ceval.gil)
#else
#define MAIN_GIL (&_PyRuntime.ceval.gil)
#endif

#if PY_VERSION_HEX >= 0x030D0000
#define INNERMOST_OF(thread) ((thread)->current_frame)
#elif PY_VERSION_HEX >= 0x030B0000
#define INNERMOST_OF(thread) ((thread)->cframe == NULL ? NULL : (thread)->cframe->current_frame)
#else
#define INNERMOST_OF(thread) ((thread)->frame)
#endif

/* Whether a thread without the GIL may have given it up in what it calls: not at the beginning of a function nor at the end of
   a loop's body, where it makes room for others. Up to 3.10 that may be anywhere. */
static int is_calling(frame_t *frame)
{
#if PY_VERSION_HEX >= 0x030B0000
    int unit = unit_of(frame);
    switch (unit < 0 ? RESUME : _Py_OPCODE(_PyCode_CODE(code_of(frame))[unit])) {
    case RESUME:
    case JUMP_BACKWARD:
#if PY_VERSION_HEX < 0x030C0000
    case RESUME_QUICK:
    case JUMP_BACKWARD_QUICK:
    case POP_JUMP_BACKWARD_IF_TRUE:
    case POP_JUMP_BACKWARD_IF_FALSE:
#endif
#if PY_VERSION_HEX >= 0x030D0000
    case RESUME_CHECK:
#endif
#ifdef JUMP_BACKWARD_JIT
    case JUMP_BACKWARD_JIT:
    case JUMP_BACKWARD_NO_JIT:
#endif
        return 0;
    }
#endif
    return 1;
}
#endif

/* The caller in a copy of the head of a frame, and whether that is of a call of Python: others stand for calls from C. What a
   code object knows of its lines beside their table. */
#if PY_VERSION_HEX >= UNREAD
#define HEAD 0
#define CALLER(frame) NULL
static int copy_memory(void *out, const void *from, size_t bytes) { return 0; }
#elif PY_VERSION_HEX >= 0x030B0000
#define HEAD offsetof(frame_t, localsplus)
#define CALLER(frame) ((frame)->previous)
#else
#define HEAD offsetof(frame_t, f_localsplus)
#define CALLER(frame) ((frame)->f_back)
#endif
#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < UNREAD
#define IS_CALL(frame) ((frame)->owner <= FRAME_OWNED_BY_FRAME_OBJECT)
#else
#define IS_CALL(frame) 1
#endif
#if PY_VERSION_HEX >= 0x030C0000
#define FORGET_LINES(code) ((code)->_co_monitoring = NULL)
#elif PY_VERSION_HEX >= 0x030B0000
#define FORGET_LINES(code) ((code)->_co_linearray = NULL)
#else
#define FORGET_LINES(code) ((void)0)
#define co_qualname co_name /* a code object has its bare name only */
#endif

/* Whether the letters of a string object can be read. */
static int is_ready(PyObject *text)
{
#if PY_VERSION_HEX < 0x030C0000
    return PyUnicode_IS_READY(text);
#else
    (void)text;
    return 1;
#endif
}

#if PY_VERSION_HEX >= 0x030A0000
#define LINES_OF(code) ((code)->co_linetable)
#else
#define LINES_OF(code) ((code)->co_lnotab)
#endif

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
void pyhost_stacks_change(void) { __atomic_store_n(&stacks_change, 1, __ATOMIC_RELAXED); }

/* Where the interpreter's code is: the function of its loop, and one that every interpreter has. */
uintptr_t pyhost_loop_function(void)
{
#if PY_VERSION_HEX < UNREAD
    return (uintptr_t)&_PyEval_EvalFrameDefault;
#else
    return 0;
#endif
}

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

/* Whether the innermost call's frame object takes so many bytes with what the collector keeps before it.
   While an error passes, CPython makes one for each line of the traceback, and one for the caller of each
   call that ends (take_ownership in Python/frame.c): up to 3.13 the error is lost if that cannot be
   had. Up to 3.10 every call has one from its beginning. */
_Bool pyhost_is_frame(size_t bytes)
{
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030E0000
    frame_t *frame = innermost();
    if (frame == NULL)
        return 0;
    PyCodeObject *code = code_of(frame);
    size_t slots = (size_t)code->co_nlocalsplus + (size_t)code->co_stacksize;
    size_t object = PyFrame_Type.tp_basicsize + slots * PyFrame_Type.tp_itemsize;
#ifdef Py_GIL_DISABLED
    return bytes >= object && bytes <= object + object / 4 + 16; /* the size of its block */
#else
    return bytes == 16 + ((object + 7) & ~(size_t)7);
#endif
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
_Bool pyhost_is_finalizing(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing();
#else
    return _Py_IsFinalizing();
#endif
}
