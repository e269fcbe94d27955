"""Sources of Debian packages, as their authors made them: without Debian's patches. They are fetched once, below target/."""

import functools
import os
import shutil
import subprocess

from . import targets
from .targets import HERE, Refused, output_of

SOURCES = HERE / "target/devices/sources"


def of_python(version):
    """The folder of CPython's source."""
    return source(f"python{version}", targets.suite_of(version))


def source(package, suite):
    """The folder of a package's source, which is fetched if it is missing."""
    folder = SOURCES / suite
    with targets.one_at_a_time(folder):
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
        output_of("tools/install-packages")
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
    targets.install("xz", "xz-utils")
    environment = settings_of_apt(folder, suite)
    place = folder / "cache" / package
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    # A mirror may lack the files of Debian's changes. Without --only-source, a package of that name on this machine sets the version.
    command = ["apt-get", "source", "-qq", "--download-only", "--tar-only", "--only-source", package]
    answer = subprocess.run(command, cwd=place, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    archives = [path for path in place.glob("*.orig.tar.*") if path.suffix != ".asc"]
    if answer.returncode or len(archives) != 1:
        reason = "".join(answer.stderr.splitlines()[:1]) or f"{len(archives)} archives of its authors"
        raise Refused(f"apt-get source {package}: no source in Debian's {suite}: {reason}; expected a network with its mirror")
    new = folder / f"{package}.new"
    shutil.rmtree(new, ignore_errors=True)
    output_of("tar", "-xf", archives[0], f"--one-top-level={new}", "--strip-components=1")
    new.rename(folder / package)
