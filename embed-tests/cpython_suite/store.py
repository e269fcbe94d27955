"""Keeps the results of every run, so that nothing is run twice and an interrupted comparison goes on where it was.

One JSON file a run: OUT/<release>/<stock or pyhost>/<module>.run<N>.json, beside it the run's output as `.log`.
A file is written whole or not at all, and stands only for the interpreter whose identity it holds: a rebuilt host
starts afresh, stock's runs stay.
"""

import json
import os
import pathlib

FORMAT = 1  # Raised when the meaning of a kept record changes; older records are then run again.


class Store:
    """The kept runs of one release of Python; `timeout` is what a module is given now, in seconds."""

    def __init__(self, out, release, timeout):
        self.folder = pathlib.Path(out, release)
        self.timeout = timeout

    def record_path(self, kind, module, number):
        return self.folder / kind / f"{module}.run{number}.json"

    def log_path(self, kind, module, number):
        return self.record_path(kind, module, number).with_suffix(".log")

    def runs(self, interpreter, module):
        """Returns the runs kept of this very interpreter, first to last, up to the first that is missing."""
        found = []
        while True:
            record = self._read(self.record_path(interpreter.kind, module, len(found) + 1))
            if record is None or not self._stands_for(record, interpreter):
                return found
            found.append(record)

    def keep(self, interpreter, module, number, record):
        """Writes one run, atomically."""
        path = self.record_path(interpreter.kind, module, number)
        whole = {"format": FORMAT, "identity": interpreter.identity(), "module": module, **record}
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".tmp")
        unfinished.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        os.replace(unfinished, path)

    def _stands_for(self, record, interpreter):
        """Says whether a record is of this very executable, and not of a run that had less time than it would now."""
        if record["format"] != FORMAT or record["identity"] != interpreter.identity():
            return False
        return record["end"] != "timed out" or record["timeout"] >= self.timeout

    @staticmethod
    def _read(path):
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
