#!/usr/bin/env python3
"""Tries a device folder on an emulated machine with the memory of a board of 64 MiB, without swap, whose root is a read-only
disk:

    small_machine.py [--seconds 600] [--numpy]

With --numpy it is a board of 128 MiB, and NumPy computes for every tenth request. The machine's init, BusyBox's, starts a
service (sqlite3, json, http.server) in the region, and again when it ends. Clients of this command send requests over the
network and check each answer; then a request takes all memory, then one kills the service. The last line says how many
checks passed and failed.
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
sys.path[:0] = [str(HERE / "tools"), str(HERE / "embed-tests/devices")]
import packages  # noqa: E402
from counting import check, closing  # noqa: E402
from device import targets  # noqa: E402
from folder import make_root  # noqa: E402
from serve import Client  # noqa: E402

MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Board:
    """What a board has. The cap lies below the region, so that a refusal leaves room to handle it."""

    size: int
    region: str
    cap: str

    # Debian's kernel keeps 50 MiB for itself, which one that is built for a board does not: so the machine has this much more,
    # and its programs are left as much as on a board.
    def memory(self):
        return f"{self.size + 42}M"

    def left(self):
        return (self.size - 6) * MIB


SMALL = Board(64, "24M", "14M")
WITH_NUMPY = Board(128, "48M", "32M")
PORT = 8080
PYTHON = "3.11"
# In the order in which they need each other.
MODULES = """virtio/virtio_ring virtio/virtio virtio/virtio_pci_modern_dev virtio/virtio_pci_legacy_dev virtio/virtio_pci
    crypto/crc32c_generic lib/crc16 fs/mbcache jbd2/jbd2 ext4/ext4 block/virtio_blk
    core/failover net/net_failover net/virtio_net""".split()

FIRST = """#!/bin/busybox sh
for module in {modules}; do /bin/busybox insmod /modules/$module.ko; done
/bin/busybox mount -t devtmpfs devtmpfs /dev
until [ -e /dev/vda ]; do /bin/busybox sleep 0.1; done
/bin/busybox mount -t ext4 -o ro /dev/vda /root
/bin/busybox umount /dev
exec /bin/busybox switch_root /root /bin/init
"""
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
  /opt/device/bin/pyhostctl show /run/counters.before
fi
exec /opt/device/bin/pyhost --region {region} --cap {cap} --live=file:/run/counters /opt/device/app {port} {words}
"""


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def make_disk(scratch, board):
    """The image of the root: the folder, the C library and BusyBox."""
    folder = HERE / "target/devices/station"
    build = ["tools/build-device", "--python", PYTHON, "--static", "--folder", folder, "--with-pyhostctl"]
    build += ["--modules", "json,sqlite3,http.server", "--application", scratch / "app"]
    if board is WITH_NUMPY:
        build += ["--packages", packages.numpy(PYTHON, "x86_64")]
    shutil.rmtree(scratch / "app", ignore_errors=True)
    shutil.copytree(HERE / "embed-tests/devices/station", scratch / "app", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HERE / "embed-tests/devices/server.py", scratch / "app")
    print(targets.output_of(*build), flush=True)
    root, shell = scratch / "root", busybox()
    make_root(root, targets.root_of_this_machine(PYTHON), folder, "opt/device", shell)
    for name in "init mount ip mv echo".split():
        (root / "bin" / name).symlink_to("busybox")
    for name in "dev run sys tmp".split():
        (root / name).mkdir()
    write(root / "etc/inittab", INITTAB)
    write(root / "etc/start", START)
    words = "numpy" if board is WITH_NUMPY else ""
    write(root / "etc/service", SERVICE.format(region=board.region, cap=board.cap, port=PORT, words=words))
    disk = scratch / "disk"
    disk.unlink(missing_ok=True)
    targets.output_of("mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", root, disk, "192M")
    return disk


def busybox():
    return pathlib.Path(targets.output_of("tools/debian-programs", "busybox-static")) / "bin/busybox"


def make_first_root(scratch):
    """The kernel, and the archive from which it starts: it loads modules and mounts the disk."""
    package = targets.output_of("apt-cache", "depends", "linux-image-amd64")
    package = re.search(r"Depends: (linux-image-\S+)", package).group(1)
    debian = pathlib.Path(targets.output_of("tools/debian-programs", package, "busybox-static"))
    release = package.removeprefix("linux-image-")
    first = scratch / "first"
    shutil.rmtree(first, ignore_errors=True)
    for name in ("bin", "modules", "dev", "root"):
        (first / name).mkdir(parents=True)
    shutil.copy(busybox(), first / "bin/busybox")
    for module in MODULES:
        found = [path for path in (debian / "lib/modules" / release).rglob(module.split("/")[1] + ".ko") if f"/{module}.ko" in str(path)]
        for path in found:
            shutil.copy(path, first / "modules")
    write(first / "init", FIRST.format(modules=" ".join(module.split("/")[1] for module in MODULES)))
    archive = scratch / "first.gz"
    pack = 'cd "$1" && find . | "$2" cpio -o -H newc 2>/dev/null | gzip -9 >"$3"'
    targets.output_of("sh", "-c", pack, "-", first, busybox(), archive)
    return debian / f"boot/vmlinuz-{release}", archive


class Machine:
    """An emulated machine, and all that it wrote to its console."""

    def __init__(self, memory, disk, kernel, archive):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.console = ""
        self.process = subprocess.Popen(
            ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", memory, "-nodefaults", "-display", "none", "-no-reboot",
             "-serial", "stdio", "-kernel", kernel, "-initrd", archive,
             "-append", "console=ttyS0 edd=off loglevel=4 panic=-1 rdinit=/init",
             "-drive", f"file={disk},format=raw,if=virtio,readonly=on",
             "-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{self.port}-:{PORT}", "-device", "virtio-net-pci,netdev=net"],
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
    parser.add_argument("--numpy", action="store_true", help="a board of 128 MiB, and a service that uses NumPy")
    parser.add_argument("--seconds", type=float, default=600, help="of the load before memory is taken (default: %(default)s)")
    options = parser.parse_args()
    if shutil.which("qemu-system-x86_64") is None:
        print("skipped: a small machine: no qemu-system-x86_64 (Debian: qemu-system-x86)\n0 passed, 0 failed")
        return 0
    board = WITH_NUMPY if options.numpy else SMALL
    scratch = HERE / f"target/devices/small-machine-{board.size}"
    scratch.mkdir(parents=True, exist_ok=True)
    machine = Machine(board.memory(), make_disk(scratch, board), *make_first_root(scratch))
    try:
        before = machine.ask()
        print(f"at the start: {before}", flush=True)
        is_small = before["swap"] == 0 and before["total"] * 1024 < board.left()
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
    targets.run(main, "embed-tests/devices/small_machine.py")
