#!/usr/bin/env python3
"""Makes heap bugs of modules in Cython, pybind11, nanobind, PyO3 and cffi under the host's options, and beside other tools.

    embed-tests/heap_bugs/run_toolkits.py --pyhost target/release/pyhost --python python3.11

As run.py, with its options and verdicts; the bugs are those of toolkits/variants.py. The toolkits are pinned; PyO3's module is built by cargo, and has
no form for ASan. The verdicts on the host are compared with toolkits/expected.txt.
"""

import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent / "toolkits"
TARGET = HERE.parents[2] / "target"

import run
from run import make

CPP = ["g++", "-std=c++17", "-O1", "-fvisibility=hidden"]


class Toolkits(run.Runner):
    script, expected = HERE / "variants.py", HERE / "expected.txt"

    def variants(self):
        self.build("none")
        path = f"{self.folder / 'plain'}{os.pathsep}{self.toolkits}{os.pathsep}{self.packages}"
        done = subprocess.run([self.options.python, self.script, "--list"], env={**make.clean_environment(), "PYTHONPATH": path}, check=True,
                              text=True, stdout=subprocess.PIPE)
        return dict(line.split("\t") for line in done.stdout.splitlines())

    def compile(self, folder, include, sanitize):
        """Builds the modules into a folder."""
        if self.toolkits is None:
            raise make.Unmakable("no toolkits are pinned for this Python")
        sources = self.folder / "sources"
        if not sources.exists():
            sources.mkdir()
            variables = {**make.clean_environment(), "PYTHONPATH": str(self.toolkits)}
            for words in (["-m", "cython", "-3", HERE / "cython_bugs.pyx", "-o", sources / "cython_bugs.c"],
                          [HERE / "cffi_bugs.py", sources]):
                run.compile([self.options.python, *words], env=variables)
        nanobind = self.toolkits / "nanobind"
        modules = {
            "cython_bugs": ["gcc", "-O1", sources / "cython_bugs.c"],
            "_cffi_bugs": ["gcc", "-O1", sources / "_cffi_bugs.c"],
            "pybind11_bugs": [*CPP, f"-I{self.toolkits}/pybind11/include", HERE / "pybind11_bugs.cpp"],
            "nanobind_bugs": [*CPP, "-fno-strict-aliasing", f"-I{nanobind}/include", f"-I{nanobind}/ext/robin_map/include",
                              HERE / "nanobind_bugs.cpp", nanobind / "src" / "nb_combined.cpp"],
        }
        for name, command in modules.items():
            run.compile([*command, *run.FLAGS, *sanitize, f"-I{include}", "-o", folder / f"{name}.so"])
        self.compile_rust(folder)

    def compile_rust(self, folder):
        target = TARGET / f"pyo3-bugs-{make.minor_of(self.options.python)}"
        python = shutil.which(self.options.python)
        variables = {**make.clean_environment(), "PYO3_PYTHON": python, "CARGO_TARGET_DIR": str(target), "UNSAFE_PYO3_SKIP_VERSION_CHECK": "1"}
        manifest = HERE / "pyo3_bugs" / "Cargo.toml"
        run.compile(["cargo", "build", "--quiet", "--release", "--locked", "--manifest-path", manifest], env=variables)
        shutil.copy(target / "release" / "libpyo3_bugs.so", folder / "pyo3_bugs.so")


if __name__ == "__main__":
    sys.exit(run.main(sys.argv[1:], Toolkits))
