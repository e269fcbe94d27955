"""Writes JSON with so wide an indentation that the encoder's buffer on the heap is too small."""

import ujson

ujson.dumps(["x" * 70_000] + [1] * 20, indent=30_000)
