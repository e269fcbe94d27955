"""Which requests are made to fail: a number of places in each phase of program.py, evenly spread over its requests."""

# Phase, accounts, how many places of a thousand.
SHARES = [
    ("imports", "raw+mem+obj", 110),
    ("compile", "raw+mem+obj", 100),
    ("objects", "raw+mem+obj", 110),
    ("json", "raw+mem+obj", 80),
    ("sqlite", "raw+mem+obj", 90),
    ("ssl", "raw+mem+obj", 60),
    ("decimal", "raw+mem+obj", 80),
    ("numpy-import", "raw+mem+obj", 90),
    ("numpy", "raw+mem+obj", 80),
    ("threads", "raw+mem+obj", 90),
    ("numpy", "numpy", 20),
    ("sqlite", "native", 40),
    ("ssl", "native", 40),
    ("imports", "native", 10),
]
# Takes what another pair has too few requests for.
FILLER = ("compile", "raw+mem+obj")


def spread(requests, count):
    """Returns `count` numbers from 1 to `requests`, evenly spread; all of them where there are not as many."""
    if count >= requests:
        return list(range(1, requests + 1))
    return [1 + index * requests // count for index in range(count)]


def choose(total, requests):
    """Returns the places (phase, accounts, number), in the order of SHARES.

    `requests` gives how many requests of the accounts a phase makes: {(phase, accounts): number}.
    """
    whole = sum(share for _, _, share in SHARES)
    counts = {(phase, accounts): share * total // whole for phase, accounts, share in SHARES}
    for pair in counts:
        counts[pair] = min(counts[pair], requests[pair])
    counts[FILLER] = min(counts[FILLER] + total - sum(counts.values()), requests[FILLER])
    return [(*pair, number) for pair, count in counts.items() for number in spread(requests[pair], count)]
