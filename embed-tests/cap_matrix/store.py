"""Keeps the result of every run, a JSON line each, so that an interrupted matrix goes on where it was.

A line is written whole at the run's end. It stands for one build of the host, script, cap and seed, and for the
scripts as they were: the digest of a script and of what it imports is part of the line. The last line of a key wins.
"""

import hashlib
import json
import threading

SHARED = "growing.py"
FORMAT = 1  # Raised when the meaning of a line changes; older lines are then run again.


class Store:
    """The kept results; its methods may be called on any thread."""

    def __init__(self, path, scripts):
        self.path, self.scripts = path, scripts
        self._lock = threading.Lock()
        self._kept, self._digests = {}, {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            try:
                record = json.loads(line)
                self._kept[key_of(record)] = record
            except (ValueError, KeyError):
                continue  # the end of a line that an interruption cut off

    def find(self, task):
        """Returns what was kept of a task, or None."""
        record = self._kept.get(task.key())
        return record if record and record["digest"] == self.digest(task.script) else None

    def keep(self, task, record):
        """Writes one result."""
        identity, script, cap, seed = task.key()
        whole = {"format": FORMAT, "identity": identity, "script": script, "cap": cap, "seed": seed,
                 "digest": self.digest(script), **record}
        with self._lock:
            self._kept[task.key()] = whole
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "a+", encoding="utf-8") as file:
                # A line that an interruption cut off has no newline: this line must not join it.
                file.write("\n" * (not ends_a_line(self.path)) + json.dumps(whole) + "\n")
        return whole

    def digest(self, script):
        """Returns the digest that the script had at first: an edit meanwhile makes what is kept out of date."""
        if script not in self._digests:
            text = b"".join((self.scripts / name).read_bytes() for name in (SHARED, script))
            self._digests[script] = hashlib.sha256(text).hexdigest()[:16]
        return self._digests[script]


def key_of(record):
    if record["format"] != FORMAT:
        raise ValueError("of another format")
    return (record["identity"], record["script"], record["cap"], record["seed"])


def ends_a_line(path):
    with open(path, "rb") as file:
        end = file.seek(0, 2)
        if end == 0:
            return True
        file.seek(end - 1)
        return file.read(1) == b"\n"
