"""Tasks with a budget of 24 MiB below Celery (prefork, threads) and dramatiq: tells as JSON how each kind of task ended, how often.

    pyhost tasks.py celery-prefork|celery-threads|dramatiq COUNT
"""

import collections
import functools
import json
import sys
import tempfile

import app
import pyhost


def budgeted(function):
    """Celery's pool of processes ends its master for a MemoryError of a task, and for no other error."""
    limited = pyhost.budget(app.BUDGET, name=function.__name__)(function)

    @functools.wraps(function)
    def task():
        try:
            return limited()
        except MemoryError as error:
            raise RuntimeError("out of budget") from error

    return task


def celery(pool, count):
    from celery import Celery
    from celery.contrib.testing.worker import start_worker

    with tempfile.TemporaryDirectory() as folder:
        queue = Celery("tasks", broker="memory://", backend=f"file://{folder}", set_as_current=True)
        queue.conf.update(worker_hijack_root_logger=False, worker_prefetch_multiplier=1,
                          broker_transport_options={"polling_interval": 0.01})
        tasks = {name: queue.task(name=name)(budgeted(function)) for name, function in app.ROUTES.items()}
        with start_worker(queue, pool=pool, concurrency=4, perform_ping_check=False, loglevel="CRITICAL"):
            asked = [(name, tasks[name].delay()) for name in order(count)]
            for name, result in asked:
                yield name, ending(functools.partial(result.get, timeout=120, interval=0.01))


def dramatiq(_, count):
    import dramatiq as library
    from dramatiq.brokers.stub import StubBroker
    from dramatiq.middleware import Retries
    from dramatiq.results import Results
    from dramatiq.results.backends import StubBackend

    # A task that fails is not tried again: its error is the result.
    broker = StubBroker(middleware=[Results(backend=StubBackend(), store_results=True), Retries(max_retries=0)])
    library.set_broker(broker)
    tasks = {name: library.actor(budgeted(function), broker=broker, actor_name=name) for name, function in app.ROUTES.items()}
    worker = library.Worker(broker, worker_threads=4, worker_timeout=100)
    worker.start()
    try:
        asked = [(name, tasks[name].send()) for name in order(count)]
        for name, message in asked:
            yield name, ending(functools.partial(message.get_result, block=True, timeout=120_000))
    finally:
        worker.stop()


def order(count):
    """The names of the tasks, mixed: of the two that take much a tenth and a twentieth."""
    names = ["small"] * count + ["leak"] * count + ["huge"] * (count // 10) + ["strings"] * (count // 20)
    return [names[index * 37 % len(names)] for index in range(len(names))]


def ending(result):
    try:
        result()
    except Exception as error:
        return "out of budget" if "out of budget" in str(error) else repr(error)
    return "done"


def main(kind, count):
    library, _, pool = kind.partition("-")
    ended = collections.Counter(f"{name}: {end}" for name, end in globals()[library](pool, int(count)))
    print(json.dumps(ended))


if __name__ == "__main__":
    main(*sys.argv[1:])
