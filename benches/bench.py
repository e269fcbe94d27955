"""The settings that the sections share: who is compared, how long to measure, the pinned packages, and what to print.

A section is a module of the package `sections` with a TITLE and `measure(bench) -> Samples`.
"""

import dataclasses
import functools
import pathlib
import sys

import launch
import pairs

HERE = pathlib.Path(__file__).resolve().parent
WORK = HERE / "work"
ENVIRONMENTS = HERE.parent / "embed-tests" / "environments" / "make.py"


@dataclasses.dataclass(eq=False)
class Bench:
    """One run of the command. `python` is PYTHON as given, which packages are installed by."""

    contenders: list
    python: str
    short: bool
    folder: pathlib.Path
    all_of_pyperformance: bool = False
    notes: list = dataclasses.field(default_factory=list)

    @property
    def stock(self):
        return self.contenders[0]

    @property
    def hosts(self):
        return self.contenders[1:]

    def pick(self, short, full):
        """Returns what this run's mode takes of two numbers."""
        return short if self.short else full

    def say(self, text):
        """Tells how far the run is, on standard error."""
        print(text, file=sys.stderr, flush=True)

    def note(self, text):
        """Keeps a remark for the report, such as what was missing; once."""
        if text not in self.notes:
            self.notes.append(text)
            self.say(f"note: {text}")

    def alternate(self, samples, what, rounds, measure, contenders=None, warm_up=False):
        """Measures the contenders in turns; one that fails is noted and left out."""
        self.say(f"  {what}, rounds: {rounds}")

        def on_failure(contender, error):
            self.note(f"{what}: {contender.name} left out: {error}")

        pairs.alternate(samples, contenders or self.contenders, rounds, measure, launch.Failed, on_failure, warm_up)

    @functools.lru_cache(maxsize=None)
    def version(self):
        """Returns the Python's version, such as (3, 13)."""
        output, _ = launch.output_of(self.stock.command("-I", "-S", "-c", "import sys; print(*sys.version_info[:2])"))
        return tuple(map(int, output.split()))

    @functools.lru_cache(maxsize=None)
    def packages(self, name):
        """Returns the folder of a pinned environment's packages, made if need be; None, and a note, without it."""
        try:
            output, _ = launch.output_of([sys.executable, ENVIRONMENTS, "--python", self.python, name])
            return output.strip().splitlines()[-1]
        except launch.Failed as error:
            self.note(f"packages {name} are missing: {error}")
            return None

    @functools.lru_cache(maxsize=None)
    def numpy(self):
        """Returns the folder of the newest NumPy that is pinned for this Python, or None."""
        try:
            names, _ = launch.output_of([sys.executable, ENVIRONMENTS, "--python", self.python, "--list"])
        except launch.Failed as error:
            self.note(f"NumPy is missing: {error}")
            return None
        names = [name for name in names.split() if name.startswith("numpy-")]
        if not names:
            self.note("no NumPy is pinned for this Python")
            return None
        newest = max(names, key=lambda name: [int(part) for part in name[len("numpy-"):].split(".")])
        folder = self.packages(newest)
        if folder:
            self.note(f"NumPy is of the environment {newest}")
        return folder
