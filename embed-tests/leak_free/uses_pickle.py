import pickle, copy, marshal

class A:
    pass
a = A()
a.b = [a, {1: 2}]
print(pickle.loads(pickle.dumps(a)).b[1], copy.deepcopy(a).b[1], marshal.loads(marshal.dumps([1, (2,)])))
