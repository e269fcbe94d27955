"""The code that the growth scripts share: a seed's plan, the forms of `try`, and the work that comes afterwards.

A script lists growths: statements that allocate more each time they are run. The seed picks one of them, a size, a
form and whether the code is a function's or the module's. The form and the growth are put together as source text,
so that the growing statement stands inside the `try` itself, with no call between: where in a loop CPython may raise
differs by the statement. Where a form's `try` lies inside the loop, all that asks for memory lies inside the `try`,
the counter too: what is asked for outside may be refused outside. So no form has a `with` in the loop, where CPython
makes the bound methods of the context manager before it enters the block.

    expects caught 3; growth d[i] = bytes(n); form inside; size 512; in a function
    caught 3; finished

The first line is printed before anything grows. The last is printed after the data were dropped and other work was
done and found right. Exit status 2 with one line on stderr says that what the script imports does not fit below the
cap; 3 that the work afterwards went wrong.
"""

import gc
import importlib
import itertools
import random
import sys
import textwrap
import threading

FORMS = {
    "around": (1, """
        try:
            while True:
                STEP
                i += 1
        except MemoryError:
            caught += 1
    """),
    "inside": (1, """
        while True:
            try:
                STEP
                i += 1
            except MemoryError:
                caught += 1
                break
    """),
    "inside for": (1, """
        for _ in itertools.repeat(None):
            try:
                STEP
                i += 1
            except MemoryError:
                caught += 1
                break
    """),
    "inside, again": (3, """
        while caught < 3:
            try:
                STEP
                i += 1
            except MemoryError:
                caught += 1
                data = None
                gc.collect()
                SETUP
    """),
    "callee": (1, """
        def grow(data, i, n):
            try:
                while True:
                    STEP
                    i += 1
            except MemoryError:
                return 1
        caught += grow(data, i, n)
    """),
    "caller": (1, """
        def grow(data, i, n):
            while True:
                STEP
                i += 1
        try:
            grow(data, i, n)
        except MemoryError:
            caught += 1
    """),
    "kept": (1, """
        def grow(data, i, n):
            while True:
                STEP
                i += 1
        try:
            grow(data, i, n)
        except MemoryError as error:
            kept = error
        assert kept.__traceback__ is not None
        caught += 1
        kept = None
    """),
    "finally": (1, """
        cleaned = False
        try:
            try:
                while True:
                    STEP
                    i += 1
            finally:
                cleaned = True
        except MemoryError:
            caught += cleaned
    """),
    "inside finally": (1, """
        while not caught:
            is_open = True
            try:
                STEP
                i += 1
            except MemoryError:
                caught += 1
            finally:
                is_open = False
        assert not is_open
    """),
    "with": (1, """
        with Catching() as catching:
            while True:
                STEP
                i += 1
        caught += catching.caught
    """),
    "generator": (1, """
        with generator_catching() as caught_here:
            while True:
                STEP
                i += 1
        caught += len(caught_here)
    """),
    "handler works": (1, """
        while True:
            try:
                STEP
                i += 1
            except MemoryError as error:
                caught += 1
                text = "%s: %s" % (type(error).__name__, error)
                assert "MemoryError: " in text
                lines = [str(number) for number in range(200)]
                assert sum(map(int, lines)) == 19900
                break
    """),
    "raised again": (1, """
        try:
            while True:
                try:
                    STEP
                    i += 1
                except MemoryError:
                    raise
        except MemoryError:
            caught += 1
    """),
    "uncaught": (None, """
        while True:
            STEP
            i += 1
    """),
    "uncaught finally": (None, """
        try:
            while True:
                STEP
                i += 1
        finally:
            i = 0
    """),
    "uncaught callee": (None, """
        def grow(data, i, n):
            while True:
                STEP
                i += 1
        grow(data, i, n)
    """),
}

# For a growth that is one expression: it never ends by itself, so there is no loop around it.
WHOLE_FORMS = {
    "around": (1, """
        try:
            STEP
        except MemoryError:
            caught += 1
    """),
    "again": (3, """
        for turn in range(3):
            try:
                STEP
            except MemoryError:
                caught += 1
    """),
    "callee": (1, """
        def grow(n):
            try:
                STEP
            except MemoryError:
                return 1
        caught += grow(n)
    """),
    "finally": (1, """
        try:
            try:
                STEP
            finally:
                i = -1
        except MemoryError:
            caught -= i
    """),
    "with": (1, """
        with Catching() as catching:
            STEP
        caught += catching.caught
    """),
    "uncaught": (None, """
        STEP
    """),
}

NEVER_FORMS = {
    "pass": ("fatal", """
        while True:
            try:
                STEP
                i += 1
            except MemoryError:
                pass
    """),
    "counts": ("fatal", """
        while True:
            try:
                while True:
                    STEP
                    i += 1
            except MemoryError:
                caught += 1
    """),
    "bare": ("fatal", """
        while True:
            try:
                STEP
                i += 1
            except:
                continue
    """),
    "finally": ("fatal", """
        while True:
            try:
                try:
                    STEP
                finally:
                    i += 1
            except MemoryError:
                continue
    """),
}

PROGRAM = """
def episode(n):
    data, i, caught = None, 0, 0
    SETUP
    FORM
    data = None
    return caught
"""


class Catching:
    """Catches a MemoryError that leaves its block."""

    caught = 0

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if kind is not None and issubclass(kind, MemoryError):
            self.caught = 1
            return True


