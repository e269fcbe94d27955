"""Builds what a wheel holds beside the package: the host as a library, the launcher and pyhostctl. A hook of hatchling.

PYHOST_WHEEL_PYTHON names the interpreter to build for, without it the one that runs the build.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

OLDEST_GLIBC = 17  # no Rust program runs on an older one


class Host(BuildHookInterface):
    PLUGIN_NAME = "custom"

    def initialize(self, version, build_data):
        python = os.environ.get("PYHOST_WHEEL_PYTHON", sys.executable)
        build = subprocess.run([Path(self.root, "tools/build-inside"), python], check=True, stdout=subprocess.PIPE)
        folder = Path(self.root, build.stdout.decode().strip())
        scripts = [folder / "bin/pyhost", folder / "bin/pyhostctl"]
        library = folder / "lib/pyhost/libpyhost.so"
        tag = folder.name.replace("py-", "cp").replace(".", "")
        glibc = max(OLDEST_GLIBC, *map(newest_glibc, [*scripts, library]))
        build_data["pure_python"] = False
        build_data["tag"] = f"{tag}-{tag}-manylinux_2_{glibc}_{os.uname().machine}"
        build_data["shared_scripts"] = {str(script): script.name for script in scripts}
        build_data["shared_data"] = {str(library): "lib/pyhost/libpyhost.so"}


def newest_glibc(path):
    """The newest version of glibc whose symbols a file needs: 28 for 2.28."""
    symbols = subprocess.run(["objdump", "-T", path], check=True, stdout=subprocess.PIPE).stdout.decode()
    return max(map(int, re.findall(r"\*UND\*.*\(?GLIBC_2\.(\d+)", symbols)), default=0)
