"""A service whose reports take memory while they are made: Flask as `flask_app`, FastAPI as `fastapi_app`.

/report makes 20,000 rows, JSON of them, and reads it back; nothing is kept. With TRIM in the environment a thread calls malloc_trim(0) each second.
"""

import json
import os
import threading
import time


def report():
    rows = [{"number": number, "name": f"row {number}", "parts": [number, str(number), number / 7]} for number in range(20_000)]
    return str(len(json.loads(json.dumps(rows))))


def health():
    return "ok"


def trim():
    import ctypes

    libc = ctypes.CDLL(None)
    while True:
        time.sleep(1)
        libc.malloc_trim(0)


if "TRIM" in os.environ:
    threading.Thread(target=trim, daemon=True).start()


def flask():
    from flask import Flask

    app = Flask("service")
    app.add_url_rule("/report", "report", report)
    app.add_url_rule("/health", "health", health)
    return app


def fastapi():
    from fastapi import FastAPI

    app = FastAPI()
    app.get("/report")(report)
    app.get("/health")(health)
    return app


def __getattr__(name):
    made = {"flask_app": flask, "fastapi_app": fastapi}
    if name not in made:
        raise AttributeError(name)
    return made[name]()
