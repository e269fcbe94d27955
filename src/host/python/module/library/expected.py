"""pyhost.expect_freed: watches objects that should be freed, and shows what keeps those that are not.

Run in every interpreter that asks for it, and not before; in a Python without the host, too. Nothing here keeps a watched
object alive but a search while it runs. No thread and no signal has a part in it.
"""

import atexit
import collections
import gc
import os
import sys
import threading
import time
import types
import weakref

from pyhost import _at

_OWN_FOLDER = os.path.dirname((lambda: None).__code__.co_filename)
# Of inspect, which is large: the locals of a function are in no dictionary of their own.
_OPTIMIZED = 0x1
_SECONDS = 2.0
_SECONDS_IN_COLLECTION = 0.3
_OBJECTS, _FRAMES = 20_000, 2_000
# Objects that one look at the heap searches the referrers of: it compares each reference with all of them.
_AT_ONCE = 32
_MOST_SHOWN = 20

_waiting = {}  # by number, the handles whose objects live
# One search at a time: another's lists would be found as holders. A finalizer may ask again within one.
_searching = threading.RLock()
_asking = {}  # threads that collect or search, and whether they have collected: the collector's report is not wanted there
_collector = [None]  # the thread that collects


class _Asking:
    """Begins with a collection. gc.collect() does nothing while another thread collects, which began before the script asked."""

    def __enter__(self):
        me, deadline = threading.get_ident(), time.monotonic() + _SECONDS
        _asking[me] = False
        gc.collect()
        while not _asking.get(me, True) and _collector[0] != me and time.monotonic() < deadline:
            time.sleep(0.001)
            gc.collect()

    def __exit__(self, *_):
        _asking.pop(threading.get_ident(), None)


class Kept:
    """An object that lives though it should be freed, and the chain of references that keeps it.

    path is the chain in one text, chain the same step by step: a list of (step, type). other_references are the direct
    references to the object beside that of the chain; is_whole is False if the search ended before it found a root.
    """

    __slots__ = ("name", "type", "file", "line", "seconds", "path", "chain", "other_references", "is_whole")

    def __init__(self, **values):
        for name, value in values.items():
            setattr(self, name, value)

    def __repr__(self):
        return f"<pyhost.Kept: {self.path} -> {self.type}>"

    def __str__(self):
        named = f"{self.name!r}, " if self.name else ""
        lines = [f"{named}{self.type}, expected to be freed {self.seconds:.1f} s ago at {_at(self.file, self.line)}, is kept by",
                 f"  {self.path} -> {self.type}"]
        width = max((len(step) for step, _ in self.chain), default=0)
        if len(self.chain) > 1:
            lines += [f"    {step.ljust(width)}  {kind}" for step, kind in self.chain]
        if not self.is_whole:
            lines.append(f"  the search ended after {_SECONDS} s or {_OBJECTS} objects: there may be more before it")
        if self.other_references:
            lines.append(f"  and by {self.other_references} other reference{'s' * (self.other_references > 1)}")
        return "\n".join(lines)


class Expected:
    """A watched object. It is not kept alive by this."""

    __slots__ = ("name", "type", "file", "line", "_since", "_after", "_reference", "_process", "_is_reported")

    def __init__(self, watched, name, after, frame):
        self.name = name
        self.type = _type_of(watched)
        self.file, self.line = frame.f_code.co_filename, frame.f_lineno
        self._since = time.monotonic()
        self._after = after
        self._process = os.getpid()
        self._is_reported = False
        number = id(self)
        # Never under a lock: it may be called anywhere.
        self._reference = weakref.ref(watched, lambda _, pop=_waiting.pop: pop(number, None))
        _waiting[number] = self

    @property
    def is_freed(self):
        """Whether the object is gone."""
        return self._reference() is None

    def check(self):
        """Collect garbage. Return None if the object is freed, else a Kept, which shows what keeps it."""
        with _Asking():
            return self._kept(_SECONDS)

    def dismiss(self):
        """Watch the object no longer."""
        _waiting.pop(id(self), None)
        self._is_reported = True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _write([self.check()])

    def __repr__(self):
        state = "freed" if self.is_freed else "alive"
        return f"<pyhost.Expected: {self.name or self.type}, {state}>"

    def _kept(self, seconds):
        # Under the lock: the search of another thread keeps for a moment what it finds, and frames, which keep their locals.
        with _searching:
            watched = self._reference()
            if watched is None:
                return None
            self._is_reported = True
            path, chain, others, is_whole = _Search(time.monotonic() + seconds).of(watched)
            del watched
        return Kept(name=self.name, type=self.type, file=self.file, line=self.line, seconds=time.monotonic() - self._since,
                    path=path, chain=chain, other_references=others, is_whole=is_whole)


