"""The targets that the project has set itself, and what a run has measured of them. Nothing fails by them."""

import dataclasses
import typing

import pairs
from sections import peers

SMALL = "pyhost small"
TIME = "ms"


@dataclasses.dataclass(frozen=True)
class Target:
    """A bound on one ratio; `measured` takes {section: Samples} and a host's name, and returns it, or None."""

    what: str
    bound: float
    measured: typing.Callable
    is_of_small: bool = False


def one(section, metric):
    """Returns a reader of one metric's ratio to stock."""
    def read(sections, host):
        return ratios(sections, section, host).get(metric)
    return read


def of_all(section, summary):
    """Returns a reader of all times of a section, summed up by a function."""
    def read(sections, host):
        found = [ratio for metric, ratio in ratios(sections, section, host).items()
                 if sections[section].units[metric] == TIME]
        return summary(found) if found else None
    return read


def against(peer):
    """Returns a reader of the geometric mean of all times that the host and a peer have."""
    def read(sections, host):
        if "peers" not in sections:
            return None
        compared = [pairs.compare(*both) for both in peers.beside(sections["peers"], host, peer).values()]
        return pairs.geometric_mean(found["ratio"] for found in compared if found) if any(compared) else None
    return read


def ratios(sections, section, host):
    """Returns {metric: ratio to stock} of one section."""
    found = {}
    for metric, by in sections[section].values.items() if section in sections else ():
        compared = pairs.compare(by.get(host, ()), by.get("stock", ()))
        if compared:
            found[metric] = compared["ratio"]
    return found


TARGETS = (
    Target("pyperformance, geometric mean", 1.00, of_all("pyperformance", pairs.geometric_mean)),
    Target("pyperformance, worst benchmark", 1.10, of_all("pyperformance", max)),
    *(Target(f"instructions, {loop} loop", 1.02, one("instructions", f"{loop} loop"))
      for loop in ("churn", "strings and dicts")),
    Target("start-up, `-c pass`", 1.05, one("startup", "`-c pass`")),
    *(Target(f"resident at start, `{flags}`", 1.08, one("resident", f"at start, `{flags}`"), is_of_small=True)
      for flags in ("-I -S -c", "-c")),
    Target("resident at peak", 1.02, one("resident", "peak"), is_of_small=True),
    Target("resident after freeing most", 1.00, one("resident", "after freeing most"), is_of_small=True),
    Target("np.empty(3)", 1.05, one("arrays", "np.empty(3)")),
    Target("a+b of 3", 1.05, one("arrays", "a+b of 3")),
    *(Target(f"a*2, {size} MB", 0.85, one("arrays", f"a*2, {size} MB")) for size in (8, 32, 100)),
    Target("4 native threads", 0.70, one("threads", "4 native threads")),
    *(Target(f"times against {peer} preloaded{kind}, geometric mean", 1.00, against(peer + kind))
      for peer in ("mimalloc", "jemalloc") for kind in ("", peers.ALL_OF_IT)),
)


def told(sections, hosts):
    """Returns a row for each target: what, bound, the host that it was measured with, ratio, met.

    Resident sizes are targets of the profile `small`, all else of the first host; where `small` was not measured,
    the first host stands for it.
    """
    found = []
    for target in TARGETS:
        host = SMALL if target.is_of_small and SMALL in hosts else hosts[0]
        ratio = target.measured(sections, host)
        found.append({"target": target.what, "bound": target.bound, "contender": host, "ratio": ratio,
                      "met": None if ratio is None else ratio <= target.bound})
    return found
