"""Byte strings grow: bytes, bytearray, BytesIO, memoryview, array and ctypes buffers."""

import array
import io

from growing import need, run

[ctypes] = need("ctypes")

run("byte_strings", [
    ("data = []", "data.append(bytes(n))"),
    ("data = bytearray()", "data.extend(b'x' * n)"),
    ("data = bytearray()", "data += bytes(n)"),
    ("data = b'x'", "data = data * 2"),
    ("data = io.BytesIO()", "data.write(b'x' * n)"),
    ("data = []", "data.append(bytearray(n))"),
    ("data = array.array('d')", "data.extend(range(n))"),
    ("data = array.array('b')", "data.frombytes(bytes(n))"),
    ("data = []", "data.append(ctypes.create_string_buffer(n))"),
    ("data = []", "data.append(memoryview(bytes(n)).tolist())"),
], names={"io": io, "array": array, "ctypes": ctypes})
