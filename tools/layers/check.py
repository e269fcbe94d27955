#!/usr/bin/env python3
"""Checks that the modules of a crate import only what lies below them.

    tools/layers/check.py [--edges]

A folder whose mod.rs does nothing but declare its modules is a group, and `a::b` is a module of the group a.
`order.txt` lists the modules of src/host from the lowest layer to the highest. A module may import modules of
lower layers only, so no cycle can arise. Each import that breaks the rule is printed as

    src/host/a.rs:7: module a (layer 3) imports b (layer 5)

The other crates of src are small and need no list: there, an import that is part of a cycle is printed as

    src/os/a.rs:7: module a imports b, which imports a again

In every crate, files of one module must not import each other in a circle either. Imports between a module's own file
(mod.rs) and the files in it do not count:

    src/host/a/x.rs:7: file a/x.rs imports a/y.rs, which imports a/x.rs again

In all these cases the exit status is 1. `--edges` prints all imports between the modules of each crate instead, with
their number.

An import is a path in the code: `use crate::{a, b::c}`, `crate::a::f()`, `super::super::a`. Comments, doc links and
strings are no imports. Items with `#[cfg(test)]` are left out: they are not part of the program. The crate's
root (lib.rs) wires the modules together and may use all of them; a module that imports a name from the root imports
what the root's `use` takes it from.
"""

import collections
import pathlib
import re
import sys
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HOST = "src/host"

