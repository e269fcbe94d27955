"""Measures what it costs to be looked at: the host with --live, and with a timeline of 10 ms, beside the same host without.

Each is one more contender; the baseline of this section's ratios is the host alone, not stock.
"""

import dataclasses

from pairs import Samples

from . import peers, startup, threads

TITLE = "Being looked at"
BASELINE = "without"
INTERVAL = "10ms"


def measure(bench):
    samples = Samples()
    contenders = observed(bench)
    rounds = bench.pick(3, 15)

    def alternate(what, measure_one, times=1):
        bench.alternate(samples, what, rounds * times, measure_one, contenders, warm_up=True)

    alternate("churn loop", lambda one: peers.churn(bench, one))
    if threads.library(bench):
        alternate("native threads", lambda one: threads.native(bench, one))
    alternate("Python threads", lambda one: threads.python(bench, one))
    alternate("start-up", lambda one: startup.time(one, "`-c pass`", ("-c", "pass"), ()), times=4)
    return samples


def observed(bench):
    """Returns the first host without and with each option."""
    host = bench.hosts[0]
    live = f"--live={bench.folder / 'live'}"
    timeline = f"--timeline={bench.folder / 'timeline.jsonl'},interval={INTERVAL}"
    ways = {BASELINE: (), "--live": (live,), "--timeline": (timeline,), "both": (live, timeline)}
    return [dataclasses.replace(host, name=name, options=(*options, *host.options)) for name, options in ways.items()]
