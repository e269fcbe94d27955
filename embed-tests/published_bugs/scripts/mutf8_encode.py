"""Encodes characters that take three bytes each."""

from mutf8 import encode_modified_utf8

encode_modified_utf8("\u20ac" * 5)
