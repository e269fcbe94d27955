"""Calls a published package again and again, as packages/ says.

    calls.py NAME COUNT        so many times
    calls.py NAME              prints what pyhost.leaks() finds, and as its last line the same as JSON
    calls.py NAME references   prints as JSON by how many the references to types and to None grow with a call
"""

import gc
import json
import sys
import time

from packages import PACKAGES

# Of None, some references are given back in the first hundred calls.
CALLS, SECONDS = 1000, 30


def references():
    """Returns the numbers of references to each type, to the types' dictionaries, and to None, by the names that pyhost.leaks() has."""
    found, kinds = {"None": sys.getrefcount(None)}, [object]
    seen = set(kinds)
    for kind in kinds:
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        found[f"the type {name}"] = found.get(f"the type {name}", 0) + sys.getrefcount(kind)
        [attributes] = gc.get_referents(type.__getattribute__(kind, "__dict__"))  # of their proxy
        name = f"an object of the type {type(attributes).__name__}"
        found[name] = found.get(name, 0) + sys.getrefcount(attributes)
        more = [one for one in type.__subclasses__(kind) if one not in seen]
        seen.update(more)
        kinds += more
    return found


def repeat(call, count):
    for _ in range(count):
        call()
    gc.collect()


call = PACKAGES[sys.argv[1]].prepare()
if len(sys.argv) == 2:
    import pyhost

    found = pyhost.leaks(call)
    print(found)
    print(json.dumps(found.to_dict()))
elif sys.argv[2] == "references":
    repeat(call, 8)
    references()  # the first one leaves something behind
    before = references()
    calls, begun = 0, time.monotonic()
    while calls < CALLS and time.monotonic() - begun < SECONDS:
        repeat(call, 20)
        calls += 20
    grown = {name: (count - before.get(name, count)) / calls for name, count in references().items()}
    print(json.dumps({name: by for name, by in grown.items() if by >= 0.25}))
else:
    repeat(call, int(sys.argv[2]))
