"""Takes the last item out of each of a hundred dictionaries."""

from multidict import MultiDict

for _ in range(100):
    MultiDict(accept="text/html").pop("accept")
