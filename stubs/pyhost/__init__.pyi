"""Memory figures of this process, kept by the host that runs it (docs/python.md). Bytes are those that the blocks
really take. For type checkers: MYPYPATH=stubs, or this folder in the one that your checker reads stubs from.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, FrameType, TracebackType
from typing import Any, Literal, NamedTuple, Protocol, TypedDict, final, overload

from typing_extensions import NotRequired, ParamSpec, Self, TypeAlias, TypeVar

_Account: TypeAlias = Literal["raw", "mem", "obj", "arena", "numpy", "native", "mapped"]
_Scope: TypeAlias = Literal["raw", "mem", "obj", "arena", "numpy", "native", "mapped", "total"]
# "owned" is the total without the maps of libraries.
_CapScope: TypeAlias = Literal["raw", "mem", "obj", "arena", "numpy", "native", "mapped", "total", "owned"]
# A number of bytes, or a text such as "64M": K, M, G are powers of 1024, KB, MB, GB of 1000.
_Size: TypeAlias = int | str

_P = ParamSpec("_P")
_R_co = TypeVar("_R_co", covariant=True)
_F = TypeVar("_F", bound=Callable[[], object])

class _Refusal(TypedDict):
    number: int
    scope: _Scope | Literal["region", "budget"]
    account: _Account
    size_bytes: int
    cap_bytes: int
    live_bytes: int
    maps_bytes: int
    how: Literal["null", "raised", "fatal"]
    limit: _LimitOfRefusal | None
    budget: _BudgetOfRefusal | None
    traceback: list[str]

class _LimitOfRefusal(TypedDict):
    bytes: int
    base_bytes: int
    file: str
    line: int

class _BudgetOfRefusal(TypedDict):
    name: str
    bytes: int
    error_bytes: int

class _BigBlock(TypedDict):
    account: _Account
    size_bytes: int
    age_seconds: float
    file: str | None
    line: int | None

class _NumpyMap(TypedDict):
    region: dict[str, Any]
    bins: list[dict[str, int | None]]
    chunks: list[dict[str, int | None]]

class _SizeClass(TypedDict):
    block_bytes: int
    live_blocks: int
    live_bytes: int
    capacity_bytes: int

class _BalanceRow(TypedDict):
    name: str
    kind: Literal["account", "heap", "file", "stack", "anonymous"]
    resident_bytes: int

class _MappedBy(TypedDict):
    library: str
    mapped_bytes: int
    resident_bytes: int

class _Balance(TypedDict):
    resident_bytes: int
    rows: list[_BalanceRow]
    mapped: list[_MappedBy]
    remainder_bytes: int

_Heap: TypeAlias = Literal["raw", "mem", "obj", "numpy", "native"]

# Whether the host runs this Python. Where it is False, track() and mark() do nothing, and all else that needs the host
# raises RuntimeError.
active: bool

def __dir__() -> list[str]: ...

# --- figures

def memory_stats() -> dict[str, Any]:
    """The figures of this moment, as in a JSON report (docs/observe/report.md)."""

class _Call(TypedDict):
    file: str
    line: int
    function: str
    # Of a native call: the address of its instruction in the library, which is the file.
    offset: NotRequired[int]

class _Type(TypedDict):
    type: str
    bytes: int
    blocks: int
    error_bytes: int

class _Row(TypedDict):
    account: _Account
    bytes: int
    blocks: int
    error_bytes: int
    # In live and grown of lines().
    age_seconds: NotRequired[float | None]
    # In live of lines().
    types: NotRequired[list[_Type]]
    thread: str
    # The innermost call first.
    stack: list[_Call]

class _Line(TypedDict):
    account: _Account
    accounts: list[_Account]
    bytes: int
    blocks: int
    error_bytes: int
    # None outside of Python code.
    file: str | None
    line: int | None
    function: str | None
    # The package that the line called.
    package: str | None

class Lines(dict[str, Any]):
    """Which lines allocated: plain values, as in a JSON report. print() and notebooks show it as a table.

    The views are lists of _Row, most bytes first. Those of lines() are at_peak, at_account_peak, live, allocated and
    grown; those of a track are at_peak, grown and allocated. In grown of lines() a stack that shrank has bytes and blocks
    below zero, and rows are in the order of their bytes without the sign.
    """

    def top(self, count: int = 10, view: str = "at_peak", account: str | None = None) -> list[_Line]:
        """The lines of your own code with the most bytes in a view; of grown those that grew.

        Of one account, or of all that are part of the total.
        """

    def _repr_html_(self) -> str: ...
    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]: ...
    def _repr_pretty_(self, printer: Any, cycle: bool) -> None: ...

def lines() -> Lines | None:
    """Which lines of Python allocated; None without --lines (docs/observe/lines.md)."""

def check_heap() -> list[str]:
    """A text for each block of --debug-hooks that was written to where or when nobody may (docs/debug/extension-authors.md)."""

def memory_summary() -> str:
    """The figures of this moment as a table for people."""

def reset_peak_memory_stats() -> None:
    """Start every account's peak anew from what is live now."""

