"""Lays the host and all that it needs into one folder, which is found relative to the executable."""

import os
import pathlib
import re
import shutil
import subprocess

from .targets import HERE, Refused, output_of

# The C library, which is the device's own.
OF_THE_DEVICE = re.compile(r"(ld-linux.*|lib(c|m|dl|pthread|rt|util|resolv|nss_\w+|anl))\.so\.\d+$")
# An extension module of a CPython, or of several (PEP 3149, PEP 384).
EXTENSION = re.compile(r"\.(cpython-[^.]+|abi3)\.so$")
MODULES = HERE / "devices/toolchain/modules.py"
START = """#!/bin/sh
# Starts the application with the Python beside it.
here=$(cd "$(dirname "$0")" && pwd)
# Without /proc the loader does not know where the executable is. With it this is not read.
LD_ORIGIN_PATH=$here/bin exec "$here/bin/pyhost" "$here/app" "$@"
"""


def needed_libraries(path):
    text = output_of("readelf", "--dynamic", "--wide", path, stderr=subprocess.DEVNULL)
    return re.findall(r"\(NEEDED\).*\[(.+)\]", text)


def newest_libc(paths):
    """The newest version of glibc's symbols that files need."""
    versions = set()
    for path in paths:
        text = output_of("readelf", "--version-info", "--wide", path, stderr=subprocess.DEVNULL)
        versions.update(tuple(map(int, found.split("."))) for found in re.findall(r"Name: GLIBC_([0-9.]+)", text))
    return ".".join(map(str, max(versions, default=())))


def copy_libraries(files, root, folder):
    """Copies the shared libraries that files need, and those that these need, without the C library. Packages bring some."""
    waiting, copied = list(files), []
    there = {path.name for path in files}
    while waiting:
        for name in needed_libraries(waiting.pop()):
            if OF_THE_DEVICE.fullmatch(name) or name in there:
                continue
            there.add(name)
            found = [place / name for place in root.libraries if (place / name).exists()]
            if not found:
                places = ", ".join(map(str, root.libraries)) or "the executable"
                raise Refused(f"--folder: the library {name} is not in {places}")
            shutil.copy(found[0], folder / name)
            copied.append(folder / name)
            waiting.append(folder / name)
    return copied


def packages_folder(root):
    """Where `site` of this Python looks for packages, below its prefix."""
    if "dist-packages" in (root.standard_library / "site.py").read_text():
        return "lib/python3/dist-packages"
    return f"lib/python{root.version}/site-packages"


def copy_application(application, folder):
    if application.is_dir():
        if not (application / "__main__.py").exists():
            raise Refused(f"--application: no __main__.py in '{application}'")
        shutil.copytree(application, folder / "app", ignore=shutil.ignore_patterns("__pycache__"))
    elif application.is_file():
        (folder / "app").mkdir()
        shutil.copy(application, folder / "app/__main__.py")
    else:
        raise Refused(f"--application: no file '{application}'; expected a script, or a folder with a __main__.py")
    start = folder / "run"
    start.write_text(START)
    start.chmod(0o755)


def make(folder, programs, root, interpreter, target, options):
    """Makes the folder; the lines that describe it."""
    new = folder.with_name(folder.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    try:
        fill(new, programs, root, interpreter, target, options)
        if folder.exists():
            if not (folder / "bin/pyhost").exists() and any(folder.iterdir()):
                raise Refused(f"--folder: '{folder}' is not empty, and is no folder of this command")
            shutil.rmtree(folder)
        new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return describe(folder, native_files(folder))


def fill(new, programs, root, interpreter, target, options):
    version = root.version
    dynload = new / f"lib/python{version}/lib-dynload"
    dynload.mkdir(parents=True)
    (new / "bin").mkdir()
    shutil.copy2(programs / "pyhost", new / "bin/pyhost")
    if options.with_pyhostctl:
        shutil.copy2(programs / "pyhostctl", new / "bin/pyhostctl")
    archive = new / f"lib/python{version.replace('.', '')}.zip"
    codes = []
    if options.packages:
        codes.append(new / packages_folder(root))
        ignored = shutil.ignore_patterns("__pycache__", "tests", "*.pyi", "*.a", "*.h", "*.c")
        shutil.copytree(options.packages, codes[-1], ignore=ignored)
    if options.application:
        codes.append(new / "app")
        copy_application(options.application, new)
    # A device whose files are read-only would compile them at each start. What is no Python there is left as it is.
    compile_all = ["-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "-s", new, "-p", "/", *codes]
    if codes:
        subprocess.run([*interpreter, "-I", "-S", *compile_all], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    packed = subprocess.run(
        [*interpreter, "-I", "-S", "-B", MODULES, root.standard_library, archive, options.modules, *codes],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    if packed.returncode:
        raise Refused(f"--modules: {packed.stderr.strip().splitlines()[-1]}")
    for extension in packed.stdout.splitlines():
        shutil.copy(extension, dynload)
    libraries = copy_libraries(native_files(new), root, new / "lib")
    for path in [*libraries, *dynload.iterdir()]:
        output_of(target.binutils + "strip", "--strip-unneeded", path)


def processor_of(path):
    """The class and the machine of an ELF file (elf(5)), or None for another file."""
    with path.open("rb") as file:
        header = file.read(20)
    return (header[4:5], header[18:20]) if header.startswith(b"\x7fELF") else None


def native_files(folder):
    """The ELF files of the folder that are for the host's processor. An extension module for another one was installed for the
    machine that builds; other files, such as the firmware of another processor, are for the application to know."""
    own = processor_of(folder / "bin/pyhost")
    found = []
    for path in folder.rglob("*"):
        processor = processor_of(path) if path.is_file() else None
        if processor == own:
            found.append(path)
        elif processor and EXTENSION.search(path.name):
            raise Refused(f"--packages, --application: '{path.name}' is for another processor than --target")
    return found


def describe(folder, native):
    """The sizes by part, and the C library that the device must have."""
    size = lambda paths: sum(path.stat().st_size for path in paths if path.is_file())  # noqa: E731
    everything = list(folder.rglob("*"))
    parts = {
        "programs": list((folder / "bin").iterdir()),
        "standard library": list(folder.glob("lib/*.zip")),
        "extension modules": list(folder.glob("lib/python*/lib-dynload/*")),
        "libpython": list(folder.glob("lib/libpython*")),
        "other libraries": [path for path in folder.glob("lib/*.so*") if not path.name.startswith("libpython")],
        "packages": list(folder.glob("lib/python*/*-packages/**/*")),
        "application": [folder / "run", *(folder / "app").rglob("*")],
    }
    lines = [f"{size(paths) / 2**20:7.2f} MiB  {part}" for part, paths in parts.items() if size(paths)]
    lines.append(f"{size(everything) / 2**20:7.2f} MiB  in all")
    newest = newest_libc(native)
    lines.append(f"The device must have glibc {newest} or later." if newest else "The device needs no library.")
    return lines
