"""Tests of the comparison's pure parts: how pytest's reports become outcomes, how a crash and memory are told.

    python3 -m unittest discover embed-tests/library_suites
"""

import json
import pathlib
import sys
import tempfile
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent / "cpython_suite"), str(HERE.parent / "environments")]

import compare  # noqa: E402
import results  # noqa: E402
import suites  # noqa: E402
from classify import DIFFERENT, SAME, compare_case  # noqa: E402
from record_outcomes import detail_of, outcome_of  # noqa: E402
from report import ModuleResult  # noqa: E402
from run_suite import below_site_packages, last_case, numpy_account, process_case  # noqa: E402

ACCOUNT = {"active": True, "peak_bytes": 3 * 2 ** 30, "live_bytes": 20480, "finalized_live_bytes": 96}


def phase(when, outcome, **more):
    return types.SimpleNamespace(when=when, passed=outcome == "passed", failed=outcome == "failed",
                                 skipped=outcome == "skipped", **more)


class OutcomeTests(unittest.TestCase):
    def test_a_case_passes_by_its_call_alone(self):
        told = [outcome_of(phase(when, "passed")) for when in ("setup", "call", "teardown")]
        self.assertEqual(told, [None, "passed", None])

    def test_a_failure_outside_the_call_is_an_error(self):
        told = [outcome_of(phase(when, "failed")) for when in ("setup", "call", "teardown")]
        self.assertEqual(told, ["error", "failed", "error"])

    def test_what_is_marked_to_fail_is_told_by_what_it_did(self):
        told = [outcome_of(phase("call", outcome, wasxfail="")) for outcome in ("skipped", "passed")]
        self.assertEqual(told, ["expected failure", "unexpected success"])

    def test_the_message_is_the_last_line_of_a_detail(self):
        crash = types.SimpleNamespace(message="AssertionError: assert 1 == 2\n +more")
        failed = phase("call", "failed", longrepr=types.SimpleNamespace(reprcrash=crash), longreprtext="x.py:3: in f")
        skipped = phase("setup", "skipped", longrepr=("x.py", 3, "Skipped: too slow"))
        self.assertEqual(detail_of(failed), "x.py:3: in f\nAssertionError: assert 1 == 2")
        self.assertEqual(detail_of(skipped), "Skipped: too slow")


class CrashTests(unittest.TestCase):
    CRASHED = {"a": {"outcome": "passed"}, "b": {"outcome": "not finished: killed by SIGSEGV"}}

    def test_the_case_that_a_crash_ended_is_the_last(self):
        self.assertEqual(last_case(self.CRASHED), "b")
        self.assertEqual(last_case({"a": {"outcome": "passed"}}), "a")
        self.assertEqual(last_case({}), "none")

    def test_a_crash_is_told_though_every_case_passed(self):
        told = process_case("killed by SIGSEGV", {"a": {"outcome": "passed"}})
        self.assertEqual(told, {"outcome": "killed by SIGSEGV", "detail": "the last case was a"})

    def test_a_failed_status_is_explained_by_a_failed_case_only(self):
        self.assertEqual(process_case("exit 1", {"a": {"outcome": "failed"}})["outcome"], "finished")
        self.assertEqual(process_case("exit 1", {"a": {"outcome": "passed"}})["outcome"], "exit 1")
        self.assertEqual(process_case("exit 4", {"a": {"outcome": "failed"}})["outcome"], "exit 4")

    def test_cases_that_a_crash_kept_from_running_are_folded(self):
        names = [f"case {number}" for number in range(20)]
        stock = [{"cases": {name: {"outcome": "passed"} for name in names}, "seconds": 1}]
        pyhost = [{"cases": {"case 0": {"outcome": "passed"}}, "seconds": 1}]
        cases = [compare_case(name, stock, pyhost, None) for name in names]
        told = results.folded(ModuleResult("numpy.lib", stock, pyhost, cases)).cases
        self.assertEqual([case.category for case in told], [SAME] + [DIFFERENT] * 6)
        self.assertEqual(told[-1].name, "(14 more so)")

    def test_both_sides_crashes_are_listed(self):
        run = {"cases": {"(module)": process_case("killed by SIGSEGV", self.CRASHED)}, "end": "killed by SIGSEGV"}
        [line] = results.crashes([ModuleResult("numpy.lib", [run], [], [])])
        self.assertEqual(line, "numpy.lib: stock run 1: killed by SIGSEGV; the last case was b")


class PathTests(unittest.TestCase):
    def test_a_detail_has_no_path_of_this_machine(self):
        cases = {"a": {"outcome": "failed", "detail": "no file /env/site-packages/pandas/x.csv"}}
        told = below_site_packages(cases, "/env/site-packages")
        self.assertEqual(told["a"]["detail"], "no file pandas/x.csv")


class MemoryTests(unittest.TestCase):
    def account(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "report.json")
            path.write_text(text)
            return numpy_account(path)

    def test_arrays_are_told_where_the_host_books_them(self):
        self.assertEqual(self.account(json.dumps({"accounts": {"numpy": ACCOUNT}})), ACCOUNT)
        self.assertIsNone(self.account(json.dumps({"accounts": {"numpy": {**ACCOUNT, "active": False}}})))
        self.assertIsNone(numpy_account(pathlib.Path("/nonexistent")))

    def test_few_bytes_are_told_exactly(self):
        self.assertEqual(results.memory(ACCOUNT), ["3.0 GiB", "20.0 KiB, 96 B"])
        self.assertEqual(results.memory(None), ["n/a", "n/a"])


class ListTests(unittest.TestCase):
    def test_titles_are_unique(self):
        titles = [suite.title for suite in set(suites.FULL + suites.SLICE)]
        self.assertEqual(len(titles), len(set(titles)))

    def test_paths_follow_the_name_of_numpys_core(self):
        with tempfile.TemporaryDirectory() as folder:
            tests = pathlib.Path(folder, "numpy", "core", "tests")
            tests.mkdir(parents=True)
            [core] = [suite for suite in suites.FULL if suite.title == "numpy.core"]
            self.assertEqual(core.arguments(pathlib.Path(folder))[-1], str(tests))

    def test_versions_are_read_from_the_pins(self):
        pins = "# numpy==1.0\nnumpy==2.4.6\npandas==3.1.1\nscikit-learn==1.9.1\nscipy==1.17.1\npytest==8.4.2\n"
        self.assertEqual(list(compare.pinned_versions(pins).values()), ["2.4.6", "3.1.1", "1.17.1", "1.9.1"])


if __name__ == "__main__":
    unittest.main()
