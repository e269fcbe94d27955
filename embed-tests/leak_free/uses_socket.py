import socket, select, selectors
a, b = socket.socketpair()
a.send(b'x')
print(b.recv(1), socket.getaddrinfo('localhost', 80)[0][0])
s = selectors.DefaultSelector()
s.register(a, 1)
s.close()
a.close()
b.close()
