"""Lazy imports (CPython 3.15, PEP 810)."""

import sys

lazy import json
lazy from xml.etree import ElementTree as tree

NAMES = ("json", "xml.etree.ElementTree")


def imported():
    return [name for name in NAMES if name in sys.modules]


print(imported(), type(globals()["json"]).__name__)
print(json.dumps([1, {"a": None}]), imported())
print(tree.fromstring("<a><b/></a>")[0].tag, imported())
try:
    exec("lazy import no_such_module\nno_such_module.name")
except ImportError as error:
    print(type(error).__name__, error)
print("mode", sys.get_lazy_imports())
