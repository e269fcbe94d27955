"""The steps that the scripts share: grow until refused, drop all, go on with other work, say so in the last line."""

import json


def until_refused(step, drop):
    """Calls `step` until it raises MemoryError, which is caught, then `drop`."""
    try:
        while True:
            step()
    except MemoryError:
        pass
    drop()
    finish()


def finish(what="caught"):
    rows = [{"id": i, "name": "row %d" % i} for i in range(2000)]
    assert json.loads(json.dumps(rows)) == rows
    print("%s; finished" % what, flush=True)
