#!/usr/bin/env python3
"""Tries a device folder on an emulated machine with 64 MiB of memory, without swap, all of whose files are in memory, too:

    small_machine.py [--target x86_64|aarch64] [--seconds 600] [--numpy]

The kernel is one for a board (tools/small-kernel), which starts from an archive of the root (initramfs). With --numpy the machine
has 128 MiB, and NumPy computes for every tenth request. The machine's init, BusyBox's, starts a service (sqlite3, json,
http.server) in the region, and again when it ends. Clients of this command send requests over the network and check each answer;
then a request takes all memory, then one kills the service. The last line says how many checks passed and failed.
"""

import argparse
import dataclasses
import http.client
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(HERE / "devices"), str(HERE / "embed-tests/region")]
import packages  # noqa: E402
from counting import check, closing  # noqa: E402
from toolchain import targets  # noqa: E402
from folder import make_root  # noqa: E402
from serve import Client  # noqa: E402

MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Board:
    """What a board has. The cap lies below the region, so that a refusal leaves room to handle it."""

    size: int
    region: str
    cap: str

    @property
    def memory(self):
        return f"{self.size}M"


SMALL = Board(64, "24M", "14M")
# NumPy lies in memory, too, with 50 MiB.
WITH_NUMPY = Board(128, "40M", "20M")
PORT = 8080
PYTHON = "3.11"
# The kernel's architecture, and the emulator with its console, by processor.
MACHINES = {
    "x86_64": ("amd64", "qemu-system-x86", ["qemu-system-x86_64", "-cpu", "max"], "ttyS0 edd=off"),
    "aarch64": ("arm64", "qemu-system-arm", ["qemu-system-aarch64", "-M", "virt", "-cpu", "max,pauth-impdef=on"], "ttyAMA0"),
}

INITTAB = "::sysinit:/etc/start\n::respawn:/etc/service\n"
START = """#!/bin/sh
mount -t proc proc /proc
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs -o size=1m none /run
ip link set lo up
ip addr add 10.0.2.15/24 dev eth0
ip link set eth0 up
"""
# The counters of the run before stay, also after a kill, and are shown.
SERVICE = """#!/bin/sh
if [ -e /run/counters ]; then
  mv /run/counters /run/counters.before
  echo "the run before:"
  /opt/device/bin/pyhostctl report --text /run/counters.before
fi
exec /opt/device/bin/pyhost --region {region} --cap {cap} --live=file:/run/counters /opt/device/app {port} {words}
"""


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def make_root_archive(scratch, board, target):
    """The archive of the root: the folder, the C library and BusyBox."""
    folder = HERE / f"target/devices/station-{target.processor}-{board.size}"
    build = ["devices/build", "--target", target.triple, "--python", PYTHON, "--from-source", "--folder", folder]
    build += ["--with-pyhostctl", "--modules", "json,sqlite3,http.server", "--application", scratch / "app"]
    if board is WITH_NUMPY:
        build += ["--packages", packages.numpy(PYTHON, target.processor)]
    shutil.rmtree(scratch / "app", ignore_errors=True)
    shutil.copytree(HERE / "devices/tests/station", scratch / "app", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HERE / "embed-tests/region/server.py", scratch / "app")
    print(targets.output_of(*build), flush=True)
    root = scratch / "root"
    make_root(root, targets.root_of_target(PYTHON, target), folder, "opt/device", busybox(target.debian))
    for name in "init mount ip mv echo".split():
        (root / "bin" / name).symlink_to("busybox")
    for name in "dev run sys tmp".split():
        (root / name).mkdir()
    (root / "init").symlink_to("bin/init")
    write(root / "etc/inittab", INITTAB)
    write(root / "etc/start", START)
    words = "numpy" if board is WITH_NUMPY else ""
    write(root / "etc/service", SERVICE.format(region=board.region, cap=board.cap, port=PORT, words=words))
    archive = scratch / "root.xz"
    # The kernel has little memory for a dictionary.
    pack = 'cd "$1"; find . | "$2" cpio -o -H newc -R 0:0 | xz --check=crc32 --lzma2=dict=1MiB >"$3"'
    packer = targets.output_of("tools/debian-programs", "busybox-static") + "/bin/busybox"
    targets.output_of("bash", "-euo", "pipefail", "-c", pack, "-", root, packer, archive)
    return archive


def busybox(architecture):
    folder = targets.output_of("tools/debian-files", f"busybox-{architecture}", architecture, "bookworm", "busybox-static")
    return pathlib.Path(folder) / "bin/busybox"


