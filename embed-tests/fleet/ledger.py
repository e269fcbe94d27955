"""The events of the processes of a fleet, and what follows for a list of them.

Everything is told by order, nothing by the clock: an event that happened before a look began is known
to that look. Processes say what they do before they do it (member.py), and the runner waits for those
that it killed.
"""

import threading


class Fleet:
    """Who runs and who is gone, by process id; fed by threads that read what the members say."""

    def __init__(self):
        self._lock = threading.Lock()
        self._count = 0
        self._ready = {}  # process id: number of the event since which it runs as a host
        self._left = {}  # process id: number of the event since which it may be gone
        self._gone = {}  # process id: number of the event since which it is no host that runs
        self._doomed = set()  # killed by the runner: what they said before may be read later
        self._started = set()  # may be listed before they say a word

    def _note(self, table, pid):
        with self._lock:
            self._count += 1
            table[pid] = self._count

    def started(self, pid):
        """It was started, and will be a host."""
        with self._lock:
            self._count += 1
            self._started.add(pid)
            for table in (self._ready, self._left, self._gone):
                table.pop(pid, None)
            self._doomed.discard(pid)

    def ready(self, pid):
        """It runs as a host, anew where it did before."""
        with self._lock:
            self._count += 1
            self._ready[pid] = self._count
            if pid in self._doomed:
                return
            self._left.pop(pid, None)
            self._gone.pop(pid, None)

    def leaving(self, pid):
        """From now on it may be gone at any moment."""
        self._note(self._left, pid)

    def doom(self, pid):
        """It is about to be killed, or was found dead: whatever it says, it said before."""
        with self._lock:
            self._doomed.add(pid)
        self.leaving(pid)

    def gone(self, pid):
        """It has ended, or is no host any more."""
        self._note(self._left, pid)
        self._note(self._gone, pid)

    def now(self):
        """The number of the last event."""
        with self._lock:
            return self._count

    def judge(self, listed, began):
        """The mistakes in a list of process ids from a look that began after event `began`.

        Called after the look, once all that was said before its end has been read.
        """
        listed = list(listed)
        wrong = []
        with self._lock:
            for pid in sorted(set(listed)):
                if listed.count(pid) > 1:
                    wrong.append(f"{pid} is listed twice")
                if self._gone.get(pid, began + 1) <= began:
                    wrong.append(f"{pid} is listed and was gone")
                elif pid not in self._ready and pid not in self._started:
                    wrong.append(f"{pid} is listed and was never a host")
            for pid, event in self._ready.items():
                if event <= began and pid not in self._left and pid not in listed:
                    wrong.append(f"{pid} runs and is not listed")
        return wrong

    def count(self):
        """How many processes have been seen."""
        with self._lock:
            return len(self._started | self._ready.keys())
