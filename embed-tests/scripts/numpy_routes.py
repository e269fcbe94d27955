"""Makes arrays by every route, and asserts of each that its handler is `pyhost` and that the account's live bytes rise
by its size and fall again. Prints the routes that this NumPy refuses, with the reason, then `every route`."""

import asyncio
import concurrent.futures
import contextvars
import ctypes
import multiprocessing
import os
import subprocess
import sys
import threading

BEFORE_IMPORT = contextvars.copy_context()  # a context that is older than NumPy's variable

import _thread  # noqa: E402

import numpy as np  # noqa: E402
import pyhost  # noqa: E402

try:
    from numpy._core.multiarray import get_handler_name
except ImportError:
    from numpy.core.multiarray import get_handler_name

ALLOCATOR = pyhost.memory_stats()["numpy"]["allocator"]
DEBUG_HOOKS = pyhost.memory_stats()["debug_hooks"]


def live():
    account = pyhost.memory_stats()["accounts"]["numpy"]
    return account["live_bytes"], account["live_blocks"]


def most(nbytes):
    """The most that a block of so many bytes may be booked with."""
    if DEBUG_HOOKS:
        nbytes += 256 + 16  # the pads
        if ALLOCATOR == "mimalloc":
            nbytes += 64 + 64 + 16  # the record and the pads of a checked block, and its alignment
    if ALLOCATOR == "bfc":
        return 2 * nbytes + 256  # a chunk is split only where half of it would be left
    if ALLOCATOR == "system":
        return nbytes + nbytes // 32 + 64  # libc's header, and pages of large blocks
    if ALLOCATOR == "pool":
        nbytes += 64 + 64  # the header, and sizes in multiples of 64
    return nbytes + nbytes // 3 + 64 + (65536 if nbytes > 500_000 else 0)  # mimalloc's size classes


def check(make, *arguments):
    """`make` returns one new array that owns its data; nobody else may be making arrays meanwhile."""
    bytes_before, blocks_before = live()
    array = make(*arguments)
    bytes_with, blocks_with = live()
    name, nbytes = get_handler_name(array), max(array.nbytes, 1)
    owns, address = array.flags.owndata, array.ctypes.data
    assert owns and name == "pyhost", (make, name)
    assert blocks_with - blocks_before == 1, (make, blocks_with - blocks_before)
    assert nbytes <= bytes_with - bytes_before <= most(nbytes), (make, nbytes, bytes_with - bytes_before)
    if ALLOCATOR != "system":
        assert address % 64 == 0, address
    array = None
    assert live() == (bytes_before, blocks_before), (make, live(), bytes_before, blocks_before)


def check_all():
    """Arrays of every kind, small and large."""
    source = np.arange(12.0)
    matrix = np.ones((30, 20))
    text = " ".join(str(number) for number in range(3000))
    for size in (0, 1, 3, 8, 17, 100, 128, 1000, 1024, 5000, 65536, 200_000, 1_000_000):
        check(np.empty, size)
        check(np.zeros, size)
    check(np.ones, (7, 11), "i2")
    check(np.arange, 1000)
    check(np.full, 77, 3)
    check(lambda: source + source)
    check(lambda: source * 2.0)
    check(lambda: matrix @ matrix.T)
    check(source.copy)
    check(lambda: source[::2].copy())
    check(lambda: source[[0, 2, 3]])
    check(lambda: matrix[matrix > 0])
    check(np.concatenate, (source, source))
    check(source.astype, "f4")
    check(np.array, [1, 2, 3])
    check(np.array, ["some", "strings"])
    check(np.array, [object(), None])
    check(np.zeros_like, matrix)
    check(np.sort, source)
    check(np.cumsum, matrix)
    check(lambda: np.fromstring(text, sep=" "))  # grows by realloc, without the GIL
    check(np.frombuffer(b"x" * 800).copy)
    check(np.fromiter, iter(range(1000)), "i8")

    def grown():
        array = np.zeros(10)
        array.resize(100_000, refcheck=False)
        assert not array.any()
        array.resize(5000, refcheck=False)
        return array

    check(grown)
    assert get_handler_name() == "pyhost"


ROUTES = {}


def route(function):
    ROUTES[function.__name__] = function
    return function


class Refused(Exception):
    """This NumPy refuses to be used so."""


def on(start):
    """Runs the checks through `start(function)`, which calls it on the route, and hands on what it raised."""
    raised = []

    def body():
        try:
            check_all()
            raised.append(None)
        except BaseException as error:
            raised.append(error)

    start(body)
    assert raised, "was not run"
    if raised[0] is not None:
        raise raised[0]


@route
def main_thread():
    check_all()


@route
def threading_thread():
    def start(body):
        thread = threading.Thread(target=body)
        thread.start()
        thread.join()

    on(start)


