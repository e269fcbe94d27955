"""Applies a patch whose extra block is longer than the file that it makes."""

import io

import bsdiff4
import bsdiff4.format

patch = io.BytesIO()
bsdiff4.format.write_patch(patch, 16, [(0, 20, 0)], b"", b"x" * 20)
try:
    bsdiff4.patch(b"old", patch.getvalue())
except ValueError:
    pass
