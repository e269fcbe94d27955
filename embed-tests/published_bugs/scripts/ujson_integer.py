"""Reads a hundred integers of more than 64 bits."""

import ujson

for _ in range(100):
    ujson.loads("12345678901234567890123")
