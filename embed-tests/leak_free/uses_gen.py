import itertools, functools, contextlib, weakref, types

@functools.lru_cache
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

@contextlib.contextmanager
def c():
    yield 1
with c() as x:
    print(fib(50), list(itertools.islice(itertools.count(), 5)), x)

class A:
    pass
a = A()
w = weakref.ref(a)
f = weakref.finalize(a, print, 'fin')
g = (i for i in range(3))
next(g)

class B:

    def __del__(self):
        pass
b = B()
b.b = b
