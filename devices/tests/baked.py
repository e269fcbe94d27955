"""Checks a host with limits baked in at build time: they hold, can be lowered and never be raised.

    baked.py HOST --region SIZE --retain NAME [--cap SIZE]

HOST was built with PYHOST_BAKED_REGION=SIZE and so on. Prints each check; status 0 if all hold.
"""
import argparse
import json
import os
import subprocess
import sys

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
TOLD = "import json, pyhost; s = pyhost.memory_stats(); print(json.dumps([s['region']['size_bytes'], s['host']['profile']]))"
PROFILES = ["small", "balanced", "speed"]


def size(text):
    return int(text[:-1]) * UNITS[text[-1]]


def run(host, *arguments, **variables):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYHOST")}
    return subprocess.run([host, *arguments], env={**clean, **variables}, capture_output=True, text=True)


def checks(arguments):
    """Pairs of what is checked and whether it holds."""
    host, region = arguments.host, size(arguments.region)

    def holds(outcome, *expected):
        return outcome.returncode == 0 and json.loads(outcome.stdout) == list(expected)

    def refused(outcome, name):
        lines = outcome.stderr.splitlines()
        return outcome.returncode == 2 and len(lines) == 1 and lines[0].startswith(f"pyhost: {name}: bad value")

    yield "what was baked in holds", holds(run(host, "-c", TOLD), region, arguments.retain)
    lower = region - (1 << 20)
    yield "--region lowers it", holds(run(host, f"--region={lower}", "-c", TOLD), lower, arguments.retain)
    yield "PYHOST_REGION lowers it", holds(
        run(host, "-c", TOLD, PYHOST_REGION=str(lower)), lower, arguments.retain)
    higher = str(region + 1)
    yield "--region does not raise it", refused(run(host, "--region", higher, "-c", ""), "--region")
    yield "PYHOST_REGION does not raise it", refused(
        run(host, "-c", "", PYHOST_REGION=higher), "PYHOST_REGION")
    for profile in PROFILES[PROFILES.index(arguments.retain) + 1:]:
        yield f"--retain {profile} is refused", refused(
            run(host, "--retain", profile, "-c", ""), "--retain")
        yield f"PYHOST_RETAIN={profile} is refused", refused(
            run(host, "-c", "", PYHOST_RETAIN=profile), "PYHOST_RETAIN")
    version = run(host, "--host-version").stdout
    baked = [f"region {region / (1 << 20):.1f} MiB", f"retain {arguments.retain}"]
    if arguments.cap:
        baked.insert(0, f"cap {size(arguments.cap) / (1 << 20):.1f} MiB")
    yield "--host-version tells", version.endswith(f"\nbaked in: {', '.join(baked)}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("host")
    parser.add_argument("--region", required=True)
    parser.add_argument("--retain", required=True, choices=PROFILES)
    parser.add_argument("--cap")
    failed = 0
    for what, held in checks(parser.parse_args()):
        print("ok    " if held else "FAILED", what)
        failed += not held
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
