"""Requests of a Flask application, through its test client; the handler keeps what it has read."""

import json

import flask

from measured import many, size_of, work

app = flask.Flask(__name__)
history = []


@app.post("/")
def answer():
    rows = flask.request.get_json()  # the line
    history.append(rows)
    return flask.jsonify(total=sum(row["price"] * row["count"] for row in rows), count=len(rows))


body = json.dumps([{"name": f"{i:0300}", "price": i * 1.5, "count": i * 1000} for i in range(200)])
client = app.test_client()
with work(lambda: size_of(*history)):
    for _ in range(many(700)):
        assert client.post("/", data=body, content_type="application/json").status_code == 200
