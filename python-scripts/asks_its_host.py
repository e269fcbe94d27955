"""A script that asks its host when there is one, and runs under plain Python as well.

Standard output must be the same by both; what the host knows goes to standard error.
"""
import sys

try:
    import pyhost
except ImportError:
    pyhost = None

text = "x" * 5_000_000
print(len(text), "characters")
if pyhost:
    figures = pyhost.memory_stats()["accounts"]["obj"]
    print("live objects take", figures["live_bytes"], "bytes", file=sys.stderr)
