"""The first process of a tree: keeps a number of children of each kind at work, and replaces those that end. See run.py.

    family.py FOLDER KIND...

Each child touches a file of its own in FOLDER at each round. When FOLDER/stop is there all end, and the last line says, as JSON,
how many started and ended how, and whether the first process then gets nearly the whole cap.
"""

import collections
import json
import multiprocessing
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

CAP = 31 / 32  # a 32nd is kept for forks
MIB = 1 << 20


def small(most):
    return [[number] for number in range(most // 100)]


def blocks(most):
    return [bytes(random.randrange(1000, 3_000_000)) for _ in range(most // 1_500_000)]


def grown(most):
    data = bytearray()
    while len(data) < most:
        data += bytes(300_000)
    return data


def huge(most):
    return bytes(4 * most)


def round_of(folder, hogs=(small, blocks, grown, huge)):
    """Takes as much as one of the ways does, and gives it back; whether there was an error."""
    beat = folder / f"{os.getpid()}.beat"
    beat.touch()
    kept = None
    try:
        kept = random.choice(hogs)(random.randrange(1, 120) * MIB)
        time.sleep(random.random() / 20)
    except MemoryError:
        return True
    return kept is None


def work(folder):
    """A child: rounds until it is to stop."""
    folder = pathlib.Path(folder)
    random.seed(os.getpid())
    while not (folder / "stop").exists():
        try:
            round_of(folder)
        except MemoryError:
            pass  # where its file was touched


def app(environ, start_response):
    """For gunicorn: a request is a round."""
    error = round_of(pathlib.Path(os.environ["BEATS"]))
    start_response("503 Full" if error else "200 OK", [("Content-Length", "0")])
    return []


class Child:
    """A child of a kind, by which it is started again and again."""

    def __init__(self, kind, folder):
        self.kind, self.folder, self.process = kind, folder, None

    def start(self):
        if self.kind == "subprocess":
            code = f"import sys; sys.path.append({str(pathlib.Path(__file__).parent)!r}); import family; family.work({self.folder!r})"
            self.process = subprocess.Popen([sys.executable, "-c", code])
        elif self.kind == "gunicorn":
            self.process = subprocess.Popen([sys.executable, "-m", "gunicorn", "-b", f"unix:{self.folder}/socket", "-w", "3",
                                             "--log-level", "critical", "--chdir", str(pathlib.Path(__file__).parent), "family:app"])
        else:
            context = multiprocessing.get_context(self.kind)
            self.process = context.Process(target=work, args=(self.folder,))
            self.process.start()

    def ended(self):
        """The status, once it has ended."""
        if self.process is None or isinstance(self.process, subprocess.Popen):
            return self.process and self.process.poll()
        return self.process.exitcode

    def stop(self):
        if self.kind == "gunicorn" and self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)


def keep(child, counts):
    """Starts a child that is not there."""
    status = child.ended()
    if child.process is not None and status is None:
        return
    if child.process is not None:
        counts[f"{child.kind} ended by {status}"] += 1
    try:
        child.start()
        counts[f"{child.kind} started"] += 1
    except (MemoryError, OSError, EOFError, RuntimeError) as error:
        child.process = None
        counts[f"{child.kind} not started: {type(error).__name__}"] += 1


def whole():
    """Whether nearly the whole cap is one block's, when all others have ended; else what is."""
    import pyhost

    live = pyhost.memory_stats()["total"]["live_bytes"]
    try:
        huge(pyhost.get_cap())  # a claim that fails frees what those had
    except MemoryError:
        pass
    room = pyhost.headroom()
    # Large blocks have sizes that are some mebibytes apart.
    return bool(bytes(room - 64)) and room >= pyhost.get_cap() * CAP - live - 12 * MIB or room


def main(folder, *kinds):
    stop = pathlib.Path(folder) / "stop"
    children = [Child(kind, folder) for kind in kinds]
    counts = collections.Counter()
    while not stop.exists():
        for child in children:
            try:
                keep(child, counts)
                round_of(pathlib.Path(folder), hogs=(small,)) if random.random() < 0.02 else None
            except MemoryError:
                counts["errors of the first"] += 1
        time.sleep(0.02)
    for child in children:
        child.stop()
    patience = time.monotonic() + 60
    while any(child.process is not None and child.ended() is None for child in children) and time.monotonic() < patience:
        time.sleep(0.05)
    hung = [child.kind for child in children if child.process is not None and child.ended() is None]
    # The servers of multiprocessing are no children of the table.
    from multiprocessing import forkserver, resource_tracker

    for server in (forkserver._forkserver, resource_tracker._resource_tracker):
        if hasattr(server, "_stop"):
            server._stop()
    print(json.dumps({"counts": dict(sorted(counts.items())), "hung": hung, "whole": whole()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
