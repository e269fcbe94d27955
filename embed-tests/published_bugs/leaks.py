#!/usr/bin/env python3
"""Finds leaks of published extensions that have no fix yet, each with its line, and compares them with stock's resident size.

    leaks.py --pyhost target/release/pyhost --python python3.11 [--only TEXT] [--report FILE.md]

leaking.py has the calls. Each is run under the host, where `pyhost.leaks()` must find it and name the line of Python that makes the
call, and by the interpreter alone, whose resident size must grow with every call. hnswlib's crashes instead: `--debug-hooks` must name
the function. Packages without a wheel are built from PyPI's sources. The last line is `N passed, N failed`. Exit status: 0; 1 with
what failed; 2 if it cannot run.
"""

import argparse
import dataclasses
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent / "environments"), str(HERE.parent / "cpython_suite")]

import make  # noqa: E402
import report  # noqa: E402
from bugs import Release  # noqa: E402
from interpreters import host_version  # noqa: E402
from run import build  # noqa: E402

# Of the latter are those that embed-tests/leak_free has found.
ENVIRONMENT, QUIET = "published-leaks", "leak-free"
SCRIPT = HERE / "leaking.py"
COLUMNS = ["extension", "call", "pyhost.leaks()", "stock, resident", "line"]


@dataclasses.dataclass(frozen=True)
class Leak:
    name: str  # of the function in leaking.py
    extension: str
    call: str
    calls: int = 10_000
    # Of one without a wheel.
    source: Release | None = None
    environment: str = ENVIRONMENT
    # What --debug-hooks says of one that crashes.
    message: str | None = None


LEAKS = (
    Leak("ahocorasick_dump", "pyahocorasick 2.3.1", "Automaton.dump()"),
    Leak("ahocorasick_pickle", "pyahocorasick 2.3.1", "pickle.dumps(Automaton)"),
    Leak("marisa_frombytes", "marisa-trie 1.4.1", 'Trie().frombytes(b"junk")'),
    Leak("igraph_multilevel", "igraph 1.0.0", "Graph.community_multilevel()"),
    Leak("igraph_adjacency", "igraph 1.0.0", 'Graph.Adjacency([[1, "x"], [0, 0]])'),
    Leak("gmpy2_pack", "gmpy2 2.3.2", 'pack([1, "x"], 8)', 100_000),
    Leak("annoy_metric", "annoy 1.17.3", 'AnnoyIndex("x")', 50_000,
         Release("1.17.3", "9cbfebefe0a5f843eba29c6be4c84d601f4f41ad4ded0486f1b88c3b07739c15")),
    Leak("editdistance_eval", "editdistance 0.8.1", "eval([[]], [1])", 100_000),
    Leak("tokenizers_train", "tokenizers 0.23.3", "Tokenizer.train_from_iterator()", 1_000),
    Leak("blosc2_asarray", "blosc2 4.14.1", "asarray(array)", environment=QUIET),
    Leak("bottleneck_rankdata", "Bottleneck 1.6.0", "rankdata(array)", environment=QUIET),
    Leak("numba_overload", "numba 0.68.1", "njit(function), an overload, del", environment=QUIET),
    Leak("hnswlib_load", "hnswlib 0.8.0", "Index.load_index() that fails, then del", 0,
         Release("0.8.0", "cb6d037eedebb34a7134e7dc78966441dfd04c9cf5ee93911be911ced951c44c"),
         message=r"Index<.*>::~Index\(\) at \S*?(bindings\.cpp:\d+)"),
)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pyhost", required=True, type=pathlib.Path)
    parser.add_argument("--python", required=True, help="the interpreter that the host was built for")
    parser.add_argument("--only", metavar="TEXT", default="", help="the leaks whose names contain it")
    parser.add_argument("--report", type=pathlib.Path, metavar="FILE.md", help="put the results into a Markdown file")
    options = parser.parse_args(arguments)
    options.pyhost = options.pyhost.resolve()
    return options


def say(command, path):
    variables = {**make.clean_environment(), "PYTHONPATH": ":".join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(list(map(str, command)), env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", timeout=300)


def line_of(leak):
    """The lines of leaking.py that may make a call: those of its function."""
    text = SCRIPT.read_text(encoding="utf-8")
    begin = text.index(f"def {leak.name}()")
    first = text.count("\n", 0, begin) + 1
    return range(first, first + text[begin:].index("\n\n\n"))


def judge(options, leak, path):
    """A row of the table, and what is wrong with it."""
    if leak.message:
        stock, found = say([options.python, SCRIPT, leak.name], path), say([options.pyhost, "--debug-hooks", SCRIPT, leak.name], path)
        named = re.search(leak.message, found.stdout)
        row = [leak.extension, leak.call, "crash, named by --debug-hooks", f"status {stock.returncode}", named[1] if named else "none"]
        return row, None if named and stock.returncode < 0 else found.stdout
    ended = say([options.pyhost, SCRIPT, leak.name], path)
    if ended.returncode != 0:
        return [leak.extension, leak.call, "none", "-", "none"], ended.stdout
    found = json.loads(ended.stdout.splitlines()[-1])
    [place] = [row["line"] for row in found["lines"] or [] if row["file"] == str(SCRIPT) and row["line"] in line_of(leak)][:1] or [None]
    grown = say([options.python, SCRIPT, leak.name, leak.calls], path).stdout.splitlines()[-1]
    row = [leak.extension, leak.call, f"{found['bytes_per_call']} B in {found['blocks_per_call']} block{'s' * (found['blocks_per_call'] > 1)}", f"{float(grown):.0f} B",
           f"leaking.py:{place}"]
    return row, None if place and float(grown) * 2 >= found["bytes_per_call"] > 0 else ended.stdout


def markdown(options, rows):
    version = make.run([options.python, "-I", "-V"]).stdout.strip()
    return f"""# Leaks of published extensions

Made by `embed-tests/published_bugs/leaks.py` with {host_version(options.pyhost)} and {version}.

Leaks of published versions, with every call, and a crash. `pyhost.leaks()` finds each, and names the line of Python that makes the
call (of `embed-tests/published_bugs/leaking.py`). Beside it the growth of the resident size with every call under the interpreter
alone; a block of libc's malloc takes 32 bytes at least. hnswlib's deletes an index twice: `--debug-hooks` names the function and its line, since it was built with
debug information.

References that are lost, and no memory with them, are in [leak-free.md](leak-free.md#cpython-3117).

{report.markdown_table(COLUMNS, rows)}
"""


def main(arguments):
    options = parse(arguments)
    rows, failed = [], 0
    chosen = [leak for leak in LEAKS if options.only in leak.name]
    try:
        for leak in chosen:
            packages = make.site_packages(make.environment(options.python, leak.environment))
            own = [build(options.python, leak.extension.split()[0], leak.source, ENVIRONMENT)] if leak.source else []
            row, trouble = judge(options, leak, [*own, packages])
            rows.append(row)
            print("  ".join(row), flush=True)
            if trouble:
                failed += 1
                print(f"failed: {leak.name}:\n{trouble}")
    except (make.Unmakable, make.BadName, OSError) as error:
        print(f"leaks.py: {error}", file=sys.stderr)
        return 2
    if options.report:
        options.report.write_text(markdown(options, rows), encoding="utf-8")
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