class GeneratorCatching:
    """As contextlib.contextmanager does, the error is thrown into a generator, which catches it."""

    def __enter__(self):
        self.caught = []
        self.generator = self.wait()
        next(self.generator)
        return self.caught

    def wait(self):
        try:
            yield
        except MemoryError:
            self.caught.append(1)

    def __exit__(self, kind, error, traceback):
        if kind is None:
            return False
        try:
            self.generator.throw(error)
        except StopIteration:
            return True
        return False


def compose(setup, step, form):
    """Puts a program together from its parts, each at the depth where its name stands."""
    text = put(textwrap.dedent(PROGRAM), "FORM", textwrap.dedent(form).strip())
    return put(put(text, "SETUP", textwrap.dedent(setup).strip()), "STEP", textwrap.dedent(step).strip())


def put(text, name, part):
    lines = []
    for line in text.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        lines.append(textwrap.indent(part, indent) if line.strip() == name else line)
    return "\n".join(lines) + "\n"


def as_module(text):
    """Takes the body out of the function: names are then a module's, whose bytecodes differ."""
    body = textwrap.dedent("".join(text.split("def episode(n):\n", 1)[1]))
    return body.replace("return caught\n", "")


class Plan:
    """The plan of a script that a seed gives."""

    def __init__(self, script, seed, combinations, sizes=(48, 100_000)):
        order = random.Random(script)
        combinations = list(combinations)
        order.shuffle(combinations)
        self.random = random.Random("%s %d" % (script, seed))
        self.choice = combinations[seed % len(combinations)]
        low, high = sizes
        self.size = int(low * (high / low) ** self.random.random())
        self.in_function = self.random.random() < 0.5
        self.episodes = self.random.choice((1, 1, 2))
        self.collects = self.random.random() < 0.5
        self.works_before = self.random.random() < 0.5


def seed():
    return int(sys.argv[1])


def need(*names):
    """Imports what the script cannot do without, or ends it: the cap is then below what it starts with.

    So it is where the other work does not fit, with 1 MiB to spare, before anything has grown. An ImportError is that only where it comes of a MemoryError: any other is a fault, which must show.
    """
    try:
        modules = [importlib.import_module(name) for name in names]
        ballast = bytes(1 << 20)
        work()
        del ballast
        return modules
    except (MemoryError, ImportError) as error:
        cause = error
        while cause is not None and not isinstance(cause, MemoryError):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        print("cap below start-up: %s: %s" % (", ".join(names), type(error).__name__), file=sys.stderr)
        sys.exit(2)


def run(script, growths, whole=(), forms=None, names=None, sizes=(48, 100_000), in_thread=False,
        cyclic=False):
    """Does one of the growths (setup, step) in one form, as often as planned, then the other work.

    `cyclic` says that some growths make reference cycles, which are not dropped before garbage is collected.
    """
    forms = forms or FORMS
    combinations = [(growth, form, forms) for growth in growths for form in forms]
    combinations += [(("", growth), form, WHOLE_FORMS) for growth in whole for form in WHOLE_FORMS]
    plan = Plan(script, seed(), combinations, sizes)
    (setup, step), form, forms = plan.choice
    expected, source = forms[form]
    episodes = plan.episodes if isinstance(expected, int) else 1
    text = compose(setup or "pass", step, source)
    told = " ".join(step.split())
    where = "in a function" if plan.in_function else "in a module"
    where += ", in a thread" if in_thread else ""
    announce(expected, episodes, "growth %s; form %s; size %d; %s" % (told, form, plan.size, where))
    if plan.works_before:
        work()
    namespace = {**globals(), "generator_catching": GeneratorCatching, **(names or {}), "n": plan.size}
    code = compile(text if plan.in_function else as_module(text), "<%s, %s>" % (script, form), "exec")
    caught = 0
    for _ in range(episodes):
        caught += in_a_thread(episode, code, namespace, plan) if in_thread else episode(code, namespace, plan)
        if plan.collects or cyclic:
            gc.collect()
    finish(caught)


def episode(code, namespace, plan):
    names = dict(namespace)
    exec(code, names)
    caught = names["episode"](plan.size) if plan.in_function else names["caught"]
    names.clear()
    return caught


def in_a_thread(function, *arguments):
    """Calls the function in a thread of its own; an error of its goes on here."""
    result, errors = [], []

    def call():
        try:
            result.append(function(*arguments))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    if errors:
        raise errors.pop()
    return result[0]


def announce(expected, episodes, text):
    """Prints the first line."""
    if isinstance(expected, int):
        expected = "caught %d" % (expected * episodes)
    print("expects %s; %s" % (expected or "unhandled", text), flush=True)


def finish(caught):
    """Does the other work and prints the last line."""
    work()
    print("caught %d; finished" % caught, flush=True)


def work():
    """Other work: data, JSON there and back, sorting, text, a thread that takes a lock. Ends the script if it is wrong."""
    import json

    rows = [{"id": i, "name": "row %d" % i, "half": i / 2} for i in range(1500)]
    again = json.loads(json.dumps(rows))
    text = ",".join(str(i) for i in range(5000))
    groups = {}
    for row in again:
        groups.setdefault(row["id"] % 7, []).append(row["name"])
    lock, seen = threading.Lock(), []

    def add():
        with lock:
            seen.append(sum(range(1000)))

    threads = [threading.Thread(target=add) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    right = (again == rows
             and sum(map(int, text.split(","))) == 12497500
             and sum(map(len, groups.values())) == 1500
             and sorted(again, key=lambda row: -row["id"])[0]["id"] == 1499
             and seen == [499500] * 3)
    if not right:
        print("the work after the growth went wrong", file=sys.stderr)
        sys.exit(3)
