"""A server with a thread for each request that keeps 400 KB of each; /health keeps nothing, /free drops all. Prints its port."""

import http.server

kept = []


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path == "/free":
            kept.clear()
        elif self.path != "/health":
            kept.append([bytes(2000) for _ in range(200)])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"ok")


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
