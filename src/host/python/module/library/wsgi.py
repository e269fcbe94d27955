"""Middleware for WSGI that gives each request a budget."""

import sys

from pyhost import _Budget, budget


class Budget(_Budget):
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
            headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(self._text))), retry]
            start_response("503 Service Unavailable", headers, sys.exc_info())
            return self._text

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
                if self.parts is None:
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
