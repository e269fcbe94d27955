"""The exit status is the script's own: 3 by `pyhost` as by `python`, and the report names it."""
import sys

print("leaving with status 3")
sys.exit(3)
