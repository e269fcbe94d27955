"""The targets that the project has set itself, and what a run has measured of them. Nothing fails by them."""

import dataclasses
import typing

import pairs
from sections import peers, programs

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


def of_all(section, summary, metrics=None):
    """Returns a reader of all times of a section, or of those that are named, summed up by a function."""
    def read(sections, host):
        found = [ratio for metric, ratio in ratios(sections, section, host).items()
                 if sections[section].units[metric] == TIME and (metrics is None or metric in metrics)]
        return summary(found) if found else None
    return read


def against(peer, units=peers.KINDS_OF_TIME, ending=""):
    """Returns a reader of the geometric mean of all times, or of other metrics, that the host and a peer have."""
    def read(sections, host):
        if "peers" not in sections:
            return None
        both = peers.beside(sections["peers"], host, peer, units)
        compared = [pairs.compare(*raw) for metric, raw in both.items() if metric.endswith(ending)]
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
    Target("pyperformance, worst benchmark", 1.05, of_all("pyperformance", max)),
    Target("nine programs, geometric mean", 0.90, of_all("programs", pairs.geometric_mean, programs.NINE)),
    Target("nine programs, worst", 1.00, of_all("programs", max, programs.NINE)),
    Target("programs with large heaps, worst", 0.90, of_all("programs", max, programs.LARGE)),
    Target("blocks that grow, worst", 1.05, of_all("growth", max)),
    Target("every day, geometric mean", 0.97, of_all("everyday", pairs.geometric_mean)),
    Target("every day, worst", 1.05, of_all("everyday", max)),
    Target("sales, peak", 1.02, one("programs", programs.SALES + programs.PEAK)),
    Target("join and split, peak", 1.05, one("programs", programs.SPLIT + programs.PEAK)),
    *(Target(f"instructions, {loop} loop", 1.02, one("instructions", f"{loop} loop"))
      for loop in ("churn", "strings and dicts")),
    Target("start-up, `-c pass`", 1.05, one("startup", "`-c pass`")),
    Target("start-up, `-I -S -c pass`", 1.05, one("startup", "`-I -S -c pass`")),
    *(Target(f"resident at start, `{flags}`", 1.08, one("resident", f"at start, `{flags}`"))
      for flags in ("-I -S -c", "-c")),
    Target("resident at peak", 1.02, one("resident", "peak")),
    Target("resident after freeing most", 1.15, one("resident", "after freeing most")),
    Target("resident after freeing most, 2 s later", 1.05, one("resident", "after freeing most, 2 s later")),
    Target("resident after freeing most, `small`", 1.00, one("resident", "after freeing most"), is_of_small=True),
    Target("six of seven lists dropped, at once", 1.15, one("programs", programs.LISTS + programs.AFTER)),
    Target("six of seven lists dropped, after 1 s of sleep", 1.05, one("programs", programs.LISTS + programs.LATER)),
    Target("np.empty(3)", 1.00, one("arrays", "np.empty(3)")),
    Target("a+b of 3", 1.02, one("arrays", "a+b of 3")),
    *(Target(f"a*2, {size} MB", 1.00, one("arrays", f"a*2, {size} MB")) for size in (8, 32, 100)),
    Target("4 native threads", 0.55, one("threads", "4 native threads")),
    *(Target(f"{what} against {peer}, geometric mean", 1.00, against(peer, units, ending))
      for peer in (*(name + kind for name, *_ in peers.PRELOADS for kind in ("", peers.ALL_OF_IT)), peers.OWN_MIMALLOC)
      for what, units, ending in (("times", peers.KINDS_OF_TIME, ""), ("peaks", peers.KINDS_OF_SIZE, "peak"))),
)


def told(sections, hosts):
    """Returns a row for each target: what, bound, the host that it was measured with, ratio, met.

    A target of the profile `small` is measured with the first host where `small` was not measured.
    """
    found = []
    for target in TARGETS:
        host = SMALL if target.is_of_small and SMALL in hosts else hosts[0]
        ratio = target.measured(sections, host)
        found.append({"target": target.what, "bound": target.bound, "contender": host, "ratio": ratio,
                      "met": None if ratio is None else ratio <= target.bound})
    return found
