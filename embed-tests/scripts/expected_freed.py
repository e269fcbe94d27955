"""pyhost.expect_freed: what keeps an object, in every way that one may be kept. Runs under any Python that has the module.

Prints "expected" if all holds.
"""
import collections
import functools
import gc
import sys
import threading
import time
import weakref

import pyhost


class Session:
    pass


class User:
    def __init__(self, owner):
        self.owner = owner


class Slotted:
    __slots__ = ("left", "right", "__weakref__")


class Registry:
    latest = None


class Callbacks:
    def __init__(self):
        self.functions = []

    def on_event(self):
        pass


cache, callbacks, keep, places = {}, Callbacks(), None, threading.local()


def kept(handle, *expected):
    """Checks the chain; returns the Kept."""
    found = handle.check()
    assert found is not None, (handle, expected)
    for text in expected:
        assert text in found.path, (found.path, text)
    assert found.path in str(found) and found.is_whole, str(found)
    assert not handle.is_freed and repr(handle).endswith("alive>")
    return found


def freed(handle):
    found = handle.check()
    assert found is None, str(found)
    assert handle.is_freed and repr(handle).endswith("freed>")


def watch(value):
    return pyhost.expect_freed(value)


def in_a_dictionary():
    cache["user-7"] = User(Session())
    handle = watch(cache["user-7"].owner)
    found = kept(handle)
    assert found.path == "__main__.cache['user-7'].owner", found.path
    assert found.type == "Session" and found.other_references == 0, str(found)
    assert found.chain == [("__main__.cache", "dict"), ("['user-7']", "User"), (".owner", "Session")], found.chain
    assert found.file == __file__ and "\n    __main__.cache  dict\n" in str(found), str(found)
    cache.clear()
    freed(handle)
    cache[(1, "a"), 2] = cache[User] = session = Session()
    handle = watch(session)
    del session
    assert kept(handle).other_references == 0 and ("[((1, 'a'), 2)]" in handle.check().path)
    cache.clear()
    cache[Session()] = 1
    kept(watch(next(iter(cache))), "__main__.cache.<key <Session>>")
    cache.clear()


def in_containers():
    cache["alone"] = (Session(),)
    handle = watch(cache["alone"][0])
    kept(handle, "__main__.cache['alone'][0]")
    cache.clear()
    freed(handle)
    for make, text in ((list, "[1]"), (tuple, "[1]"), (collections.deque, "[1]"), (set, ".<element>"), (frozenset, ".<element>")):
        session = Session()
        handle = watch(session)
        cache["it"] = make([None, session])
        del session
        kept(handle, "__main__.cache['it']" + text)
        cache.clear()
        freed(handle)


def in_a_closure():
    def make(session):
        def inner():
            return session
        return watch(session), inner
    handle, cache["function"] = make(Session())
    kept(handle, "__main__.cache['function'].<closure>.session")
    cache.clear()
    freed(handle)
    handle, cache["partial"] = (lambda session: (watch(session), functools.partial(print, 1, session)))(Session())
    kept(handle, "__main__.cache['partial'].args[1]")
    cache.clear()
    freed(handle)


def in_callbacks():
    other = Callbacks()
    handle = watch(other)
    callbacks.functions.append(other.on_event)
    del other
    kept(handle, "__main__.callbacks.functions[0].__self__")
    callbacks.functions.clear()
    freed(handle)


def in_a_class():
    Registry.latest = Session()
    handle = watch(Registry.latest)
    kept(handle, "__main__.Registry.latest")
    Registry.latest = None
    freed(handle)


def in_a_thread():
    places.current = Session()
    handle = watch(places.current)
    kept(handle, "__main__.places.current")
    del places.current
    freed(handle)
    steps = threading.Barrier(2, timeout=60)

    def work():
        places.other = Session()
        cache["handle"] = watch(places.other)
        steps.wait()
        steps.wait()
        del places.other
        session = Session()
        cache["handle"] = watch(session)
        steps.wait()
        steps.wait()
        assert session

    thread = threading.Thread(target=work, name="worker")
    thread.start()
    steps.wait()
    kept(cache["handle"], "__main__.places.other")
    steps.wait()
    steps.wait()
    kept(cache["handle"], "local session of work (", "thread worker)")
    steps.wait()
    thread.join()
    freed(cache.pop("handle"))


def in_a_generator():
    def produce():
        session = Session()
        yield watch(session)
        yield session

    async def wait_for():
        session = Session()
        cache["handle"] = watch(session)
        await Pause()
        return session

    class Pause:
        def __await__(self):
            yield

    cache["generator"] = produce()
    handle = next(cache["generator"])
    kept(handle, "__main__.cache['generator']", ".<local session of produce (")
    cache.clear()
    freed(handle)
    cache["coroutine"] = wait_for()
    cache["coroutine"].send(None)
    handle = cache.pop("handle")
    kept(handle, "__main__.cache['coroutine']", ".<local session of wait_for (")
    cache.pop("coroutine").close()
    freed(handle)


