"""Packs modules of the standard library into a zip as bytecode, and prints which extension modules they need.

Runs in a Python of the target's version on this machine, and reads the target's files:

    modules.py STANDARD_LIBRARY ZIP all|NAME,NAME,... [FOLDER...]      FOLDER: the application, packages; what they import comes
"""

import ast
import importlib.util
import io
import marshal
import modulefinder
import pathlib
import sys
import zipfile

# At every start, and by `python FILE|FOLDER|-m|-c`; the errors of a traceback; `import pyhost`.
START = "encodings io abc site os stat codecs runpy pkgutil zipimport importlib traceback linecache warnings threading json"
CODECS = """aliases ascii latin_1 utf_8 utf_8_sig utf_16 utf_16_le utf_16_be utf_32 utf_32_le utf_32_be idna punycode cp437
    cp1252 charmap unicode_escape raw_unicode_escape base64_codec hex_codec"""

# Imported by C code, or by a name that is computed.
HIDDEN = {
    "_asyncio": "asyncio",
    "_ctypes": "ctypes",
    "_datetime": "_strptime",
    "_decimal": "numbers collections",
    "_elementtree": "copy xml.etree.ElementPath",
    "_pickle": "copyreg _compat_pickle",
    "_socket": "encodings.idna",
    "_sqlite3": "sqlite3.dump sqlite3.dbapi2",
    "datetime": "_datetime _strptime",
    "sysconfig": "_sysconfigdata",
    "time": "_strptime",
    "zoneinfo": "_zoneinfo",
}
# Tests, what builds and what is for a terminal with a person at it. Those who name one get it.
LEFT_OUT = """__phello__ _pyrepl antigravity curses distutils doctest ensurepip idlelib lib2to3 pdb pydoc pydoc_data test this
    tkinter turtle turtledemo unittest venv _bootsubprocess _aix_support _osx_support _ios_support _android_support
    _apple_support""".split()
# In Python, by C module, for a Python that lacks it.
FALLBACKS = {"_decimal": "_pydecimal", "_datetime": "_pydatetime", "_io": "_pyio"}
LEFT_OUT_EXTENSIONS = ("_test", "_xxtest", "xxlimited", "_ctypes_test", "_tkinter", "_curses", "_xxsub", "_interp")


def is_left_out(name, named):
    first, *rest = name.split(".")
    return first in LEFT_OUT and first not in named or bool({"tests", "test", "idle_test"}.intersection(rest))


def name_of(path, library):
    parts = list(path.relative_to(library).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def all_modules(library):
    """Each file of the standard library that is a module, by name."""
    found = {}
    for path in library.rglob("*.py"):
        parts = path.relative_to(library).parts[:-1]
        if all((library.joinpath(*parts[: depth + 1]) / "__init__.py").exists() for depth in range(len(parts))):
            found[name_of(path, library)] = path
    return found


def extensions(library):
    """The extension modules by name, with the file of each; None for one that is in the executable."""
    table = library / "compiled-in"
    found = dict.fromkeys(table.read_text().split()) if table.exists() else {}
    return found | {path.name.split(".")[0]: path for path in (library / "lib-dynload").glob("*.so")}


def imported(folders):
    """The names that the Python files of folders import, at any place of their code."""
    names = set()
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        try:
            tree = ast.parse(path.read_bytes())
        except SyntaxError:
            continue  # a template, or for another version
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names.add(node.module)
                names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def closure(names, folders, library, native):
    """The modules that those named and the files of folders import, at any place of their code, and the extension modules
    among them."""
    named = {name.split(".")[0] for name in names}
    files = all_modules(library)
    excludes = [name for name in LEFT_OUT if name not in named]
    has = lambda name: name in native or name in sys.builtin_module_names  # noqa: E731
    excludes += [name for module, name in FALLBACKS.items() if has(module) and name not in named]
    finder = modulefinder.ModuleFinder([str(library)], excludes=excludes)
    wanted = START.split() + [f"encodings.{codec}" for codec in CODECS.split()] + names
    wanted += [name for name in files if name.split(".")[0] == "importlib"]
    of_folders = (name for name in imported(folders) if name in files or name in native)
    wanted += [name for name in of_folders if not is_left_out(name, named)]
    # A package that is named comes whole; one that another imports, as far as it is imported.
    wanted += [each for each in files if each.split(".")[0] in names and not is_left_out(each, named)]
    done = set()
    while True:
        for name in wanted:
            done.add(name)
            try:
                # The parent's name is bound to the submodule, as `import a.b` does.
                finder.import_hook(name)
            except ImportError:
                if name not in native and name not in sys.builtin_module_names:
                    # Another version's; or the user's mistake.
                    if name in names:
                        sys.exit(f"no module '{name}' in {library}")
        seen = set(finder.modules) | set(finder.badmodules)
        more = {word for name in seen if name in HIDDEN for word in HIDDEN[name].split()}
        if "_sysconfigdata" in more:
            more |= {name for name in files if name.startswith("_sysconfigdata__")}
        wanted = sorted(more - done)
        if not wanted:
            break
    modules = {name: files[name] for name in finder.modules if name in files and not is_left_out(name, named)}
    return modules, sorted(name for name in native if name in seen)


def bytecode(path, name, library):
    """The file of bytecode: of no date, with the name that the file would have in a Python below `/`."""
    label = f"/lib/{library.name}/{path.relative_to(library)}"
    code = compile(path.read_bytes(), label, "exec", dont_inherit=True, optimize=0)
    # Flags 1: never compared with a source.
    return importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8) + marshal.dumps(code)


def main():
    library, archive, chosen = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    folders = [pathlib.Path(folder) for folder in sys.argv[4:]]
    native = extensions(library)
    if chosen == "all":
        modules = {name: path for name, path in all_modules(library).items() if not is_left_out(name, set())}
        needed = [name for name in native if not name.startswith(LEFT_OUT_EXTENSIONS)]
    else:
        modules, needed = closure(chosen.split(","), folders, library, native)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as output:
        for name, path in sorted(modules.items()):
            entry = zipfile.ZipInfo(str(path.relative_to(library).with_suffix(".pyc")), (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            output.writestr(entry, bytecode(path, name, library), compresslevel=9)
    archive.write_bytes(packed.getvalue())
    for path in filter(None, (native[name] for name in sorted(needed))):
        print(path)


if __name__ == "__main__":
    main()
