"""Measures several contenders in turns, and compares them pair by pair.

A round measures every contender once, and each second round goes backwards (A B, B A, A B ...), so that what else
the machine does, and its drift, falls on all alike. A ratio is formed within a round; what is told of a metric is the
median of its rounds' ratios, with their quartiles and a bootstrap interval of the median. Plain data, no processes.
"""

import math
import random
import statistics

RESAMPLES = 2000
CONFIDENCE = 0.95
FEW = 5


class Samples:
    """The raw values of one section: metric -> contender -> a value a round."""

    def __init__(self):
        self.units = {}
        self.values = {}

    def add(self, metric, unit, contender, value):
        self.units[metric] = unit
        self.values.setdefault(metric, {}).setdefault(contender, []).append(value)

    def as_json(self):
        return {metric: {"unit": self.units[metric], "values": by} for metric, by in self.values.items()}

    @classmethod
    def of_json(cls, raw):
        """Returns the samples that `as_json` was asked of."""
        samples = cls()
        samples.units = {metric: kept["unit"] for metric, kept in raw.items()}
        samples.values = {metric: kept["values"] for metric, kept in raw.items()}
        return samples


def alternate(samples, contenders, rounds, measure, failure, on_failure, warm_up=False):
    """Measures every contender `rounds` times; `measure(contender)` returns {metric: (value, unit)}.

    With `warm_up` a first round is not kept. A contender for which `measure` raises `failure` is told of once and left
    out from then on; its values so far stay beside those of the same rounds.
    """
    left_out = set()
    for number in range(-1 if warm_up else 0, rounds):
        for contender in contenders if number % 2 == 0 else reversed(contenders):
            if contender.name in left_out:
                continue
            try:
                measured = measure(contender)
            except failure as error:
                on_failure(contender, error)
                left_out.add(contender.name)
                continue
            for metric, (value, unit) in measured.items() if number >= 0 else ():
                samples.add(metric, unit, contender.name, value)


def compare(values, baseline):
    """Returns what is told of the ratios values[i] / baseline[i], or None where there is no pair."""
    pairs = [(value, base) for value, base in zip(values, baseline) if base]
    if not pairs:
        return None
    ratios = [value / base for value, base in pairs]
    low, high = interval(ratios)
    first, third = quartiles(ratios)
    return {
        "ratio": statistics.median(ratios), "low": low, "high": high, "first_quartile": first,
        "third_quartile": third, "pairs": len(ratios), "value": statistics.median(value for value, _ in pairs),
        "baseline_value": statistics.median(base for _, base in pairs),
    }


def rows(samples, baseline="stock"):
    """Returns a row for each metric and each contender but the baseline, in the order of measuring."""
    found = []
    for metric, by_contender in samples.values.items():
        for contender, values in by_contender.items():
            compared = compare(values, by_contender.get(baseline, ())) if contender != baseline else None
            if compared:
                found.append({"metric": metric, "unit": samples.units[metric], "contender": contender, **compared})
    return found


def quartiles(values):
    if len(values) < 2:
        return values[0], values[0]
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third


def interval(values):
    """Returns an interval for the median by bootstrap; of fewer than five values, the least and the greatest."""
    if len(values) < FEW:
        return min(values), max(values)
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(RESAMPLES))
    outside = (1 - CONFIDENCE) / 2
    return medians[int(outside * RESAMPLES)], medians[int((1 - outside) * RESAMPLES) - 1]


def geometric_mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values))
