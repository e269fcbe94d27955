"""Builds CPython from its source, as one archive with its modules.

The sources are Debian's, see sources.py. For musl the archive has the libraries that the modules need, too; musl's headers are
Debian's, and the executable gets the musl of Rust's target. For glibc these libraries are Debian's static ones, so only
those of `ssl` and `hashlib` stay shared. All of it is below target/, and is built once.
"""

import dataclasses
import os
import pathlib
import re
import shlex
import shutil
import subprocess

from . import sources, targets
from .targets import HERE, Refused, output_of

# What CPython's modules need: the names of its `configure` and of the archives.
LIBRARIES = {"ZLIB": "z", "BZIP2": "bz2", "LIBLZMA": "lzma", "LIBSQLITE3": "sqlite3", "LIBFFI": "ffi"}
# Their sources, which musl's are built from.
PACKAGES = ("zlib", "bzip2", "xz-utils", "sqlite3", "libffi")
# With Debian's static libraries, further ones.
OF_DEBIAN = LIBRARIES | {"LIBUUID": "uuid", "LIBZSTD": "zstd", "LIBCRYPT": "crypt"}
# The release whose musl is of the version of Rust's target, 1.2.5.
OF_MUSL = "trixie"
# The release whose glibc and libraries a build for glibc has: the device must have that glibc or a later one. Those for musl are
# built from its sources: later ones of libffi have no `configure`. The last package is for packages such as NumPy.
OF_GLIBC = "bookworm"
DEVELOPMENT = (
    "libc6-dev,linux-libc-dev,zlib1g-dev,libbz2-dev,liblzma-dev,libsqlite3-dev,libffi-dev,uuid-dev,libzstd-dev,libcrypt-dev,"
    "libssl-dev,libstdc++6"
)
# Modules that stay files of their own, with their sources and libraries: OpenSSL is four times the size of CPython's code.
SHARED = {"_ssl": ("_ssl.c", "-lssl", "-lcrypto"), "_hashlib": ("_hashopenssl.c", "-lcrypto")}
# `cc` for musl: GNU's compiler, with musl's headers and libraries instead of its own.
COMPILER = """#!/bin/sh
exec {compiler} -specs {specs} "$@" -idirafter {kernel} -idirafter {kernel}/{multiarch}
"""
# Another one than that of an archive that was built has it built anew.
RECIPE = "3"
# A line of Modules/Setup, in which an equals sign would make it another kind of line.
CTYPES = (
    "_ctypes _ctypes/_ctypes.c _ctypes/callbacks.c _ctypes/callproc.c _ctypes/stgdict.c _ctypes/cfield.c -DPy_BUILD_CORE_MODULE"
    " -DHAVE_FFI_PREP_CIF_VAR -DHAVE_FFI_PREP_CLOSURE_LOC -DHAVE_FFI_CLOSURE_ALLOC -lffi"
)
# Modules that are left out, whatever this machine has.
LEFT_OUT = ("_curses", "_curses_panel", "readline", "_tkinter", "_dbm", "_gdbm")
# What CPython's `configure` would find out by a program for the target, which it cannot run. Of these it would take the worst: a
# weak hash of texts, a slower interpreter, semaphores without a value, and no `time.tzset`.
OF_LINUX = (
    "aligned_required=no", "computed_gotos=yes", "broken_sem_getvalue=no", "working_tzset=yes", "pthread_system_supported=yes",
)  # fmt: skip
FILES = ("file__dev_ptmx=yes", "file__dev_ptc=no", "buggy_getaddrinfo=no")
KNOWN = [*(f"ac_cv_{known}" for known in (*OF_LINUX, *FILES)), *(f"py_cv_module_{name}=n/a" for name in LEFT_OUT)]


