"""Builds CPython for musl, as one archive with all of its modules and the libraries that these need.

The sources are Debian's, of the release that has that Python, as their authors made them: without Debian's patches. So is musl,
for headers; the executable gets the one of Rust's target. All of it is below target/, and is built once.
"""

import dataclasses
import functools
import os
import pathlib
import re
import shlex
import shutil
import subprocess

from . import targets
from .targets import HERE, Refused, output_of

SOURCES = HERE / "target/devices/sources"
# What CPython's modules need: the names of its `configure` and of the archives.
LIBRARIES = {"ZLIB": "z", "BZIP2": "bz2", "LIBLZMA": "lzma", "LIBSQLITE3": "sqlite3", "LIBFFI": "ffi"}
PACKAGES = ("zlib", "bzip2", "xz-utils", "sqlite3", "libffi")
# The release whose musl is of the version of Rust's target, 1.2.5.
SUITE = "trixie"
# `cc`: GNU's compiler, with musl's headers and libraries instead of its own.
COMPILER = """#!/bin/sh
exec {compiler} -specs {specs} "$@" -idirafter {kernel} -idirafter {kernel}/{multiarch}
"""
# Another one than that of an archive that was built has it built anew.
RECIPE = "1"
# A line of Modules/Setup, in which an equals sign would make it another kind of line.
CTYPES = (
    "_ctypes _ctypes/_ctypes.c _ctypes/callbacks.c _ctypes/callproc.c _ctypes/stgdict.c _ctypes/cfield.c -DPy_BUILD_CORE_MODULE"
    " -DHAVE_FFI_PREP_CIF_VAR -DHAVE_FFI_PREP_CLOSURE_LOC -DHAVE_FFI_CLOSURE_ALLOC -lffi"
)
# What CPython's `configure` cannot find out without running a program for the target.
KNOWN = ("ac_cv_file__dev_ptmx=yes", "ac_cv_file__dev_ptc=no", "ac_cv_buggy_getaddrinfo=no")


@dataclasses.dataclass(frozen=True)
class Root:
    """A CPython for musl. As `targets.Root`, as far as a build and a folder need it."""

    path: pathlib.Path
    version: str
    # All is in the executable.
    libraries = ()

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
        """The variables of the target's `sysconfig`, but for libraries: they are in the archive."""
        path = min(self.standard_library.glob("_sysconfigdata__*.py"))
        values = {}
        exec(compile(path.read_text(), path, "exec"), values)
        return values["build_time_vars"] | dict.fromkeys(("LIBS", "MODLIBS", "SYSLIBS"), "")


def sources(version):
    """The folders of the sources, by package."""
    python = source_of_python(version)
    return {"python": python} | {package.partition("-")[0]: source(package, targets.suite_of(version)) for package in PACKAGES}


def source_of_python(version):
    """The folder of CPython's source."""
    return source(f"python{version}", targets.suite_of(version))


def source(package, suite):
    """The folder of a package's source, which is fetched if it is missing."""
    folder = SOURCES / suite
    if not (folder / package).exists():
        fetch(folder, suite, package)
    return folder / package


