"""Tests of run.py's parts: python3 -m unittest discover -q embed-tests/fault_places"""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import evidence  # noqa: E402
import outcomes  # noqa: E402
import places  # noqa: E402
import table  # noqa: E402

CRASH = """Fatal Python error: Segmentation fault

Thread 0x00007f0000000001 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait

Current thread 0x00007f0000000002 (most recent call first):
  File "/usr/lib/python3.11/json/encoder.py", line 12 in encode
  File "/x/program.py", line 5 in work
  File "/x/program.py", line 99 in under_host

Extension modules: numpy (total: 1)
"""


class Places(unittest.TestCase):
    def requests(self, each):
        return {(phase, accounts): each for phase, accounts, _ in places.SHARES}

    def test_a_thousand_places_are_chosen_once_each(self):
        chosen = places.choose(1000, self.requests(5000))
        self.assertEqual(len(chosen), 1000)
        self.assertEqual(len(set(chosen)), 1000)
        self.assertEqual(chosen, places.choose(1000, self.requests(5000)))

    def test_what_a_phase_lacks_another_takes(self):
        requests = self.requests(5000)
        requests["numpy", "numpy"] = 3
        chosen = places.choose(1000, requests)
        self.assertEqual(len(chosen), 1000)
        self.assertEqual([number for *pair, number in chosen if pair == ["numpy", "numpy"]], [1, 2, 3])

    def test_places_lie_over_all_requests(self):
        self.assertEqual(places.spread(100, 4), [1, 26, 51, 76])
        self.assertEqual(places.spread(3, 5), [1, 2, 3])


class Outcomes(unittest.TestCase):
    def test_a_run_has_one_outcome(self):
        for status, output, errors, expected in [
            (None, "", "", outcomes.HANG),
            (0, "result a\nrequests 3\n", "", outcomes.SURVIVED),
            (0, "result b\n", "", outcomes.WRONG_RESULT),
            (0, "", "", outcomes.WRONG_RESULT),
            (1, "", "Traceback (most recent call last):\n  File\nMemoryError\n", outcomes.MEMORY_ERROR),
            (1, "", "Traceback\nnumpy._core._exceptions._ArrayMemoryError: Unable\n", outcomes.MEMORY_ERROR),
            (1, "", "Traceback\nSystemError: returned NULL\n", outcomes.OTHER_ERROR),
            (1, "", "", outcomes.OTHER_ERROR),
            (-11, "", CRASH, "SIGSEGV"),
            (-6, "", "Fatal Python error: Aborted\n", "SIGABRT"),
            (-6, "", "Fatal Python error: f: no memory\n", outcomes.FATAL),
        ]:
            self.assertEqual(outcomes.classify(status, output, errors, "result a"), expected, (status, errors))

    def test_the_stack_is_that_of_the_thread_that_crashed(self):
        self.assertEqual(outcomes.python_stack(CRASH)[:2], [["json/encoder.py", 12, "encode"], ["program.py", 5, "work"]])
        self.assertEqual(outcomes.python_stack(""), [])