# In this order: what is found first at a place is taken.
LEXEMES = re.compile(
    r"""
      (?P<comment>//[^\n]*)
    | (?P<block>/\*)
    | (?P<raw>\b(?:br|cr|r)(?P<hashes>\#*)")
    | (?P<string>\b[bc]?"(?:[^"\\]|\\.)*"|"(?:[^"\\]|\\.)*")
    | (?P<char>\bb?'(?:[^'\\\n]|\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.))'|'(?:[^'\\\n]|\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.))')
    | (?P<lifetime>'\w+)
    | (?P<word>(?:r\#)?[A-Za-z_]\w*)
    | (?P<number>\d\w*)
    | (?P<path>::)
    | (?P<space>\s+)
    | (?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
CODE = ("word", "path", "sign")


class Token(NamedTuple):
    text: str
    line: int


class Import(NamedTuple):
    """One import: `line` of `file` of `module` names `target`, another module of the crate's root, or another file."""

    file: str
    line: int
    module: str
    target: str


class Mistake(Exception):
    """Something that makes the check impossible: an order that does not fit, code that cannot be followed."""


def tokens(text):
    """The words, `::` and signs of Rust code, without comments, strings and character literals."""
    found, at, line = [], 0, 1
    while at < len(text):
        match = LEXEMES.match(text, at)
        kind, end = match.lastgroup, match.end()
        if match["raw"] is not None:
            kind, close = "raw", '"' + match["hashes"]
            end = text.find(close, end)
            end = len(text) if end < 0 else end + len(close)
        elif kind == "block":
            end = end_of_block_comment(text, end)
        if kind in CODE:
            found.append(Token(match.group(), line))
        line += text.count("\n", at, end)
        at = end
    return found


def end_of_block_comment(text, at):
    """The end of a block comment whose `/*` ends at `at`; such comments nest."""
    depth = 1
    for mark in re.compile(r"/\*|\*/").finditer(text, at):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(text)


class Source:
    """One file of the crate, read token by token."""

    def __init__(self, text, module):
        self.tokens = tokens(text)
        self.module = module
        self.paths = []  # (line, module it is written in, names of the path); the names start at the root
        self.test_modules = set()  # files' modules that are declared with #[cfg(test)]
        self.aliases = {}  # names that a `use` of this file brings in, and the path each stands for
        self.read(0, len(self.tokens), module)

    def only_declares(self):
        """Whether there is nothing but `mod name;`, with or without attributes and `pub`."""
        code = " ".join(token.text for token in self.tokens)
        return bool(re.fullmatch(r"((# (! )?\[ [^\]]* \]|(pub (\( \w+ \) )?)?mod \w+ ;) ?)*", code))

    def text(self, at):
        return self.tokens[at].text if 0 <= at < len(self.tokens) else ""

    def read(self, at, end, module):
        while at < end:
            text = self.text(at)
            if text == "#" and self.is_test_attribute(at):
                at = self.skip_test_item(at, module)
            elif text == "mod" and self.text(at + 2) == "{":
                close = self.closing(at + 2)
                self.read(at + 3, close, (*module, self.text(at + 1)))
                at = close + 1
            elif text == "use" and self.text(at + 1) != "<":  # `impl Trait + use<'a>` is no import
                at = self.read_use(at + 1, module)
            elif text in ("crate", "super", "self") and self.text(at - 1) not in ("in", "::"):
                at = self.read_path(at, module)
            else:
                at += 1

    def closing(self, at):
        """The bracket that closes the one at `at`."""
        depth = 0
        for place in range(at, len(self.tokens)):
            text = self.text(place)
            depth += (text in ("{", "(", "[")) - (text in ("}", ")", "]"))
            if depth == 0:
                return place
        raise Mistake(f"line {self.tokens[at].line}: a bracket is not closed")

    def is_test_attribute(self, at):
        return [self.text(at + i) for i in range(1, 7)] == ["[", "cfg", "(", "test", ")", "]"]

    def skip_test_item(self, at, module):
        """The first token after the item that the attribute at `at` belongs to."""
        while self.text(at) == "#":
            at = self.closing(at + 1) + 1
        start = at
        while at < len(self.tokens) and self.text(at) != ";":
            if self.text(at) in ("(", "["):
                at = self.closing(at)
            elif self.text(at) == "{":
                at = self.closing(at)
                # The braces of `use a::{b, c};` do not end the item.
                if self.text(at + 1) != ";":
                    break
            at += 1
        words = [self.text(i) for i in range(start, at)]
        if "mod" in words[-2:]:
            self.test_modules.add((*module, words[-1]))
        return at + 1

    def read_path(self, at, module):
        """A path in code that starts with `crate`, `super` or `self`."""
        names, line = [self.text(at)], self.tokens[at].line
        while self.text(at + 1) == "::" and re.match(r"\w", self.text(at + 2)):
            names.append(self.text(at + 2))
            at += 2
        if len(names) > 1:
            self.add(line, module, names)
        return at + 1

    def read_use(self, at, module):
        """The tree of a `use`, which may be nested; the token after its `;`."""
        end = at
        while self.text(end) not in (";", ""):
            end += 1
        self.read_tree(at, [], module)
        return end + 1

    def read_tree(self, at, prefix, module):
        """One branch of a `use`; the token after it, which is a comma or closes the tree."""
        names, line = list(prefix), self.tokens[at].line
        while True:
            text = self.text(at)
            if text == "{":
                close, at = self.closing(at), at + 1
                while at < close:
                    at = self.read_tree(at, names, module)
                    at += self.text(at) == ","
                return close + 1
            if text == "::":
                at += 1
                continue
            if text == "as":
                self.aliases[self.text(at + 1)] = names
                at += 2
                break
            if text in (",", "}", ";", ""):
                self.aliases[[name for name in names if name != "self"][-1]] = names
                break
            names.append(text)
            line = self.tokens[at].line if names[:-1] == prefix else line
            at += 1
        if names[0] in ("crate", "super", "self"):
            self.add(line, module, names)
        return at

    def add(self, line, module, names):
        path, at = (list(module), 0) if names[0] != "crate" else ([], 1)
        while at < len(names) and names[at] in ("super", "self"):
            if names[at] == "super" and path:
                path.pop()
            at += 1
        self.paths.append((line, module, path + names[at:]))


def module_of(file):
    """The module that a file of the crate holds: ("python", "module") for python/module/mod.rs, () for lib.rs."""
    names = file.removesuffix(".rs").split("/")
    return tuple(names[:-1] if names[-1] in ("mod", "lib") else names)


def read_crate(files):
    """The crate's root, and the other files but those of tests, each as a Source by its path in the crate.

    `files` holds the text of each file by the same path.
    """
    sources = {file: read_source(file, text) for file, text in files.items()}
    root = sources.pop("lib.rs" if "lib.rs" in sources else "main.rs")
    tests = root.test_modules.union(*(source.test_modules for source in sources.values()))
    sources = {
        file: source
        for file, source in sources.items()
        if not any(source.module[:depth] in tests for depth in range(1, len(source.module) + 1))
    }
    return root, sources


def groups_of(sources):
    """The folders whose mod.rs does nothing but declare its modules."""
    return {
        source.module[0]
        for file, source in sources.items()
        if file == f"{source.module[0]}/mod.rs" and source.only_declares()
    }


def imports(root, sources, groups=()):
    """All imports between the modules of the crate's root or of its groups, and the names of these modules."""
    sources = {file: source for file, source in sources.items() if source.module not in {(name,) for name in groups}}
    modules = {name_of(source.module, groups) for source in sources.values()}
    found = []
    for file, source in sources.items():
        for line, module, names in source.paths:
            own, target = name_of(module, groups), module_named(names, root, modules, groups)
            if target is not None and target != own:
                found.append(Import(file, line, own, target))
    return found, modules


def name_of(path, groups):
    """The name of the module that a path from the root leads to: its first name, of a group with the second."""
    return "::".join(path[: 2 if path[0] in groups else 1])


def imports_of_files(root, sources):
    """All imports between files, except between a module's file and the files of the modules inside it."""
    files = {(): "lib.rs"} | {source.module: file for file, source in sources.items()}
    modules = {(): root} | {source.module: source for source in sources.values()}
    found = []
    for file, source in sources.items():
        own = source.module
        for line, _, names in source.paths:
            target = innermost_module(names, modules)
            if target is not None and own[: len(target)] != target and target[: len(own)] != own:
                found.append(Import(file, line, file, files[target]))
    return found


def innermost_module(names, modules):
    """The module with a file of its own in which a path from the root ends; None if it leads out of the crate."""
    for _ in range(10):  # a name may be handed on by several modules
        depth = 0
        while tuple(names[: depth + 1]) in modules and depth < len(names):
            depth += 1
        module = tuple(names[:depth])
        origin = modules[module].aliases.get(names[depth]) if depth < len(names) else None
        if origin is None:
            return module
        if origin[0] == "crate":
            start, origin = (), origin[1:]
        elif origin[0] in ("self", "super"):
            start = module[: len(module) - origin.count("super")]
            origin = [name for name in origin if name not in ("self", "super")]
        elif (*module, origin[0]) in modules or origin[0] in modules[module].aliases:
            start = module
        else:
            return None
        names = [*start, *origin, *names[depth + 1 :]]
    return None


def read_source(file, text):
    if re.search(r"^\s*#\[path\b|^\s*extern crate self\b", text, re.MULTILINE):
        raise Mistake(f"{file}: `#[path]` and `extern crate self` cannot be followed")
    try:
        return Source(text, module_of(file))
    except Mistake as mistake:
        raise Mistake(f"{file}: {mistake}") from None


def module_named(names, root, modules, groups):
    """The module of the crate's root that a path from the root leads to; None if it leads out of the crate."""
    if names and name_of(names, groups) in modules:
        return name_of(names, groups)
    origin = root.aliases.get(names[0]) if names else None
    if origin is None:
        return "lib"
    origin = [name for name in origin if name not in ("crate", "self")]
    return name_of(origin, groups) if name_of(origin, groups) in modules else None


def read_order(text):
    """The layer of each module, from 1, and the imports upwards that are known: pairs of modules."""
    layers, known, layer = {}, set(), 0
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if words[:1] == ["known"]:
            _, module, target = words
            known.add((module, target))
        elif words:
            layer += 1
            for module in words:
                if module in layers:
                    raise Mistake(f"order.txt lists {module} twice")
                layers[module] = layer
    return layers, known


def check(found, modules, layers, known):
    """The lines to print: one for each import that breaks the rule, and for each entry that is out of date."""
    layers = {**layers, "lib": max(layers.values()) + 1}
    lines = [f"order.txt does not list module {module}" for module in sorted(modules - layers.keys())]
    lines += [f"order.txt lists {module}, which is no module" for module in sorted(layers.keys() - modules - {"lib"})]
    if lines:
        return lines
    seen = set()
    for file, line, module, target in found:
        if layers[target] < layers[module]:
            continue
        seen.add((module, target))
        if (module, target) not in known:
            lines.append(
                f"{HOST}/{file}:{line}: module {module} (layer {layers[module]})"
                f" imports {target} (layer {layers[target]})"
            )
    lines += [f"order.txt: `known {module} {target}` has gone; take it out" for module, target in sorted(known - seen)]
    return lines


def check_cycles(crate, found, kind="module"):
    """The lines to print: one for each import of a crate that is part of a cycle of modules or of files."""
    targets = collections.defaultdict(set)
    for one in found:
        targets[one.module].add(one.target)
    below = {module: reached(module, targets) for module in list(targets)}
    return [
        f"{crate}/{file}:{line}: {kind} {module} imports {target}, which imports {module} again"
        for file, line, module, target in found
        if module in below.get(target, ())
    ]


def reached(module, targets):
    """The modules that a module imports, by others, too."""
    found, left = set(), [module]
    while left:
        new = targets.get(left.pop(), set()) - found
        found |= new
        left += new
    return found


def crates():
    """The crates of src, by folder."""
    return sorted(file.parent.relative_to(ROOT).as_posix() for file in (ROOT / "src").glob("*/Cargo.toml"))


def files_of(crate):
    """The text of each file of a crate, by its path there."""
    folder = ROOT / crate
    paths = sorted(path for path in folder.rglob("*.rs") if path != folder / "build.rs")
    return {path.relative_to(folder).as_posix(): path.read_text() for path in paths}


def main(arguments):
    layers, known = read_order((HERE / "order.txt").read_text())
    lines = []
    for crate in crates():
        root, sources = read_crate(files_of(crate))
        found, modules = imports(root, sources, groups_of(sources))
        if arguments == ["--edges"]:
            print(crate)
            for (module, target), number in sorted(collections.Counter((i.module, i.target) for i in found).items()):
                print(f"{number:4} {module} -> {target}")
            continue
        lines += check(found, modules, layers, known) if crate == HOST else check_cycles(crate, found)
        lines += check_cycles(crate, imports_of_files(root, sources), "file")
    for line in lines:
        print(line)
    return 1 if lines else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Mistake as mistake:
        sys.exit(f"tools/layers: {mistake}")
