#!/usr/bin/env python3
"""Makes a root whose C library is musl, as Alpine's, and prints its folder: Debian's musl, Debian's static busybox, and a CPython
that is built from its source (devices/toolchain): with a shared libpython, and modules in files of their own.

    musl_root.py [--python 3.11] [--processor aarch64]

It has no libgcc_s, as plain Alpine has none. All of it is below target/, and the CPython is built once.
"""

import argparse
import os
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(HERE / "devices"))
from toolchain import cpython, sources, targets  # noqa: E402

MARK = "2"


class Steps(cpython.Musl):
    """The steps of `devices/build`, for a Python that loads its parts."""

    def __init__(self, root, target):
        super().__init__(root, target)
        # The suffix of modules names the C library of the machine that builds.
        self.further = ["--enable-shared", "MODULE_BUILDTYPE=shared", f"--build={target.triple}"]

    def make_compiler(self):
        super().make_compiler()
        text = self.root.compiler.read_text()
        # `configure` refuses the name of this machine's libraries.
        text = text.replace("exec", '[ "$1" != --print-multiarch ] || exit 0\nexec', 1)
        # GNU's library for atomics beside those of the processor calls glibc's `__getauxval`.
        flags = "-fPIC -mno-outline-atomics" if self.target.processor == "aarch64" else "-fPIC"
        self.root.compiler.write_text(text.replace('"$@"', f'{flags} "$@"'))

    def make_python(self, source):
        folder, place = self.work / "python", self.root.path / "usr"
        self.run("make", f"-j{os.cpu_count()}", "all", cwd=folder)
        library = place / f"lib/python{self.version}"
        ignored = shutil.ignore_patterns("test", "tests", "__pycache__", "idlelib", "turtledemo", "lib2to3")
        shutil.copytree(source / "Lib", library, dirs_exist_ok=True, ignore=ignored)
        modules = library / "lib-dynload"
        modules.mkdir(exist_ok=True)
        built = folder / (folder / "pybuilddir.txt").read_text().strip()
        for path in {path.name: path for path in folder.rglob("*.cpython-*.so")}.values():
            shutil.copy(path, modules)
        for path in built.glob("_sysconfigdata_*.py"):
            shutil.copy(path, library)
        (place / "bin").mkdir(exist_ok=True)
        shutil.copy(folder / "python", place / f"bin/python{self.version}")
        for path in folder.glob("libpython*.so*"):
            shutil.copy(path, place / "lib", follow_symlinks=False)
        headers = place / f"include/python{self.version}"
        shutil.copytree(source / "Include", headers, dirs_exist_ok=True)
        shutil.copy(folder / "pyconfig.h", headers)


def built_python(version, target):
    """The folder of a CPython, which is built once."""
    path = HERE / f"target/musl/python-{version}-{target.processor}"
    with targets.one_at_a_time(path):
        mark = path / "made"
        if not mark.exists() or mark.read_text() != MARK:
            shutil.rmtree(path, ignore_errors=True)
            cpython.build_once(Steps, cpython.Root(path, version, None), target)
            mark.write_text(MARK)
    return path


def emulator(target):
    """The words before a command of the target's."""
    if target.processor == os.uname().machine:
        return []
    return [targets.output_of("tools/debian-programs", "qemu-user-static") + f"/usr/bin/qemu-{target.processor}-static"]


def make_root(version, target):
    python = built_python(version, target)
    musl = pathlib.Path(targets.output_of("tools/debian-files", f"musl-root-{target.debian}", target.debian, cpython.OF_MUSL, "musl,busybox-static"))
    root = HERE / f"target/musl/root-{version}-{target.processor}"
    shutil.rmtree(root, ignore_errors=True)
    for folder in ("bin", "dev", "lib", "proc", "pyhost", "root", "sys", "tmp", "usr/bin"):
        (root / folder).mkdir(parents=True)
    loader = f"ld-musl-{target.processor}.so.1"
    shutil.copy(next(musl.glob("**/*-linux-musl/libc.so")), root / "lib" / loader)
    (root / f"lib/libc.musl-{target.processor}.so.1").symlink_to(loader)
    busybox = next(path for path in (musl / "bin/busybox", musl / "usr/bin/busybox") if path.exists())
    shutil.copy(busybox, root / "bin/busybox")
    for name in targets.output_of(*emulator(target), root / "bin/busybox", "--list").split():
        if name != "busybox":
            (root / "bin" / name).symlink_to("busybox")
    shutil.copytree(python / "usr", root / "usr", symlinks=True, dirs_exist_ok=True)
    (root / "usr/bin/python3").symlink_to(f"python{version}")
    return root


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--python", default="3.11", metavar="VERSION")
    parser.add_argument("--processor", default=os.uname().machine, choices=["x86_64", "aarch64"], help="default: this machine's")
    options = parser.parse_args()
    print(make_root(options.python, targets.find(f"{options.processor}-unknown-linux-musl")))


if __name__ == "__main__":
    targets.run(main, "embed-tests/wheel/musl_root.py")