@route
def low_level_thread():
    def start(body):
        done = threading.Event()
        _thread.start_new_thread(lambda: (body(), done.set()), ())
        done.wait()

    on(start)


@route
def thread_made_in_c():
    def start(body):
        entry = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda _: body())
        libc = ctypes.CDLL(None)
        thread = ctypes.c_ulong()
        libc.pthread_create.argtypes = [ctypes.c_void_p] * 4
        libc.pthread_join.argtypes = [ctypes.c_ulong, ctypes.c_void_p]
        assert libc.pthread_create(ctypes.addressof(thread), None, ctypes.cast(entry, ctypes.c_void_p), None) == 0
        assert libc.pthread_join(thread, None) == 0

    on(start)


@route
def thread_pool():
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        on(lambda body: pool.submit(body).result())


@route
def asyncio_task():
    async def main(body):
        async def task():
            body()

        await asyncio.create_task(task())

    on(lambda body: asyncio.run(main(body)))


@route
def asyncio_to_thread():
    on(lambda body: asyncio.run(asyncio.to_thread(body)))


@route
def run_in_executor():
    async def main(body):
        await asyncio.get_running_loop().run_in_executor(None, body)

    on(lambda body: asyncio.run(main(body)))


@route
def copied_context():
    on(contextvars.copy_context().run)


@route
def fresh_context():
    on(contextvars.Context().run)


@route
def context_from_before_numpy():
    on(BEFORE_IMPORT.run)


@route
def forked_child():
    child = os.fork()
    if child == 0:
        try:
            check_all()
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


@route
def spawned_child():
    process = multiprocessing.get_context("spawn").Process(target=check_all)
    process.start()
    process.join()
    assert process.exitcode == 0


@route
def forked_multiprocessing_child():
    process = multiprocessing.get_context("fork").Process(target=check_all)
    process.start()
    process.join()
    assert process.exitcode == 0


@route
def subprocess_of_the_host():
    code = "import numpy_routes; numpy_routes.check_all()"
    folder = os.path.dirname(os.path.abspath(__file__))
    path = os.pathsep.join([folder] + [entry for entry in sys.path if entry])
    subprocess.run([sys.executable, "-c", code], env=dict(os.environ, PYTHONPATH=path), check=True)


@route
def sub_interpreter():
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters
    folder = os.path.dirname(os.path.abspath(__file__))
    code = f"import sys; sys.path.insert(0, {folder!r})\n" + IN_SUB_INTERPRETER
    # One that shares the GIL: NumPy supports no other.
    if sys.version_info >= (3, 13):
        interpreter = interpreters.create("legacy")
    else:
        interpreter = interpreters.create() if sys.version_info < (3, 12) else interpreters.create(isolated=False)
    try:
        failure = interpreters.run_string(interpreter, code)
        if failure is not None:  # 3.13
            raise RuntimeError(failure.formatted)
    except Exception as error:
        if any(reason in str(error) for reason in REFUSALS):
            raise Refused(str(error).splitlines()[-1]) from None
        raise
    finally:
        interpreters.destroy(interpreter)


REFUSALS = ["does not support loading in subinterpreters", "cannot load module more than once per process"]

IN_SUB_INTERPRETER = """
import sys
try:
    import numpy_routes
    numpy_routes.check_all()
except ImportError:
    # NumPy's own Cython modules refuse a second interpreter, its core has been loaded.
    multiarray = sys.modules.get("numpy.core.multiarray")
    if multiarray is None:
        raise
    import pyhost
    for size in (0, 3, 1000, 1_000_000):
        live = pyhost.memory_stats()["accounts"]["numpy"]["live_bytes"]
        array = multiarray.empty(size)
        assert multiarray.get_handler_name(array) == "pyhost"
        assert pyhost.memory_stats()["accounts"]["numpy"]["live_bytes"] - live >= array.nbytes
        del array
        assert pyhost.memory_stats()["accounts"]["numpy"]["live_bytes"] == live
"""


def reset_to_default():
    """`PyDataMem_SetHandler(NULL)` puts the default back, which is the host's."""
    capsule = (sys.modules.get("numpy._core._multiarray_umath") or sys.modules["numpy.core._multiarray_umath"])._ARRAY_API
    ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
    ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(
        ctypes.pythonapi.PyCapsule_GetPointer(capsule, None), ctypes.POINTER(ctypes.c_void_p))
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)(table[304])
    set_handler(None)


@route
def handler_that_was_reset():
    reset_to_default()
    check_all()


if __name__ == "__main__":
    for name, function in ROUTES.items():
        try:
            function()
        except Refused as refusal:
            print(f"{name}: NumPy {np.__version__} refuses: {refusal}")
        except BaseException:
            print(f"failed: {name}", file=sys.stderr)
            raise
    print("every route")
