"""The scheduler: order, needs, locks, processors, failures and skipped tests; and the table itself.

    python3 -m unittest discover tools/ci
"""

import io
import os
import pathlib
import signal
import sys
import tempfile
import threading
import unittest

import schedule
from schedule import Run, Step


def shell(name, command="", **row):
    return Step(name, ["sh", "-c", command], **row)


def run(*steps, **settings):
    """Whether all passed, and what the run printed."""
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        return Run(steps, folder, say=said, **settings).run(), said.getvalue()


def order(*steps):
    """The names in the order in which the steps start, if each one that runs ends before the next one starts."""
    path, waiting, found = schedule.paths(steps), list(steps), []
    while step := schedule.choose(waiting, [], set(found), [], path):
        waiting.remove(step)
        found.append(step.name)
    return found


class Order(unittest.TestCase):
    def chosen(self, waiting, running=(), passed=(), failed=()):
        step = schedule.choose(waiting, running, set(passed), failed, schedule.paths([*running, *waiting]))
        return step and step.name

    def test_the_longest_path_starts_first(self):
        steps = [shell("long", seconds=50), shell("head", seconds=10), shell("tail", seconds=45, needs=("head",))]
        self.assertEqual(order(*steps), ["head", "long", "tail"])

    def test_steps_of_a_lock_follow_the_table(self):
        steps = [shell("short", seconds=1, locks=("a",)), shell("other", seconds=30), shell("long", seconds=40, locks=("a",))]
        self.assertEqual(order(*steps), ["short", "long", "other"])

    def test_a_lock_and_busy_processors_hold_a_step_back(self):
        held, whole, half = shell("held", locks=("a",)), shell("whole", processors=2), shell("half", processors=0.5)
        self.assertEqual(self.chosen([held], [shell("b")]), "held")
        self.assertIsNone(self.chosen([held], [shell("b", locks=("a",))]))
        self.assertIsNone(self.chosen([whole], [shell("b", processors=0.5)]))
        self.assertIsNone(self.chosen([half], [shell("b", processors=2)]))
        self.assertEqual(self.chosen([half], [shell("b", processors=1.5)]), "half")

    def test_a_need_must_pass_and_what_comes_before_must_end(self):
        needs, after = shell("needs", needs=("a",)), shell("after", after=("a",))
        self.assertIsNone(self.chosen([needs, after]))
        self.assertIsNone(self.chosen([needs], failed=["a"]))
        self.assertEqual(self.chosen([needs], passed=["a"]), "needs")
        self.assertEqual(self.chosen([after], failed=["a"]), "after")

    def test_a_bad_table_is_refused(self):
        for steps in [(shell("a"), shell("a")), (shell("a", needs=("b",)), shell("b")), (shell("a", processors=3),)]:
            with self.assertRaises(ValueError):
                schedule.check(steps)


class Running(unittest.TestCase):
    def test_steps_run_at_the_same_time_and_print_whole(self):
        # Each waits for the other.
        meet = "echo {0}1; touch {0}; while [ ! -e {1} ]; do sleep 0.01; done; echo {0}2"
        with tempfile.TemporaryDirectory() as folder:
            steps = [shell(f"step {a}", f"cd {folder}; " + meet.format(a, b)) for a, b in [("a", "b"), ("b", "a")]]
            passed, said = run(*steps)
        self.assertTrue(passed)
        self.assertIn("\n=== step a\na1\na2\n===", said)
        self.assertIn("\n=== step b\nb1\nb2\n===", said)
        self.assertTrue(said.endswith("\nall passed\n"), said)

    def test_a_failure_is_named_with_its_lines_and_with_what_did_not_run(self):
        steps = [shell("bad", "echo before; echo thread panicked at x; exit 3"), shell("next", "echo ran", needs=("bad",)),
                 shell("last", "echo ran", needs=("next",)), shell("good", "echo fine"), shell("after", "echo later", after=("bad",))]
        passed, said = run(*steps)
        self.assertFalse(passed)
        self.assertIn("=== what failed: bad\n2: thread panicked at x\n...\nbefore\nthread panicked at x\n", said)
        self.assertIn("=== what failed: last\nnot run: it needs next\n", said)
        self.assertTrue(said.endswith("\nfailed: bad\nfailed: next\nfailed: last\n"), said)
        self.assertNotIn("ran\n", said)
        self.assertIn("=== good\nfine\n", said)
        self.assertIn("=== after\nlater\n", said)

    def test_a_command_that_is_missing_or_killed_fails(self):
        passed, said = run(Step("missing", ["/nonexistent"]), shell("killed", "kill -9 $$"))
        self.assertFalse(passed)
        self.assertTrue(said.endswith("failed: missing\nfailed: killed\n"), said)

    def test_skipped_tests_are_counted_and_named(self):
        passed, said = run(shell("a", "echo 'one: no browser' >>$SKIPPED; echo 'skipped: no kernel'"),
                           shell("b", "echo 'not tried: memray'; echo 'nothing skipped: x'"), skipped=["c: no test"])
        self.assertTrue(passed)
        self.assertIn("\n4 tests skipped\n", said)
        for line in ["c: no test", "a: one: no browser", "a: skipped: no kernel", "b: not tried: memray"]:
            self.assertIn(f"\n{line}\n", said)
        self.assertNotIn("\nb: nothing", said)

    def test_the_environment_of_a_step_adds_and_removes(self):
        os.environ["OF_THE_RUN"] = "1"
        self.addCleanup(os.environ.pop, "OF_THE_RUN")
        _, said = run(shell("a", 'echo "$OWN${OF_THE_RUN-gone}"', environment={"OWN": "x", "OF_THE_RUN": None}))
        self.assertIn("=== a\nxgone\n", said)

    def test_processor_time_is_that_of_the_step(self):
        _, said = run(Step("busy", [sys.executable, "-c", "import time\nwhile time.process_time() < 1: pass"]), shell("idle", "sleep 1"))
        self.assertRegex(said, r"processors +1 s  busy\n")
        self.assertRegex(said, r"processors +0 s  idle\n")

    def test_a_line_says_what_runs(self):
        self.addCleanup(setattr, schedule, "HEARTBEAT", schedule.HEARTBEAT)
        schedule.HEARTBEAT = 0
        self.assertRegex(run(shell("slow", "sleep 0.5"))[1], r"=== 0 s, running: slow \(0 s\)\n")

    def test_an_interrupted_run_ends_its_steps_and_says_what_they_printed(self):
        # A shell starts what it leaves in the background with SIGINT ignored.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
        timer.start()
        passed, said = run(shell("long", "echo begun; exec sleep 60"), shell("later", needs=("long",)))
        self.assertFalse(passed)
        self.assertIn("begun\n", said)
        self.assertTrue(said.endswith("failed: long\n"), said)


class Table(unittest.TestCase):
    def test_each_program_of_the_table_is_there(self):
        import steps

        os.chdir(steps.ROOT)
        rows, _ = steps.table()
        schedule.check(rows)
        self.assertGreater(len(rows), 25)
        for row in rows:
            for word in row.command:
                if str(word).startswith(("tools/", "embed-tests/", "devices/")):
                    self.assertTrue(pathlib.Path(word).exists(), f"{row.name}: {word}")


if __name__ == "__main__":
    unittest.main()
