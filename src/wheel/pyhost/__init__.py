"""pyhost in a Python that the host does not run: it can be imported, and measures nothing.

Under the host (`pyhost script.py` or `python -m pyhost script.py`) the module of this name is built in, and this file
is not read.
"""

import warnings as _warnings
from importlib import import_module as _import_module

active = False

_NOT_HOSTED = "this Python does not run under the host; expected 'pyhost SCRIPT' or 'python -m pyhost SCRIPT'"


def _needs_host(name):
    def function(*_, **__):
        raise RuntimeError(f"pyhost.{name}: {_NOT_HOSTED}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Raise RuntimeError: there is no host."
    return function


for _name in (
    "balance_sheet", "big_blocks", "buffer", "fail", "fragmentation", "get_cap", "headroom", "last_refusal", "leaks",
    "limit", "lines", "memory_stats", "memory_summary", "numpy_memory_map", "on_pressure", "reset_peak_memory_stats", "set_cap",
    "size_histogram", "snapshot",
):
    globals()[_name] = _needs_host(_name)
del _name


def mark(name, /):
    """Do nothing: there is no timeline."""
    if not isinstance(name, str):
        raise TypeError("expected the name of a mark, a str")


def profile(function, /):
    """Return the function, of which no line is measured, with a warning."""
    _warnings.warn(f"pyhost.profile: no line is measured; {_NOT_HOSTED}", RuntimeWarning, stacklevel=2)
    return function


class track:
    """A block or function that is not measured: every figure is 0. The first one warns."""

    _has_warned = False

    def __new__(cls, function=None, /, *, account=None, precise=False):
        if not track._has_warned:
            track._has_warned = True
            _warnings.warn(f"pyhost.track: every figure is 0; {_NOT_HOSTED}", RuntimeWarning, stacklevel=2)
        self = super().__new__(cls)
        self.account = account or "total"
        return self if function is None else self(function)

    def __call__(self, function, /):
        from ._tracking import _wrap

        return _wrap(function, None if self.account == "total" else self.account, False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def __repr__(self):
        return f"pyhost.track: not measured; {_NOT_HOSTED}"

    peak_bytes = peak_growth_bytes = growth_bytes = growth_blocks = allocations = threads = other_allocations = 0
    seconds = 0.0

    @property
    def accounts(self):
        """No account is measured."""
        return {}


class budget:
    """A block or function that has no budget: nothing is refused, and every figure is 0. The first one warns."""

    _has_warned = False
    live_bytes = peak_bytes = error_bytes = refused = 0

    def __init__(self, size, *, name=None):
        if not budget._has_warned:
            budget._has_warned = True
            _warnings.warn(f"pyhost.budget: nothing is refused; {_NOT_HOSTED}", RuntimeWarning, stacklevel=2)
        self.name = name

    def __call__(self, function, /):
        return function

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


_ELSEWHERE = {
    "_middleware": ("_Budget",),
    "_run": ("run", "Verdict"),
    "_snapshots": ("Snapshot", "Figures", "Diff", "DiffRow", "_Frozen", "_at"),
    "_tracking": ("TrackedAccount",),
    "_expected": ("expect_freed", "check_expected", "Expected", "Kept"),
    "_notebook": ("load_ipython_extension", "unload_ipython_extension"),
}


def __getattr__(name):
    if name in ("wsgi", "asgi"):
        return _import_module(f".{name}", __name__)
    for module, names in _ELSEWHERE.items():
        if name in names:
            return getattr(_import_module(f".{module}", __name__), name)
    raise AttributeError(f"module 'pyhost' has no attribute '{name}'")


def _moment():
    raise RuntimeError(f"pyhost.snapshot: {_NOT_HOSTED}")


def _text(size):
    """A number of bytes as people read it."""
    if size < 1024:
        return f"{size} B"
    for unit in "KMGT":
        size /= 1024
        if size < 1024:
            break
    return f"{size:.1f} {unit}iB"
