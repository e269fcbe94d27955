"""What pyhost.wsgi.Budget and pyhost.asgi.Budget share."""

from pyhost import budget

# How many routes a middleware keeps apart; what comes later is `other`.
_ROUTES = 100


class _Budget:
    """Each request is a unit that may have `size`: past it the request fails with 503, and no other one.

    An error that the application made a 500 of is a 503 as well. retry_after is the seconds of that header. `route` names a request, for
    last_refusal() and for `peaks`: it is called with the environ or scope; without it the name is the method, and the framework's pattern or
    the path. peaks has the highest peak of each of the first 100 names, in bytes; the rest share the name 'other'.
    """

    _text = b"The request needs more memory than it may have.\n"

    def __init__(self, app, size, *, retry_after=1, route=None):
        budget(size)  # a wrong size is an error here
        if type(retry_after) is not int or retry_after < 0:
            raise ValueError(f"Budget: bad value {retry_after!r} of retry_after; expected whole seconds, 0 or more")
        self.app, self.size, self.retry_after, self.peaks = app, size, str(retry_after), {}
        self._route = route or self._path

    def _note(self, unit, request):
        name = self._route(request)
        if name not in self.peaks and len(self.peaks) >= _ROUTES:
            name = "other"
        self.peaks[name] = max(self.peaks.get(name, 0), unit.peak_bytes)
