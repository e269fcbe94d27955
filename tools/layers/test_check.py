"""The layer check finds every form of an import, and nothing else."""

import unittest

import check

ORDER = "low\nmiddle\nhigh\n"


ROOT = "mod low; mod middle; mod high; use outside::{bytes, other as ledger};"


def lines(order=ORDER, **files):
    """The lines of the check for a crate of three modules with these files; `__` in a name stands for `/`."""
    files = {"lib": ROOT, "low": "", "middle": "", "high": "", **files}
    if "low__mod" in files:
        del files["low"]
    crate = check.read_crate({name.replace("__", "/") + ".rs": text for name, text in files.items()})
    found, modules = check.imports(*crate)
    return [line.removeprefix("src/host/") for line in check.check(found, modules, *check.read_order(order))]


class Imports(unittest.TestCase):
    def upward(self, text, line=1):
        self.assertEqual(lines(low=text), [f"low.rs:{line}: module low (layer 1) imports high (layer 3)"], text)

    def none(self, text):
        self.assertEqual(lines(low=text), [], text)

    def test_an_upward_use_is_found(self):
        self.upward("//! Text.\n\nuse crate::high::Thing;\n", line=3)
        self.upward("use crate::high;")
        self.upward("pub(crate) use crate::high::*;")
        self.upward("use crate::high as other;")
        self.upward("fn f() { use crate::high; }")

    def test_a_path_in_code_is_found(self):
        self.upward("fn f() {\n    crate::high::g();\n}\n", line=2)
        self.upward("fn f(thing: &crate::high::Thing) {}")
        self.upward("call!(crate::high::g);")
        self.upward("#[option(parser = crate::high::parse)]\nstruct S;")
        self.upward("macro_rules! m { () => { $crate::high::g() } }")

    def test_a_nested_use_is_found(self):
        found = lines(low="use crate::{\n    bytes::Bytes,\n    middle::{self, a},\n    high::c,\n};\n")
        self.assertEqual(
            found,
            [
                "low.rs:3: module low (layer 1) imports middle (layer 2)",
                "low.rs:3: module low (layer 1) imports middle (layer 2)",
                "low.rs:4: module low (layer 1) imports high (layer 3)",
            ],
        )
        self.upward("use {std::fmt, crate::high};")

    def test_super_is_followed(self):
        self.upward("use super::high;")
        self.upward("mod inner { use super::super::high; }")
        self.upward("mod inner { mod more { fn f() { super::super::super::high::g() } } }")
        self.none("mod inner { use super::high; }")
        self.none("use self::high::g; mod high { pub fn g() {} }")
        found = lines(low__mod="mod deep;", low__deep="use super::super::high;\nuse super::high;\n")
        self.assertEqual(found, ["low/deep.rs:1: module low (layer 1) imports high (layer 3)"])

    def test_a_name_of_the_root_counts_as_what_it_stands_for(self):
        self.none("use crate::{bytes::Bytes, ledger};")
        root = "mod low; mod middle; mod high; use high::Thing; fn own() {}"
        self.assertEqual(
            lines(lib=root, low="use crate::Thing;\nuse crate::own;"),
            [
                "low.rs:1: module low (layer 1) imports high (layer 3)",
                "low.rs:2: module low (layer 1) imports lib (layer 4)",
            ],
        )

    def test_comments_and_strings_are_no_imports(self):
        self.none("//! See [`crate::high`].\n/// [`x`](crate::high::x)\n// use crate::high;\n")
        self.none("/* use crate::high; /* nested */ use crate::high; */")
        self.none('const S: &str = "use crate::high; \\" crate::high::g()";')
        self.none('const S: &str = r#"crate::high " crate::high"#; const C: &CStr = c"crate::high";')
        self.upward("const C: [char; 3] = ['\"', '\\'', '\\\\']; use crate::high; const D: char = '\"';")
        self.upward("fn f<'a>(x: &'a str) { crate::high::g() }")

    def test_a_visibility_is_no_import(self):
        self.none("pub(in crate::high) fn f() {}\npub(crate) fn g() {}")

    def test_captured_lifetimes_are_no_import(self):
        self.upward("fn f<'a>() -> impl Sized + use<'a> { crate::high::g() }")

    def test_code_for_tests_alone_is_left_out(self):
        self.none("#[cfg(test)]\nmod tests {\n    use crate::high;\n    fn f() {}\n}\n")
        self.none("#[cfg(test)]\nuse crate::{high, middle};")
        self.none("#[cfg(test)]\n#[allow(unused)]\nfn f(a: [u8; 2]) { crate::high::g() }")
        self.upward("#[cfg(test)]\nmod tests {}\nuse crate::high;", line=3)
        self.upward("#[cfg(not(test))]\nuse crate::high;", line=2)
        self.assertEqual(lines(low__mod="#[cfg(test)]\nmod tests;", low__tests="use crate::high;"), [])

    def test_imports_downwards_are_allowed(self):
        self.assertEqual(lines(high="use crate::{low, middle::x};", middle="use crate::low;"), [])

    def test_modules_of_one_layer_do_not_import_each_other(self):
        self.assertEqual(
            lines("low\nmiddle high\n", middle="use crate::high;"),
            ["middle.rs:1: module middle (layer 2) imports high (layer 2)"],
        )

    def test_every_cycle_is_found_in_any_order(self):
        cycle = {"low": "use crate::middle;", "middle": "use crate::high;", "high": "use crate::low;"}
        for order in ("low\nmiddle\nhigh", "middle\nhigh\nlow", "high\nlow\nmiddle", "high\nmiddle\nlow"):
            self.assertTrue(lines(order, **cycle))