def mark(name: str, /) -> None:
    """Name this moment: the timeline of --timeline and pyhostctl report show it (docs/observe/live.md)."""

@overload
def size_histogram(account: None = None) -> dict[_Heap, list[_SizeClass]]: ...
@overload
def size_histogram(account: _Heap) -> list[_SizeClass]:
    """Live blocks by size class, smallest first, by a walk of the account's heap (docs/observe/balance.md)."""

@overload
def fragmentation(account: None = None) -> dict[_Heap, float]: ...
@overload
def fragmentation(account: _Heap) -> float:
    """The part of what an account's pages hold that is not live, from 0.0 to 1.0."""

def balance_sheet() -> _Balance | None:
    """The resident size of this moment, row by row; None if the kernel does not provide it."""

def snapshot() -> Snapshot:
    """The figures of this moment; a.diff(b) is the change from one to another."""

class _Frozen:
    """A value: immutable, compared, hashed and pickled by its fields."""

    def __init__(self, *values: object) -> None: ...
    def __setattr__(self, name: str, value: object = None) -> None: ...
    def __delattr__(self, name: str, value: object = None) -> None: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    def to_dict(self) -> dict[str, Any]:
        """The fields as a dictionary of plain values, which json.dumps takes."""

class Figures(_Frozen):
    """One account at the moment of a snapshot."""

    @property
    def live_bytes(self) -> int: ...
    @property
    def peak_bytes(self) -> int: ...
    @property
    def live_blocks(self) -> int: ...
    @property
    def total_blocks(self) -> int: ...
    @property
    def refused(self) -> int: ...
    @property
    def failed(self) -> int: ...

class Snapshot(_Frozen):
    """The figures of one moment. Immutable; compares and pickles by value."""

    @property
    def time(self) -> float:
        """Seconds since the epoch."""

    @property
    def accounts(self) -> Mapping[_Account, Figures]: ...
    @property
    def total_live_bytes(self) -> int: ...
    @property
    def total_peak_bytes(self) -> int: ...
    @property
    def resident_bytes(self) -> int: ...
    @property
    def peak_resident_bytes(self) -> int: ...
    def diff(self, later: Snapshot) -> Diff:
        """What changed from this snapshot to a later one."""

class DiffRow(_Frozen):
    """What changed in one account, or in all together, between two snapshots."""

    @property
    def account(self) -> _Scope: ...
    @property
    def before_bytes(self) -> int: ...
    @property
    def after_bytes(self) -> int: ...
    @property
    def growth_bytes(self) -> int: ...
    @property
    def growth_blocks(self) -> int: ...
    @property
    def allocations(self) -> int: ...