@dataclasses.dataclass(frozen=True)
class Root:
    """A CPython that was built from its source. As `targets.Root`, as far as a build and a folder need it."""

    path: pathlib.Path
    version: str
    # Debian's files of glibc and the libraries; None for musl, with which all is in the executable.
    system: targets.Root | None
    is_from_source = True

    @property
    def libraries(self):
        return self.system.libraries if self.system else []

    @property
    def standard_library(self):
        return self.path / "lib" / f"python{self.version}"

    @property
    def headers(self):
        return self.path / "include" / f"python{self.version}"

    @property
    def configuration(self):
        """The folder of libpython."""
        return self.path / "lib"

    @property
    def compiler(self):
        return self.path / "bin/cc"

    def settings(self):
        """The variables of the target's `sysconfig`."""
        return targets.settings_of(self.standard_library)

    def link_arguments(self):
        if self.system is None:
            return []
        archives = [f"lib{name}.a" for name in OF_DEBIAN.values()]
        # A package with a library of its own, such as zlib's, is not to get the executable's functions.
        return [f"-Wl,--exclude-libs,{':'.join(archives)}", *(f"-l:{name}" for name in archives)]


def run(*command, log, cwd, **variables):
    """Runs a step of a build, whose output goes to a file."""
    with log.open("a") as output:
        answer = subprocess.run(
            command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=clean() | variables
        )
    if answer.returncode:
        raise Refused(f"{pathlib.Path(command[0]).name} in {cwd}: failed with status {answer.returncode}, see {log}")


def clean():
    """The environment, without what would lead a build to this machine's libraries."""
    left_out = ("CC", "CFLAGS", "CPPFLAGS", "LDFLAGS", "PYTHONHOME", "PYTHONPATH", "MAKEFLAGS")
    return {name: value for name, value in os.environ.items() if name not in left_out}


class Build:
    """The steps, for one Python and target. What depends on the C library: `make_compiler`, `make_libraries`, `archives`, which
    names those that become a part of libpython, and `make_shared_modules`."""

    def __init__(self, root, target, name, libraries, flags, further):
        """`name`: the target, for `configure`. `flags`: of the compiler and the linker. `further`: words of `configure`."""
        path = root.path
        self.version, self.target, self.root = root.version, target, root
        self.name, self.libraries, self.flags, self.further = name, libraries, flags, further
        self.work = path / "build"
        self.log = self.work / "log"
        for part in ("bin", "build", "include", "lib"):
            (path / part).mkdir(parents=True, exist_ok=True)

    def run(self, *command, cwd=None, **variables):
        run(*command, log=self.log, cwd=cwd or self.work, **variables)

    def tool(self, name):
        return self.target.binutils + name

    def fresh(self, name):
        folder = self.work / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def configure_python(self, source):
        folder = self.fresh("python")
        interpreter = self.work / "python-here"
        command = shlex.join(map(str, targets.root_of_this_machine(self.version).interpreter()))
        interpreter.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        interpreter.chmod(0o755)
        # Where it names libraries it does not look for them by this machine's pkg-config.
        include, lib = self.root.path / "include", self.root.path / "lib"
        variables = {f"{name}_CFLAGS": f"-I{include}" for name in self.libraries}
        variables |= {f"{name}_LIBS": f"-L{lib} -l:lib{library}.a" for name, library in self.libraries.items()}
        compiler_flags, linker_flags = self.flags
        variables |= {
            "CC": self.root.compiler,
            "AR": self.tool("ar"),
            "RANLIB": self.tool("ranlib"),
            "READELF": self.tool("readelf"),
            "CPPFLAGS": f"-I{include}",
            "LDFLAGS": f"-L{lib} {linker_flags}",
            "OPT": "-fwrapv -O2",
            "CFLAGS": f"-ffunction-sections -fdata-sections {compiler_flags}",
            "MODULE_BUILDTYPE": "static",
            "PKG_CONFIG": "false",
        }
        # Debian's name of this machine with a vendor: no target has it, or `configure` would run programs of the target.
        here = output_of("dpkg-architecture", "-qDEB_BUILD_GNU_TYPE").replace("-", "-pc-", 1)
        self.run(
            source / "configure", "--host", self.name, "--build", here, f"--with-build-python={interpreter}", "--prefix=/usr",
            "--disable-shared", "--disable-test-modules", "--without-ensurepip", "--with-pkg-config=no",
            f"--with-openssl={self.work / 'no-openssl'}", *KNOWN, *(f"{name}={value}" for name, value in variables.items()),
            *self.further, cwd=folder,
        )  # fmt: skip
        # Modules that are in libpython, also where a version has them in files of their own by default.
        modules = (folder / "Modules/Setup.stdlib").read_text()
        if not re.search("^_ctypes ", modules, re.MULTILINE):
            # Up to 3.11 another script builds this one, as a library.
            modules = re.sub(r"^\*(static|shared)\*\n", rf"\g<0>{CTYPES}\n", modules, count=1, flags=re.MULTILINE)
        (folder / "Modules/Setup.local").write_text(modules)

    def make_python(self, source):
        """CPython's archive, with the archives of its own parts and of the libraries."""
        folder, lib = self.work / "python", self.root.path / "lib"
        name = f"libpython{self.version}.a"
        self.run("make", f"-j{os.cpu_count()}", name, "pybuilddir.txt", cwd=folder)
        parts = [path for path in folder.rglob("*.a") if path.name != name]
        script = [f"create {lib / name}", f"addlib {folder / name}"]
        script += [f"addlib {path}" for path in [*sorted(parts), *self.archives()]]
        (lib / name).unlink(missing_ok=True)
        subprocess.run([self.tool("ar"), "-M"], input="\n".join([*script, "save", "end", ""]), text=True, check=True)
        headers = self.root.headers
        shutil.copytree(source / "Include", headers, dirs_exist_ok=True)
        shutil.copy(folder / "pyconfig.h", headers)
        library = self.root.standard_library
        ignored = shutil.ignore_patterns("test", "tests", "__pycache__", "idlelib", "turtledemo", "lib2to3")
        shutil.copytree(source / "Lib", library, dirs_exist_ok=True, ignore=ignored)
        built = folder / (folder / "pybuilddir.txt").read_text().strip()
        for path in built.glob("_sysconfigdata_*.py"):
            shutil.copy(path, library)
        table = (folder / "Modules/config.c").read_text()
        compiled = re.findall(r'^ *\{"(\w+)", PyInit_', table, re.MULTILINE)
        (library / "compiled-in").write_text("\n".join(compiled) + "\n")


