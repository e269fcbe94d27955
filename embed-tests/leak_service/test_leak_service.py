"""Tests of the runs' counts, with outcomes made by hand.

    python3 -m unittest discover embed-tests/leak_service
"""

import contextlib
import importlib.util
import io
import pathlib
import unittest

# Under a name of its own: `run` is a module of several folders.
SPEC = importlib.util.spec_from_file_location("leak_service", pathlib.Path(__file__).with_name("run.py"))
leak_service = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(leak_service)


class Runs(unittest.TestCase):
    def test_every_fourth_run_and_the_last_of_fewer_have_no_leaks(self):
        def without(runs):
            return [number for number in range(runs) if leak_service.is_without_leaks(number, runs)]
        self.assertEqual(without(9), [3, 7])
        self.assertEqual(without(3), [2])
        self.assertEqual(without(1), [])

    def test_a_slice_is_three_runs_at_a_time(self):
        options = leak_service.parse(["--pyhost", "a", "--pyhostctl", "b", "--slice"])
        self.assertEqual((options.runs, options.span, options.jobs), (3, "15s", 3))
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            leak_service.parse(["--pyhost", "a", "--pyhostctl", "b", "--runs", "0"])

    def test_a_time_has_a_unit_or_is_in_seconds(self):
        self.assertEqual([leak_service.seconds(span) for span in ("90", "30s", "2m", "1h")], [90, 30, 120, 3600])


class Counts(unittest.TestCase):
    def test_the_three_lines_and_no_other_must_be_named(self):
        counts = leak_service.Counts()
        leaks = sorted(leak_service.LEAKING)
        self.assertNotIn("FAILED", counts.add(1, True, (leaks, 30)))
        self.assertIn("missed ['audit']", counts.add(2, True, (leaks[1:], 30)))
        self.assertIn("falsely named ['serve']", counts.add(3, True, ([*leaks, "serve"], 30)))
        self.assertNotIn("FAILED", counts.add(4, False, ([], 20)))
        self.assertIn("falsely named ['audit']", counts.add(5, False, (["audit"], 20)))
        self.assertEqual(counts.summary(), [
            "8 of 9 leaking lines named, 2 of 121 other lines",
            "missed: audit, 1 times",
            "falsely named: serve, 1 times",
            "falsely named: audit, 1 times",
            "2 passed, 3 failed",
        ])

    def test_a_run_that_broke_has_failed_and_counts_no_line(self):
        counts = leak_service.Counts()
        self.assertIn("FAILED: it ended", counts.add(1, True, RuntimeError("it ended")))
        self.assertEqual(counts.summary(), ["0 of 0 leaking lines named, 0 of 0 other lines", "0 passed, 1 failed"])


if __name__ == "__main__":
    unittest.main()