def in_an_exception():
    def fails():
        session = Session()
        cache["handle"] = watch(session)
        raise ValueError(session is None)
    try:
        fails()
    except ValueError as error:
        cache["error"] = error
    handle = cache.pop("handle")
    kept(handle, "__main__.cache['error'].__traceback__", ".tb_frame", ".<local session of fails (")
    cache.clear()
    freed(handle)


def in_slots():
    slotted = Slotted()
    slotted.left, slotted.right = None, Session()
    cache["slotted"] = slotted
    handle = watch(slotted.right)
    del slotted
    kept(handle, "__main__.cache['slotted'].right")
    cache.clear()
    freed(handle)
    slotted = Slotted()
    handle = watch(slotted)
    del slotted
    freed(handle)


def in_a_running_function():
    session = Session()
    handle = watch(session)
    found = kept(handle, "local session of in_a_running_function (")
    assert found.chain == [(found.path, "Session")] and found.other_references == 0, str(found)
    del session, found
    freed(handle)  # no look at the locals has kept it


def beside_names_that_the_script_has():
    session = Session()
    names = locals()
    kept(watch(session))
    assert names["session"] is session


def in_a_cycle():
    first, second = User(None), User(None)
    first.owner, second.owner = second, first
    handle = watch(first)
    del first, second
    freed(handle)
    # A callback of a weak reference is kept by it.
    session, target = Session(), Session()
    cache["weak"] = weakref.ref(target, lambda _, session=session: session)
    handle = watch(session)
    del session
    kept(handle, "__main__.cache['weak'].__callback__.__defaults__[0]")
    cache.clear()
    freed(handle)
    assert target


def of_c_code():
    @functools.lru_cache
    def cached(name):
        return Session()
    global keep
    keep = cached
    del cached
    handle = watch(keep("a"))
    kept(handle, "__main__.keep.")
    keep = None
    freed(handle)
    import ctypes
    session = Session()
    handle = watch(session)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(session))
    del session
    # Another thread has run: without a GIL the collector of 3.13 does not know all that may hold it.
    by = "something" if "t" in sys.abiflags and sys.version_info < (3, 14) else "C code or a temporary value"
    kept(handle, f"<Session, held by {by}>")
    handle.dismiss()


def without_weak_references():
    for value in (1, "text", (1, 2), [], {}, object()):
        try:
            pyhost.expect_freed(value)
        except TypeError as error:
            assert f"an object of type {type(value).__name__!r} can have no weak reference" in str(error), error
        else:
            raise AssertionError(value)


def all_at_once():
    sessions = [Session() for _ in range(3)]
    handles = [pyhost.expect_freed(session, name=f"session {index}") for index, session in enumerate(sessions)]
    found = pyhost.check_expected()
    assert [one.name for one in found] == ["session 0", "session 1", "session 2"], found
    assert str(found[1]).startswith("'session 1', Session, expected to be freed "), str(found[1])
    del sessions[0], found
    assert [one.name for one in pyhost.check_expected()] == ["session 1", "session 2"]
    handles[2].dismiss()
    assert [one.name for one in pyhost.check_expected()] == ["session 1"]
    del sessions[:]
    assert pyhost.check_expected() == []


def from_many_threads():
    def work():
        for _ in range(15):
            session = Session()
            handle = pyhost.expect_freed(session)
            assert handle.check() is not None
            del session
            assert handle.check() is None
    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]


def from_a_finalizer():
    # A check within a collection, or within a search, neither waits for itself nor fails.
    class Asks:
        def __init__(self):
            self.itself = self

        def __del__(self):
            cache["found"] = pyhost.check_expected()

    session = Session()
    handle = watch(session)
    Asks()
    assert handle.check() is not None
    assert [found.type for found in cache.pop("found")] == ["Session"]


def in_a_crowd():
    # Far from its root, among many.
    chain = cache
    for _ in range(40):
        chain["next"] = {"others": [[number] for number in range(200)]}
        chain = chain["next"]
    chain["it"] = User(Session())
    handle = watch(chain["it"].owner)
    del chain
    begun = time.monotonic()
    found = handle.check()
    assert found.path.endswith("['next']['it'].owner"), found.path
    assert found.path.startswith("__main__.cache['next']") and found.path.count("['next']") == 40 or not found.is_whole
    assert time.monotonic() - begun < 60
    cache.clear()
    freed(handle)


if __name__ == "__main__":
    for case in (in_a_dictionary, in_containers, in_a_closure, in_callbacks, in_a_class, in_a_thread, in_a_generator,
                 in_an_exception, in_slots, in_a_running_function,
                 beside_names_that_the_script_has, in_a_cycle, of_c_code, without_weak_references,
                 all_at_once, from_many_threads, from_a_finalizer, in_a_crowd):
        case()
        assert pyhost.check_expected() == [], case
        gc.collect()
    print("expected")
