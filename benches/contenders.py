"""The contenders that are compared: stock Python and the host, of the same CPython, linked in the same way.

A shared libpython costs 5 to 20%, so a host with its own libpython linked in may not be compared with a `python3` that
loads one, nor the other way round. `prepare` asks both executables what they are. Where PYTHON is linked otherwise than
the host, it builds a stand-in, `int main` around Py_BytesMain with the same libpython as the host's. Another CPython is
refused, and so is a stand-in that did not turn out alike.

Both are copied to paths of one length: the length of an executable's path changes the count of its instructions, and
a host that is rebuilt in the meantime is not mixed with itself.
"""

import dataclasses
import hashlib
import os
import pathlib
import shlex
import shutil

import launch

HERE = pathlib.Path(__file__).resolve().parent
COPY = "pyhost"  # Called by a name that starts with `python`, the host would not read its options.

FACTS = """
import json, os, re, sys, sysconfig
mapped = {line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if len(line.split(None, 5)) > 5}
shared = {os.path.realpath(path) for path in mapped if re.search(r"/libpython[0-9.]+[a-z]*[.]so", path)}
get = sysconfig.get_config_var
print(json.dumps({
    "version": sys.version, "release": "%d.%d.%d" % sys.version_info[:3], "base_prefix": sys.base_prefix,
    "libpython": "".join(sorted(shared)), "soabi": get("SOABI"), "library": get("LIBRARY"),
    "folders": [get("LIBPL"), get("LIBDIR")],
    "libraries": " ".join(get(name) or "" for name in ("LIBS", "MODLIBS", "SYSLIBS")),
}))
"""
SAME_PYTHON = ("version", "base_prefix", "soabi")
SAME_LINKAGE = ("libpython",)


class Unlike(Exception):
    """The two executables cannot be compared; the message is one line."""


@dataclasses.dataclass(frozen=True)
class Contender:
    """One way to run a program: an executable, what goes before the program's own arguments, variables, packages."""

    name: str
    executable: str
    options: tuple = ()
    variables: tuple = ()
    packages: tuple = ()
    is_host: bool = False

    def command(self, *arguments, host_options=()):
        """Returns the command line; `host_options` are left out for all but the host."""
        return [self.executable, *self.options, *(host_options if self.is_host else ()), *map(str, arguments)]

    def environment(self, *paths):
        """Returns the process's environment, with folders of packages to import from."""
        found = dict(self.variables)
        if paths or self.packages:
            found["PYTHONPATH"] = os.pathsep.join(map(str, (*paths, *self.packages)))
        return launch.clean_environment(found)


def prepare(python, host, profiles, folder):
    """Returns the contenders, stock first, the facts of stock, and how it was linked, in words."""
    of_python, of_host = facts(python), facts(host)
    refuse_unlike(of_python, of_host, SAME_PYTHON)
    if of_python["libpython"] == of_host["libpython"]:
        stock, how = python, "as installed"
    else:
        stock = build_stock(of_python, of_host, folder)
        how = "built here around Py_BytesMain, as PYTHON is linked otherwise"
    stock, host = copied(stock, folder / "0"), copied(host, folder / "1")
    of_stock = facts(stock)
    refuse_unlike(of_stock, facts(host), SAME_PYTHON + SAME_LINKAGE)
    found = [Contender("stock", str(stock))]
    for profile in profiles or [None]:
        found.append(with_profile(host, profile))
    kind = "shared libpython" if of_stock["libpython"] else "static libpython"
    of_stock["executables"] = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (stock, host)]
    return found, of_stock, f"{kind}; stock {how}"


def with_profile(host, profile):
    """Returns the host as a contender, once it has run with the profile; the variable is for its child processes."""
    if profile is None:
        return Contender("pyhost", str(host), is_host=True)
    found = Contender(f"pyhost {profile}", str(host), ("--retain", profile), (("PYHOST_RETAIN", profile),),
                      is_host=True)
    try:
        launch.output_of(found.command("-c", "pass"), found.environment())
    except launch.Failed as error:
        raise Unlike(str(error)) from None
    return found


def facts(executable):
    """Asks an executable what CPython it is, and which libpython it has loaded: none where it is linked in."""
    path = pathlib.Path(executable).absolute()
    if not path.is_file():
        raise Unlike(f"{executable}: no such executable")
    try:
        return launch.json_of([path, "-I", "-c", FACTS], launch.clean_environment())
    except launch.Failed as error:
        raise Unlike(str(error)) from None


def refuse_unlike(stock, host, wanted):
    """Raises Unlike with the first of the wanted facts in which the two are not alike."""
    for fact in wanted:
        if stock[fact] != host[fact]:
            raise Unlike(f"not comparable: {fact} of stock is {stock[fact]!r}, of the host {host[fact]!r}")


def copied(executable, folder):
    """Copies an executable into a folder; folders of equal length give paths of equal length."""
    folder.mkdir(parents=True)
    return pathlib.Path(shutil.copy2(os.path.realpath(executable), folder / COPY))


def build_stock(of_python, of_host, folder):
    """Builds a stock Python with the libpython that the host has: the shared one that it loads, or the archive."""
    built = folder / "stock"
    start = ["cc", "-O2", "-o", built, HERE.parent / "embed-tests/c/python.c"]
    if of_host["libpython"]:
        library = pathlib.Path(of_host["libpython"])
        commands = [[*start, library, f"-Wl,-rpath,{library.parent}"]]
    else:
        whole = ["-Wl,--whole-archive", archive_of(of_python), "-Wl,--no-whole-archive", "-rdynamic"]
        words = [word for word in shlex.split(of_python["libraries"]) if word.startswith("-l")]
        needed = [*dict.fromkeys(words), "-ldl", "-lutil", "-lpthread", "-lm"]
        # As tools/build-static: not every archive is position-independent.
        commands = [[*start, "-pie", *whole, *needed], [*start, "-no-pie", *whole, *needed]]
    for command in commands:
        try:
            launch.output_of(command)
            return built
        except launch.Failed as error:
            trouble = error
    raise Unlike(f"a stock Python of the host's linkage cannot be built: {trouble}")


def archive_of(of_python):
    """Returns the path of the static libpython that the interpreter's own build made."""
    for folder in filter(None, of_python["folders"]):
        path = pathlib.Path(folder, of_python["library"] or "")
        if path.suffix == ".a" and path.is_file():
            return path
    raise Unlike(f"the host's libpython is linked in, and PYTHON has no {of_python['library']} to build the like from")
