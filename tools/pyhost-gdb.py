"""Gives gdb CPython's own commands for a host: py-bt, py-list, py-locals and more.

gdb reads this file by itself where it lies beside the executable as pyhost-gdb.py, in a folder that it trusts
(`add-auto-load-safe-path`), or below /usr/share/gdb/auto-load; see docs/debug/tools.md. The commands are CPython's
libpython.py, which gdb loads for an executable named python; for a host it is looked for here, where
installations of CPython keep it. The build fills in VERSION and PREFIX, of the Python that it linked.
"""

import glob
import os

import gdb

VERSION = "@VERSION@"  # such as 3.11
PREFIX = "@PREFIX@"  # CPython's sys.base_prefix
AUTO_LOAD = "/usr/share/gdb/auto-load"
PLACES = [
    # `make install`, pyenv
    "{prefix}/bin/python{version}-gdb.py",
    "{prefix}/bin/python3-gdb.py",
    # beside the library, or where Debian, Fedora and others mirror its path
    "{library}*-gdb.py",
    AUTO_LOAD + "{library}*-gdb.py",
    AUTO_LOAD + "{prefix}/bin/python{version}*-gdb.py",
    AUTO_LOAD + "/usr/bin/python{version}*-gdb.py",
    AUTO_LOAD + "/usr/lib*/**/libpython{version}*-gdb.py",
    "{prefix}/share/gdb/libpython.py",
]


def has_commands():
    """Says whether gdb knows py-bt."""
    try:
        gdb.execute("help py-bt", to_string=True)
    except gdb.error:
        return False
    return True


def scripts(library):
    """Yields the files that may be CPython's commands, the likeliest first."""
    for place in PLACES:
        pattern = place.format(prefix=PREFIX, version=VERSION, library=library)
        yield from sorted(glob.glob(pattern, recursive=True))


def load(library):
    """Loads CPython's commands for the libpython at this path, unless gdb has them."""
    if has_commands():
        return
    for script in scripts(library):
        gdb.execute("source " + script)
        if has_commands():
            return


def new_object_file(event):
    """Loads the commands when libpython is mapped: by then gdb has loaded what belongs to it."""
    path = event.new_objfile.filename or ""
    if os.path.basename(path).startswith("libpython"):
        load(path)


gdb.events.new_objfile.connect(new_object_file)
for _objfile in gdb.objfiles():
    if os.path.basename(_objfile.filename or "").startswith("libpython"):
        load(_objfile.filename)
if "@STATIC@" == "true":  # libpython is in the executable
    load(os.path.join(PREFIX, "lib", "libpython" + VERSION))
