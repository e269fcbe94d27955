"""Typical calls of published packages with extensions: a function for each, which prepares and returns the call that is repeated."""

import dataclasses
import importlib
import typing


@dataclasses.dataclass(frozen=True)
class Package:
    prepare: typing.Callable
    # As PyPI spells it.
    distribution: str
    language: str
    # Is in the paths of the libraries that are guarded.
    library: str
    calls: int
    # Matches what is reported of a bug of the package's own, other than a reference that stock Python shows, too.
    bug: str | None
    # Matches a false alarm of the host's that is known: docs/results/leak-free.md says why.
    alarm: str | None


PACKAGES = {}
TEXTS = [f"text number {number} of some words, each not long; {'x' * (number % 40)}" for number in range(50)]
ROWS = [{"id": number, "name": f"name {number}", "tags": ["a", "b"], "at": number * 0.5, "none": None} for number in range(20)]
MARKUP = "<html><body><p class='a'>one</p><div id='b'><a href='/c'>two &amp; three</a></div></body></html>"


def package(distribution, language, library=None, calls=500, bug=None, alarm=None):
    """Registers a function by its name."""
    def register(prepare):
        PACKAGES[prepare.__name__] = Package(prepare, distribution, language, library or f"/{prepare.__name__}/", calls, bug, alarm)
        return prepare
    return register


for subject in ("tables", "pictures", "formats", "words", "coded", "servers", "structures"):
    importlib.import_module(f"{__name__}.{subject}")
