"""Runs small programs where the kernel has huge pages for everything (`always`), by stock Python and by the host.

    tools/in-vm python3 embed-tests/huge_pages/run.py --python PYTHON --host PYHOST

The heaps of the host have none, at the start and after objects were dropped; a block of 64 MiB has, as under stock; and so
has the heap under `--retain speed`. Prints resident sizes beside stock's. The last lines count what passed and what failed.

Exit status 0 if all passed, 1 if not, 2 for a bad command line; where the kernel has them only for those who ask, 0, and
the last line begins with `skipped: `.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

MODE = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
SIZES = """
import json, sys
def sizes():
    with open("/proc/self/smaps_rollup") as file:
        return {line.split()[0]: int(line.split()[1]) / 1024 for line in file if line.endswith("kB\\n")}
"""
SHOW = "found = sizes()\nprint(json.dumps([found['Rss:'], found['AnonHugePages:']]))\n"
LISTS = "made = [[n] for n in range(200_000)]\nkept = made[:20_000]\ndel made\n"
LARGE = "large = bytearray(64 << 20)\nlarge[::4096] = bytes(len(large) // 4096).replace(b'\\0', b'x')\n"


def measure(command, code):
    """Returns MiB that are resident, and MiB of these in huge pages."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYHOST_"))}
    output = subprocess.run([*command, "-I", "-S", "-c", SIZES + code + SHOW], env=clean, check=True,
                            stdout=subprocess.PIPE).stdout
    return json.loads(output)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True, help="stock Python")
    parser.add_argument("--host", required=True, help="the host")
    options = parser.parse_args(arguments)
    mode = MODE.read_text(encoding="ascii").strip() if MODE.exists() else "no huge pages"
    if "[always]" not in mode:
        print(f"skipped: the kernel's huge pages are not for everything: {mode}")
        return 0
    host = pathlib.Path(options.host).absolute()
    checks = []
    for name, code in ("at start", ""), ("lists, most dropped", LISTS), ("a block of 64 MiB", LARGE):
        resident, huge = measure([options.python], code)
        print(f"{name:20} {'stock':10} {resident:7.1f} MiB, {huge:5.1f} in huge pages")
        for profile in "balanced", "small", "speed":
            own, own_huge = measure([host, "--retain", profile], code)
            # Those of 32 MiB, with pages of 16 KiB, are more than a small heap has room for.
            fits = profile == "speed" and os.sysconf("SC_PAGESIZE") == 4096
            passed = own_huge >= 32 if code == LARGE else own_huge > 0 if fits else profile == "speed" or own_huge == 0
            checks.append(passed)
            print(f"{name:20} {profile:10} {own:7.1f} MiB, {own_huge:5.1f} in huge pages, {own / resident:.3f} of stock"
                  f"{'' if passed else '  FAILED'}", flush=True)
    # What lies in a huge page depends on the address, another one at each start.
    starts = [measure([host], "")[1] for _ in range(12)]
    checks.append(not any(starts))
    print(f"twelve starts: {max(starts):.1f} MiB in huge pages at most{'' if checks[-1] else '  FAILED'}", flush=True)
    print(f"{sum(checks)} passed, {len(checks) - sum(checks)} failed")
    return 0 if all(checks) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
