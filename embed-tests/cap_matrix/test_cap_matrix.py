"""Tests of the matrix without running it: how runs are judged, what is kept, how scripts are put together.

    python3 -m unittest discover embed-tests/cap_matrix
"""

import contextlib
import dataclasses
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

import outcomes
import run as command
import table
from hosts import Host, UnusableHost, stamp_of
from launch import Task
from outcomes import CAUGHT, FAILED, FATAL, MIB, REFUSED, UNHANDLED, Run, judge
from store import Store

sys.path.append(str(command.SCRIPTS))

import growing  # noqa: E402  found by the line above

HOST = Host("3.11.7", "/pyhost", "/numpy", "3.11.7-0")
TRACEBACK = 'Traceback (most recent call last):\n  File "s.py", line 3, in <module>\n%s\n'
CAUGHT_RUN = Run(cap=64 * MIB, status=0, stdout="expects caught 2; a; b\ncaught 2; finished\n", peak_bytes=64 * MIB,
                 resident_anonymous=70 * MIB, baseline_anonymous=0)


class JudgeTests(unittest.TestCase):
    def judged(self, **changes):
        return judge(dataclasses.replace(CAUGHT_RUN, **changes), command.slack)

    def kind(self, **changes):
        outcome = self.judged(**changes)
        self.assertEqual(outcome.name, FAILED, outcome)
        return outcome.kind

    def unhandled(self, last, **changes):
        stdout = changes.pop("stdout", "expects unhandled; a\n")
        return self.judged(status=1, stdout=stdout, stderr=TRACEBACK % last, **changes)

    def test_the_last_line_tells_that_all_errors_were_caught(self):
        self.assertEqual(self.judged().name, CAUGHT)
        self.assertEqual(self.kind(stdout="expects caught 2; a\ncaught 1; finished\n"), "last line")
        self.assertEqual(self.kind(stdout="expects caught 2; a\n"), "last line")
        self.assertEqual(self.kind(stdout="expects unhandled; a\ncaught 0; finished\n"), "last line")
        self.assertEqual(self.kind(stdout=""), "no first line, status 0")

    def test_what_the_host_says_of_a_refusal_is_no_trouble(self):
        self.assertEqual(self.judged(stderr="pyhost: the cap refused 512 B\n  obj 63.9 MiB\n").name, CAUGHT)

    def test_an_unhandled_memory_error_is_clean_where_none_is_caught(self):
        for last in ("MemoryError", "MemoryError: obj: 512 B asked", "numpy.core._exceptions._ArrayMemoryError: x"):
            self.assertEqual(self.unhandled(last).name, UNHANDLED, last)
        self.assertEqual(self.unhandled("MemoryError", stdout="expects fatal; a\n").name, UNHANDLED)

    def test_an_unhandled_memory_error_of_a_script_that_catches_has_escaped(self):
        outcome = self.unhandled("MemoryError", stdout="expects caught 1; a\n")
        self.assertEqual((outcome.name, outcome.kind), (FAILED, "escaped"))
        self.assertIn("line 3", outcome.detail)

    def test_other_exceptions_and_cut_tracebacks_fail(self):
        for last in ("OSError: [Errno 12]", "MemoryErrors", "KeyError: MemoryError", "NotAMemoryErr"):
            self.assertEqual(self.unhandled(last).kind, "other exception", last)
        self.assertEqual(self.kind(status=1, stdout="expects unhandled; a\n", stderr="MemoryError\n"), "no traceback")
        self.assertEqual(self.kind(status=1, stdout="expects unhandled; a\n"), "other exception")

    def test_forbidden_words_fail_however_the_run_ends(self):
        self.assertEqual(self.kind(stderr="lost sys.stderr\n"), "said lost sys.stderr")
        self.assertEqual(self.kind(stderr="Fatal Python error: Aborted\n", status=-6), "signal 6")
        self.assertTrue(self.kind(status=53, stdout="expects fatal; a\n", stderr="Fatal Python error: x\n")
                        .startswith("said"))

    def test_the_fatal_status_is_for_hogs_that_never_stop(self):
        said = "pyhost: fatal: live is at the cap of 64.0 MiB\n"
        fatal = {"status": 53, "stdout": "expects fatal; a\n"}
        self.assertEqual(self.judged(stderr=said, **fatal).name, FATAL)
        self.assertEqual(self.judged(stderr="pyhost: refused\n" + said + "  more\n", **fatal).name, FATAL)
        self.assertEqual(self.kind(stderr=said * 2, **fatal), "fatal with other than one line")
        self.assertEqual(self.kind(stderr="", **fatal), "fatal with other than one line")
        self.assertEqual(self.kind(stderr=said, status=53), "fatal, though the script stops")
        self.assertEqual(self.kind(status=0, stdout="expects fatal; a\nfoo\n"), "last line")

    def test_a_cap_below_start_up_is_refused_with_one_line(self):
        line = "pyhost: --cap 16M: below what start-up needs\n"
        refused = {"status": 2, "stdout": "", "peak_bytes": None}
        self.assertEqual(self.judged(cap=16 * MIB, stderr=line, **refused).name, REFUSED)
        self.assertEqual(self.kind(cap=16 * MIB, stderr=line * 2, **refused), "refused with more than a line")
        self.assertEqual(self.kind(cap=16 * MIB, stderr="", **refused), "refused with more than a line")
        self.assertEqual(self.kind(stderr=line, **refused), "refused a cap that suffices")
        said = "cap below start-up: numpy: MemoryError\n"
        for before in ("", "pyhost: cap of 16.0 MiB (total) reached\n  live (peak): raw 3 KiB\n"):
            self.assertEqual(self.judged(cap=16 * MIB, stderr=before + said, **refused).name, REFUSED)
        self.assertEqual(self.kind(cap=16 * MIB, stderr="Traceback\n" + said, **refused),
                         "refused with more than a line")

    def test_signals_hangs_and_runaways_fail(self):
        self.assertEqual(self.kind(status=-11), "signal 11")
        self.assertEqual(self.kind(status=-6, timed_out=True), "hang")
        self.assertEqual(self.kind(status=-9, ran_away=True), "ran away")
        self.assertEqual(self.kind(status=3), "status 3")

    def test_the_ceiling_holds_by_the_ledger_and_from_outside(self):
        self.assertEqual(self.kind(peak_bytes=64 * MIB + 1), "live above the cap")
        self.assertEqual(self.kind(peak_bytes=None), "no report")
        most = 64 * MIB + command.slack(64 * MIB)
        self.assertEqual(self.judged(resident_anonymous=most).name, CAUGHT)
        self.assertEqual(self.judged(resident_anonymous=most + MIB, baseline_anonymous=MIB).name, CAUGHT)
        self.assertEqual(self.kind(resident_anonymous=most + MIB), "resident above the cap")


