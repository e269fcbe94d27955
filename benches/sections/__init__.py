"""The sections of the measurement, in the order in which they are run and told of."""

from . import arrays, checkers, everyday, growth, instructions, observation, peers, programs, resident, startup, suite, threads

SECTIONS = {
    "instructions": instructions, "startup": startup, "resident": resident, "arrays": arrays, "growth": growth,
    "everyday": everyday, "threads": threads, "programs": programs, "peers": peers, "observation": observation, "checkers": checkers,
    "pyperformance": suite,
}
