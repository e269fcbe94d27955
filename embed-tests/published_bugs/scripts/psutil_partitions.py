"""Reads two mounts. In a sweep a request for memory fails meanwhile."""

import contextlib
import os
import tempfile

import psutil

if "PYHOST_FAIL" in os.environ:
    from pyhost import fail
else:
    fail = contextlib.nullcontext

with tempfile.NamedTemporaryFile("w") as mounts:
    mounts.write("/dev/sda1 /first ext4 rw 0 0\n/dev/sda2 /second ext4 rw 0 0\n")
    mounts.flush()
    try:
        with fail():
            psutil._psplatform.cext.disk_partitions(mounts.name)
    except MemoryError:
        pass