class Diff(_Frozen):
    """What changed between two snapshots: a row an account. print() shows it as a table."""

    @property
    def seconds(self) -> float: ...
    @property
    def rows(self) -> tuple[DiffRow, ...]: ...
    @property
    def total(self) -> DiffRow: ...
    @property
    def resident_before_bytes(self) -> int: ...
    @property
    def resident_after_bytes(self) -> int: ...
    @property
    def resident_growth_bytes(self) -> int: ...
    def __iter__(self) -> Iterator[DiffRow]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, account: _Scope) -> DiffRow:
        """The row of an account, or of 'total'."""

# --- tracking

class TrackedAccount(_Frozen):
    """One account during a tracked block."""

    @property
    def peak_bytes(self) -> int: ...
    @property
    def peak_growth_bytes(self) -> int: ...
    @property
    def growth_bytes(self) -> int: ...
    @property
    def growth_blocks(self) -> int: ...
    @property
    def allocations(self) -> int: ...

class _Tracked(Protocol[_P, _R_co]):
    """A decorated function: each call is measured."""

    # Of the latest call to end; None before.
    last_track: track | None
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R_co: ...

@final
class track:
    """Context manager that measures what its block does to the memory of the process, and a decorator.

    The figures are those of account, or of all together where it is None; RuntimeError before the block.
    """

    @overload
    def __new__(cls, function: None = None, /, *, account: _Scope | None = None, precise: bool = False) -> Self: ...
    @overload
    def __new__(  # type: ignore[misc]
        cls, function: Callable[_P, _R_co], /, *, account: _Scope | None = None, precise: bool = False
    ) -> _Tracked[_P, _R_co]: ...
    def __call__(self, function: Callable[_P, _R_co], /) -> _Tracked[_P, _R_co]: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...
    @property
    def peak_bytes(self) -> int:
        """The most bytes that were live in the block."""

    @property
    def peak_growth_bytes(self) -> int:
        """How far that is above what was live at the begin."""

    @property
    def resident_peak_bytes(self) -> int:
        """The highest resident size of the process that was seen in the block."""

    @property
    def resident_peak_growth_bytes(self) -> int:
        """How far that is above the resident size at the begin."""

    @property
    def growth_bytes(self) -> int:
        """Live bytes at the end less those at the begin."""

    @property
    def growth_blocks(self) -> int: ...
    @property
    def allocations(self) -> int:
        """Blocks that were allocated in the block."""

    @property
    def threads(self) -> int:
        """How many other threads allocated meanwhile, at least."""

    @property
    def other_allocations(self) -> int:
        """Blocks that other threads allocated meanwhile; they are counted in the figures."""

    @property
    def seconds(self) -> float: ...
    @property
    def account(self) -> _Scope: ...
    @property
    def accounts(self) -> dict[_Account, TrackedAccount]: ...
    @property
    def lines(self) -> Lines | None:
        """Which lines grew in the block; None without --lines."""

    def _repr_html_(self) -> str: ...
    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]: ...

class LineProfile:
    """The lines of a function: what each added, its peak, its hits and its time, over all calls so far. print() shows a table."""

    name: str
    def __init__(self, name: str, codes: list[CodeType]) -> None: ...
    @property
    def rows(self) -> list[_LineRow]:
        """The lines that were reached."""

    def _repr_html_(self) -> str: ...
    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]: ...

class _LineRow(TypedDict):
    line: int
    other_threads: bool
    hits: int
    seconds: float
    peak_bytes: int
    peak_growth_bytes: int
    growth_bytes: int
    accounts: dict[_Account, int]

class _Profiled(Protocol[_P, _R_co]):
    """A decorated function."""

    profile: LineProfile
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R_co: ...

def profile(function: Callable[_P, _R_co], /) -> _Profiled[_P, _R_co]:
    """Decorator: measure each line of a function. It stays the object that it is; its table is printed on stderr at the end."""

# --- leaks by difference

class _LeakSize(TypedDict):
    account: _Account
    block_bytes: int
    blocks_per_call: int

