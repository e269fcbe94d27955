"""Dask: a task that passes its worker's cap fails with MemoryError, and the client submits its halves.

    pyhost --cap 128M --stats='file=reports/%p.json' with_dask.py
"""

from dask.distributed import Client, LocalCluster, as_completed

from work import RANGES, finish, total


def main():
    # The cap is the host's. With a memory_limit of its own Dask would end a worker by its resident size.
    with LocalCluster(n_workers=2, threads_per_worker=1, memory_limit=0, dashboard_address=None) as cluster, \
            Client(cluster) as client:
        def submit(numbers):
            task = client.submit(total, *numbers, pure=False)
            ranges[task] = numbers
            return task

        ranges, results = {}, []
        tasks = as_completed([submit(numbers) for numbers in RANGES])
        for task in tasks:
            first, last = ranges.pop(task)
            try:
                results.append((*task.result(), 1))
            except MemoryError:
                middle = (first + last) // 2
                tasks.update([submit((first, middle)), submit((middle, last))])
    finish(results)


if __name__ == "__main__":
    main()
