"""NumPy for a device folder."""

import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parents[2]


def numpy(version, processor):
    """NumPy for the target, as pip lays it, of the version that the tests pin; its folder."""
    folder = HERE / f"target/devices/packages-{processor}-{version}"
    pins = (HERE / f"embed-tests/environments/pins/py{version}-wheel.txt").read_text()
    pinned = re.search(r"^numpy==\S+", pins, re.MULTILINE).group()
    made = folder / "made"
    if not made.exists() or made.read_text() != pinned:
        platforms = [f"--platform=manylinux_2_{minor}_{processor}" for minor in (28, 27)]
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--root-user-action=ignore", "--disable-pip-version-check", "--no-deps", "--upgrade"]
        # pip asks whether the package is for the Python that runs pip, too.
        command += ["--ignore-requires-python"]
        command += ["--only-binary=:all:", f"--python-version={version}", *platforms, f"--target={folder}", pinned]
        subprocess.run(command, check=True)
        made.write_text(pinned)
    return folder
