"""Middleware that gives each request a budget: pyhost.wsgi.Budget and pyhost.asgi.Budget."""

import sys
from types import ModuleType

from pyhost import budget

# How many routes a middleware keeps apart; what comes later is `other`.
_ROUTES = 100
_TEXT = b"The request needs more memory than it may have.\n"


class _Budget:
    """Each request is a unit that may have `size`: past it the request fails with 503, and no other one.

    An error that the application made a 500 of is a 503 as well. retry_after is the seconds of that header. `route` names a request, for
    last_refusal() and for `peaks`: it is called with the environ or scope; without it the name is the method, and the framework's pattern or
    the path. peaks has the highest peak of each of the first 100 names, in bytes; the rest share the name 'other'.
    """

    def __init__(self, app, size, *, retry_after=1, route=None):
        budget(size)  # a wrong size is an error here
        self.app, self.size, self.retry_after, self.peaks = app, size, str(retry_after), {}
        self._route = route or self._path

    def _note(self, unit, request):
        name = self._route(request)
        if name not in self.peaks and len(self.peaks) >= _ROUTES:
            name = "other"
        self.peaks[name] = max(self.peaks.get(name, 0), unit.peak_bytes)


class _WsgiBudget(_Budget):
    __doc__ = _Budget.__doc__

    @staticmethod
    def _path(environ):
        rule = getattr(environ.get("werkzeug.request"), "url_rule", None)
        return f"{environ.get('REQUEST_METHOD', '')} {rule or environ.get('PATH_INFO', '')}"

    def __call__(self, environ, start_response):
        unit = budget(self.size, name=self._route(environ))
        retry = ("Retry-After", self.retry_after)

        def begin(status, headers, *error):
            if unit.refused and status.startswith("500"):
                status, headers = "503 Service Unavailable", [*headers, retry]
            return start_response(status, headers, *error)

        def fail():
            headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(_TEXT))), retry]
            start_response("503 Service Unavailable", headers, sys.exc_info())
            return _TEXT

        try:
            with unit:
                body = self.app(environ, begin)
        except MemoryError:
            if not unit.refused:
                raise
            self._note(unit, environ)
            return [fail()]
        return _Body(self, unit, environ, body, fail)


class _Body:
    """The parts of an answer, each made in the unit."""

    def __init__(self, middleware, unit, environ, body, fail):
        self.middleware, self.unit, self.environ, self.body, self.fail = middleware, unit, environ, body, fail
        self.parts = None

    def __iter__(self):
        return self

    def __next__(self):
        try:
            with self.unit:
                if self.parts is not None:
                    return next(self.parts)
                self.parts = iter(self.body)
                return next(self.parts)
        except MemoryError:
            if self.fail is None or not self.unit.refused:
                raise
            self.parts = iter(())
            return self.fail()
        finally:
            self.fail = None  # the answer has begun

    def close(self):
        try:
            with self.unit:
                getattr(self.body, "close", int)()
        finally:
            self.middleware._note(self.unit, self.environ)


class _AsgiBudget(_Budget):
    __doc__ = _Budget.__doc__

    @staticmethod
    def _path(scope):
        return f"{scope.get('method', '')} {getattr(scope.get('route'), 'path', None) or scope.get('path', '')}"

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
        headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(_TEXT)).encode()), retry]
        await send({"type": "http.response.start", "status": 503, "headers": headers})
        await send({"type": "http.response.body", "body": _TEXT})


def _module(name, middleware):
    module = ModuleType(f"pyhost.{name}", middleware.__doc__)
    middleware.__name__ = middleware.__qualname__ = "Budget"
    middleware.__module__, module.Budget = module.__name__, middleware
    return sys.modules.setdefault(module.__name__, module)


wsgi, asgi = _module("wsgi", _WsgiBudget), _module("asgi", _AsgiBudget)
