"""Tests of make.py without a network: the pins, the names, and when an environment counts as made.

    python3 -m unittest discover embed-tests/environments
"""

import contextlib
import io
import pathlib
import re
import tempfile
import unittest
from unittest import mock

import make

EXACT = re.compile(r"[A-Za-z0-9_.-]+==[0-9][0-9A-Za-z.]*")


class PinTests(unittest.TestCase):
    def test_every_package_is_pinned_exactly(self):
        files = sorted(make.PINS.glob("*.txt"))
        loose = [f"{path.name}: {line}" for path in files for line in path.read_text().splitlines()
                 if not line.startswith(("# ", "--no-binary ")) and not EXACT.fullmatch(line)]
        self.assertTrue(files)
        self.assertEqual(loose, [])

    def test_a_python_has_the_names_of_its_own_files(self):
        self.assertEqual(make.names_for("3.10"), ["development", "junit", "notebook", "numpy-1.22", "numpy-2.2",
                                                  "openmetrics", "service", "tools", "wheel"])
        self.assertEqual(make.names_for("3.1"), [])


class MadeTests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.pins = self.folder / "pins.txt"
        self.pins.write_text("numpy==2.4.6\n")

    def made(self, *made_from):
        (self.folder / "bin").mkdir(exist_ok=True)
        (self.folder / "bin" / "python").touch()
        (self.folder / "bin" / "pip").write_text(f"#!{self.folder}/bin/python\n")
        for text in made_from:
            (self.folder / make.MADE_FROM).write_text(text)
        return make.is_made_from(self.folder, self.pins)

    def test_an_environment_is_made_once_it_says_so_of_these_pins(self):
        self.assertEqual((self.made(), self.made("numpy==2.4.5\n"), self.made("numpy==2.4.6\n")), (False, False, True))

    def test_an_environment_without_its_python_is_made_anew(self):
        self.made("numpy==2.4.6\n")
        (self.folder / "bin" / "python").unlink()
        self.assertFalse(make.is_made_from(self.folder, self.pins))

    def test_an_environment_that_was_copied_is_made_anew(self):
        self.made("numpy==2.4.6\n")
        (self.folder / "bin" / "pip").write_text("#!/elsewhere/bin/python\n")
        self.assertFalse(make.is_made_from(self.folder, self.pins))

    def test_what_pip_says_becomes_one_line(self):
        said = "Collecting x\nERROR: Could not find a version\nERROR: No matching distribution found for x==9\n\nhint"
        self.assertEqual(make.error_line(said), "No matching distribution found for x==9")
        self.assertEqual(make.error_line("Traceback\nOSError: full\n"), "OSError: full")


class StatusTests(unittest.TestCase):
    def status(self, *arguments):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            return make.main(list(arguments)), errors.getvalue().splitlines()

    def test_a_bad_name_lists_the_valid_ones(self):
        with mock.patch.object(make, "minor_of", return_value="3.10"):
            status, lines = self.status("--python", "python", "numpy-9")
        self.assertEqual(status, 2)
        self.assertEqual(lines, ["make.py: no environment 'numpy-9' for Python 3.10: "
                                 "choose from development, junit, notebook, numpy-1.22, numpy-2.2, openmetrics, "
                                 "service, tools, wheel"])

    def test_what_cannot_be_made_is_told_in_one_line(self):
        status, lines = self.status("--python", "/nonexistent/python", "numpy-2.4")
        self.assertEqual((status, lines), (1, ["make.py: /nonexistent/python: No such file or directory"]))


if __name__ == "__main__":
    unittest.main()
