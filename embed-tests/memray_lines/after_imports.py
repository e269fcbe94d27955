"""Runs a program after the modules that memray brings with it have been imported: under memray they are there before it.

    pyhost after_imports.py NAMES PROGRAM ARGUMENT...

NAMES is a file with a name a line.
"""

import importlib
import runpy
import sys


def import_all(names):
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:  # such as a part of a package that only itself imports
            pass


with open(sys.argv[1], encoding="utf-8") as file:
    import_all(file.read().split())
del sys.argv[:2]
sys.path[0] = sys.argv[0].rpartition("/")[0]
runpy.run_path(sys.argv[0], run_name="__main__")
