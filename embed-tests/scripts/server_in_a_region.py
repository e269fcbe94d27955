"""A ThreadingHTTPServer that fills the region, and a client that asks it until the region is full and on.

Requests may fail. Neither side may wait for ever, and at the end, when the memory is free again, the
server answers.
"""

import http.client
import http.server
import os
import socket
import sys
import threading

kept = []
size = int(sys.argv[1])


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def do_GET(self):
        kept.append([bytes(size + number % 900) for number in range(100)])
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *arguments):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        pass


server = Server(("127.0.0.1", 0), Handler)
# Threads that wait and hold their part of the heap, as a pool's do.
release = threading.Event()
idle = []


def serve():
    while not stopped:
        try:
            server.serve_forever(poll_interval=0.05)
        except Exception:
            continue


def ask():
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=2)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status == 200
    finally:
        connection.close()


stopped = []
threading.Thread(target=serve, daemon=True).start()
answered = failed = silent = refused = 0
for turn in range(400):
    try:
        answered += ask()
    except socket.timeout:
        # CPython may lose the reference to a connection whose thread was refused memory.
        silent += 1
    except Exception:
        failed += 1
    if silent + failed > 40:
        break
    if turn % 10 == 0:
        try:
            waiting = threading.Thread(target=release.wait, daemon=True)
            waiting.start()
            idle.append(waiting)
        except (MemoryError, RuntimeError):
            refused += 1
kept.clear()
release.set()
again = 0
for _ in range(10):
    kept.clear()
    try:
        again += ask()
    except Exception:
        pass
stopped.append(True)
print(answered > 0, failed + silent + refused > 0, again > 0, "finished", flush=True)
os._exit(0)
