"""Allocates now and then until it is ended; says when it has begun."""

import sys
import time

print("begun", flush=True)
for _ in range(1200):
    blocks = [bytearray(1000) for _ in range(100)]
    time.sleep(0.05)
sys.exit("nobody ended this")