@functools.cache
def settings_of_apt(folder, suite):
    """Has apt read which sources a release has, by settings of its own; the environment of its commands."""
    for part in ("lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    list_mirrors = ("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Label: Debian")
    if not (mirrors := output_of(*list_mirrors).split()):
        targets.update_packages()
        mirrors = output_of(*list_mirrors).split()
    if not mirrors:
        raise Refused("apt-get indextargets: no mirror of Debian's; expected a Debian")
    (folder / "sources.list").write_text(f"deb-src {mirrors[0]} {suite} main\n")
    values = {"Etc::sourcelist": "sources.list", "Etc::sourceparts": "none", "State::lists": "lists", "Cache": "cache"}
    lines = [f'Dir::{name} "{folder / value}";\n' for name, value in values.items()]
    (folder / "apt.conf").write_text("".join(lines) + 'Acquire::Check-Valid-Until "false";\nAPT::Sandbox::User "";\n')
    environment = os.environ | {"APT_CONFIG": str(folder / "apt.conf")}
    output_of("apt-get", "update", "-qq", env=environment, stderr=subprocess.DEVNULL)
    return environment


def fetch(folder, suite, package):
    """Has apt fetch a source, and unpacks what its authors made."""
    environment = settings_of_apt(folder, suite)
    place = folder / "cache" / package
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    command = ["apt-get", "source", "-qq", "--download-only", package]
    answer = subprocess.run(command, cwd=place, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    archives = [path for path in place.glob("*.orig.tar.*") if path.suffix != ".asc"]
    if answer.returncode or len(archives) != 1:
        raise Refused(f"apt-get source {package}: no source in Debian's {suite}; expected a network with its mirror")
    new = folder / f"{package}.new"
    shutil.rmtree(new, ignore_errors=True)
    output_of("tar", "-xf", archives[0], f"--one-top-level={new}", "--strip-components=1")
    new.rename(folder / package)


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
    """The steps, for one Python and target."""

    def __init__(self, version, target, path):
        self.version, self.target, self.root = version, target, Root(path, version)
        self.work = path / "build"
        self.log = self.work / "log"
        for part in ("bin", "build", "include", "lib"):
            (path / part).mkdir(parents=True, exist_ok=True)

    def run(self, *command, cwd=None, **variables):
        run(*command, log=self.log, cwd=cwd or self.work, **variables)

    def tool(self, name):
        return self.target.binutils + name

    def make_compiler(self):
        files = targets.HERE / output_of(
            "tools/debian-files", f"musl-{self.target.debian}", self.target.debian, SUITE, "musl-dev,linux-libc-dev"
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

    def make_libraries(self, found):
        zlib, bzip2, xz, sqlite = (found[name] for name in ("zlib", "bzip2", "xz", "sqlite3"))
        self.compile("z", sorted(zlib.glob("*.c")), [zlib / "zlib.h", zlib / "zconf.h"], "-DHAVE_UNISTD_H")
        parts = "blocksort huffman crctable randtable compress decompress bzlib".split()
        self.compile("bz2", [bzip2 / f"{part}.c" for part in parts], [bzip2 / "bzlib.h"])
        folder = self.fresh("xz")
        without = "xz xzdec lzmadec lzmainfo lzma-links scripts doc nls shared".split()
        self.run(
            xz / "configure", "--host", f"{self.target.processor}-linux-musl", *(f"--disable-{part}" for part in without),
            f"CC={self.root.compiler}", f"AR={self.tool('ar')}", f"RANLIB={self.tool('ranlib')}", cwd=folder,
        )  # fmt: skip
        self.run("make", f"-j{os.cpu_count()}", "-C", "src/liblzma", cwd=folder)
        shutil.copy(folder / "src/liblzma/.libs/liblzma.a", self.root.path / "lib")
        shutil.copytree(xz / "src/liblzma/api", self.root.path / "include", dirs_exist_ok=True)
        folder = self.fresh("ffi")
        self.run(
            found["libffi"] / "configure", "--host", f"{self.target.processor}-linux-musl", "--prefix", self.root.path,
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
        include, lib = self.root.path / "include", self.root.path / "lib"
        # Where it names libraries it does not look for them by this machine's pkg-config.
        variables = {f"{name}_CFLAGS": f"-I{include}" for name in LIBRARIES}
        variables |= {f"{name}_LIBS": f"-L{lib} -l{library}" for name, library in LIBRARIES.items()}
        variables |= {
            "CC": self.root.compiler,
            "AR": self.tool("ar"),
            "RANLIB": self.tool("ranlib"),
            "READELF": self.tool("readelf"),
            "CPPFLAGS": f"-I{include}",
            "LDFLAGS": f"-L{lib}",
            "OPT": "-fwrapv -O2",
            "CFLAGS": "-ffunction-sections -fdata-sections",
            "MODULE_BUILDTYPE": "static",
            "PKG_CONFIG": "false",
        }
        musl = f"{self.target.processor}-linux-musl"
        here = output_of("dpkg-architecture", "-qDEB_BUILD_GNU_TYPE")
        self.run(
            source / "configure", "--host", musl, "--build", here, f"--with-build-python={interpreter}", "--prefix=/usr",
            "--disable-shared", "--disable-test-modules", "--without-ensurepip", "--with-pkg-config=no", *KNOWN,
            *(f"{name}={value}" for name, value in variables.items()), cwd=folder,
        )  # fmt: skip
        # Modules that are in libpython, also where a version has them in files of their own by default.
        modules = (folder / "Modules/Setup.stdlib").read_text()
        if not re.search("^_ctypes ", modules, re.MULTILINE):
            # Up to 3.11 another script builds this one, as a library.
            modules = modules.replace("*static*\n", f"*static*\n{CTYPES}\n", 1)
        (folder / "Modules/Setup.local").write_text(modules)

    def make_python(self, source):
        """CPython's archive, with the archives of its own parts and of the libraries."""
        folder, lib = self.work / "python", self.root.path / "lib"
        name = f"libpython{self.version}.a"
        self.run("make", f"-j{os.cpu_count()}", name, "pybuilddir.txt", cwd=folder)
        parts = [path for path in folder.rglob("*.a") if path.name != name]
        script = [f"create {lib / name}", f"addlib {folder / name}"]
        script += [f"addlib {path}" for path in [*sorted(parts), *(lib / f"lib{part}.a" for part in LIBRARIES.values())]]
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


def root_of_target(version, target):
    """Builds a CPython for musl, once."""
    path = HERE / f"target/devices/musl-{target.processor}-{version}"
    mark = path / "made"
    if not mark.exists() or mark.read_text() != RECIPE:
        shutil.rmtree(path, ignore_errors=True)
        found = sources(version)
        targets.install(target.binutils + "gcc", target.compiler_package)
        build = Build(version, target, path)
        build.make_compiler()
        build.make_libraries(found)
        build.configure_python(found["python"])
        build.make_python(found["python"])
        mark.write_text(RECIPE)
    return Root(path, version)
