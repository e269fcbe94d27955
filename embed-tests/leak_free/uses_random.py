import random, statistics, fractions, math, cmath, heapq, bisect, array, struct, uuid, secrets, string, textwrap, difflib
random.seed(1)
print(random.random(), statistics.stdev([1, 2, 3]), fractions.Fraction(1, 3) + 1, uuid.uuid4().version, struct.pack('<id', 1, 2.0), difflib.unified_diff(['a'], ['b']), string.Template('$a').substitute(a=1), 10 ** 2000 % 7, float('1e300') * 10000000000.0)
