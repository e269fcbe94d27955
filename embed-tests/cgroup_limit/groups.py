"""Control groups with a memory limit, made below the caller's own group and removed again.

Only groups that are made here are changed, but for one thing under version 2: a group's controllers must be handed
down by its parent, which `Groups` does where the parent holds no process or is the root, and undoes at its end.
Python's standard library only.
"""

import os
import pathlib
import time

MIB = 1 << 20


class Unavailable(Exception):
    """No group with a limit can be made here; the message says why, in one line."""


def clean_environment():
    """Returns the environment without variables that steer Python or the host."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYHOST_"))}


def unescape(field):
    for escape, plain in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(escape, plain)
    return field


def mounts(mountinfo):
    """Yields (version, root, point) of each mounted hierarchy that may have the memory controller."""
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = (rest.split(" ") + ["", "", ""])[:3]
        root, point = map(unescape, fields.split(" ")[3:5])
        if kind == "cgroup2":
            yield 2, root, point
        elif kind == "cgroup" and "memory" in options.split(","):
            yield 1, root, point


def path_of(membership, version):
    """Returns the caller's path in a hierarchy, from the text of /proc/self/cgroup; None where it has none."""
    for line in membership.splitlines():
        number, controllers, path = line.split(":", 2)
        if (number == "0" and not controllers) if version == 2 else "memory" in controllers.split(","):
            return path
    return None


def own_group(version):
    """Returns the folder of the caller's group."""
    path = path_of(pathlib.Path("/proc/self/cgroup").read_text(encoding="utf-8"), version)
    mountinfo = pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    points = [(root, point) for found, root, point in mounts(mountinfo) if found == version]
    if path is None or not points:
        raise Unavailable(f"version {version}'s memory controller is not mounted")
    for root, point in points:
        below = "" if root == path else path[len(root.rstrip("/")):] if path.startswith(root.rstrip("/") + "/") else None
        if below is not None and (folder := pathlib.Path(point + below)).is_dir():
            return folder
    raise Unavailable(f"version {version}'s group {path} cannot be seen from here")


class Group:
    """A group with a limit; a context manager that removes it."""

    def __init__(self, version, limit):
        self.version, self.limit = version, limit
        parent = own_group(version)
        self.handed_down = None
        if version == 2:
            self._hand_down(parent)
        self.folder = parent / f"pyhost-limit-{os.getpid()}"
        try:
            self.folder.mkdir()
        except OSError as error:
            self._take_back()
            raise Unavailable(f"{parent}: {error.strerror}") from None
        try:
            self.change(limit)
            # Without swap: what does not fit must be refused or killed, not moved.
            for name in ("memory.swap.max",) if version == 2 else ("memory.swappiness",):
                if (self.folder / name).exists():
                    self._write(name, 0)
        except OSError as error:
            self.remove()
            raise Unavailable(f"{self.folder}: no limit can be set: {error.strerror}") from None

    def _hand_down(self, parent):
        if "memory" not in (parent / "cgroup.controllers").read_text(encoding="ascii").split():
            raise Unavailable(f"version 2 has no memory controller at {parent}")
        control = parent / "cgroup.subtree_control"
        if "memory" in control.read_text(encoding="ascii").split():
            return
        try:
            control.write_text("+memory", encoding="ascii")
        except OSError as error:
            raise Unavailable(f"{parent}: hands no memory controller down: {error.strerror}") from None
        self.handed_down = control

    def _take_back(self):
        if self.handed_down:
            self.handed_down.write_text("-memory", encoding="ascii")

    def _write(self, name, value):
        (self.folder / name).write_text(str(value), encoding="ascii")

    def change(self, limit):
        """Sets the limit, in bytes."""
        self._write("memory.max" if self.version == 2 else "memory.limit_in_bytes", limit)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        self.remove()

    def enter(self):
        """Moves the calling process into the group: for a child, before it executes a program."""
        self._write("cgroup.procs", os.getpid())

    def processes(self):
        """Returns the ids of its processes."""
        return (self.folder / "cgroup.procs").read_text(encoding="ascii").split()

    def peak(self):
        """Returns the most that was charged, page cache and all; None where the kernel does not tell."""
        try:
            name = "memory.peak" if self.version == 2 else "memory.max_usage_in_bytes"
            return int((self.folder / name).read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    def kills(self):
        """Returns how many processes of the group the kernel has killed for want of memory."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        for line in (self.folder / name).read_text(encoding="ascii").splitlines():
            if line.split()[:1] == ["oom_kill"]:
                return int(line.split()[1])
        return 0

    def remove(self):
        """Removes the group; its last process may take a moment to be gone."""
        for _ in range(50):
            try:
                self.folder.rmdir()
                break
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.1)
        else:
            raise OSError(f"{self.folder}: cannot be removed")
        self._take_back()
