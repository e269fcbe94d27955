import ssl
c = ssl.create_default_context()
print(len(c.get_ciphers()))
a = ssl.MemoryBIO()
s = c.wrap_bio(a, ssl.MemoryBIO(), server_hostname='x.y')
try:
    s.do_handshake()
except ssl.SSLWantReadError:
    pass