def expect_freed(watched, name=None, *, after=5.0):
    """Watch an object that should be freed soon; return an Expected, whose check() shows what keeps it.

    It is also reported on stderr, once: when a full garbage collection has left it alive `after` seconds later, and at the
    end of the script. Raises TypeError for an object that can have no weak reference.
    """
    try:
        handle = Expected(watched, name, after, sys._getframe(1))
    except TypeError:
        raise TypeError(f"expect_freed: an object of type {_type_of(watched)!r} can have no weak reference; expected one "
                        "that can, such as its owner") from None
    if _collected not in gc.callbacks:
        gc.callbacks.append(_collected)
    return handle


def check_expected():
    """Collect garbage and return a Kept for each watched object that lives: a list, empty if all are freed."""
    with _Asking():
        found = [handle._kept(_SECONDS) for handle in _alive()]
    return [kept for kept in found if kept is not None]


def _alive():
    """The handles whose objects live; those of a parent are the parent's."""
    process = os.getpid()
    return [handle for handle in list(_waiting.values()) if handle._process == process and not handle.is_freed]


def _collected(phase, facts):
    """After a full collection, reports what it has left alive for long. Called by the collector, anywhere."""
    me, is_full = threading.get_ident(), phase == "stop" and facts["generation"] == 2
    if phase == "start":
        _collector[0] = me
    elif me in _asking:
        _asking[me] |= is_full
    # Not while another thread searches: a collection waits for nothing.
    elif is_full and _waiting and _searching.acquire(False):
        try:
            with _Asking():
                now = time.monotonic()
                due = [handle for handle in _alive() if not handle._is_reported and now - handle._since >= handle._after]
                _write([handle._kept(_SECONDS_IN_COLLECTION) for handle in due[:1]])  # the others at the next ones
        except Exception:  # a watch never stops the script
            pass
        finally:
            _searching.release()
    if phase == "stop":
        _collector[0] = None


def _check_at_end():
    """At the end of the script: reports what lives and was not reported. After the functions of atexit that were registered
    since the first object was watched."""
    try:
        if all(handle._is_reported for handle in _alive()):
            return
        with _Asking():
            due = [handle for handle in _alive() if not handle._is_reported]
            _write([handle._kept(_SECONDS) for handle in due[:_MOST_SHOWN]], len(due[_MOST_SHOWN:]))
    except Exception:
        pass


def _write(found, more=0):
    """Reports on stderr, past Python's: its lock may be held."""
    found = [kept for kept in found if kept is not None]
    if not found:
        return
    count = len(found) + more
    text = [f"pyhost: {count} {'object lives' if count == 1 else 'objects live'} that should be freed"]
    for kept in found:
        text += ["  " + "".join(c if c.isprintable() else " " for c in line) for line in str(kept).split("\n")]
    if more:
        text.append(f"  and {more} more")
    try:
        os.write(2, ("\n".join(text) + "\n").encode("utf-8", "backslashreplace"))
    except OSError:
        pass


# --- the search

def _type_of(something):
    kind = type(something)
    module = getattr(kind, "__module__", "builtins")
    return kind.__qualname__ if module in ("builtins", "__main__") else f"{module}.{kind.__qualname__}"


class _Search:
    """Breadth first from an object to what holds it, up to a root. nodes[place] holds nodes[children[place]]."""

    def __init__(self, deadline):
        self.deadline = deadline
        self.roots, self.namespaces, self.forgotten = _roots()
        self.nodes, self.children, self.places = [], [], {}
        self.with_holders = set()
        self.direct = 0
        self.root = None  # its place, its text, and whether the next step is a name in it
        self.is_whole = False

    def of(self, watched):
        # No argument of the class: its call would hold the object in a tuple.
        self._add(watched, None)
        self.is_whole = self._run()
        return self._result()

    def _run(self):
        begin = 0
        while begin < len(self.nodes):
            end = len(self.nodes)
            for first in range(begin, end, _AT_ONCE):
                # All that holds the object itself is looked for, since it is counted.
                if begin > 0 and self.root is not None:
                    return True
                if begin > 0 and (time.monotonic() > self.deadline or len(self.nodes) > _OBJECTS):
                    return False
                self._add_holders(first, min(first + _AT_ONCE, end))
            if self.root is not None:
                return True
            begin = end
        return True

    def _add_holders(self, first, end):
        chunk = self.nodes[first:end]
        sought = {id(node): first + index for index, node in enumerate(chunk)}
        own = {id(self.nodes), id(chunk)}
        # The last one marks the tuple of the arguments, which 3.13 returns, too.
        for holder in (*gc.get_referrers(*chunk, own), *self.forgotten):
            if id(holder) in own or type(holder) is tuple and holder and holder[-1] is own:
                continue
            if type(holder) is types.FrameType and _is_own(holder):
                continue
            held = [sought[id(one)] for one in gc.get_referents(holder) if id(one) in sought]
            if held:
                self.with_holders.update(held)
                self.direct += 0 in held
                if id(holder) not in self.places:
                    self._add(holder, held[0])

    def _add(self, node, child):
        place = len(self.nodes)
        self.places[id(node)] = place
        self.nodes.append(node)
        self.children.append(child)
        if self.root is None:
            root = _root_of(node, self.roots, self.namespaces)
            if root is not None:
                self.root = (place, *root)
                self.direct += place == 0  # a running frame is no referrer

    def _result(self):
        """The chain as a text and as steps, how many direct references there are beside it, whether it is whole."""
        if self.root is not None:
            place, text, is_namespace = self.root
        else:
            # Something that nothing of Python holds, or the last that was found.
            loose = (place for place in range(len(self.nodes)) if place not in self.with_holders)
            place = next(loose, 0) if self.is_whole else len(self.nodes) - 1
            by = "C code or a temporary value" if self.is_whole and not self.forgotten else "something"
            text, is_namespace = f"<{_type_of(self.nodes[place])}, held by {by}>", False
        path = []
        while place is not None:
            path.append(self.nodes[place])
            place = self.children[place]
        steps = _steps(path, text, is_namespace)
        return "".join(step for step, _ in steps), steps, max(0, self.direct - 1), self.is_whole


