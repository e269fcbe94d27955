#!/usr/bin/env python3
"""Builds a folder for this machine's processor (devices/build --folder) and tries it in a root that has nothing but it and
the C library: read-only, without /tmp, /dev/shm, HOME or a shell, and without /proc.

    folder.py [--python 3.11] [--static | --from-source]

Needs no root: the roots are below target/, and seen by processes of this command alone. The last line says how many checks
passed and failed.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(HERE / "devices"))
import checks  # noqa: E402
import stock  # noqa: E402
from counting import check, closing  # noqa: E402
from toolchain import cpython, targets  # noqa: E402
from toolchain import folder as layout  # noqa: E402

ENTER = """
mount --bind "$root" "$root"
mount -o remount,ro,bind "$root"
[ -z "$proc" ] || mount --rbind /proc "$root/proc"
exec env -i $settings "$(command -v chroot)" "$root" "$@"
"""

def make_root(path, files, folder, place, shell):
    """A root with the folder at `place`, the C library, and a shell if it is given."""
    shutil.rmtree(path, ignore_errors=True)
    (path / "proc").mkdir(parents=True)
    (path / place).parent.mkdir(parents=True)
    shutil.copytree(folder, path / place, symlinks=True)
    libraries = path / "usr/lib" / files.multiarch
    libraries.mkdir(parents=True)
    for source in files.libraries:
        for library in source.glob("*.so.*"):
            if layout.OF_THE_DEVICE.fullmatch(library.name) and not (libraries / library.name).exists():
                shutil.copy(library, libraries / library.name)
    (path / "lib").symlink_to("usr/lib")
    (path / "lib64").symlink_to(f"usr/lib/{files.multiarch}")
    # Of ARM's programs the loader is in lib.
    for loader in libraries.glob("ld-linux-aarch64.so.*"):
        (path / "lib" / loader.name).symlink_to(f"{files.multiarch}/{loader.name}")
    if shell:
        (path / "bin").mkdir()
        shutil.copy(shell, path / "bin/busybox")
        for name in ("sh", "dirname"):
            (path / "bin" / name).symlink_to("busybox")


def enter(root, *command, proc=False, settings=""):
    environment = {**os.environ, "root": str(root), "proc": "yes" if proc else "", "settings": settings}
    return subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private", "bash", "-euc", ENTER, "-", *command],
        capture_output=True, text=True, env=environment, timeout=300, cwd="/",
    )  # fmt: skip


# A service of which memory grows.
AT_PRESSURE = """
import os, pyhost
pyhost.on_pressure(lambda: os._exit(75))
kept = [bytes(10_000) for _ in range(1_000)]
"""


def the_unit(folder):
    """device.service: systemd takes it, and its command runs."""
    unit = (HERE / "devices/docs/device.service").read_text()
    with tempfile.TemporaryDirectory() as scratch:
        places = {"/opt/device/bin": folder / "bin", "/opt/device/app": folder / "app", "/run/station": scratch}

        def here(text):
            for place, path in places.items():
                text = text.replace(place, str(path))
            return text

        if shutil.which("systemd-analyze"):
            path = pathlib.Path(scratch, "device.service")
            path.write_text(here(unit))
            answer = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True)
            check("systemd takes the unit of devices/docs", (answer.returncode, answer.stderr) == (0, ""), answer)
        else:
            print("skipped: the unit of devices/docs: no systemd-analyze")
        command = [here(word) for word in re.search("^ExecStart=(.*)", unit, re.MULTILINE).group(1).split()]
        limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        if 0 <= limit < 32 << 20:
            print(f"skipped: the key lock of --region in the unit: RLIMIT_MEMLOCK is {limit} bytes")
            command = [word.removesuffix(",lock") for word in command]
        answer = subprocess.run(command, capture_output=True, text=True, cwd=scratch)
        counters = pathlib.Path(scratch, "counters").exists()
        check("its command runs, and leaves its counters", answer.returncode == 0 and answer.stderr == "" and counters, answer)


def said(answer):
    """The line of the application."""
    try:
        return json.loads(answer.stdout)
    except ValueError:
        return {}


def sizes(folder, root, target, form):
    """Prints the sizes of the executable and at the start, beside those of the same CPython without the host."""
    stock.link(root, target, bool(form), folder)
    with tempfile.TemporaryDirectory() as scratch:
        checks.resident_of_stock(checks.Board(folder, pathlib.Path(scratch)))
    host, alone = ((folder / "bin" / name).stat().st_size / 2**20 for name in ("pyhost", "python3"))
    print(f"executable: {host:.2f} MiB, the same CPython alone {alone:.2f} MiB", flush=True)
    (folder / "bin/python3").unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--python", default="3.11", metavar="VERSION")
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--static", action="store_true")
    forms.add_argument("--from-source", action="store_true", help="static, with a libpython that is built from CPython's source")
    options = parser.parse_args()
    form = ["--from-source"] if options.from_source else ["--static"] if options.static else []
    name = options.python + "".join(form).removeprefix("-")
    target = targets.find(f"{os.uname().machine}-unknown-linux-gnu")
    folder = HERE / f"target/devices/folder-{name}"
    build = ["devices/build", "--target", target.triple, "--python", options.python]
    build += ["--folder", folder, "--modules", "json,sqlite3,http.server,urllib.request", "--with-pyhostctl"]
    build += ["--application", HERE / "devices/tests/application.py"]
    print(targets.output_of(*build, *form), flush=True)
    root_of_python = (cpython if options.from_source else targets).root_of_target(options.python, target)
    sizes(folder, root_of_python, target, form)
    files = root_of_python.system
    shell = pathlib.Path(targets.output_of("tools/debian-programs", "busybox-static")) / "bin/busybox"
    root = HERE / f"target/devices/root-{name}"

    make_root(root, files, folder, "opt/device", None)
    host, origin = "/opt/device/bin/pyhost", "LD_ORIGIN_PATH=/opt/device/bin"
    bare = enter(root, host, "/opt/device/app", settings=origin)
    expected = {
        "answer": 499500,
        "forked": 7,
        "hogged": False,
        "prefix": "/opt/device",
        "files": [f"/opt/device/lib/python{options.python.replace('.', '')}.zip" + end for end in ("/http", "/json", "/sqlite3")],
    }
    check("the application runs in a root without /proc, /tmp, /dev and HOME", said(bare) == expected, bare)
    check("it prints nothing else", bare.stderr == "" and bare.returncode == 0, bare)

    reported = enter(root, host, "--cap", "40M", "--stats", "/opt/device/app", "hog", settings=origin)
    check("a cap raises an error that the application catches", said(reported).get("hogged") is True, reported)
    check("the refusal names the line", "/opt/device/app/__main__.py:" in reported.stderr, reported)
    check("the report says how far the resident size is known", "resident unknown, peak at most" in reported.stderr, reported)

    region = enter(root, host, "--region", "24M", "/opt/device/app", "hog", settings=origin)
    check("so does a region", said(region).get("hogged") is True and "region of 24.0 MiB is full" in region.stderr, region)

    live = enter(root, host, "--live", "-c", "print(1)", settings=origin)
    lines = live.stderr.splitlines()
    check("--live without /dev/shm is one line, and the script runs", live.stdout == "1\n" and len(lines) == 1, live)

    control = enter(root, "/opt/device/bin/pyhostctl", "--version", settings=origin)
    check("pyhostctl finds its library", control.returncode == 0 and control.stdout.startswith("pyhostctl "), control)

    missing = enter(root, host, "-c", "import tarfile, xml.dom", settings=origin)
    check("a module that was not chosen is not there", "ModuleNotFoundError" in missing.stderr, missing)

    traceback = enter(root, host, "-c", "import json; json.loads('{')", settings=origin)
    check("a traceback names files of the standard library", "json/decoder.py" in traceback.stderr, traceback)

    with_proc = enter(root, host, "/opt/device/app", proc=True)
    check("with /proc no variable is needed", said(with_proc) == expected and with_proc.stderr == "", with_proc)

    leaks = enter(root, host, "--leak-check", "--stats=json", "-c", "print(1)", proc=True)
    check("the leak check says that all is well", leaks.returncode == 0 and leaks.stdout == "1\n", leaks)

    code = "import subprocess, sys; print(subprocess.check_output([sys.executable, '-c', 'print(2)']))"
    child = enter(root, host, "-c", code, proc=True)
    check("a child process is the host again", child.stdout == "b'2\\n'\n", child)

    pressed = enter(root, host, "--region", "24M", "--soft-cap", "6M", "-c", AT_PRESSURE, settings=origin)
    check("a service can end itself at a soft cap, to be started again", pressed.returncode == 75, pressed)
    the_unit(folder)

    make_root(root, files, folder, "mnt/other place", shell)
    moved = enter(root, "/mnt/other place/run", settings="PATH=/bin")
    check("a folder that was moved starts by its script", said(moved).get("prefix") == "/mnt/other place", moved)
    check("and answers as before", said(moved).get("answer") == 499500 and moved.stderr == "", moved)

    of_another_processor([*build, *form], folder)
    return closing()


def of_another_processor(build, folder):
    """Tries packages with files of a processor other than the folder's."""
    # Of an ELF file the header alone, with a machine that Debian has no more: Alpha.
    header = b"\x7fELF\x02\x01\x01" + bytes(11) + (0x9026).to_bytes(2, "little")
    refusal = "devices/build: --packages, --application: 'extension.abi3.so' is for another processor than --target\n"
    for name, status, line in (("firmware.elf", 0, ""), ("extension.abi3.so", 2, refusal)):
        with tempfile.TemporaryDirectory() as packages:
            pathlib.Path(packages, name).write_bytes(header + bytes(44))
            answer = subprocess.run([HERE / build[0], *build[1:], "--packages", packages], cwd=HERE, capture_output=True, text=True)
        good = (answer.returncode, answer.stderr) == (status, line)
        check(f"{name} of another processor in a package ends with status {status}", good, answer)
    check("and leaves nothing beside the folder", not folder.with_name(folder.name + ".new").exists())


if __name__ == "__main__":
    targets.run(main, "devices/tests/folder.py")
