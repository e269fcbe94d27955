"""Python objects: lists, dictionaries and strings."""

from until_refused import until_refused

data = []


def step():
    data.append({"number": len(data), "text": "x" * 200, "parts": [1.5, (len(data),)]})


until_refused(step, data.clear)