class StoreTests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("growing.py", "dicts.py"):
            (self.folder / name).write_text("1")
        self.path = self.folder / "out" / "results.jsonl"
        self.task = Task(HOST, "dicts.py", 64 * MIB, 3)

    def test_a_result_stands_for_one_host_cap_seed_and_text_of_the_script(self):
        Store(self.path, self.folder).keep(self.task, {"outcome": CAUGHT})
        store = Store(self.path, self.folder)
        self.assertEqual(store.find(self.task)["outcome"], CAUGHT)
        rebuilt = dataclasses.replace(HOST, identity="3.11.7-1")
        for other in ({"host": rebuilt}, {"cap": MIB}, {"seed": 4}):
            self.assertIsNone(store.find(dataclasses.replace(self.task, **other)))
        (self.folder / "growing.py").write_text("2")
        self.assertIsNone(Store(self.path, self.folder).find(self.task))
        # A run that began before the edit is a run of the old script.
        store.keep(self.task, {"outcome": CAUGHT})
        self.assertIsNone(Store(self.path, self.folder).find(self.task))

    def test_a_line_that_an_interruption_cut_off_costs_only_itself(self):
        store = Store(self.path, self.folder)
        store.keep(self.task, {"outcome": CAUGHT})
        with open(self.path, "a") as file:
            file.write('{"format": 1, "iden')
        other = dataclasses.replace(self.task, seed=4)
        Store(self.path, self.folder).keep(other, {"outcome": FATAL})
        again = Store(self.path, self.folder)
        self.assertEqual([again.find(task)["outcome"] for task in (self.task, other)], [CAUGHT, FATAL])


class TableTests(unittest.TestCase):
    def test_failures_are_counted_by_kind_and_told_with_the_command(self):
        tasks = [Task(HOST, "dicts.py", 64 * MIB, seed) for seed in (0, 1)]
        good = {"outcome": CAUGHT, "peak_bytes": 32 * MIB, "excess": 0, "seconds": 1}
        bad = {"outcome": FAILED, "kind": "signal 11", "detail": "x", "peak_bytes": None, "excess": 0, "seconds": 2}
        text = table.render(tasks, [good, bad], pathlib.Path("/scripts"))
        self.assertRegex(text, r"dicts +3\.11\.7 +1 +1 +0\.5000 +0\.0 +3\n")
        self.assertRegex(text, r"signal 11 +3\.11 +1\n")
        self.assertIn("FAILED 3.11 dicts.py 64M seed 1: signal 11: x", text)
        self.assertIn("PYTHONHASHSEED=1", text)
        self.assertIn("/pyhost --cap 64M /scripts/dicts.py 1", text)


