"""Catches nothing: ends with a traceback of MemoryError."""

data = []
while True:
    data.append(bytes(b"x" * 20_000))
