"""Tests for pytest to run with the host's plugin: each takes a known amount, some have limits, some pass them."""
import asyncio
import sysconfig
import threading
import unittest

import pytest

MIB = 1 << 20
# CPython's own mimalloc has large objects in multiples of 512 KiB.
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def take(mebibytes):
    """Has so much live for a moment."""
    return len(bytes(mebibytes * MIB))


@pytest.fixture
def large():
    """Larger than every limit here, set up before the test's call and torn down after it."""
    data = bytes(40 * MIB)
    yield data
    del data
    bytes(50 * MIB)


def test_small():
    take(1)


@pytest.mark.limit_memory("24 MB")
def test_below_its_limit():
    take(20)


@pytest.mark.limit_memory("24 MB")
def test_above_its_limit():
    take(26 if FREE_THREADED else 25)


@pytest.mark.limit_memory("24MiB", account="obj")
def test_above_in_an_account():
    take(25)


@pytest.mark.limit_memory("1 MB", account="mem")
def test_other_accounts_do_not_count():
    take(25)


@pytest.mark.limit_memory("10 MB")
def test_fixtures_do_not_count(large):
    assert len(large) == 40 * MIB


@pytest.mark.limit_memory("10 MB")
@pytest.mark.parametrize("mebibytes", [2, 5, 12])
def test_by_parameter(mebibytes):
    take(mebibytes)


@pytest.mark.limit_memory("1 MB")
def test_fails_by_itself():
    take(5)
    raise ValueError("its own error")


@pytest.mark.xfail(strict=True)
@pytest.mark.limit_memory("1 MB")
def test_expected_to_be_above():
    take(5)


@pytest.mark.limit_memory("24 parsecs")
def test_bad_size():
    pass


@pytest.mark.limit_memory("1 MB", account="heap")
def test_bad_account():
    pass


@pytest.mark.limit_memory("10 MB")
def test_threads_count():
    thread = threading.Thread(target=take, args=(15,))
    thread.start()
    thread.join()


@pytest.mark.asyncio
@pytest.mark.limit_memory("10 MB")
async def test_asynchronous():
    await asyncio.sleep(0)
    take(15)


@pytest.mark.limit_memory("10 MB")
class TestOfUnittest(unittest.TestCase):
    def test_below(self):
        take(5)

    def test_above(self):
        take(15)


class TestGroup:
    pytestmark = pytest.mark.limit_memory("10 MB")

    def test_below(self):
        take(5)

    @pytest.mark.limit_memory("30 MB")
    def test_own_marker_wins(self):
        take(15)
