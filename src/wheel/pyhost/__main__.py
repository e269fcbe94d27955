"""python -m pyhost [options] script.py: runs the script in this interpreter with the host inside."""

import os
import sys
from importlib.metadata import PackageNotFoundError, distribution


def _command():
    """The command `pyhost` that was installed with this package; None if it is not there."""
    try:
        files = distribution("pyhost").files or ()
    except PackageNotFoundError:
        return None
    found = [str(file.locate()) for file in files if file.name == "pyhost" and file.parent.name == "bin"]
    return next(filter(os.path.exists, found), None)


def main():
    command = _command()
    if command is None:
        sys.exit("pyhost: the command 'pyhost' of this package is missing; expected an installed wheel")
    try:
        os.execv(command, ["pyhost", "--python", sys.executable, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"pyhost: '{command}' cannot be started ({error.strerror})")


if __name__ == "__main__":
    main()
