"""One host of the fleet: allocates, forks, becomes another program or ends, as chance has it.

    member.py SEED

Says on standard output, a line each, with its process id: `ready` once it runs, `leaving` before it ends
or becomes another program, `gone` once it is another program. What was said has been written before the
thing happens, so whoever reads it later knows.
"""

import os
import random
import sys
import time

SHELL = "/bin/sh"


def say(word, pid=None):
    os.write(1, f"{word} {pid or os.getpid()}\n".encode())


def work(chance, kept):
    """Takes and gives memory for a moment."""
    for _ in range(chance.randrange(1, 30)):
        kept.append(bytearray(chance.randrange(1, 200_000)))
        if len(kept) > 50:
            del kept[: chance.randrange(1, 40)]
        time.sleep(chance.random() * 0.02)


def fork(chance, kept):
    """A child, which works for a moment and is waited for."""
    child = os.fork()
    if child == 0:
        say("ready")
        work(random.Random(chance.random()), kept)
        say("leaving")
        os._exit(0)
    if chance.random() < 0.3:
        work(chance, kept)  # meanwhile the child may be a zombie
    os.waitpid(child, 0)
    say("gone", child)


def main():
    seed = int(sys.argv[1])
    chance = random.Random(seed)
    say("ready")
    kept = []
    while True:
        work(chance, kept)
        deed = chance.random()
        if deed < 0.35:
            fork(chance, kept)
        elif deed < 0.50:
            say("leaving")
            if chance.random() < 0.5:
                sys.exit(0)
            os._exit(3)
        elif deed < 0.60:
            say("leaving")
            os.execv(sys.executable, [sys.executable, *sys.argv[:1], str(seed + 1)])
        elif deed < 0.65:
            say("leaving")
            os.execv(SHELL, [SHELL, "-c", "echo gone $$; exec sleep 2"])


main()