class _LeakType(TypedDict):
    type: str
    objects_per_call: int
    # What holds the newest of them.
    held_by: str | None

class _LeakReference(TypedDict):
    object: str
    references_per_call: int
    # None if lines are traced already, or outside of Python code.
    file: str | None
    line: int | None
    function: str | None
    package: None

class _LeakLine(TypedDict):
    # None outside of Python code.
    file: str | None
    line: int | None
    function: str | None
    account: _Account
    # The package that the line called.
    package: str | None
    bytes_per_call: int
    blocks_per_call: int

class Leaks:
    """What a function leaves behind with every call, as leaks() returns it. True if there is anything; print() shows it."""

    def __init__(
        self,
        name: str,
        repeat: int,
        accounts: dict[_Account, tuple[int, int]],
        bounded: dict[_Account, int],
        sizes: Iterable[_LeakSize] = ...,
        types: Iterable[_LeakType] = ...,
        references: Iterable[_LeakReference] = ...,
        lines: list[_LeakLine] | None = ...,
        lines_are_sampled: bool = ...,
    ) -> None: ...
    name: str
    repeat: int
    # Bytes and blocks a call.
    accounts: dict[_Account, tuple[int, int]]
    # The bytes by which an account grew at most, that was given back or grew no further.
    bounded: dict[_Account, int]
    sizes: list[_LeakSize]
    # Of the objects that the garbage collector knows.
    types: list[_LeakType]
    # Of objects that stay, and have more references with every call, which no object that is known holds.
    references: list[_LeakReference]
    # None where no lines could be recorded.
    lines: list[_LeakLine] | None
    # Lines were recorded before, as by --lines: their figures are estimates.
    lines_are_sampled: bool
    @property
    def bytes_per_call(self) -> int:
        """Of all accounts but arena, whose blocks are obj's, and mapped."""

    @property
    def blocks_per_call(self) -> int: ...
    def __bool__(self) -> bool: ...
    def to_dict(self) -> dict[str, Any]:
        """All of it as a dictionary of plain values, which json.dumps takes."""

def leaks(function: Callable[[], object], *, repeat: int = 16, warmup: int = 4) -> Leaks:
    """Call a function again and again, and return what grows with every call (docs/python.md)."""

# --- objects that should be freed

class Kept:
    """An object that lives though it should be freed, and the chain of references that keeps it."""

    def __init__(self, **values: object) -> None: ...
    name: str | None
    # The object's type.
    type: str
    # Where expect_freed() was called, and how long ago.
    file: str
    line: int
    seconds: float
    # The chain as one text, such as "app.cache['user-7'].owner".
    path: str
    # Its steps, each with the type of the object that it leads to.
    chain: list[tuple[str, str]]
    # Direct references to the object beside that of the chain.
    other_references: int
    # Whether the search found a root.
    is_whole: bool

class Expected:
    """A watched object, as expect_freed() returns it. As a context manager it reports on stderr at the end."""

    def __init__(self, watched: object, name: str | None, after: float, frame: FrameType) -> None: ...
    name: str | None
    type: str
    file: str
    line: int
    @property
    def is_freed(self) -> bool: ...
    def check(self) -> Kept | None:
        """Collect garbage. None if the object is freed, else what keeps it."""

    def dismiss(self) -> None:
        """Watch the object no longer."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

def expect_freed(watched: object, name: str | None = None, *, after: float = 5.0) -> Expected:
    """Watch an object that should be freed soon; it is not kept alive. TypeError if it can have no weak reference."""

def check_expected() -> list[Kept]:
    """Collect garbage. What keeps each watched object that lives; an empty list if all are freed."""

# --- notebooks

def load_ipython_extension(shell: Any) -> None:
    """Define %pyhost and %%pyhost: %load_ext pyhost."""

def unload_ipython_extension(shell: Any) -> None:
    """Take them away."""

# --- caps

def set_cap(size: _Size | None, account: _CapScope | None = None, *, soft: bool = False) -> None:
    """Cap the live bytes of an account, or of all together with libraries' maps, from here on; None takes the cap away."""

