"""For mypy: it must reveal these types of the module, and find the one mistake."""
from __future__ import annotations

import pyhost
import pyhost.wsgi


@pyhost.track
def bare(number: int) -> str:
    return str(number)


@pyhost.track(account="obj")
def of_an_account(number: int) -> str:
    return str(number)


@pyhost.profile
def by_line(number: int) -> str:
    return str(number)


reveal_type(by_line(3))
reveal_type(by_line.profile.rows[0]["hits"])
reveal_type(bare(3))
reveal_type(of_an_account.last_track)
with pyhost.track() as t:
    of_an_account(3)
reveal_type(t)
reveal_type(t.accounts["obj"].peak_bytes)
reveal_type(pyhost.snapshot().diff(pyhost.snapshot())["total"])
reveal_type(pyhost.numpy_memory_map(text=True))
reveal_type(pyhost.wsgi.Budget(None, "1M").peaks)
pyhost.set_cap("64M", "no account")
