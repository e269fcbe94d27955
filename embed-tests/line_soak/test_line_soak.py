"""Tests of the comparison of a module, with runs made by hand.

    python3 -m unittest discover embed-tests/line_soak
"""

import importlib.util
import pathlib
import types
import unittest
import unittest.mock

# Under a name of its own: the module `run` is that of ../cpython_suite.
SPEC = importlib.util.spec_from_file_location("line_soak", pathlib.Path(__file__).with_name("run.py"))
line_soak = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(line_soak)
HOST = line_soak.sys.modules["interpreters"].Interpreter("pyhost", "/pyhost", "3.11.7", "3.11.7", "0", "/tests")


def record(outcome, end="exit 0"):
    return {"end": end, "cases": {"case": {"outcome": outcome}}}


class Runner:
    """Gives the runs without samples and those with them, in their order; the last one again and again."""

    def __init__(self, without, within):
        self.records = {False: list(without), True: list(within)}
        self.values = set()

    def run(self, interpreter, module, log):
        variables = dict(interpreter.variables)
        self.values.add(variables.get("PYHOST_LINES"))
        left = self.records["PYHOST_LINES" in variables]
        return left.pop(0) if len(left) > 1 else left[0]


def compared(without, within):
    runner = Runner(without, within)
    found, cases = line_soak.compared(runner, HOST, "test_one", "4K", pathlib.Path("/"))
    assert runner.values == {None, "4K"} and cases == 1
    return found


class Comparison(unittest.TestCase):
    def test_equal_outcomes_pass_be_they_good_or_bad(self):
        for outcome in ("passed", "failed"):
            self.assertEqual(compared([record(outcome)], [record(outcome)]), [])

    def test_a_case_that_never_has_the_outcome_of_without_fails(self):
        [found] = compared([record("passed")], [record("failed")])
        self.assertEqual(found, "case: failed, without samples passed")

    def test_a_case_that_has_it_in_a_later_run_passes(self):
        self.assertEqual(compared([record("passed")], [record("failed"), record("passed")]), [])

    def test_a_crash_with_samples_alone_fails_though_a_later_run_passes(self):
        crash = record("not finished: killed by SIGSEGV", "killed by SIGSEGV")
        self.assertEqual(compared([record("passed")], [crash, record("passed")]), ["test_one: killed by SIGSEGV"])
        self.assertEqual(compared([crash], [crash]), [])

    def test_the_modules_begin_with_those_next_to_the_samples_and_go_on_without_end(self):
        host = types.SimpleNamespace(tests=pathlib.Path("/nowhere"))
        with unittest.mock.patch.object(pathlib.Path, "glob", lambda self, _: map(pathlib.Path, ["test_zip.py", "test_gc.py"])):
            names = line_soak.modules(host, 1)
            self.assertEqual([next(names), next(names)], ["test_gc", "test_zip"])
            self.assertEqual({next(names), next(names)}, {"test_gc", "test_zip"})


if __name__ == "__main__":
    unittest.main()
