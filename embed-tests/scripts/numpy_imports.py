"""Loads NumPy by the route that argv[1] names, makes an array and prints its handler's name."""

import sys


def loaded():
    """`get_handler_name` of whatever NumPy is loaded, and its `empty`."""
    for name in ("numpy._core.multiarray", "numpy.core.multiarray"):
        if name in sys.modules:
            return sys.modules[name]
    sys.exit("NumPy is not loaded")


def plain():
    import numpy  # noqa: F401


def star():
    exec("from numpy import *", {})


def submodule():
    from numpy.linalg import norm  # noqa: F401


def by_importlib():
    import importlib

    importlib.import_module("numpy.fft")


def reloaded():
    import importlib
    import warnings

    import numpy

    warnings.simplefilter("ignore")
    importlib.reload(numpy)


def lazily():
    import importlib.util

    spec = importlib.util.find_spec("numpy")
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules["numpy"] = module
    spec.loader.exec_module(module)
    assert "numpy._core" not in sys.modules and "numpy.core" not in sys.modules
    module.empty  # loads


def from_c():
    import ctypes

    import_module = ctypes.pythonapi.PyImport_ImportModule
    import_module.restype, import_module.argtypes = ctypes.py_object, [ctypes.c_char_p]
    import_module(b"numpy")


def in_a_thread():
    import threading

    thread = threading.Thread(target=plain)
    thread.start()
    thread.join()


def by_another_finder():
    from importlib.machinery import PathFinder

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            return PathFinder.find_spec(name, path, target)

    sys.meta_path[:] = [Finder] + [finder for finder in sys.meta_path if finder is not PathFinder]
    plain()


def by_another_loader():
    """A loader of its own for extension modules, without importlib's."""
    import _imp
    from importlib.machinery import ExtensionFileLoader, PathFinder

    class Loader:
        def __init__(self, spec):
            self.spec = spec

        def create_module(self, spec):
            return _imp.create_dynamic(spec)

        def exec_module(self, module):
            _imp.exec_dynamic(module)

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            spec = PathFinder.find_spec(name, path, target)
            if spec and isinstance(spec.loader, ExtensionFileLoader):
                spec.loader = Loader(spec)
            return spec

    sys.meta_path.insert(0, Finder)
    plain()


def failed_first():
    """An import that fails half-way, and one that then goes through."""
    sys.modules["numpy.linalg"] = None
    try:
        import numpy  # noqa: F401
    except ImportError:
        del sys.modules["numpy.linalg"]
    plain()


globals()[sys.argv[1]]()
multiarray = loaded()
print(multiarray.get_handler_name(multiarray.empty(3)))
