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


def error_of_memory(error):
    is_told = "Cannot allocate memory" in str(error) or getattr(error, "errno", None) == errno.ENOMEM
    return is_told or isinstance(error.__cause__ or error.__context__, MemoryError)


def try_imports(names):
    refused = 0
    for name in names:
        try:
            importlib.import_module(name)
        except MemoryError:
            refused += 1
        except (ImportError, OSError) as error:
            # So dlopen and opendir are reported where libc's malloc gave them nothing.
            assert error_of_memory(error), (name, error)
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
    data = fill(size)
    try_imports(names)
    data = None
    return 1


def while_hogging(size, names):
    """Each import has less room than the one before."""
    data = fill(size)
    for name in names:
        for _ in range(1 + 300_000 // size):
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
names = plan.random.sample(sorted(MODULES), 8)
announce(1, 1, "%s; size %d; %s" % (plan.choice.__name__, plan.size, ", ".join(names)))
caught = plan.choice(plan.size, names)
forget_parts()
for name in names:
    module = importlib.import_module(name)
    assert hasattr(module, MODULES[name]), "half imported: %s" % name
    assert sys.modules[name] is module
finish(caught)
