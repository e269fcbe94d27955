"""The magic %pyhost and %%pyhost of IPython: %load_ext pyhost.

Run when IPython asks for it, and not before; in a Python without the host, too, where nothing is measured.
"""

import ast
import re
import sys

import pyhost

if pyhost.active:
    from pyhost import _at, _bundle, _signed, _text

_OPTION = re.compile(r"\s*(?:(-a|--account)|(-o|--output))(?:\s+|=)(\S+)(?=\s|$)")
_USAGE = "expected %pyhost [-a ACCOUNT] [-o NAME] STATEMENT, or %%pyhost [-a ACCOUNT] [-o NAME] above a cell"
_NOT_HOSTED = ("pyhost: nothing is measured, since this Python does not run under the host; start the kernel, or IPython, "
               "by 'pyhost -m'; 'pyhostctl install-kernel' makes such a kernel")


def load_ipython_extension(shell):
    """Define %pyhost and %%pyhost: run a statement or a cell, and show what it does to the memory of the process."""
    def run(line, cell=None):
        return _run(shell, line, cell)

    run.__doc__ = """Run a statement or a cell, and show what it does to the memory of the process, by account and by line.

        %pyhost rows = load()
        %%pyhost -a obj -o t

    -a, --account ACCOUNT   the account whose peak is looked for; all together without it
    -o, --output NAME       assign the pyhost.track to a variable
    %pyhost alone shows the figures of the process.
    """
    shell.register_magic_function(run, "line_cell", "pyhost")


def unload_ipython_extension(shell):
    """Take %pyhost and %%pyhost away."""
    for magics in shell.magics_manager.magics.values():
        magics.pop("pyhost", None)


def _run(shell, line, cell):
    from IPython.core.error import UsageError
    from IPython.display import display

    options, rest = _options(line)
    if rest.startswith("-") or cell is not None and rest:
        raise UsageError(f"pyhost: '{rest}': {_USAGE}")
    if options["output"] and not options["output"].isidentifier():
        raise UsageError(f"pyhost: '{options['output']}' is no name of a variable; {_USAGE}")
    if cell is None and not rest:
        if pyhost.active:
            text = pyhost.memory_summary()
            for file in getattr(shell.compile, "_filename_map", ()):
                text = text.replace(f"{file}:", f"{_at(file)}, line ")
            print(text)
        else:
            print(_NOT_HOSTED, file=sys.stderr)
        return None
    # A line above, so that lines have the numbers that they have in the cell.
    source = shell.transform_cell(rest) if cell is None else "\n" + shell.transform_cell(cell)
    parts = list(_compiled(shell, source, cell or rest))
    if not pyhost.active:
        print(_NOT_HOSTED, file=sys.stderr)
        return _executed(parts, shell.user_ns)
    try:
        tracked = pyhost.track(account=options["account"])
    except ValueError as error:
        raise UsageError(f"pyhost: {error}") from None
    before = pyhost.snapshot().resident_bytes
    try:
        with tracked:
            value = _executed(parts, shell.user_ns)
    finally:
        if options["output"]:
            shell.user_ns[options["output"]] = tracked
        display(_Shown(tracked, before, pyhost.snapshot().resident_bytes))
    return value


class _Shown:
    """A track, with what the process had resident before and after."""

    def __init__(self, tracked, before, after):
        self.tracked = tracked
        self.resident = f"resident: {_text(before)} before, {_text(after)} after, {_signed(after - before)}"

    def __str__(self):
        return f"{self.tracked}\n{self.resident}"

    def _repr_html_(self):
        return f"{self.tracked._repr_html_()}\n<p>{self.resident}</p>"

    def _repr_mimebundle_(self, include=None, exclude=None):
        return _bundle(self)


def _options(line):
    options = {"account": None, "output": None}
    found = _OPTION.match(line)
    while found:
        options["account" if found[1] else "output"] = found[3]
        line = line[found.end():]
        found = _OPTION.match(line)
    return options, line.strip()


def _compiled(shell, source, raw):
    """The code of a cell, and that of its last expression, whose value is shown."""
    file = shell.compile.cache(source, _number(shell), raw_code=raw)
    tree = shell.transform_ast(shell.compile.ast_parse(source, filename=file))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    yield shell.compile(tree, file, "exec")
    if last is not None:
        yield shell.compile(ast.Expression(last.value), file, "eval")


def _number(shell):
    """The number of the cell that runs. IPython 9 has counted on by then."""
    cells = getattr(shell.compile, "_filename_map", {})
    frame = sys._getframe()
    while frame and frame.f_code.co_filename not in cells:
        frame = frame.f_back
    return cells[frame.f_code.co_filename] if frame else shell.execution_count


def _executed(parts, names):
    value = None
    for code in parts:
        value = eval(code, names)
    return value
