"""Applications that keep some kilobytes a request: WSGI, ASGI, tasks of celery, a server of the standard library. Of two other
requests one holds all that it gets, and one needs little.

The first request of a process fills it until little is left below the cap, so that a run takes seconds. What follows
is the slow leak.
"""

import json
import os
import pathlib
import sys
import time
import uuid

kept = []
LEFT = 200_000
# What a request keeps.
KEPT = int(os.environ.get("KEPT", "2000"))


def fill():
    """Takes what is left below the cap's reserve, but for LEFT bytes."""
    import pyhost

    while (room := pyhost.headroom()) is not None and room > 2 * LEFT:
        kept.append(bytes(min(room - LEFT, 1 << 20)))


def leak():
    if not kept:
        fill()
    kept.append("x" * KEPT + str(len(kept)))
    return str(len(kept))


def hold():
    """Takes all that it gets, in big blocks and then in small ones, and goes on with it for a while."""
    mine = []
    for size in (1 << 20, 1000):
        try:
            while True:
                mine.append(bytes(size))
        except MemoryError:
            time.sleep(0.5)
    return str(len(mine))


def need():
    """A request that needs little."""
    return str(len(bytes(200_000)))


def health():
    return "ok"


ROUTES = {"/leak": leak, "/hold": hold, "/need": need, "/health": health}


def flask_app():
    from flask import Flask

    app = Flask(__name__)
    for path, function in ROUTES.items():
        app.add_url_rule(path, view_func=function)
    return app


async def asgi(scope, receive, send):
    """An application for uvicorn. Its routes run in the loop's thread."""
    if scope["type"] != "http":
        raise ValueError("http alone")
    text = ROUTES[scope["path"]]()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": text.encode()})


def celery_app():
    """A worker's application, whose broker is a folder."""
    import celery
    from kombu.transport import filesystem

    folder = os.environ["BROKER"]

    class Channel(filesystem.Channel):
        def _put(self, queue, payload, **options):
            """Puts a message as a whole: kombu's own may be read while it is half written."""
            path = pathlib.Path(folder, "new", f"{time.monotonic_ns()}_{uuid.uuid4()}.{queue}.msg")
            path.write_text(json.dumps(payload))
            path.rename(pathlib.Path(folder, "queue", path.name))

    class Task(celery.Task):
        def __call__(self, *args, **named):
            """Runs the task. The master of prefork ends itself for a MemoryError of a task, and for no other error."""
            try:
                return self.run(*args, **named)
            except MemoryError as error:
                raise RuntimeError(f"out of memory: {error}") from error

    filesystem.Transport.Channel = Channel
    app = celery.Celery("leaky", broker="filesystem://", backend=f"file://{folder}/results", task_cls=Task)
    app.conf.update(
        broker_transport_options={"data_folder_in": f"{folder}/queue", "data_folder_out": f"{folder}/queue",
                                  "control_folder": f"{folder}/control", "polling_interval": 0.02},
        # How long the master waits for a result of a worker that has ended; 10 seconds by default.
        worker_lost_wait=1,
        worker_prefetch_multiplier=1, broker_connection_retry_on_startup=False)
    for path, function in ROUTES.items():
        app.task(name=path)(function)
    return app


def serve(port):
    import http.server

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            try:
                status, text = 200, ROUTES[self.path]()
            except MemoryError:
                status, text = 500, "out of memory"
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

    http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def ask_celery():
    """A client: runs the task that each line of input names, and prints how it ended."""
    tasks = celery_app().tasks
    print("ready", flush=True)
    for line in sys.stdin:
        result = tasks[line.strip()].delay()
        state, until = "PENDING", time.monotonic() + 60
        while state not in ("SUCCESS", "FAILURE") and time.monotonic() < until:
            time.sleep(0.02)
            try:
                state = result.state
            except ValueError:
                pass  # half written
        print(state, flush=True)


def __getattr__(name):
    """Makes the application of celery when its command asks for it."""
    if name == "tasks":
        return celery_app()
    raise AttributeError(name)


if __name__ == "__main__":
    serve(int(sys.argv[1])) if len(sys.argv) > 1 else ask_celery()
