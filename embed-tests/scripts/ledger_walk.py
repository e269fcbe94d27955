"""The comparison that the exactness scripts share: the ledger of each domain with a walk of its heap's pages."""
import os
import sysconfig
import time

import pyhost


FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
# The domains that have heaps of the host's. free_threaded.py compares the other one.
NAMES = ("raw", "mem") if FREE_THREADED else ("raw", "mem", "obj")


def threads():
    return len(os.listdir("/proc/self/task"))


# Before the script starts one: of the process alone, or also of what emulates the processor.
AT_START = threads()


def wait_for_threads():
    """Wait until every other thread of the process has gone.

    Up to 3.12 `Thread.join()` returns before the thread has freed its PyThreadState, which it does in the raw domain
    and without the GIL (`_PyThreadState_DeleteCurrent`): a walk beside that free may miss the block or find it.
    """
    while threads() > AT_START:
        time.sleep(0.001)


def check(where):
    wait_for_threads()
    for name in NAMES:
        ledger_bytes, ledger_blocks, bytes_found, blocks_found = pyhost._walk(name)
        assert (ledger_bytes, ledger_blocks) == (bytes_found, blocks_found), (
            where, name, ledger_bytes, bytes_found, ledger_blocks, blocks_found)