def _holder(one):
    """What holds an object, as text."""
    search = _Search(time.monotonic() + _SECONDS_IN_COLLECTION)
    text, steps, _, is_whole = search.of(one)
    return "C code alone" if is_whole and search.root is None and len(steps) == 1 else text


def _is_own(frame):
    """Whether a frame runs a part of this package."""
    return os.path.dirname(frame.f_code.co_filename) == _OWN_FOLDER


def _roots():
    """Texts of the objects that running frames hold, and of namespaces that are never freed, by id. Then those that the collector does
    not know: 3.13 without a GIL makes them immortal when the first thread starts, and types and functions, too."""
    namespaces, forgotten = {}, []
    for name, module in list(sys.modules.items()):
        if issubclass(type(module), types.ModuleType):
            namespace = types.ModuleType.__getattribute__(module, "__dict__")
            namespaces.setdefault(id(namespace), name)
            if "t" in sys.abiflags and not gc.is_tracked(namespace):
                forgotten.append(namespace)
    roots = {}
    names = {thread.ident: thread.name for thread in list(threading.enumerate())} if len(sys._current_frames()) > 1 else {}
    budget = _FRAMES
    for thread, frame in list(sys._current_frames().items()):
        of = f", thread {names.get(thread, thread)}" if names else ""
        while frame is not None and budget > 0:
            budget -= 1
            code = frame.f_code
            if not _is_own(frame):
                place = f"{code.co_name} ({_at(code.co_filename, frame.f_lineno)}{of})"
                if code.co_flags & _OPTIMIZED:
                    for name, key in _locals_of(frame):
                        roots.setdefault(key, f"local {name} of {place}")
                elif id(frame.f_locals) not in namespaces:
                    namespaces[id(frame.f_locals)] = f"<names of {place}>"
            frame = frame.f_back
    return roots, namespaces, forgotten


def _locals_of(frame):
    """Names and ids of a function's locals. Before 3.13 the frame keeps the dictionary that it gives, and with it the
    values: it is emptied, unless somebody else has it."""
    names = frame.f_locals
    try:
        found = [(name, id(value)) for name, value in names.items()]
    except RuntimeError:  # it runs in another thread
        return []
    if sys.version_info < (3, 13) and frame.f_trace is None and sys.getrefcount(names) <= 3:
        names.clear()
    return found


def _root_of(node, roots, namespaces):
    """The text of a root, and whether the next step is a name in it; None for another object."""
    if id(node) in namespaces:
        return namespaces[id(node)], True
    if id(node) in roots:
        return roots[id(node)], False
    if issubclass(type(node), types.ModuleType):
        return f"module {types.ModuleType.__getattribute__(node, '__dict__').get('__name__')}", False
    return None


def _steps(path, text, is_namespace):
    """The steps of a chain from its root: (text, type of the object that it leads to)."""
    steps, state = [(text, path[0])], "names" if is_namespace else ""
    for place, (holder, held) in enumerate(zip(path, path[1:])):
        step, state = _step(holder, held, state)
        if is_namespace and place == 0:
            steps[0] = (text + step, held)  # `app.cache` is one step
        elif step:  # else a part of the holder
            steps.append((step, held))
    return [(step, _type_of(held)) for step, held in steps]


