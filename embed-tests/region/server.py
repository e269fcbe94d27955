"""A small service, as a device would run it: measurements in, summaries out, kept by sqlite3.

POST /  stores a JSON list of [sensor, value] pairs; GET /?sensor=N answers what is known of it.
Prints its port, then serves until its standard input ends.
"""
import http.server
import json
import sqlite3
import sys
import threading
import urllib.parse

KEPT = 5000  # rows; older ones go

database = sqlite3.connect(":memory:", check_same_thread=False)
database.execute("create table seen (id integer primary key, sensor integer, value real)")
database.execute("create index by_sensor on seen (sensor)")
lock = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with lock, database:
            database.executemany("insert into seen (sensor, value) values (?, ?)", rows)
            database.execute("delete from seen where id <= (select max(id) from seen) - ?", (KEPT,))
            kept, = database.execute("select count(*) from seen").fetchone()
        self.answer({"stored": len(rows), "kept": kept})

    def do_GET(self):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        sensor = int(query["sensor"][0])
        with lock:
            found = database.execute("select id, value from seen where sensor = ?", (sensor,)).fetchall()
        values = [value for _, value in found]
        self.answer({
            "sensor": sensor,
            "count": len(values),
            "mean": sum(values) / len(values) if values else None,
            "rows": [{"id": number, "value": value} for number, value in found],
        })

    def answer(self, what):
        body = json.dumps(what).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever).start()
    sys.stdin.read()
    server.shutdown()
    server.server_close()


if __name__ == "__main__":
    main()
