"""The sections of the measurement, in the order in which they are run and told of."""

from . import arrays, instructions, observation, peers, resident, startup, suite, threads

SECTIONS = {
    "instructions": instructions, "startup": startup, "resident": resident, "arrays": arrays, "threads": threads,
    "peers": peers, "observation": observation, "pyperformance": suite,
}