class Evidence(unittest.TestCase):
    def test_starts_are_tried_nearest_first(self):
        self.assertEqual(evidence.neighbours(3, 3), [3, 4, 2, 5, 1, 6])

    def test_the_place_is_that_below_the_program(self):
        inner = [["a.py", 1, "f"], ["program.py", 5, "work"]]
        self.assertTrue(evidence.same_python_place(inner + [["program.py", 9, "under_host"]],
                                                   inner + [["program.py", 8, "under_python"]]))
        self.assertFalse(evidence.same_python_place(inner, [["a.py", 2, "f"], *inner[1:]]))

    def test_c_functions_are_those_that_do_not_only_pass_on(self):
        backtrace = """Program received signal SIGSEGV
#0  0x00007ffff7cbcc92 in _PyObject_GC_UNTRACK (op=0x1) at x.h:3
#1  context_tp_dealloc (self=0x1) at y.c:4
#2  0x1 in pyhost_host::python::hooks::malloc<2> () at src/host/python/hooks/mod.rs:26
#3  0x2 in context_new () from /usr/lib/x.so"""
        self.assertEqual(evidence.c_functions(backtrace), ["_PyObject_GC_UNTRACK", "context_tp_dealloc", "context_new"])
        self.assertEqual(evidence.c_functions("==7==    at 0x48417B: free (vg.c:872)\n==7==    by 0x1B3: f (a.c:3)"), ["f"])

    def test_the_loaders_own_wrong_accesses_are_left_out(self):
        loader = "==7== Invalid read of size 8\n==7==    at 0x4: strncmp (s.S:1)\n==7==    by 0x4: _dl_dst_count (d.c:2)\n"
        own = "==7== Invalid read of size 4\n==7==    at 0x1: f (a.c:3)\n==7==    by 0x2: g (a.c:9)\n"
        first = "==7==    at 0x1: f (a.c:3)\n==7==    by 0x2: g (a.c:9)"
        self.assertEqual(evidence.first_wrong_access(f"{loader}==7==  Address 0x5 is inside\n{own}==7==  Address"), first)
        self.assertEqual(evidence.first_wrong_access(loader), "")

    def test_the_debug_hooks_are_asked_about_the_same_failed_request_wherever_it_ends(self):
        plain = {"injected": "9 obj 160 importlib:445 in lock < importlib:417 in enter", "stack": [["importlib", 780, "load"]]}
        crash = {"outcome": "SIGSEGV", "stack": [["importlib", 445, "lock"]]}
        hooked = {
            10: crash | {"injected": "10 obj 184 importlib:446 in lock"},
            8: crash | {"injected": "8 mem 184 importlib:445 in lock < importlib:417 in enter"},
            11: crash | {"injected": "11 obj 160 importlib:445 in lock < importlib:417 in enter"},
            7: crash | {"injected": "7 obj 184 importlib:445 in lock < importlib:417 in enter"},
        }
        stock = {12: crash}

        class Runner:
            def with_debug_hooks(self):
                return self

            def run(self, side, place, timeout=None):
                runs = hooked if side == "pyhost" else stock
                return runs.get(place[2], {"outcome": "MemoryError", "stack": []})

            def backtrace(self, side, place):
                return "#0  0x1 in new_function (code=0x1) at f.c:3"

        found = evidence.same_under_debug_hooks(Runner(), ("imports", "raw+mem+obj", 9), plain)
        self.assertEqual((found["status"], found["start"]), ("same damage", 12))
        del hooked[7]
        self.assertIsNone(evidence.same_under_debug_hooks(Runner(), ("imports", "raw+mem+obj", 9), plain))

    def test_the_debug_hooks_do_not_make_a_native_request_larger(self):
        native, line = {"injected": "9 native 64 -"}, {"injected": "10 native 88 -"}
        self.assertTrue(evidence.same_request(native, native))
        self.assertFalse(evidence.same_request(line, native))
        self.assertFalse(evidence.same_request({}, native))

    def test_what_was_shown_once_holds_for_the_same_functions(self):
        shown = {"place": ["json", "raw+mem+obj", 3], "status": "same damage", "host_c": ["a", "b", "c"]}
        self.assertEqual(evidence.kin({"status": "not found", "host_c": ["a", "b", "c", "d"]}, [shown]), shown["place"])
        self.assertIsNone(evidence.kin({"status": "not found", "host_c": ["a", "b"]}, [shown]))
        self.assertIsNone(evidence.kin({"status": "not found", "host_c": ["a", "b", "c"]}, [shown | {"status": "not found"}]))


class Tables(unittest.TestCase):
    class Runner:
        release, numpy = "3.11.7", "2.4"

    def record(self, outcome, status=None):
        found = {"evidence": {"status": status, "start": 8, "host_c": ["f"]}} if status else {}
        return {"place": ["json", "raw+mem+obj", 7], "outcome": outcome, "stack": [], "fatal": None, **found}

    def test_a_crash_needs_stocks(self):
        records = [self.record("MemoryError"), self.record("SIGSEGV", "same place"), self.record("SIGSEGV", "not found"),
                   self.record("hang", "same way"), self.record("SIGSEGV", "same way"), self.record("hang")]
        results = [(self.Runner, records)]
        self.assertEqual(table.unexplained(results), [records[2], records[4], records[5]])
        self.assertIn("| 3.11.7, NumPy 2.4 | 6 | 1 | 0 | 0 | 3 | 2 |", table.outcomes_table(results))
        self.assertIn("| 3.11.7 | json, raw+mem+obj | SIGSEGV | `f` | same place | 7 |", table.crashes(results))

    def test_a_file_keeps_what_is_around_the_tables(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "x.md")
            path.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
            table.put_into(path, "new\n")
            self.assertEqual(path.read_text(), f"before\n{table.BEGIN}\nnew\n{table.END}\nafter\n")


if __name__ == "__main__":
    unittest.main()
