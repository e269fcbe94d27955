"""Makes the folders of pinned packages that the tests put on PYTHONPATH: NumPy with Cython, whole test suites, or pytest and mypy.

    python3 embed-tests/environments/make.py --python PYTHON NAME
    python3 embed-tests/environments/make.py --python PYTHON --list

The first prints, as its last line, the site-packages folder of the environment NAME for PYTHON's minor version; it
installs what pins/pyX.Y-NAME.txt lists, with pip and its caches, if that has not been done. The second prints the
numpy-* names that this Python has.

An environment is a venv, target/environments/pyX.Y-NAME of the checkout: a venv has a pip of its own, which PYTHON
may lack, and its bin folder holds the tools (meson, ninja, cython). It is made in its final place, since scripts of
a venv name their interpreter by its full path. The file `made-from`, which is written last, says that it is whole,
and holds the pins it was made from: other pins make it anew. A lock lets one process at a time look and make.

A pin file lists every package, also those that only others need: nothing is resolved here.
Exit status: 0; 1 for an environment that cannot be made, told in one line; 2 for a bad command line.
"""

import argparse
import contextlib
import fcntl
import os
import pathlib
import shutil
import socket
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PINS = HERE / "pins"
ENVIRONMENTS = HERE.parent.parent / "target" / "environments"
MADE_FROM = "made-from"
# A free-threaded build takes other wheels than its release's usual one: "3.13t".
FACTS = "import sys; print('%d.%d' % sys.version_info[:2] + 't' * ('t' in sys.abiflags))"


class Unmakable(Exception):
    """The environment cannot be made; the message is one line."""


class BadName(Exception):
    """No environment of this name is pinned for this Python."""


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True, help="the interpreter that the packages are for")
    parser.add_argument("--out", type=pathlib.Path, default=ENVIRONMENTS, help="where they are kept (%(default)s)")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--list", action="store_true", help="print the numpy-* names that this Python has")
    which.add_argument("name", nargs="?", metavar="NAME", help="such as numpy-2.4 or suites-numpy-2.4")
    return parser.parse_args(arguments)


def free_port():
    """Returns a port of this machine that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def clean_environment():
    """Returns the environment without variables that steer Python or the host."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYHOST"))}


def minor_of(python):
    """Asks an interpreter for its minor version, such as "3.11"."""
    try:
        answer = run([python, "-I", "-S", "-c", FACTS])
    except OSError as error:
        raise Unmakable(f"{python}: {error.strerror}") from None
    if answer.returncode != 0:
        raise Unmakable(f"{python}: cannot tell its version: {last_line(answer.stdout)}")
    return answer.stdout.strip()


def names_for(minor):
    """Returns the names that are pinned for a minor version, sorted."""
    prefix = f"py{minor}-"
    return sorted(path.stem[len(prefix):] for path in PINS.glob(prefix + "*.txt"))


def numpys_for(minor):
    """Returns the numpy-* names of a minor version, in the order of their numbers."""
    names = [name for name in names_for(minor) if name.startswith("numpy-")]
    return sorted(names, key=lambda name: [int(part) for part in name.removeprefix("numpy-").split(".")])


def newest_numpy(python):
    """Returns the site-packages folder of the newest NumPy that is pinned for an interpreter."""
    names = numpys_for(minor_of(python))
    if not names:
        raise Unmakable("no NumPy is pinned for this Python")
    return site_packages(environment(python, names[-1]))


def pin_file(minor, name):
    names = names_for(minor)
    if name not in names:
        valid = "choose from " + ", ".join(names) if names else "none is pinned for this Python"
        raise BadName(f"no environment {name!r} for Python {minor}: {valid}")
    return PINS / f"py{minor}-{name}.txt"


def environment(python, name, out=ENVIRONMENTS):
    """Returns the folder of the environment, which this makes unless it is there, whole and of these pins."""
    minor = minor_of(python)
    pins = pin_file(minor, name)
    folder = out.absolute() / f"py{minor}-{name}"
    with locked(folder.with_name(folder.name + ".lock")):
        if not is_made_from(folder, pins):
            make(python, folder, pins)
    return folder


def site_packages(folder):
    """Returns the site-packages folder of an environment."""
    [found] = folder.glob("lib/python3*/site-packages")
    return found


@contextlib.contextmanager
def locked(path):
    """Holds an exclusive lock, which ends with the process at the latest."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"make.py: waiting for another process to release {path}", file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_made_from(folder, pins):
    """Says whether the environment is whole and of these pins, was made here, and has its Python still."""
    made_from, pip = folder / MADE_FROM, folder / "bin" / "pip"
    if not (made_from.is_file() and pip.is_file() and (folder / "bin" / "python").exists()):
        return False
    return made_from.read_bytes() == pins.read_bytes() and f"{folder}/bin/" in pip.read_text(encoding="utf-8")


def make(python, folder, pins):
    """Makes the environment in place of whatever is there; what pip says goes to a log beside the folder."""
    print(f"make.py: making {folder}", file=sys.stderr, flush=True)
    remove(folder)
    pip = [str(folder / "bin" / "python"), "-I", "-m", "pip", "--disable-pip-version-check", "--no-input"]
    with open(folder.with_name(folder.name + ".log"), "w", encoding="utf-8") as log:
        step(log, "a venv cannot be made", [python, "-I", "-m", "venv", str(folder)])
        step(log, "pip install failed", [*pip, "install", "--no-deps", "--only-binary", ":all:", "-r", str(pins)])
        step(log, "the pins contradict one another", [*pip, "check"])
    unfinished = folder / (MADE_FROM + ".tmp")
    unfinished.write_bytes(pins.read_bytes())
    os.replace(unfinished, folder / MADE_FROM)


def remove(folder):
    """Removes an environment, first what says that it is whole."""
    with contextlib.suppress(FileNotFoundError):
        (folder / MADE_FROM).unlink()
    if folder.exists():
        shutil.rmtree(folder)


def step(log, trouble, command):
    """Runs one command of the making; its last line that tells of an error becomes the message."""
    answer = run(command)
    log.write(f"$ {' '.join(command)}\n{answer.stdout}\n")
    if answer.returncode != 0:
        log.flush()
        raise Unmakable(f"{trouble}: {error_line(answer.stdout)} (all of it: {log.name})")


def run(command):
    """Runs a command with both its outputs as one, without variables that would steer its Python."""
    env = clean_environment()
    return subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")


def error_line(output):
    """Returns the last line that begins with ERROR, as pip writes it, or else the last line."""
    errors = [line for line in output.splitlines() if line.startswith("ERROR: ")]
    return errors[-1][len("ERROR: "):] if errors else last_line(output)


def last_line(output):
    return (output.strip().splitlines() or ["no output"])[-1]


def main(arguments):
    options = parse(arguments)
    try:
        if options.list:
            for name in numpys_for(minor_of(options.python)):
                print(name)
        else:
            print(site_packages(environment(options.python, options.name, options.out)))
    except BadName as error:
        print(f"make.py: {error}", file=sys.stderr)
        return 2
    except (Unmakable, OSError) as error:
        print(f"make.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
