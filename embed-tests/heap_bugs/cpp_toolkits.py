"""Builds the bugs of cpp_bugs.h as extension modules, a toolkit each: bugs_cpp (a library for ctypes), bugs_cython, bugs_pybind11,
bugs_nanobind, bugs_cffi. Each but the first has make(name)."""
import os.path

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLKITS = ("cpp", "cython", "pybind11", "nanobind", "cffi")

CYTHON = """# distutils: language = c++
from libcpp.string cimport string
cdef extern from "cpp_bugs.h" namespace "cpp_bugs":
    bint _make "cpp_bugs::make"(string name)
def make(name):
    return _make(name.encode())
"""
PYBIND11 = """#include <pybind11/pybind11.h>
#include "cpp_bugs.h"
static bool make(const std::string &name) {
    if (name != "capsule")
        return cpp_bugs::make(name);
    pybind11::capsule(cpp_bugs::kept(new int[10]), [](void *block) { operator delete(block); });
    return true;
}
PYBIND11_MODULE(bugs_pybind11, module) { module.def("make", &make); }
"""
NANOBIND = """#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include "cpp_bugs.h"
static bool make(const std::string &name) {
    if (name != "capsule")
        return cpp_bugs::make(name);
    nanobind::capsule(cpp_bugs::kept(new int[10]), [](void *block) noexcept { operator delete(block); });
    return true;
}
NB_MODULE(bugs_nanobind, module) { module.def("make", &make); }
"""
CFFI = """import cffi, sys
ffi = cffi.FFI()
ffi.cdef("int cpp_bug(const char *name);")
ffi.set_source("bugs_cffi", 'extern "C" int cpp_bug(const char *name);')
ffi.emit_c_code(sys.argv[1])
"""


def build(python, include, packages, folder, flags):
    """Builds all of them into a folder; a failure is a CalledProcessError."""
    import subprocess  # not by those that make a bug: each import takes mappings from --guard=min=1,every=1

    def run(*command, **more):
        subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, **more)

    def link(name, *sources):
        run("g++", "-std=c++17", "-O1", "-g", "-w", "-fvisibility=hidden", "-fno-omit-frame-pointer", *flags, "-shared", "-fPIC", f"-I{include}",
            f"-I{HERE}", f"-I{packages}/pybind11/include", f"-I{packages}/nanobind/include",
            f"-I{packages}/nanobind/ext/robin_map/include", *sources, "-o", folder / f"bugs_{name}.so")

    def write(name, text):
        (folder / name).write_text(text, encoding="utf-8")
        return folder / name

    environment = {"PYTHONPATH": str(packages), "PATH": "/usr/bin:/bin"}
    link("cpp", f"{HERE}/cpp_bugs.cpp")
    run(*python, "-m", "cython", "--cplus", write("bugs_cython.pyx", CYTHON), env=environment)
    link("cython", folder / "bugs_cython.cpp")
    link("pybind11", write("bugs_pybind11.cpp", PYBIND11))
    link("nanobind", write("bugs_nanobind.cpp", NANOBIND), packages / "nanobind/src/nb_combined.cpp")
    run(*python, write("make_cffi.py", CFFI), folder / "bugs_cffi.cpp", env=environment)
    link("cffi", folder / "bugs_cffi.cpp", f"{HERE}/cpp_bugs.cpp")


def make(toolkit, name):
    """Makes a bug by a toolkit's module."""
    if toolkit == "cpp":
        import ctypes
        import os
        import sys
        [path] = [path for path in (f"{folder}/bugs_cpp.so" for folder in sys.path) if os.path.exists(path)]
        is_known = ctypes.CDLL(path).cpp_bug(name.encode()) == 0
    elif toolkit == "cffi":
        from bugs_cffi import lib
        is_known = lib.cpp_bug(name.encode()) == 0
    else:
        is_known = __import__("bugs_" + toolkit).make(name)
    assert is_known, name
