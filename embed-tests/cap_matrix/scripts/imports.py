"""Imports at the cap: each raises MemoryError or gives the whole module, and none is left half imported."""

import collections
import errno
import importlib
import sys

from growing import Plan, announce, finish, seed, work

MODULES = {
    "json": "JSONDecoder", "decimal": "Decimal", "email.message": "EmailMessage", "http.client": "HTTPConnection",
    "fractions": "Fraction", "dataclasses": "dataclass", "difflib": "SequenceMatcher", "argparse": "ArgumentParser",
    "xml.etree.ElementTree": "ElementTree", "sqlite3": "connect", "statistics": "mean", "calendar": "Calendar",
    "configparser": "ConfigParser", "csv": "DictReader", "asyncio": "run", "unittest": "TestCase",
}


def fill(size):
    # A list needs memory to become shorter, a deque does not.
    data = collections.deque()
    try:
        while True:
            data.append(bytes(size))
    except MemoryError:
        return data


def is_of_memory(error):
    """Says whether it is a MemoryError in other words: libc's ENOMEM of dlopen or opendir, or one made from it (enum).

    A SystemError that names none is _socket's: stock 3.11.7 gives it in 134 of 300 places of its initialisation where
    `_testcapi.set_nomemory` fails one request.
    """
    if isinstance(error, SystemError) and "raised unreported exception" in str(error):
        return True
    while error is not None:
        if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
            return True
        if "Cannot allocate memory" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def try_imports(names):
    refused = 0
    for name in names:
        try:
            importlib.import_module(name)
        except MemoryError:
            refused += 1
        except Exception as error:
            if not is_of_memory(error):
                raise
            refused += 1
    return refused


def forget_parts():
    """Forgets the modules of packages whose own import has failed.

    CPython leaves them, and does not set them on the package when it is imported again, whatever the exception was:
    asyncio then ends with a NameError. Seen with stock 3.9 to 3.13.
    """
    for name in sorted(sys.modules, reverse=True):
        parent = name.rpartition(".")[0]
        while parent and parent in sys.modules:
            parent = parent.rpartition(".")[0]
        if parent:
            del sys.modules[name]


def while_full(size, names):
    """These imports use up the reserve of 2 MiB: after four of them nothing of it may be left."""
    data = fill(size)
    try_imports(names[:2])
    data = None
    return 1


def while_hogging(size, names):
    """Each import has the same 3 MB of room, and what it takes of them stays."""
    data = fill(size)
    for name in names:
        for _ in range(1 + 3_000_000 // size):
            if data:
                data.pop()
        try_imports([name])
        try:
            while True:
                data.append(bytes(size))
        except MemoryError:
            pass
    data = None
    return 1


plan = Plan("imports", seed(), [while_full, while_hogging], (100, 20_000))
names = plan.random.sample(sorted(MODULES), 4)
announce(1, 1, "%s; size %d; %s" % (plan.choice.__name__, plan.size, ", ".join(names)))
caught = plan.choice(plan.size, names)
forget_parts()
for name in names:
    module = importlib.import_module(name)
    assert hasattr(module, MODULES[name]), "half imported: %s" % name
    assert sys.modules[name] is module
finish(caught)
