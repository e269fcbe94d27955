"""Middleware for ASGI that gives each request a budget."""

from pyhost import _Budget, budget


class Budget(_Budget):
    __doc__ = _Budget.__doc__

    @staticmethod
    def _path(scope):
        path = getattr(scope.get("route"), "path", None) or scope.get("path", "")
        return f"{scope['method']} {path}" if "method" in scope else path  # a websocket has none

    async def __call__(self, scope, receive, send):
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        unit, has_begun = budget(self.size, name=self._route(scope)), scope["type"] != "http"
        retry = (b"retry-after", self.retry_after.encode())

        async def send_on(message):
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                if unit.refused and message["status"] == 500:
                    message = {**message, "status": 503, "headers": [*message.get("headers", ()), retry]}
            await send(message)

        try:
            with unit:
                return await self.app(scope, receive, send_on)
        except MemoryError:
            if has_begun or not unit.refused:
                raise
        finally:
            self._note(unit, scope)
        headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(self._text)).encode()), retry]
        await send({"type": "http.response.start", "status": 503, "headers": headers})
        await send({"type": "http.response.body", "body": self._text})
