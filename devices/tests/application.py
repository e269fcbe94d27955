"""An application of a device: a table of sqlite that a server of HTTP shows. Prints one line of JSON about itself."""

import http.server
import json
import os
import sqlite3
import sys
import threading
import urllib.request

table = sqlite3.connect(":memory:", check_same_thread=False)
table.execute("create table samples(value)")
table.executemany("insert into samples values(?)", [(value,) for value in range(1000)])


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        (total,) = table.execute("select sum(value) from samples").fetchone()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(total).encode())

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
answer = json.load(urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/"))
server.shutdown()

child = os.fork()
if child == 0:
    os._exit(7)
forked = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

hogged = False
if "hog" in sys.argv:
    kept = []
    try:
        while True:
            kept.append(bytearray(1 << 20))
    except MemoryError:
        kept.clear()
        hogged = True

modules = sorted(name for name in ("json", "sqlite3", "http.server") if name in sys.modules)
files = [os.path.dirname(getattr(sys.modules[name], "__file__", "")) for name in modules]
print(json.dumps({"answer": answer, "forked": forked, "hogged": hogged, "prefix": sys.prefix, "files": files}))
