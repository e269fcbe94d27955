"""Builds what a wheel holds beside the package: the host as a library, the launcher and pyhostctl. A hook of hatchling.

PYHOST_WHEEL_PYTHON names the interpreter to build for, without it the one that runs the build. PYHOST_WHEEL_FOLDER names
what tools/build-inside has made for another processor instead.
"""

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MUSL = "musllinux_1_2"
OLDEST_GLIBC = 17  # no Rust program runs on an older one
MACHINES = {62: "x86_64", 183: "aarch64"}  # elf(5), e_machine


class Host(BuildHookInterface):
    PLUGIN_NAME = "custom"

    def initialize(self, version, build_data):
        folder = os.environ.get("PYHOST_WHEEL_FOLDER")
        if folder is None:
            if platform.libc_ver()[0] != "glibc":
                sys.exit("pyhost: the source builds on glibc alone; expected a wheel of 'tools/build-wheels --musl', which is made there")
            python = os.environ.get("PYHOST_WHEEL_PYTHON", sys.executable)
            build = subprocess.run([Path(self.root, "tools/build-inside"), python], check=True, stdout=subprocess.PIPE)
            folder = build.stdout.decode().strip()
        folder = Path(self.root, folder)
        scripts = [folder / "bin/pyhost", folder / "bin/pyhostctl"]
        library = folder / "lib/pyhost/libpyhost.so"
        tag = folder.name.split("-")[1].replace(".", "")
        glibc = max(map(newest_glibc, [*scripts, library]))
        system = f"manylinux_2_{max(OLDEST_GLIBC, glibc)}" if glibc else MUSL  # musl's symbols have no versions
        build_data["pure_python"] = False
        build_data["tag"] = f"cp{tag.rstrip('t')}-cp{tag}-{system}_{machine(library)}"
        build_data["shared_scripts"] = {str(script): script.name for script in scripts}
        build_data["shared_data"] = {str(library): "lib/pyhost/libpyhost.so"}


def newest_glibc(path):
    """The newest version of glibc whose symbols a file needs: 28 for 2.28."""
    symbols = subprocess.run(["objdump", "-T", path], check=True, stdout=subprocess.PIPE).stdout.decode()
    return max(map(int, re.findall(r"\*UND\*.*\(?GLIBC_2\.(\d+)", symbols)), default=0)


def machine(path):
    """The processor that an ELF file is for."""
    with open(path, "rb") as file:
        return MACHINES[int.from_bytes(file.read(20)[18:], "little")]
