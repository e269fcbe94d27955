"""Answers requests of a Flask application through its test client; prints the processor seconds of the loop as JSON.

    requests_of_flask.py REQUESTS [KIND ...]

The kinds are taken in turns: `json`, `page` (a template), `re`, `str`; without any all of them. A tenth of the requests, at
least 20, come before and are not counted.
"""

import json
import re
import sys
import time

from flask import Flask, jsonify, render_template_string, request

WORD = re.compile(r"(?P<key>[a-z]+)=(?P<value>[^&;\s]*)", re.IGNORECASE)
PAGE = """<table>{% for row in rows %}<tr><td>{{ row.name }}</td><td>{{ "%.2f" % row.price }}</td></tr>{% endfor %}</table>"""
app = Flask(__name__)


@app.post("/json")
def by_json():
    rows = request.get_json()["rows"]
    return jsonify(rows=[{**row, "total": row["price"] * row["count"]} for row in rows], count=len(rows))


@app.get("/page")
def by_page():
    return render_template_string(PAGE, rows=[{"name": f"name {i}", "price": i * 1.5} for i in range(30)])


@app.get("/re")
def by_re():
    found = {match["key"]: match["value"] for match in WORD.finditer(request.args["text"])}
    return re.sub(r"[0-9]+", lambda match: str(int(match[0]) + 1), ";".join(found.values()))


@app.get("/str")
def by_str():
    words = request.args["text"].split("&")
    return "\n".join(word.upper().replace("=", ": ").ljust(40) for word in words * 8).strip()


TEXT = "&".join(f"key{chr(97 + i % 26)}={i * 37}" for i in range(60))
BODY = json.dumps({"rows": [{"name": f"name {i}", "price": i * 1.5, "count": i % 7} for i in range(60)]})
CALLS = {
    "json": lambda client: client.post("/json", data=BODY, content_type="application/json"),
    "page": lambda client: client.get("/page"),
    "re": lambda client: client.get("/re", query_string={"text": TEXT}),
    "str": lambda client: client.get("/str", query_string={"text": TEXT}),
}


def answer(client, calls, number):
    for i in range(number):
        response = calls[i % len(calls)](client)
        assert response.status_code == 200 and len(response.data) > 100


requests, kinds = int(sys.argv[1]), sys.argv[2:] or list(CALLS)
calls = [CALLS[kind] for kind in kinds]
client = app.test_client()
answer(client, calls, max(20, requests // 10))
began = time.process_time()
answer(client, calls, requests)
print(json.dumps({"seconds": time.process_time() - began}))
