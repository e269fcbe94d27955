import threading, queue
q = queue.Queue()

def w():
    while (x := q.get()) is not None:
        [str(i) for i in range(x)]
ts = [threading.Thread(target=w) for _ in range(4)]
[t.start() for t in ts]
[q.put(i) for i in range(100)]
[q.put(None) for t in ts]
[t.join() for t in ts]
