import atexit, gc
atexit.register(lambda: [object() for _ in range(10)])
gc.freeze()
l = []
l.append(l)
gc.disable()
