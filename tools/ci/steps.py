"""The steps that must pass before a change lands; .ci/run starts them.

    steps.py [STEP...]      all, or those whose names contain one of these words, without what they need
    steps.py --list         the table: the longest path behind each step, its estimate, its processors, its name

Format, lints, documentation, all tests on the default Python, and slices of those that depend on the Python on the newest and
the oldest CPython of the machine (tools/test --every-python runs them on all), on the newest of Debian sid, and on a free-threaded
one; a slice of CPython's own suite on the oldest and the newest, and one of NumPy's and its users' on the newest; growth below caps,
a slice, on both, and below a control group's limit; a build for ARM on an emulated board.
"""

import os
import pathlib
import signal
import subprocess
import sys

from schedule import Run, Step, paths

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = os.environ.get("CARGO_TARGET_DIR", "target")
# What is built and run in the debug folder: the tests' program is compiled for one host at a time.
DEBUG = ("debug",)
# Emulated machines have 3 GiB each.
MACHINE = ("machine",)
# A run hands the memory controller down, and takes it back.
GROUPS = ("groups",)
# What looks closer at a crash is compiled into one folder.
PLACES = ("places",)
PACKAGES = "packages that steps need"


def said(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout.strip()


def version_of(python):
    return said(python, "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])")


def has_suite(python):
    return subprocess.run([python, "-I", "-c", "import test.test_sys"], stderr=subprocess.DEVNULL).returncode == 0


def on_default(python):
    """Steps on the default Python, and those without one."""
    yield Step("format", ["cargo", "fmt", "--all", "--check"], seconds=2)
    yield Step("layers", ["python3", "tools/layers/check.py"], seconds=2)
    yield Step("links of the documents", ["tools/site", "--links"], seconds=2)
    yield Step("lints", ["cargo", "clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"], processors=2, seconds=60,
               locks=DEBUG)
    yield Step("documentation", ["cargo", "doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"], seconds=25,
               environment={"RUSTDOCFLAGS": "-D warnings"}, locks=DEBUG)
    yield Step(PACKAGES, ["tools/test", "--install"], seconds=40)
    yield Step("manual pages and completions", ["bash", "-euc", """
        [ -e /usr/share/bash-completion/bash_completion ] || tools/install-packages bash-completion
        tools/install-packages man:man-db zsh:zsh fish:fish
        cargo run --quiet --package pyhost-manual; exec tools/manual/test.py"""], needs=(PACKAGES,), seconds=40, locks=DEBUG)
    yield Step("programs that check text and crates", ["bash", "-euc", """python3 -m venv target/checkers
        target/checkers/bin/pip install --quiet --disable-pip-version-check --only-binary :all: -r tools/ci/checkers.txt"""],
               needs=(PACKAGES,))
    checkers = ("programs that check text and crates",)
    yield Step("spelling", ["target/checkers/bin/typos"], needs=checkers, seconds=2)
    yield Step("licences, versions and sources of crates", ["target/checkers/bin/cargo-deny", "--locked", "check", "licenses",
                                                            "bans", "sources"], needs=checkers, seconds=5)
    yield Step("tests", ["tools/test"], needs=(PACKAGES,), processors=1.5, seconds=560, locks=DEBUG)
    yield Step("tests of the heaps on pages of 65536 bytes, a slice",
               ["embed-tests/large_pages.sh", "65536", "domains", "exactness", "guards", "native"],
               needs=(PACKAGES,), seconds=50, locks=DEBUG)
    yield Step("a wheel", ["tools/build-wheels", python], needs=(PACKAGES,), seconds=130)
    yield Step("a wheel in a fresh environment", ["python3", "embed-tests/wheel/run.py", python], needs=("a wheel",), seconds=45)
    # What the wheel was made of.
    modules = ["cli", "true_python", "venvs", "forks", "checkers", "native", "page", "probes", "pytest_plugin"]
    yield Step("tests of the host inside an interpreter, a slice",
               ["tools/test", "--form", "inside", "--", *[f"{module}::" for module in modules]], needs=("a wheel",),
               seconds=100, environment={"PYHOST_SYSROOT": str(ROOT / "target/debian-bullseye-libc")}, locks=DEBUG)
    # rustup is for one process at a time: Miri's step installs by it, too. Where this fails, the board says so, and is skipped.
    yield Step("Rust for the board", ["bash", "-c", "rustup target add aarch64-unknown-linux-gnu || true"])
    yield Step("ledger, samples, records and best-fit allocator under Miri", ["tools/miri"], needs=("Rust for the board",), seconds=200)
    yield Step("gate, ledger and cells in every order of threads", ["tools/loom"], seconds=75)
    # It is built with little optimisation, which takes most of a build.
    yield Step("a board with pages of 16 KiB, emulated", ["python3", "devices/tests/board.py", "--target", "aarch64", "--pages", "16k",
                                                          "--slice"], needs=(PACKAGES, "Rust for the board"), seconds=590, locks=MACHINE,
               environment={"CARGO_PROFILE_DEVICE_LTO": "off", "CARGO_PROFILE_DEVICE_CODEGEN_UNITS": "16",
                            "CARGO_PROFILE_DEVICE_OPT_LEVEL": "1"})


def on_version(python, version, names, first):
    """Steps by the release build for a CPython; `names` are modules of the tests, which take the default Python's build.

    All versions are built in one folder, `first` before the others: most crates are the same for each Python.
    """
    target = f"{ROOT}/target/py-{version}"
    pyhost, pyhostctl = f"{target}/release/pyhost", f"{target}/release/pyhostctl"
    own = {"PYO3_PYTHON": python, "CARGO_TARGET_DIR": target}
    built = (f"build on {version}",)
    folder = f"{ROOT}/target/versions"
    yield Step(*built, ["bash", "-euc", 'cargo build --release --quiet; install -D -t "$2" "$1"/pyhost{,ctl}', "bash",
                        f"{folder}/release", f"{target}/release"],
               needs=(PACKAGES,) if version == first else (f"build on {first}",), seconds=130 if version == first else 70,
               environment={**own, "CARGO_TARGET_DIR": folder})
    yield Step(f"functions that run at the start lie together on {version}", ["tools/function-order", "--check", pyhost],
               needs=built, seconds=10, environment=own)
    # A place takes half a second or hangs. A hang costs the time limit twice: it is looked for under stock Python, too.
    yield Step(f"one failed request in each of 60 places on {version}", ["python3", "embed-tests/fault_places/run.py", "--slice",
               "--jobs", "1", "--timeout", "30", "--pyhost", pyhost], needs=built, processors=0.5, seconds=100, environment=own,
               locks=PLACES)
    if has_suite(python):
        yield Step(f"CPython's own tests on {version}, a slice", ["python3", "embed-tests/cpython_suite/compare.py", "--python", python,
                   "--pyhost", pyhost, "--slice"], needs=built, processors=0.5, seconds=80, environment=own)
    yield Step(f"heap bugs of an extension on {version}", ["python3", "embed-tests/heap_bugs/run.py", "--tools", "hooks", "guard", "all",
               "--python", python, "--pyhost", pyhost, "--pyhostctl", pyhostctl], needs=built, seconds=120, environment=own)
    if names:
        # Only the tests' own program is compiled again.
        yield Step(f"tests on {version}, a slice", ["tools/test", "--built", f"{target}/release", *names], needs=built, seconds=100,
                   locks=DEBUG)


def on_free_threaded(first):
    """Steps on a Python without a GIL, which is built once, below target/. `first` is the version that is built before the others."""
    folder, target = f"{ROOT}/target/versions", f"{ROOT}/target/py-3.13t"
    yield Step("a free-threaded Python 3.13t", ["tools/free-threaded"], needs=(PACKAGES,), processors=2, seconds=120)
    yield Step("build on 3.13t", ["tools/free-threaded", "bash", "-euc", 'CARGO_TARGET_DIR=$1 cargo build --release --quiet\n'
                                  'install -D -t "$2" "$1"/release/pyhost{,ctl}', "bash", folder, f"{target}/release"],
               needs=("a free-threaded Python 3.13t", f"build on {first}"), seconds=70)
    yield Step("tests on 3.13t, a slice", ["tools/test", "--built", f"{target}/release", "free_threaded::", "exactness::", "leaks::a_lost"],
               needs=("build on 3.13t",), seconds=70, locks=DEBUG)


def on_newest(python, version, builds):
    """Steps that only the newest CPython of the machine runs, and those of all builds: their hosts, by version."""
    host = builds[version]
    programs = ["--pyhost", host, "--pyhostctl", host + "ctl"]
    of_python = ["--python", python, "--pyhost", host]
    make = ["python3", "embed-tests/environments/make.py", "--python", python]
    numpy = said(*make, "--list").split()[-1]
    own = {"PYO3_PYTHON": python, "CARGO_TARGET_DIR": f"{ROOT}/target/py-{version}"}

    def step(name, *command, needs=(f"build on {version}",), **row):
        return Step(name, command, needs=needs, environment=own, **row)

    def script(name, folder, *arguments, file="run.py", **row):
        return step(name, "python3", f"embed-tests/{folder}/{file}", *arguments, **row)

    yield Step("fuzz targets, 8 seconds each", ["tools/fuzz", "--seconds", "8", "--pyhost", host], processors=2, seconds=100,
               needs=(f"build on {version}",), environment={**own, "CARGO_PROFILE_RELEASE_OPT_LEVEL": "1"})
    yield script(f"a fleet for a minute on {version}", "fleet", "--seconds", "60", *programs, processors=0.5, seconds=62)
    # With the newest NumPy that is pinned for it.
    yield script(f"NumPy's, pandas', SciPy's and scikit-learn's own tests on {version}, a slice", "library_suites", *of_python, "--numpy",
                 numpy[len("numpy-"):], "--slice", file="compare.py", processors=2, seconds=150)
    yield script(f"estimates of lines at known sites on {version}, a slice", "line_oracle", "--slice", *of_python, seconds=40)
    yield script(f"random combinations of options on {version}, a slice", "random_options", "--slice", "--pyhost", host, seconds=20)
    if has_suite(python):
        yield script(f"CPython's own tests with lines on {version}, a slice", "line_soak", "--slice", *of_python, seconds=20)
    yield script(f"leaking lines of a service on {version}, a slice", "leak_service", "--slice", *programs, processors=0.5, seconds=30)
    yield script(f"lines beside memray's on {version}, a slice", "memray_lines", "--slice", *of_python, seconds=60)
    yield script(f"each line of a function beside memory_profiler on {version}", "profile_lines", *of_python, processors=0.5, seconds=15)
    yield script(f"heap bugs behind toolkits on {version}, a slice", "heap_bugs", *of_python, "--tools", "all", file="run_toolkits.py", seconds=80)
    yield script(f"published packages in a loop on {version}, a slice", "leak_free", *of_python, seconds=40)
    yield script(f"a sweep by forks and by fresh processes on {version}, a slice", "sweep_forks", *of_python, "--runs", "24", file="compare.py", seconds=20)
    hosts = [word for each, pyhost in builds.items() for word in ("--host", f"{each}={pyhost}")]
    yield script("growth below caps, a slice", "cap_matrix", *hosts, "--slice", seconds=80,
                 needs=tuple(f"build on {each}" for each in builds))
    yield script("growth below a control group's limit", "cgroup_limit", "--host", host, seconds=30, locks=GROUPS)
    yield script("a control group's limit that changes", "cgroup_limit", "--host", host, file="changes.py", seconds=15, locks=GROUPS)
    yield step("growth below a group of version 2, in an emulated machine", "tools/in-vm", "python3", "embed-tests/cgroup_limit/run.py",
               "--scripts", "anonymous_maps", "objects", "--timeout", "600", "--host", host, seconds=150, locks=MACHINE)
    yield step("huge pages for everything, in an emulated machine", "tools/in-vm", "python3", "embed-tests/huge_pages/run.py",
               "--python", python, "--host", host, seconds=110, locks=MACHINE)
    yield script("a region is used to the full", "region", host, "24M", file="full.py", processors=1, seconds=15)
    # These judge how fast a server answers, and how many workers reach a cap in a job.
    yield script(f"servers at their cap on {version}, a slice", "servers_at_cap", *of_python, "--slice", processors=0.5, seconds=30)
    yield script(f"engines on {version}, a slice", "engines", "--python", python, *programs, "multiprocessing", "joblib", "dask",
                 seconds=60)
    yield script(f"a leaking service under a cap on {version}", "service", *of_python, processors=0.5, seconds=30)
    yield script(f"a tree of processes under one cap on {version}", "tree_cap", *of_python, "--seconds", "20", seconds=30)
    yield script(f"workers replaced between two requests on {version}", "servers_at_cap", *of_python, "--servers", "gunicorn-sync",
                 "gunicorn-gthread", "--requests", "2000", file="recycling.py", processors=0.5, seconds=20)
    yield script(f"examples to copy, and workflows, on {version}", "deploy", *of_python, processors=0.5, seconds=20)
    yield script(f"budgets of tasks and requests on {version}, a slice", "budgets", *of_python, "--slice", processors=0.5, seconds=40)
    yield step("libraries below a control group's limit, a slice", "bash", "-euc", 'site=$("${@:2}" libraries)\n'
               'exec python3 embed-tests/cgroup_limit/libraries.py --slice --host "$1" --site "$site"', "bash", host, *make, seconds=40,
               locks=GROUPS)
    yield step("libraries below a fixed cap, a slice", "bash", "-euc", 'site=$("${@:2}" libraries)\n'
               'exec python3 embed-tests/cgroup_limit/fixed_caps.py --caps 512M --runs 2 --kinds polars jemalloc mimalloc mmap '
               '--host "$1" --site "$site"', "bash", host, *make, seconds=40)


def table():
    """All steps, and the lines of what cannot run here."""
    python = os.environ.get("PYO3_PYTHON", "python3")
    pythons, default = said("tools/pythons").split(), version_of(python)
    newest = version_of(pythons[-1])
    tried = {version_of(pythons[0]): pythons[0], newest: pythons[-1]}
    steps, builds = list(on_default(python)), {}
    # The newest first, which more steps wait for.
    for version, each in reversed(tried.items()):
        # What lies next to CPython's own code, which is where versions differ. The first step tests the default Python.
        names = ["debug_hooks::", "exactness::", "frames::", "true_python::"]
        # The newest of Debian sid, below, runs most of what the oldest does.
        oldest = ["caps::", "domains::", "leaks::", "track::"]
        names += oldest if each == pythons[0] else ["checkers::an_overflow_gives_the_address", "expected::", "numpy::", "threads::"]
        steps += on_version(each, version, [] if version == default else names, newest)
        builds[version] = f"{ROOT}/target/py-{version}/release/pyhost"
    steps += on_free_threaded(newest)
    steps.append(Step("tests on the newest CPython, a slice", [
        "tools/newest-pythons", "--newest", "-p", "pyhost", "--test", "embed", "--", "caps::", "debug_hooks::", "domains::",
        "exactness::", "expected::", "frames::", "leaks::", "newest::", "threads::", "true_python::"], needs=(PACKAGES,), seconds=220,
        environment={"PYO3_PYTHON": None, "CARGO_TARGET_DIR": None}))
    steps += on_newest(pythons[-1], newest, builds)
    # Over the build of the tests, which are done with it.
    steps.append(Step("limits that are baked in", [
        "bash", "-euc", "cargo build --quiet --bin pyhost; "
        f"exec python3 devices/tests/baked.py {TARGET}/debug/pyhost --region 32M --retain small"], seconds=15, locks=DEBUG,
        environment={"PYHOST_BAKED_REGION": "32M", "PYHOST_BAKED_RETAIN": "small"},
        after=tuple(step.name for step in steps if DEBUG == step.locks)))
    without = [version for version, each in tried.items() if not has_suite(each)]
    return steps, [f"CPython's own tests on {version}: this installation has no package test" for version in without]


def main(words):
    os.chdir(ROOT)
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    steps, skipped = table()
    if words == ["--list"]:
        path = paths(steps)
        for step in steps:
            print(f"{path[step.name]:5} s {step.seconds:4} s  {step.processors:3} {step.name}")
        return True
    if words:
        steps = [step for step in steps if any(word in step.name for word in words)]
        if not steps:
            sys.exit(f"tools/ci/steps.py: no step is called {' or '.join(words)}; --list prints them")
        names = {step.name for step in steps}
        for step in steps:
            step.needs = tuple(name for name in step.needs if name in names)
            step.after = tuple(name for name in step.after if name in names)
    folder = ROOT / "target/ci"
    folder.mkdir(parents=True, exist_ok=True)
    return Run(steps, folder, skipped=skipped).run()


if __name__ == "__main__":
    sys.exit(not main(sys.argv[1:]))
