"""Answers requests as a small web application does: json, re and str, twenty calls deep."""

import json
import re
import sys

ROUTE = re.compile(r"/item/(?P<number>\d+)(?:\?(?P<query>.*))?$")


def render(number, query):
    data = {"number": number, "names": [f"name {i}" for i in range(40)], "values": {str(i): i * 1.5 for i in range(40)}}
    text = json.dumps(data) + ";".join(part.upper() for part in query.split("&"))
    return len(json.loads(text[:text.rindex("}") + 1])["names"])


def handle(path, depth):
    if depth:
        return handle(path, depth - 1)
    found = ROUTE.match(path)
    return render(int(found["number"]), found["query"])


answered = 0
for number in range(int(sys.argv[1])):
    answered += handle(f"/item/{number}?a={number}&b=two&c={'x' * 50}", 16) == 40
assert answered == int(sys.argv[1])