class Musl(Build):
    """The steps with musl, for which the libraries are built, too. No module is shared."""

    def __init__(self, root, target):
        super().__init__(root, target, f"{target.processor}-linux-musl", LIBRARIES, ("", ""), [])

    def make_compiler(self):
        files = targets.HERE / output_of(
            "tools/debian-files", f"musl-{self.target.debian}", self.target.debian, OF_MUSL, "musl-dev,linux-libc-dev"
        )
        specs = self.root.path / "bin/musl.specs"
        (given,) = files.glob("usr/lib/*-linux-musl/musl-gcc.specs")
        specs.write_text(given.read_text().replace("/usr/", f"{files}/usr/"))
        text = COMPILER.format(
            compiler=self.tool("gcc"), specs=specs, kernel=files / "usr/include", multiarch=self.target.multiarch
        )
        self.root.compiler.write_text(text)
        self.root.compiler.chmod(0o755)

    def compile(self, name, files, headers, *flags):
        """Makes an archive of files of C, and lays the headers beside those of others."""
        folder = self.work / name
        folder.mkdir(exist_ok=True)
        self.run(self.root.compiler, "-O2", "-ffunction-sections", *flags, "-c", *files, cwd=folder)
        self.archive(self.root.path / f"lib/lib{name}.a", sorted(folder.glob("*.o")))
        for header in headers:
            shutil.copy(header, self.root.path / "include")

    def archive(self, path, objects):
        path.unlink(missing_ok=True)
        self.run(self.tool("ar"), "rcs", path, *objects)

    def make_libraries(self):
        zlib, bzip2, xz, sqlite, ffi = (sources.source(package, OF_GLIBC) for package in PACKAGES)
        self.compile("z", sorted(zlib.glob("*.c")), [zlib / "zlib.h", zlib / "zconf.h"], "-DHAVE_UNISTD_H")
        parts = "blocksort huffman crctable randtable compress decompress bzlib".split()
        self.compile("bz2", [bzip2 / f"{part}.c" for part in parts], [bzip2 / "bzlib.h"])
        folder = self.fresh("xz")
        without = "xz xzdec lzmadec lzmainfo lzma-links scripts doc nls shared".split()
        self.run(
            xz / "configure", "--host", self.name, *(f"--disable-{part}" for part in without),
            f"CC={self.root.compiler}", f"AR={self.tool('ar')}", f"RANLIB={self.tool('ranlib')}", cwd=folder,
        )  # fmt: skip
        self.run("make", f"-j{os.cpu_count()}", "-C", "src/liblzma", cwd=folder)
        shutil.copy(folder / "src/liblzma/.libs/liblzma.a", self.root.path / "lib")
        shutil.copytree(xz / "src/liblzma/api", self.root.path / "include", dirs_exist_ok=True)
        folder = self.fresh("ffi")
        self.run(
            ffi / "configure", "--host", self.name, "--prefix", self.root.path,
            "--disable-shared", "--disable-docs", "--disable-multi-os-directory", f"CC={self.root.compiler}",
            f"AR={self.tool('ar')}", f"RANLIB={self.tool('ranlib')}", cwd=folder,
        )  # fmt: skip
        self.run("make", f"-j{os.cpu_count()}", "install", cwd=folder)
        # Its one file of C is made by programs of this machine, tclsh among them.
        targets.install("tclsh", "tcl")
        folder = self.fresh("sqlite")
        self.run(sqlite / "configure", "--disable-readline", cwd=folder)
        self.run("make", "sqlite3.c", "sqlite3.h", cwd=folder)
        flags = "-DSQLITE_THREADSAFE=1 -DSQLITE_ENABLE_FTS5 -DSQLITE_ENABLE_RTREE -DSQLITE_OMIT_LOAD_EXTENSION".split()
        self.compile("sqlite3", [folder / "sqlite3.c"], [folder / "sqlite3.h"], *flags)

    def archives(self):
        return [self.root.path / f"lib/lib{name}.a" for name in LIBRARIES.values()]

    def make_shared_modules(self, source):
        pass