def get_cap(account: _CapScope | None = None, *, soft: bool = False) -> int | None:
    """The cap in bytes; None without one."""

def headroom(account: _Scope | None = None) -> int | None:
    """The size of the largest request that is granted before the reserve; None without a cap."""

def last_refusal() -> _Refusal | None:
    """The last request that a cap refused."""

def big_blocks() -> list[_BigBlock]:
    """Every live block of a mebibyte and more, largest first."""

def on_pressure(function: _F, /) -> _F:
    """Have function() called when a soft cap is passed. Returns function."""

@final
class limit:
    """Context manager that caps how much an account, or all together, may grow while its block runs."""

    def __new__(cls, size: _Size, account: _CapScope | None = None) -> Self: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...

@final
class budget:
    """Context manager and decorator that bounds the live bytes that a unit of work has allocated (docs/limit/budgets.md)."""

    def __new__(cls, size: _Size, *, name: str | None = None) -> Self: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...
    def __call__(self, function: Callable[_P, _R_co], /) -> Callable[_P, _R_co]: ...
    @property
    def name(self) -> str | None: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def live_bytes(self) -> int:
        """The live bytes of the unit, with those of the budgets in it."""
    @property
    def peak_bytes(self) -> int: ...
    @property
    def error_bytes(self) -> int:
        """The standard error of live_bytes."""
    @property
    def refused(self) -> int:
        """How many errors the budget has caused."""

class Verdict(NamedTuple):
    """What came of a snippet; _asdict() makes a dictionary that JSON can hold."""

    reason: Literal["ok", "memory", "time", "error", "exit", "signal"]
    """memory: a MemoryError, or the cap's last resort."""
    result: Any
    """The value of the last expression, as JSON can hold it, else its repr()."""
    output: str
    """What was written to stdout and stderr, the first mebibyte."""
    error: str | None
    """The traceback."""
    status: int
    """The exit status, below zero for a signal."""
    seconds: float
    peak_bytes: int | None
    """The highest resident size; None if the process was killed."""
    lines: list[dict[str, Any]]
    """The ten lines with the most bytes then: file, line, function, bytes."""

def run(code: str, *, cap: _Size = "256M", seconds: float = 10, cwd: str | None = None) -> Verdict:
    """Run a snippet in a child process below a cap and a limit of time (docs/limit/snippets.md). Any thread.

    ValueError: the cap is not valid. OSError: no child could be started.
    """

class _Budget:
    """What the middleware of pyhost.wsgi and pyhost.asgi share."""

    peaks: dict[str, int]

    def __init__(
        self, app: Any, size: _Size, *, retry_after: int = 1, route: Callable[[Any], str] | None = None
    ) -> None: ...

# --- faults

@final
class fail:
    """Context manager: within its block requests for memory fail, in all threads. Needs --fail."""

    def __new__(cls, spec: str | None = None) -> Self: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...
    @property
    def requests(self) -> int:
        """How many requests its own rule counted."""

    @property
    def injected(self) -> int:
        """How many requests its own rule let fail."""

# --- NumPy and buffers

@overload
def numpy_memory_map(text: Literal[False] = False) -> _NumpyMap: ...
@overload
def numpy_memory_map(text: Literal[True]) -> str:
    """The region of --numpy bfc; RuntimeError if there is none."""

@final
class buffer:
    """A zeroed, writable C buffer of nbytes bytes, aligned to align, from an account's allocator."""

    def __new__(
        cls, nbytes: int, *, align: int = 64, account: Literal["raw", "mem", "obj", "numpy", "native"] = "numpy"
    ) -> Self: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def align(self) -> int: ...
    @property
    def address(self) -> int: ...
    @property
    def account(self) -> str: ...
