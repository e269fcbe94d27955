import tracemalloc

tracemalloc.start(3)
kept = [str(number) for number in range(1000)]
print(len(tracemalloc.take_snapshot().statistics("lineno")) > 0)
tracemalloc.stop()
