"""Tests of the comparison itself: how events become cases, and how cases get their category.

    python3 -m unittest discover embed-tests/cpython_suite
"""

import json
import pathlib
import tempfile
import unittest

import report
from classify import Case, DIFFERENT, FLAKY_ON_PYHOST, FLAKY_ON_STOCK, KNOWN, SAME, Known, compare
from interpreters import DEBUG_HOOKS, Interpreter
from run import cases_from, module_outcome
from store import Store

NOT_PYMALLOC = Known("test.case", ("3.11",), "failed", "reads pymalloc's pools")
STOCK = Interpreter("stock", "/python", "3.11.7", "3.11.7 (main)", "0" * 64, "/tests")


def runs(*outcomes):
    return [{"cases": {"test.case": {"outcome": outcome}} if outcome else {}, "seconds": 1} for outcome in outcomes]


class CategoryTests(unittest.TestCase):
    def category(self, stock, pyhost, known=None):
        [case] = compare(runs(*stock), runs(*pyhost), {"test.case": known} if known else {})
        return case.category

    def test_one_outcome_on_both_sides_is_the_same(self):
        self.assertEqual(self.category(["passed"], ["passed"]), SAME)
        self.assertEqual(self.category(["failed"], ["failed"]), SAME)

    def test_an_outcome_that_stock_gives_too_is_flaky_on_stock(self):
        self.assertEqual(self.category(["passed", "failed"], ["failed", "failed"]), FLAKY_ON_STOCK)
        self.assertEqual(self.category(["passed", "failed"], ["passed"]), FLAKY_ON_STOCK)

    def test_an_outcome_that_only_the_host_gives_is_never_put_down_to_stock(self):
        self.assertEqual(self.category(["passed", "failed"], ["error"]), DIFFERENT)
        self.assertEqual(self.category(["passed", "failed"], ["failed", "error"]), FLAKY_ON_PYHOST)

    def test_a_retry_does_not_hide_a_failure(self):
        self.assertEqual(self.category(["passed"] * 4, ["failed", "passed", "passed"]), FLAKY_ON_PYHOST)

    def test_a_case_that_one_side_lacks_is_different(self):
        self.assertEqual(self.category(["passed"], [None]), DIFFERENT)
        self.assertEqual(self.category([None], ["passed"]), DIFFERENT)

    def test_a_known_difference_holds_for_its_own_outcome_only(self):
        self.assertEqual(self.category(["passed"], ["failed"], NOT_PYMALLOC), KNOWN)
        self.assertEqual(self.category(["passed"], ["not finished: killed by SIGSEGV"], NOT_PYMALLOC), DIFFERENT)


class EventTests(unittest.TestCase):
    def cases(self, *events, end="exit 0"):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "events")
            path.write_text("".join(json.dumps(event) + "\n" for event in events))
            return cases_from(path, end)

    def outcomes(self, *events, end="exit 0"):
        return {name: case["outcome"] for name, case in self.cases(*events, end=end).items()}

    def case(self, name, *outcomes):
        return [{"event": "start", "case": name},
                *({"event": "outcome", "case": name, "outcome": outcome} for outcome in outcomes),
                {"event": "stop", "case": name}]

    def test_an_id_that_comes_again_is_numbered(self):
        found = self.outcomes(*self.case("a", "passed"), *self.case("a", "failed"))
        self.assertEqual(found, {"a": "passed", "a #2": "failed"})

    def test_the_case_that_a_crash_ends_is_told(self):
        found = self.outcomes(*self.case("a", "passed"), {"event": "start", "case": "b"}, end="killed by SIGSEGV")
        self.assertEqual(found, {"a": "passed", "b": "not finished: killed by SIGSEGV"})

    def test_failed_subtests_are_counted_in_their_case(self):
        subtest = {"event": "subtest", "case": "a", "detail": "a (i=1)"}
        found = self.outcomes({"event": "start", "case": "a"}, subtest, subtest, {"event": "stop", "case": "a"})
        self.assertEqual(found, {"a": "failed in 2 subtests"})

    def test_what_befalls_a_class_is_a_case(self):
        found = self.outcomes({"event": "outcome", "case": "setUpClass (C)", "outcome": "error"})
        self.assertEqual(found, {"setUpClass (C)": "error"})

    def test_outcomes_of_one_case_are_joined(self):
        self.assertEqual(self.outcomes(*self.case("a", "failed", "error")), {"a": "failed, error"})

    def test_a_failed_status_without_a_failed_case_is_told(self):
        log = pathlib.Path("/dev/null")
        self.assertEqual(module_outcome("exit 2", {"a": {"outcome": "passed"}}, log), "exit 2")
        self.assertEqual(module_outcome("exit 2", {"a": {"outcome": "failed"}}, log), "finished")


class StoreTests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = folder.name

    def test_a_record_stands_for_one_executable_only(self):
        store = Store(self.out, "3.11.7", 60)
        store.keep(STOCK, "test_gc", 1, {"end": "exit 0", "timeout": 60, "cases": {}})
        rebuilt = Interpreter(**{**vars(STOCK), "sha256": "1" * 64})
        self.assertEqual((len(store.runs(STOCK, "test_gc")), len(store.runs(rebuilt, "test_gc"))), (1, 0))

    def test_a_record_with_debug_hooks_stands_for_none_without(self):
        hooked = Interpreter(**{**vars(STOCK), "variables": DEBUG_HOOKS["stock"]})
        store = Store(self.out, "3.11.7", 60)
        store.keep(hooked, "test_gc", 1, {"end": "exit 0", "timeout": 60, "cases": {}})
        self.assertEqual((len(store.runs(hooked, "test_gc")), len(store.runs(STOCK, "test_gc"))), (1, 0))

    def test_a_run_that_timed_out_is_done_again_with_more_time(self):
        Store(self.out, "3.11.7", 60).keep(STOCK, "test_gc", 1, {"end": "timed out", "timeout": 60, "cases": {}})
        found = [len(Store(self.out, "3.11.7", timeout).runs(STOCK, "test_gc")) for timeout in (30, 60, 90)]
        self.assertEqual(found, [1, 1, 0])


class ReportTests(unittest.TestCase):
    def test_a_section_has_sums_and_the_cases_that_differ(self):
        cases = [Case("a", ("passed",), ("passed",), SAME), Case("b", ("failed",), ("failed",), SAME),
                 Case("c", ("passed",), ("failed",), KNOWN, "a reason")]
        result = report.ModuleResult("test_gc", [{"seconds": 1.2}], [{"seconds": 2.6}], cases)
        section = report.markdown(STOCK, STOCK, "pyhost 0.1.0", [result], [], {})
        for line in ("- 3 cases, 1 not the same; stock 1 s, pyhost 3 s\n- test_gc 3\n", "Cases that fail alike on both: 1.",
                     "- `known: test_gc: c: stock passed; pyhost failed; a reason`"):
            self.assertIn(line, section)

    def test_a_section_takes_the_place_of_its_earlier_one(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "report.md")
            for release, text in (("3.9.18", "old"), ("3.11.7", "other"), ("3.9.18", "new")):
                report.write_section(path, f"{report.heading_of(release)}\n\n{text}\n")
            written = path.read_text()
        self.assertEqual((written.count("## CPython 3.9.18\n"), "old" in written, "other" in written), (1, False, True))


if __name__ == "__main__":
    unittest.main()