class ScriptTests(unittest.TestCase):
    def test_every_form_catches_what_its_growth_raises(self):
        """Runs each form, the code in a function and in a module, with a growth that is refused the 50th time."""
        source = "data.append(n)\nif len(data) == 50: raise MemoryError"
        for name, (expected, form) in growing.FORMS.items():
            self.check(name, expected, growing.compose("data = []", source, form))
        for name, (expected, form) in growing.WHOLE_FORMS.items():
            self.check(name, expected, growing.compose("pass", "data = refuse()", form))

    def check(self, name, expected, text):
        def refuse():
            raise MemoryError

        for in_function in (True, False):
            names = {**vars(growing), "generator_catching": growing.GeneratorCatching, "refuse": refuse, "n": 1}
            with self.subTest(form=name, in_function=in_function):
                with contextlib.ExitStack() as stack:
                    if expected is None:
                        stack.enter_context(self.assertRaises(MemoryError))
                    exec(text if in_function else growing.as_module(text), names)
                    caught = names["episode"](1) if in_function else names["caught"]
                    self.assertEqual(caught, expected)

    @unittest.skipUnless(hasattr(sys, "stdlib_module_names"), "3.10 lists the library's modules")
    def test_no_script_hides_a_module_of_the_library(self):
        """Their folder comes first on the path: one named numbers.py would break decimal and NumPy."""
        names = {pathlib.Path(name).stem for name in command.all_scripts()} | {"growing"}
        self.assertEqual(names & sys.stdlib_module_names, set())

    def test_only_want_of_memory_counts_as_a_cap_below_start_up(self):
        def importing(error):
            def import_module(name):
                raise error

            with mock.patch.object(growing.importlib, "import_module", import_module):
                with contextlib.redirect_stderr(io.StringIO()) as said:
                    growing.need("numpy")
            return said

        with self.assertRaises(ImportError):
            importing(ImportError("no such name"))
        caused = ImportError("failed")
        caused.__cause__ = MemoryError()
        for error in (MemoryError(), caused):
            with self.assertRaises(SystemExit) as ended:
                importing(error)
            self.assertEqual(ended.exception.code, 2)

    def test_the_work_afterwards_is_right(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            growing.finish(2)
        self.assertEqual(out.getvalue(), "caught 2; finished\n")

    def test_twenty_seeds_choose_twenty_combinations(self):
        combinations = [(growth, form) for growth in range(4) for form in range(10)]
        chosen = {growing.Plan("dicts", seed, combinations).choice for seed in range(20)}
        self.assertEqual(len(chosen), 20)
        self.assertEqual(vars(growing.Plan("a", 1, combinations)).keys(), vars(growing.Plan("b", 2, combinations)).keys())
        self.assertEqual(growing.Plan("a", 1, combinations).size, growing.Plan("a", 1, combinations).size)


class CommandTests(unittest.TestCase):
    def test_seeds_are_a_number_or_a_range(self):
        self.assertEqual((list(command.seeds("3")), list(command.seeds("5-6"))), ([0, 1, 2], [5, 6]))

    def test_bad_arguments_are_told(self):
        for arguments in (["--host", "/pyhost"], ["--host", "3.11=x", "--seeds", "x"], []):
            with self.subTest(arguments), contextlib.redirect_stderr(io.StringIO()):
                with self.assertRaises(SystemExit) as ended:
                    command.parse(arguments)
                self.assertEqual(ended.exception.code, 2)

    def test_a_host_that_is_built_anew_meanwhile_ends_the_matrix(self):
        with tempfile.NamedTemporaryFile() as file:
            host = dataclasses.replace(HOST, path=file.name, stamp=stamp_of(file.name))
            host.check()
            file.write(b"anew")
            file.flush()
            with self.assertRaisesRegex(UnusableHost, "built anew"):
                host.check()

    def test_a_host_that_is_not_there_ends_with_one_line(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(command.main(["--host", "3.11=/nonexistent"]), 2)
        self.assertEqual(said.getvalue(), "run.py: /nonexistent: no such executable\n")


if __name__ == "__main__":
    unittest.main()
