import http.server, threading, urllib.request

class H(http.server.BaseHTTPRequestHandler):

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'hi')

    def log_message(self, *a):
        pass
s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), H)
t = threading.Thread(target=s.serve_forever)
t.start()
print(urllib.request.urlopen('http://127.0.0.1:%d/' % s.server_port).read())
s.shutdown()
t.join()
s.server_close()
