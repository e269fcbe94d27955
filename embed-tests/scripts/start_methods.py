"""A pool by every start method of multiprocessing; the workers say whether a host runs them."""
import multiprocessing


def work(number):
    try:
        import pyhost
        hosted = pyhost.memory_stats()["total"]["live_bytes"] > 0
    except ImportError:
        hosted = False
    return number * number, hosted


if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            results = pool.map(work, range(4))
        hosted = "hosted" if all(result[1] for result in results) else "not hosted"
        print(method, [result[0] for result in results], hosted)
