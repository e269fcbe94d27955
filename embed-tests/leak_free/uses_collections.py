from collections import *
P = namedtuple('P', 'x y')
print(P(1, 2)._replace(x=3), Counter('aabb'), OrderedDict(a=1), deque(range(5), 3), defaultdict(list), ChainMap({}, {}))
