from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as e:
    print(sum(e.map(lambda x: x * x, range(100))))
