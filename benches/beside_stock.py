"""Runs one of the programs of benches/work that print JSON, by stock Python and by the host with options, in turns.

    python3 benches/beside_stock.py --python PYTHON --pyhost PYHOST [--packages FOLDER] [--rounds N]
        [--options="--live --lines --cap 1G"] ... PROGRAM [ARGUMENT ...]

Prints Markdown: for each figure of the JSON the median, and the median of the ratios to stock and to the first host, formed
within a round. FOLDER has the packages that the program imports. No figure makes this fail; exit status 1 if something
does not run.
"""

import argparse
import dataclasses
import pathlib
import shlex
import sys
import tempfile

import contenders
import launch
import pairs
from bench import WORK


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True, help="stock Python")
    parser.add_argument("--pyhost", required=True, help="the host, built for the same Python")
    parser.add_argument("--packages", type=pathlib.Path, metavar="FOLDER", help="site-packages with what is imported")
    parser.add_argument("--rounds", type=int, default=15, help="(%(default)s)")
    parser.add_argument("--options", action="append", default=[], help="of one more host; the first host has none")
    parser.add_argument("program", help="such as images.py")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args(arguments)


def main(arguments):
    options = parse(arguments)
    paths = [options.packages.resolve()] if options.packages else []
    samples = pairs.Samples()

    def measure(one):
        command = one.command(WORK / options.program, *options.arguments)
        return {key: (value, "") for key, value in launch.json_of(command, one.environment(*paths)).items()}

    def left_out(one, error):
        raise launch.Failed(f"{one.name}: {error}")

    try:
        with tempfile.TemporaryDirectory(prefix="beside-") as folder:
            (stock, host), _, _ = contenders.prepare(options.python, options.pyhost, [], pathlib.Path(folder))
            hosts = [dataclasses.replace(host, name=" ".join(["pyhost", *words]), options=("--stats=off", *words))
                     for words in map(shlex.split, ["", *options.options])]
            pairs.alternate(samples, [stock, *hosts], options.rounds, measure, launch.Failed, left_out)
    except (contenders.Unlike, launch.Failed) as error:
        print(f"beside_stock.py: {error}", file=sys.stderr)
        return 1
    print("| | | stock | | ratio | interval | to `pyhost` | interval |\n|---|---|---|---|---|---|---|---|")
    to_host = {(row["metric"], row["contender"]): row for row in pairs.rows(samples, hosts[0].name)}
    for row in pairs.rows(samples):
        other = to_host.get((row["metric"], row["contender"]))
        ratios = [f"{one['ratio']:.3f} | {one['low']:.3f} to {one['high']:.3f}" if one else " | " for one in (row, other)]
        print(f"| {row['metric']} | `{row['contender']}` | {row['baseline_value']:.5g} | {row['value']:.5g} "
              f"| {' | '.join(ratios)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
