"""Prints what ddtrace's last profile says of the live heap, as JSON: bytes and the stack of each sample, the innermost call first.

    python read_ddtrace.py FILE.pprof

Runs under the Python that ddtrace and zstandard are installed for. The file is a Profile of pprof's profile.proto.
"""

import io
import json
import sys

import zstandard

SAMPLE_TYPE, SAMPLE, LOCATION, FUNCTION, STRING = 1, 2, 4, 5, 6
VARINT, EIGHT_BYTES, BYTES = 0, 1, 2


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """Yields the number and the value of each field of a message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == VARINT:
            value, at = varint(data, at)
        else:
            size, at = varint(data, at) if key & 7 == BYTES else (8 if key & 7 == EIGHT_BYTES else 4, at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def numbers(value):
    """Returns the numbers of a repeated field's value, which may be packed."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = varint(value, at)
        found.append(number)
    return found


def repeated(message, field):
    return [number for key, value in message if key == field for number in numbers(value)]


def read(data):
    """Returns the records of a profile's bytes."""
    types, samples, locations, functions, strings = [], [], {}, {}, []
    for field, value in fields(data):
        if field == STRING:
            strings.append(bytes(value).decode("utf-8", "replace"))
        elif field in (SAMPLE_TYPE, SAMPLE, LOCATION, FUNCTION):
            message = list(fields(value))
            first = dict(message)
            if field == SAMPLE_TYPE:
                types.append(first[1])
            elif field == SAMPLE:
                samples.append(message)
            elif field == LOCATION:
                locations[first[1]] = [dict(fields(line)) for key, line in message if key == 4]
            else:
                functions[first[1]] = first.get(4, 0)
    heap = [strings[name] for name in types].index("heap-space")
    found = []
    for sample in samples:
        size = repeated(sample, 2)[heap]
        if size:
            lines = [line for location in repeated(sample, 1) for line in locations[location]]
            found.append({"bytes": size, "stack": [{"file": strings[functions[line[1]]], "line": line.get(2, 0)} for line in lines]})
    return found


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        content = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(file.read())).read()
    json.dump({"records": read(content)}, sys.stdout)