class Order(unittest.TestCase):
    def test_a_known_import_is_allowed_as_long_as_it_is_there(self):
        order = ORDER + "known low high\n"
        self.assertEqual(lines(order, low="use crate::high;"), [])
        self.assertEqual(lines(order), ["order.txt: `known low high` has gone; take it out"])

    def test_each_module_is_listed_and_each_entry_is_a_module(self):
        self.assertEqual(lines("low\nhigh"), ["order.txt does not list module middle"])
        self.assertEqual(lines(ORDER + "more"), ["order.txt lists more, which is no module"])

    def test_a_module_has_one_layer(self):
        with self.assertRaises(check.Mistake):
            check.read_order("low\nhigh low")

    def test_what_cannot_be_followed_is_an_error(self):
        with self.assertRaises(check.Mistake):
            lines(low='#[path = "other.rs"]\nmod x;')
        with self.assertRaises(check.Mistake):
            lines(low="mod inner { fn f() {")


class Cycles(unittest.TestCase):
    def test_each_import_of_a_cycle_is_found_and_no_other(self):
        files = {
            "lib.rs": "mod a; mod b; mod c; mod d;",
            "a.rs": "use crate::b::B;\nuse crate::d::D;",
            "b.rs": "use crate::c::C;",
            "c.rs": "\nfn f() { super::a::g() }",
            "d.rs": "",
        }
        found, _ = check.imports(*check.read_crate(files))
        self.assertEqual(
            check.check_cycles("src/os", found),
            [
                "src/os/a.rs:1: module a imports b, which imports a again",
                "src/os/b.rs:1: module b imports c, which imports b again",
                "src/os/c.rs:2: module c imports a, which imports c again",
            ],
        )

    def test_modules_that_import_down_make_no_cycle(self):
        files = {"lib.rs": "mod a; mod b;", "a.rs": "use crate::b;", "b.rs": "#[cfg(test)]\nmod t { use crate::a; }"}
        found, _ = check.imports(*check.read_crate(files))
        self.assertEqual(check.check_cycles("src/os", found), [])


class CyclesOfFiles(unittest.TestCase):
    def cycles(self, **files):
        files = {name.replace("__", "/") + ".rs": text for name, text in {"lib": "mod a;", **files}.items()}
        found = check.imports_of_files(*check.read_crate(files))
        return [line.split(" again")[0] for line in check.check_cycles("src/os", found, "file")]

    def test_files_of_a_module_that_import_each_other_are_found(self):
        self.assertEqual(
            self.cycles(a__mod="mod x; mod y;", a__x="use super::y::Y;", a__y="\nuse crate::a::x::X;"),
            [
                "src/os/a/x.rs:1: file a/x.rs imports a/y.rs, which imports a/x.rs",
                "src/os/a/y.rs:2: file a/y.rs imports a/x.rs, which imports a/y.rs",
            ],
        )

    def test_a_name_that_a_module_hands_on_is_its_origins(self):
        for handed_on in ("pub use y::Y;", "pub use self::y::{self, Y};", "pub use crate::a::y::Y;"):
            found = self.cycles(a__mod=f"mod x; mod y; {handed_on}", a__x="use super::Y;", a__y="use super::x;")
            self.assertEqual(len(found), 2, handed_on)

    def test_a_file_may_use_what_its_module_defines(self):
        self.assertEqual(self.cycles(a__mod="mod x; use x::X; struct Own;", a__x="use super::Own;"), [])

    def test_imports_in_one_direction_make_no_cycle(self):
        self.assertEqual(self.cycles(a__mod="mod x; mod y;", a__x="use super::y;", a__y="use std::fmt;"), [])


class Tree(unittest.TestCase):
    def test_the_check_reads_the_whole_host(self):
        layers, _ = check.read_order((check.HERE / "order.txt").read_text())
        crate = check.read_crate(check.files_of(check.HOST))
        found, modules = check.imports(*crate, check.groups_of(crate[1]))
        self.assertIn("run", modules)
        self.assertIn("limit::caps", modules)
        self.assertGreater(len(found), 250)

    def test_an_upward_import_of_a_group_is_found(self):
        files = {"low__mod": "pub mod a; pub mod b;", "low__a": "use crate::low::b::Thing;", "low__b": ""}
        files = {"lib": ROOT, "middle": "", "high": "", **files}
        crate = check.read_crate({name.replace("__", "/") + ".rs": text for name, text in files.items()})
        layers, known = check.read_order("low::a\nlow::b\nmiddle\nhigh\n")
        found, modules = check.imports(*crate, check.groups_of(crate[1]))
        self.assertEqual(
            check.check(found, modules, layers, known),
            ["src/host/low/a.rs:1: module low::a (layer 1) imports low::b (layer 2)"],
        )

    def test_a_folder_is_a_group_if_its_module_only_declares_others(self):
        def groups(text):
            return check.groups_of({"low/mod.rs": check.read_source("low/mod.rs", text), "low/a.rs": check.Source("", ("low", "a"))})

        self.assertEqual(groups("//! Text.\n\n#![allow(unsafe_code)]\n#[cfg(unix)]\npub(crate) mod a;\nmod b;"), {"low"})
        self.assertEqual(groups("mod a;\npub use a::Thing;"), set())
        self.assertEqual(groups("mod a;\nconst A: u8 = 0;"), set())

    def test_the_crates_of_the_tree_are_known(self):
        self.assertLess({"src/ctl", "src/heap", "src/host", "src/ledger", "src/os", "src/record"}, set(check.crates()))


if __name__ == "__main__":
    unittest.main()
