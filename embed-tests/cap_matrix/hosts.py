"""The hosts under test: which Python each embeds, where its NumPy is, and an identity for kept results."""

import dataclasses
import hashlib
import json
import pathlib
import subprocess
import sys

from launch import clean_environment

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "environments"))

import make  # noqa: E402  the pinned environments

FACTS = """
import json, os, sys
prefix = os.path.join(sys.base_prefix, "bin", "python%d.%d" % sys.version_info[:2])
print(json.dumps({"release": "%d.%d.%d" % sys.version_info[:3], "python": prefix}))
"""


class UnusableHost(Exception):
    """The executable cannot be run, or is not what it was said to be; the message is one line."""


@dataclasses.dataclass(frozen=True)
class Host:
    """One build of the host; `site` is put on PYTHONPATH, and is empty where NumPy's scripts are left out."""

    release: str
    path: str
    site: str
    identity: str
    # The file's time and size when the identity was taken.
    stamp: tuple = ()

    def check(self):
        """Raises UnusableHost where the executable is not the one any more whose identity this is."""
        if stamp_of(self.path) != self.stamp:
            raise UnusableHost(f"{self.path}: was built anew meanwhile; start again")

    @property
    def minor(self):
        return ".".join(self.release.split(".")[:2])


def stamp_of(path):
    found = pathlib.Path(path).stat()
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def examine(given, path, site, with_numpy):
    """Asks an executable what it embeds; `given` is the release that the caller says it is, or its beginning."""
    path = pathlib.Path(path).absolute()
    if not path.is_file():
        raise UnusableHost(f"{path}: no such executable")
    stamp = stamp_of(path)
    answer = subprocess.run([str(path), "-I", "-c", FACTS], cwd="/", env=clean_environment(),
                            stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if answer.returncode != 0:
        raise UnusableHost(f"{path}: cannot tell its version: {answer.stderr.strip()[-200:]}")
    facts = json.loads(answer.stdout)
    release = facts["release"]
    if not (release + ".").startswith(given + "."):
        raise UnusableHost(f"{path}: is Python {release}, not {given}")
    if with_numpy and not site:
        site = pinned_numpy(facts["python"])
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return Host(release, str(path), site or "", f"{release}-{digest}", stamp)


def pinned_numpy(python):
    """Returns the folder of the newest NumPy that is pinned for a Python; made where it is missing."""
    try:
        names = make.numpys_for(make.minor_of(python))
        if not names:
            raise UnusableHost(f"{python}: no NumPy is pinned for it; --no-numpy leaves its scripts out")
        return str(make.site_packages(make.environment(python, names[-1])))
    except (make.Unmakable, OSError) as error:
        raise UnusableHost(f"{python}: {error}; --no-numpy leaves NumPy's scripts out") from None
