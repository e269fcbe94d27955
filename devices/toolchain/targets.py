"""The targets of `devices/build`, and the Debian files that a build for one of them uses."""

import contextlib
import dataclasses
import fcntl
import os
import pathlib
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parents[2]
TOOL = "devices/build"


class Refused(Exception):
    """A wrong value, or a missing resource: one line, status 2."""


class Missing(Refused):
    """What this machine cannot get."""


def run(main, name):
    """Runs a command's main function, and ends with its status; what it refuses is one line, which begins with the name."""
    try:
        sys.exit(main())
    except Refused as refused:
        sys.exit(print(f"{name}: {refused}", file=sys.stderr) or 2)


@dataclasses.dataclass(frozen=True)
class Target:
    """A processor and its C library, in the words of Rust and of Debian."""

    triple: str
    processor: str
    debian: str
    multiarch: str
    # Of the C compiler, see src/heap/build.rs.
    macros: tuple = ()

    @property
    def is_static(self):
        """Whether all is in one executable, the C library too: musl's form."""
        return self.triple.endswith("-musl")

    @property
    def compiler_package(self):
        """Debian's package of GNU's compiler for the target."""
        return f"gcc-{self.multiarch.replace('_', '-')}"

    @property
    def binutils(self):
        """The names of the cross compiler and its tools begin with this."""
        return self.multiarch + "-"

    def variable(self, name):
        """A variable of cargo's for this target, such as `LINKER`."""
        return f"CARGO_TARGET_{self.triple.replace('-', '_').upper()}_{name}"


TARGETS = {
    target.triple: target
    for target in [
        Target("x86_64-unknown-linux-gnu", "x86_64", "amd64", "x86_64-linux-gnu"),
        Target("aarch64-unknown-linux-gnu", "aarch64", "arm64", "aarch64-linux-gnu"),
        Target(
            "armv7-unknown-linux-gnueabihf", "armv7", "armhf", "arm-linux-gnueabihf",
            ("-DMI_USE_BUILTIN_THREAD_POINTER=1", "-DMI_PAGE_META_IS_SEPARATED=1"),
        ),
        Target("x86_64-unknown-linux-musl", "x86_64", "amd64", "x86_64-linux-gnu"),
        Target("aarch64-unknown-linux-musl", "aarch64", "arm64", "aarch64-linux-gnu"),
    ]
}

# The first with a `getpath` that finds the standard library as a zip.
VERSIONS = ("3.11", "3.13", "3.14", "3.15")


def find(triple):
    if triple in TARGETS:
        return TARGETS[triple]
    raise Refused(f"--target: bad value '{triple}'; expected one of {', '.join(TARGETS)}")


def output_of(*command, **settings):
    """A command's output, stripped. Its errors go to standard error."""
    try:
        answer = subprocess.run(command, cwd=HERE, stdout=subprocess.PIPE, text=True, **settings)
    except FileNotFoundError as error:
        raise Refused(f"{command[0]}: cannot be started: {error.strerror}") from error
    if answer.returncode:
        raise Refused(f"{' '.join(map(str, command))}: failed with status {answer.returncode}")
    return answer.stdout.strip()


def install(program, package):
    """Installs a package of Debian's for a program that is missing."""
    output_of("tools/install-packages", f"{program}:{package}")


@contextlib.contextmanager
def one_at_a_time(path):
    """Holds a lock beside a folder, which one process makes while others wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(path.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def suite_of(version):
    """The Debian release that has a CPython."""
    suite = output_of("bash", "-c", '. tools/debians.sh; echo "${debians[$1]:-}"', "-", version)
    if version not in VERSIONS or not suite:
        raise Refused(f"--python: bad value '{version}'; expected {', '.join(VERSIONS)}")
    return suite


@dataclasses.dataclass(frozen=True)
class Root:
    """Debian's files of a CPython for one architecture. Nothing of them runs, but on this machine's own architecture."""

    path: pathlib.Path
    version: str
    multiarch: str
    is_from_source = False

    @property
    def system(self):
        """The system that a build links against."""
        return self

    @property
    def standard_library(self):
        return self.path / "usr/lib" / f"python{self.version}"

    @property
    def libraries(self):
        """The folders of shared libraries, those of libpython first."""
        return [self.path / "usr/lib" / self.multiarch, self.path / "lib" / self.multiarch]

    @property
    def headers(self):
        return self.path / "usr/include" / f"python{self.version}"

    @property
    def configuration(self):
        """The folder of the static libpython."""
        return self.standard_library / f"config-{self.version}-{self.multiarch}"

    def settings(self):
        """The variables of the target's `sysconfig`."""
        return settings_of(self.standard_library)

    def link_arguments(self):
        """For the linker, of a static libpython."""
        settings = self.settings()
        words = [word for name in ("LIBS", "MODLIBS", "SYSLIBS") for word in shlex.split(settings.get(name) or "")]
        return list(dict.fromkeys(word for word in words if word.startswith("-l")))

    def interpreter(self):
        """The command that starts this Python here, without this machine's C library."""
        loader, *_ = self.path.glob("lib*/ld-linux-*.so.*")
        folders = ":".join(map(str, self.libraries))
        return [loader, "--library-path", folders, self.path / f"usr/bin/python{self.version}"]


def settings_of(standard_library):
    """The variables of a `sysconfig`."""
    # Two names of one file, and perhaps that of a debug build: `_sysconfigdata_d_...`.
    path = min(standard_library.glob("_sysconfigdata__*.py"))
    values = {}
    exec(compile(path.read_text(), path, "exec"), values)
    return values["build_time_vars"]


def compiler_flags(root):
    """Flags that make GCC use the target's C library. Without -B its own folders would come before those of --sysroot."""
    return [f"--sysroot={root.system.path}"] + [f"-B{folder}" for folder in root.system.libraries]


def unpack(name, debian, multiarch, suite, version, packages):
    """Debian's files of packages."""
    folder = output_of("tools/debian-files", f"{name}-{debian}", debian, suite, packages)
    path = pathlib.Path(folder)
    for name in ("lib", "lib64"):
        # Newer Debians have all below /usr, and a package that was not unpacked has these links.
        link = path / name
        if not os.path.lexists(link) and (path / "usr" / name).exists():
            link.symlink_to(f"usr/{name}")
    return Root(path, version, multiarch)


def root(version, debian, multiarch):
    # The last for packages such as NumPy.
    packages = f"libpython{version}-dev,libc6-dev,python{version}-minimal,libstdc++6"
    return unpack(f"device-{version}", debian, multiarch, suite_of(version), version, packages)


def root_of_target(version, target):
    return root(version, target.debian, target.multiarch)


def root_of_this_machine(version):
    install("dpkg-architecture", "dpkg-dev")
    debian = output_of("dpkg", "--print-architecture")
    return root(version, debian, output_of("dpkg-architecture", "-qDEB_HOST_MULTIARCH"))
