"""Several interpreters, by `concurrent.interpreters` and a pool of them (CPython 3.14)."""

from concurrent import interpreters
from concurrent.futures import InterpreterPoolExecutor


def square(number):
    return number * number


made = interpreters.create()
queue = interpreters.create_queue()
made.prepare_main(text="given", queue=queue)
made.exec("kept = [text] * 3; data = bytearray(b'x' * 100_000)")
print(made.call(square, 12))
made.exec("queue.put(kept); queue.put(memoryview(data)); queue.put((1, 2.5, None))")
print(queue.get(), len(queue.get()), queue.get())
try:
    made.exec("1 / 0")
except interpreters.ExecutionFailed as error:
    print(error.excinfo.type.__name__, error.excinfo.msg)
made.close()
with InterpreterPoolExecutor(3) as pool:
    print(list(pool.map(square, range(20))))
print("interpreters", len(interpreters.list_all()))
