from collections.abc import Callable, Iterable
from typing import Any

from pyhost import _Budget

def __dir__() -> list[str]: ...

class Budget(_Budget):
    """Middleware for WSGI: each request is a unit."""

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]: ...
