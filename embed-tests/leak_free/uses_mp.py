import multiprocessing as m

def f(x):
    return x * x
if __name__ == '__main__':
    with m.get_context('fork').Pool(2) as p:
        print(p.map(f, range(10)))