def _step(holder, held, state):
    """How an object holds another, and what is known of the other: that it is a dictionary of names, and so on."""
    kind = type(holder)
    if isinstance(holder, dict):
        if state == "threads":  # of a threading.local: a dictionary for each thread
            return "", "names"
        return _key_of(holder, held, state == "names"), ""
    if isinstance(state, tuple) and kind is tuple:  # a function's closure
        return next((f".<closure>.{name}" for name, cell in zip(state, holder) if cell is held), "[?]"), "cell"
    if kind is types.CellType:
        return ("" if state == "cell" else ".cell_contents"), ""
    if isinstance(holder, (list, tuple, collections.deque)):
        for index, value in enumerate(tuple(holder) if type(holder) is collections.deque else holder):
            if value is held:
                return f"[{index}]", ""
    if isinstance(holder, (set, frozenset)) and any(element is held for element in tuple(holder)):  # by no code of theirs
        return ".<element>", ""
    if kind is types.FunctionType and held is holder.__closure__:
        return "", holder.__code__.co_freevars
    if isinstance(held, dict):
        if isinstance(holder, threading.local) and held is not _dictionary_of(holder):
            return "", "threads"
        if isinstance(holder, type) and "__module__" in held and "__doc__" in held or held is _dictionary_of(holder):
            return "", "names"
    name = _local_of(holder, held)
    if name is not None:
        return f".<local {name}>", ""
    return _attribute_of(holder, held), ""


def _key_of(holder, held, is_namespace):
    for key, value in list(dict.items(holder)):
        if value is held:
            return f".{key}" if is_namespace and type(key) is str else f"[{_shown(key)}]"
    return f".<key {_shown(held)}>"


def _shown(key):
    """A key as text; no code of the script is run."""
    if key is None or type(key) in (str, bytes, int, float, bool):
        text = repr(key)
        return text if len(text) <= 60 else text[:57] + "..."
    if type(key) is tuple and len(key) <= 4:
        return "(" + ", ".join(map(_shown, key)) + ")"
    return f"<{_type_of(key)}>"


def _dictionary_of(holder):
    """The attributes of an instance; None without."""
    try:
        return object.__getattribute__(holder, "__dict__")
    except (AttributeError, TypeError):
        return None


# Attributes of the types of the interpreter that hold other objects.
_ATTRIBUTES = (
    (types.FunctionType, ("__defaults__", "__kwdefaults__", "__closure__", "__globals__", "__code__", "__annotations__")),
    ((types.MethodType, types.BuiltinMethodType), ("__self__", "__func__")),
    (types.TracebackType, ("tb_frame", "tb_next")),
    (BaseException, ("__traceback__", "__context__", "__cause__", "args")),
    ((types.GeneratorType,), ("gi_frame", "gi_yieldfrom", "gi_code")),
    ((types.CoroutineType,), ("cr_frame", "cr_await", "cr_code")),
    ((types.AsyncGeneratorType,), ("ag_frame", "ag_await", "ag_code")),
    ((staticmethod, classmethod), ("__func__",)),
    (property, ("fget", "fset", "fdel")),
    (weakref.ref, ("__callback__",)),
    (type, ("__mro__", "__bases__", "__base__")),
)


def _local_of(holder, held):
    """The name of a local of a frame, a generator or a coroutine."""
    frames = [getattr(holder, names[0]) for kind, names in _ATTRIBUTES[4:7] if isinstance(holder, kind)]
    frame = holder if type(holder) is types.FrameType else frames[0] if frames else None
    if frame is None or frame is held or not frame.f_code.co_flags & _OPTIMIZED:
        return None
    function = f" of {frame.f_code.co_name} ({_at(frame.f_code.co_filename, frame.f_lineno)})"
    return next((name + function for name, key in _locals_of(frame) if key == id(held)), None)


def _attribute_of(holder, held):
    attributes = _dictionary_of(holder)
    if isinstance(attributes, dict):
        for name, value in list(attributes.items()):
            if value is held:
                return f".{name}"
    for kind in type(holder).__mro__:
        for name, member in list(vars(kind).items()):
            if type(member) is types.MemberDescriptorType and kind.__flags__ & 1 << 9:  # a slot of a class in Python
                try:
                    if member.__get__(holder) is held:
                        return f".{name}"
                except AttributeError:
                    pass
    known = [name for kind, names in _ATTRIBUTES if isinstance(holder, kind) for name in names]
    if type(holder).__module__ == "functools":
        known += ("func", "args", "keywords")
    for name in known:
        if getattr(holder, name, None) is held:
            return f".{name}"
    if held is type(holder):
        return ".__class__"
    return f".<held by {_type_of(holder)}>"


atexit.register(_check_at_end)