class Glibc(Build):
    """The steps with glibc, for which the libraries are made already."""

    def __init__(self, root, target):
        # libuuid's header is in a folder of its own.
        further = ["--enable-loadable-sqlite-extensions", f"LIBUUID_CFLAGS=-I{root.system.path}/usr/include/uuid"]
        # As Debian's own interpreter: at a fixed address.
        super().__init__(root, target, target.multiarch, OF_DEBIAN, ("-fno-pie", "-no-pie"), further)

    def make_compiler(self):
        flags = targets.compiler_flags(self.root)
        self.root.compiler.write_text(f'#!/bin/sh\nexec {shlex.join([self.tool("gcc"), *flags])} "$@"\n')
        self.root.compiler.chmod(0o755)

    def make_libraries(self):
        pass

    def archives(self):
        return []

    def make_shared_modules(self, source):
        settings = self.root.settings()
        folder = self.root.standard_library / "lib-dynload"
        folder.mkdir(exist_ok=True)
        headers = [f"-I{path}" for path in (source / "Include", source / "Include/internal", self.work / "python")]
        for name, (file, *libraries) in SHARED.items():
            module = folder / (name + settings["EXT_SUFFIX"])
            command = ["-shared", "-fPIC", "-O2", "-DPy_BUILD_CORE_MODULE", *headers, source / "Modules" / file, *libraries]
            self.run(self.root.compiler, *command, "-o", module)


def root_of_target(version, target):
    """Builds a CPython for a target, once."""
    if target.is_static:
        kind, steps, system = "musl", Musl, None
    else:
        kind, steps = "source", Glibc
        system = targets.unpack("development", target.debian, target.multiarch, OF_GLIBC, version, DEVELOPMENT)
    path = HERE / f"target/devices/{kind}-{target.processor}-{version}"
    root = Root(path, version, system)
    with targets.one_at_a_time(path):
        mark = path / "made"
        if not mark.exists() or mark.read_text() != RECIPE:
            shutil.rmtree(path, ignore_errors=True)
            build_once(steps, root, target)
            mark.write_text(RECIPE)
    return root


def build_once(steps, root, target):
    source = sources.of_python(root.version)
    targets.install(target.binutils + "gcc", target.compiler_package)
    targets.install("make", "make")
    build = steps(root, target)
    build.make_compiler()
    build.make_libraries()
    build.configure_python(source)
    build.make_python(source)
    build.make_shared_modules(source)