class Machine:
    """An emulated machine, and all that it wrote to its console."""

    def __init__(self, processor, memory, archive):
        architecture, _, emulator, console = MACHINES[processor]
        kernel = targets.output_of("tools/small-kernel", architecture, "4k")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.console = ""
        self.process = subprocess.Popen(
            [*emulator, "-accel", "tcg", "-m", memory, "-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio",
             "-kernel", kernel, "-initrd", archive,
             "-append", f"console={console} loglevel=4 panic=-1 rdinit=/init rootfstype=ramfs",
             "-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{self.port}-:{PORT}", "-device", "virtio-net-pci,netdev=net,romfile="],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace",
        )  # fmt: skip
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.console += line.replace("\r", "")
            print("  |", line.rstrip(), flush=True)

    def ask(self, seconds=180):
        """What the machine knows of itself, once it answers."""
        end = time.monotonic() + seconds
        while True:
            try:
                return Client(self.port).talk("GET", "/machine")
            except (OSError, http.client.HTTPException):
                if time.monotonic() > end or self.process.poll() is not None:
                    raise
                time.sleep(1)

    def post(self, path):
        """A request that has no answer."""
        try:
            Client(self.port).talk("POST", path, "")
        except (OSError, http.client.HTTPException, ValueError):
            pass


# Of the product of a matrix with the numbers from 0 to 39,999 and one of ones, both 200 wide.
SUM = 200 * sum(range(40_000))


def load(client, board, seconds):
    """Sends requests one after the other, which the client checks; the first that was not answered as it must be."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            client.request()
            if board is WITH_NUMPY and client.sent % 10 == 0 and (found := client.talk("GET", "/product")) != {"sum": SUM}:
                raise ValueError(f"{found}, not {SUM}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            return error
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", choices=list(MACHINES), default="x86_64", help="the processor (default: %(default)s)")
    parser.add_argument("--numpy", action="store_true", help="a board of 128 MiB, and a service that uses NumPy")
    parser.add_argument("--seconds", type=float, default=600, help="of the load before memory is taken (default: %(default)s)")
    options = parser.parse_args()
    target = targets.find(f"{options.target}-unknown-linux-gnu")
    _, package, emulator, _ = MACHINES[options.target]
    targets.install(emulator[0], package)
    targets.install("xz", "xz-utils")
    board = WITH_NUMPY if options.numpy else SMALL
    scratch = HERE / f"target/devices/small-machine-{options.target}-{board.size}"
    scratch.mkdir(parents=True, exist_ok=True)
    machine = Machine(options.target, board.memory, make_root_archive(scratch, board, target))
    try:
        before = machine.ask()
        print(f"at the start: {before}", flush=True)
        is_small = before["swap"] == 0 and before["total"] * 1024 < board.size * MIB
        check(f"the machine has no swap, and no more memory than a board of {board.size} MiB", is_small, before)
        client = Client(machine.port)
        error = load(client, board, options.seconds)
        loaded = machine.ask()
        print(f"{client.sent} requests in {options.seconds:.0f} s, then: {loaded}", flush=True)
        check("each request under load is answered", error is None, error)
        check("by one process", loaded["process"] == before["process"], loaded)

        machine.post("/hog")
        hogged = machine.ask()
        print(f"after the hog: {hogged}", flush=True)
        check("the service lives on after a request took all memory", hogged["process"] == before["process"], hogged)
        check("the console says that the cap was reached", f"cap of {board.cap[:-1]}.0 MiB (total) reached" in machine.console)
        check("and names the line", re.search(r"/opt/device/app/__main__.py:\d+", machine.console))
        error = load(client, board, min(options.seconds, 60) / 2)
        check("it has its rows still, and answers each request", error is None, error)

        machine.post("/die")
        again = machine.ask()
        print(f"after the kill: {again}", flush=True)
        check("init starts the service again after a kill", again["process"] != before["process"], again)
        check("the counters of the run before are shown", "the run before:" in machine.console and re.search(r"^obj .*MiB", machine.console, re.M))
        error = load(Client(machine.port), board, min(options.seconds, 60) / 2)
        check("each request after that is answered", error is None, error)
        last = machine.ask()
        check("the kernel killed nothing", last["killed"] == 0 and "Out of memory" not in machine.console, last)
    finally:
        machine.process.terminate()
        machine.process.wait()
    return closing()


if __name__ == "__main__":
    targets.run(main, "devices/tests/small_machine.py")
