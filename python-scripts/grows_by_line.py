"""A function whose lines add, peak and give back: run it with `pyhost --profile-lines __main__:work`."""

import zlib


def work():
    text = bytes(50_000_000)
    packed = zlib.compress(text * 2, 1)
    parts = [bytes(1000) for _ in range(10_000)]
    del text
    return packed, parts


if __name__ == "__main__":
    work()
