"""Builds ../c/line_sites.c, the extension module that allocates at known lines."""

import pathlib
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parent.parent / "c" / "line_sites.c"
INCLUDE = "import sysconfig; print(sysconfig.get_path('include'))"


def build(python, folder):
    """Builds the module for an interpreter, into a folder."""
    include = subprocess.run([python, "-I", "-c", INCLUDE], check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", f"-I{include}", SOURCE, "-o", folder / "line_sites.so"], check=True)
