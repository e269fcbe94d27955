import multiprocessing as m

def f(q):
    q.put([1] * 1000)
if __name__ == '__main__':
    c = m.get_context('fork')
    q = c.Queue()
    p = c.Process(target=f, args=(q,))
    p.start()
    print(len(q.get()))
    p.join()
