"""Encodes a symbol that the code does not have, and that nobody else keeps."""

from bitarray import bitarray

try:
    bitarray().encode({"a": bitarray("0")}, (f"symbol {number}" for number in range(1)))
except ValueError:
    pass
