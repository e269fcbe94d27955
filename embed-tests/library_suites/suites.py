"""The libraries' own tests that are run: each suite is some files or folders of them, run by pytest in one process.

FULL is all of NumPy's tests that allocate arrays, and of pandas, SciPy and scikit-learn a fixed choice of 10 to 60
seconds each that makes, copies and grows many arrays. SLICE is what every change can wait for.
"""

import dataclasses

LIBRARIES = ("numpy", "pandas", "scipy", "sklearn")


@dataclasses.dataclass(frozen=True)
class Suite:
    """Tests to run in one process: paths below the library's folder, CORE standing for NumPy's core package."""

    library: str
    name: str
    paths: tuple
    options: tuple = ()

    @property
    def title(self):
        return f"{self.library}.{self.name}"

    def arguments(self, site_packages):
        """Returns pytest's arguments: options, and those of the paths that this release of the library has."""
        core = "_core" if (site_packages / "numpy" / "_core" / "tests").is_dir() else "core"
        paths = [site_packages / self.library / path.replace(CORE, core) for path in self.paths]
        return (*self.options, *(str(path) for path in paths if path.exists()))


CORE = "CORE"  # numpy/_core, or before NumPy 2 numpy/core
NOT_SLOW = ("-m", "not slow")  # as pandas.test(), scipy.test() and numpy.test() choose by default
PANDAS = ("-m", "not slow and not network and not db")
# Runs most of NumPy's tests once more, within itself, where the handler is named default_allocator: not by the host.
NOT_AGAIN = ("--deselect", "numpy/core/tests/test_mem_policy.py::test_new_policy")

MEM_POLICY = Suite("numpy", "test_mem_policy", ("CORE/tests/test_mem_policy.py",), NOT_AGAIN)
SKLEARN_TREE = Suite("sklearn", "tree", ("tree/tests",))

FULL = (
    Suite("numpy", "core", ("CORE/tests",), NOT_AGAIN),
    Suite("numpy", "lib", ("lib/tests",)),
    Suite("numpy", "ma", ("ma/tests",)),
    Suite("numpy", "random", ("random/tests",)),
    Suite("numpy", "linalg", ("linalg/tests",)),
    Suite("numpy", "fft", ("fft/tests",)),
    MEM_POLICY,
    Suite("pandas", "frame.methods", ("tests/frame/methods",), PANDAS),
    Suite("pandas", "frame", (
        "tests/frame/test_constructors.py", "tests/frame/test_reductions.py", "tests/frame/indexing",
    ), PANDAS),
    Suite("pandas", "reshape", ("tests/reshape",), PANDAS),
    Suite("scipy", "linalg", ("linalg/tests",), NOT_SLOW),
    Suite("scipy", "sparse", ("sparse/tests/test_base.py", "sparse/linalg/tests"), NOT_SLOW),
    Suite("scipy", "fft", ("fft/tests", "fft/_pocketfft/tests"), NOT_SLOW),
    Suite("sklearn", "linear_model", (
        "linear_model/tests/test_ridge.py", "linear_model/tests/test_coordinate_descent.py",
    )),
    Suite("sklearn", "cluster", ("cluster/tests",)),
    SKLEARN_TREE,
)
SLICE = (
    Suite("numpy", "multiarray", ("CORE/tests/test_multiarray.py",), NOT_SLOW),
    Suite("numpy", "arrays", tuple(
        f"CORE/tests/test_{name}.py" for name in ("nditer", "regression", "indexing", "shape_base", "array_coercion")
    ), NOT_SLOW),
    Suite("numpy", "files", ("lib/tests/test_io.py", "lib/tests/test_format.py", "lib/tests/test_arraypad.py"),
          NOT_SLOW),
    MEM_POLICY,
    SKLEARN_TREE,
    Suite("scipy", "fft.tests", ("fft/tests",), NOT_SLOW),
    Suite("pandas", "groupby.aggregate", ("tests/groupby/aggregate",), PANDAS),
)


def chosen(libraries, in_slice):
    """Returns the suites of these libraries, in the order of the lists."""
    return [suite for suite in (SLICE if in_slice else FULL) if suite.library in libraries]
