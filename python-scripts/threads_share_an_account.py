"""Eight threads allocate at once: their bytes are one account's, and none is lost or counted twice."""
import threading

results = []


def work(number):
    results.append(sum(len(bytes(size)) for size in range(number, 20_000, 97)))


threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(results))
