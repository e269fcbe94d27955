from typing import Any

from pyhost import _Budget

def __dir__() -> list[str]: ...

class Budget(_Budget):
    """Middleware for ASGI: each request is a unit."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...
