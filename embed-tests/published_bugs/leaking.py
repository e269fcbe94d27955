"""Calls of published extensions that leak: a function each, by the name of its row in leaks.py.

`leaking.py NAME` under the host prints what pyhost.leaks() finds, and as its last line the same as JSON. Under another Python it
prints by how many bytes the resident size grows with every call.
"""

import contextlib
import gc
import json
import sys


def automaton():
    import ahocorasick

    made = ahocorasick.Automaton()
    for number, word in enumerate(("he", "her", "hers", "she")):
        made.add_word(word, number)
    made.make_automaton()
    return made


def ahocorasick_dump():
    made = automaton()
    return lambda: made.dump()


def ahocorasick_pickle():
    import pickle

    made = automaton()
    return lambda: pickle.dumps(made)


def marisa_frombytes():
    import marisa_trie

    def call():
        with contextlib.suppress(Exception):
            marisa_trie.Trie().frombytes(b"junk")
    return call


def igraph_multilevel():
    import igraph

    graph = igraph.Graph.Famous("Zachary")
    return lambda: graph.community_multilevel()


def igraph_adjacency():
    import igraph

    def call():
        with contextlib.suppress(Exception):
            igraph.Graph.Adjacency([[1, "x"], [0, 0]])
    return call


def gmpy2_pack():
    import gmpy2

    def call():
        with contextlib.suppress(Exception):
            gmpy2.pack([1, "x"], 8)
    return call


def annoy_metric():
    import annoy

    def call():
        with contextlib.suppress(Exception):
            annoy.AnnoyIndex("x")
    return call


def editdistance_eval():
    import editdistance

    def call():
        with contextlib.suppress(Exception):
            editdistance.eval([[]], [1])
    return call


def tokenizers_train():
    from tokenizers import Tokenizer, models, trainers

    texts = ["one two three"]
    return lambda: Tokenizer(models.BPE()).train_from_iterator(texts, trainers.BpeTrainer(show_progress=False))


def blosc2_asarray():
    import blosc2
    import numpy

    values = numpy.arange(5000)
    return lambda: blosc2.asarray(values)


def bottleneck_rankdata():
    import bottleneck
    import numpy

    return lambda: bottleneck.rankdata(numpy.ones((2, 500)))


def numba_overload():
    import numba

    def function(value):
        return value

    made = numba.njit(function)
    made(1)
    [compiled] = made.overloads.values()
    codes = [kind._code for kind in compiled.signature.args]
    return lambda: numba.njit(function)._insert(codes, compiled.entry_point)


def hnswlib_load():
    import hnswlib

    index = hnswlib.Index(space="l2", dim=4)
    index.init_index(max_elements=10)
    with contextlib.suppress(RuntimeError):
        index.load_index("/nonexistent/file")
    del index
    sys.exit()


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def growth(call, calls):
    """The resident bytes a call over the second and the third of three parts: the smaller one."""
    sizes = []
    for _ in range(3):
        for _ in range(calls):
            call()
        gc.collect()
        sizes.append(resident())
    return min(after - before for before, after in zip(sizes, sizes[1:])) / calls


call = globals()[sys.argv[1]]()
if len(sys.argv) > 2:
    print(growth(call, int(sys.argv[2])))
else:
    import pyhost

    found = pyhost.leaks(call)
    print(found)
    print(json.dumps(found.to_dict()))
