"""Tests of the measurement without measuring: turns, ratios, what other programs say, targets, the report.

    python3 -m unittest discover benches
"""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest

import comparison
import contenders
import launch
import machine
import memory_tools
import pairs
import report
import run
import targets
from sections import SECTIONS, instructions, peers, resident, suite

HERE = pathlib.Path(__file__).resolve().parent


def samples_of(unit, **by_metric):
    samples = pairs.Samples()
    for metric, by_contender in by_metric.items():
        for contender, values in by_contender.items():
            for value in values:
                samples.add(metric, unit, contender, value)
    return samples


class TurnTests(unittest.TestCase):
    def turns(self, measure, rounds=2, **more):
        order, samples, told = [], pairs.Samples(), []

        def measured(contender):
            order.append(contender.name)
            return measure(contender)

        both = [contenders.Contender("stock", "a"), contenders.Contender("pyhost", "b")]
        pairs.alternate(samples, both, rounds, measured, launch.Failed, lambda one, _: told.append(one.name), **more)
        return order, samples, told

    def test_each_second_round_goes_backwards(self):
        order, _, _ = self.turns(lambda one: {"x": (1.0, "s")})
        self.assertEqual(order, ["stock", "pyhost", "pyhost", "stock"])

    def test_a_warm_up_is_not_kept(self):
        order, samples, _ = self.turns(lambda one: {"x": (1.0, "s")}, warm_up=True)
        self.assertEqual(len(order), 6)
        self.assertEqual(samples.values["x"]["pyhost"], [1.0, 1.0])

    def test_one_that_fails_is_told_of_once_and_left_out(self):
        def measure(one):
            if one.name == "pyhost":
                raise launch.Failed("no")
            return {"x": (1.0, "s")}

        order, samples, told = self.turns(measure, rounds=3)
        self.assertEqual(told, ["pyhost"])
        self.assertEqual(order.count("stock"), 3)
        self.assertEqual(pairs.rows(samples), [])


class RatioTests(unittest.TestCase):
    def test_a_ratio_is_formed_within_a_round(self):
        # The machine became ten times slower between the rounds.
        compared = pairs.compare([1.1, 11.0, 1.1], [1.0, 10.0, 1.0])
        self.assertAlmostEqual(compared["ratio"], 1.1)
        self.assertAlmostEqual(compared["low"], 1.1)
        self.assertAlmostEqual(compared["third_quartile"], 1.1)

    def test_one_wild_round_moves_neither_ratio_nor_interval_far(self):
        compared = pairs.compare([1.0] * 20 + [50.0], [1.0] * 21)
        self.assertEqual((compared["ratio"], compared["low"], compared["high"]), (1.0, 1.0, 1.0))

    def test_few_rounds_give_the_least_and_the_greatest(self):
        self.assertEqual(pairs.interval([1.2, 0.9, 1.0]), (0.9, 1.2))

    def test_a_bootstrap_interval_holds_the_median_and_is_repeatable(self):
        values = [1 + (i * 7 % 11) / 100 for i in range(30)]
        low, high = pairs.interval(values)
        self.assertLessEqual(low, 1.05)
        self.assertGreaterEqual(high, 1.05)
        self.assertEqual((low, high), pairs.interval(values))

    def test_what_was_not_measured_has_no_ratio(self):
        self.assertIsNone(pairs.compare([], [1.0]))

    def test_a_geometric_mean_takes_twice_and_half_for_one(self):
        self.assertAlmostEqual(pairs.geometric_mean([2.0, 0.5]), 1.0)

    def test_samples_come_back_from_json(self):
        samples = samples_of("s", x={"stock": [1.0], "pyhost": [2.0]})
        again = pairs.Samples.of_json(json.loads(json.dumps(samples.as_json())))
        self.assertEqual(pairs.rows(again), pairs.rows(samples))


class ParsingTests(unittest.TestCase):
    def test_callgrind_tells_its_count(self):
        self.assertEqual(instructions.collected("==7== Events    : Ir\n==7== Collected : 27654321\n==7==\n"), 27654321)
        with self.assertRaises(launch.Failed):
            instructions.collected("valgrind: fatal")

    def test_sizes_are_read_from_a_status(self):
        status = "Name:\tpyhost\nVmHWM:\t   10500 kB\nVmRSS:\t   10400 kB\nThreads:\t1\n"
        self.assertEqual(resident.fields(status), {"VmHWM": 10500, "VmRSS": 10400})

    def test_a_worker_file_is_read_whether_it_calibrated_or_measured(self):
        common = {"metadata": {"name": "chaos", "loops": 4}, "version": "1.0"}
        for run_of_it, values in (({"metadata": {"calibrate_loops": 4, "mem_max_rss": 9}, "warmups": [[4, 0.1]]}, []),
                                  ({"metadata": {"mem_max_rss": 9}, "values": [0.1, 0.2]}, [0.1, 0.2])):
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, "worker.json")
                path.write_text(json.dumps({**common, "benchmarks": [{"runs": [run_of_it]}]}), encoding="utf-8")
                self.assertEqual(suite.read(path), {"name": "chaos", "loops": 4, "values": values, "resident": 9})

    def test_messages_and_commands_hold_no_folders(self):
        said = launch.command_line(["/opt/a/python3", "/opt/b/run.py", "--output=/tmp/x/worker.json"])
        self.assertEqual(said, "python3 run.py --output=worker.json")
        self.assertEqual(machine.without_folders(["--python", "/opt/a/python3"]), ["--python", "python3"])

    def test_the_reason_of_a_failure_is_the_last_line_that_is_not_valgrinds(self):
        self.assertEqual(launch.last_line("Traceback\nValueError: x\n==1== Events\n\n"), "ValueError: x")
        self.assertEqual(launch.last_line("==1== Events\n"), "")

    def test_units_of_time_suit_the_value(self):
        self.assertEqual(report.quantity(0.000042, "ms"), "42.00 ns")
        self.assertEqual(report.quantity(1500.0, "ms"), "1.500 s")
        self.assertEqual(report.quantity(142.2, "MiB"), "142.2 MiB")


class LinkageTests(unittest.TestCase):
    FACTS = {"version": "3.11.7", "base_prefix": "/p", "libpython": "/p/libpython3.11.so.1.0", "soabi": "cpython-311"}
    ALL = contenders.SAME_PYTHON + contenders.SAME_LINKAGE

    def test_the_same_libpython_is_comparable(self):
        contenders.refuse_unlike(self.FACTS, dict(self.FACTS), self.ALL)

    def test_another_python_or_linkage_is_refused(self):
        for fact, other in (("version", "3.12.1"), ("libpython", "")):
            with self.assertRaisesRegex(contenders.Unlike, fact):
                contenders.refuse_unlike(self.FACTS, {**self.FACTS, fact: other}, self.ALL)

    def test_a_missing_executable_is_told_in_one_line(self):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            status = run.main(["--python", "/nonexistent/python", "--pyhost", "/nonexistent/pyhost"])
        self.assertEqual((status, errors.getvalue()), (1, "run.py: /nonexistent/python: no such executable\n"))

    def test_host_options_reach_the_host_alone(self):
        stock = contenders.Contender("stock", "a")
        host = contenders.Contender("pyhost small", "b", ("--retain", "small"), is_host=True)
        options = {"host_options": ("--malloc", "count")}
        self.assertEqual(stock.command("-c", "pass", **options), ["a", "-c", "pass"])
        self.assertEqual(host.command("x.py", **options), ["b", "--retain", "small", "--malloc", "count", "x.py"])

    def test_what_steers_an_interpreter_is_kept_out(self):
        env = contenders.Contender("x", "a", variables=(("LD_PRELOAD", "y.so"),), packages=("m",)).environment("n")
        self.assertEqual((env["LD_PRELOAD"], env["PYTHONPATH"], env["PYTHONHASHSEED"]), ("y.so", "n:m", "0"))
        self.assertNotIn("PYTHONMALLOC", env)


class TargetTests(unittest.TestCase):
    def told(self, sections, hosts):
        return {row["target"]: (row["ratio"], row["met"], row["contender"]) for row in targets.told(sections, hosts)}

    def test_a_target_is_met_up_to_its_bound(self):
        samples = samples_of("µs", **{"a*2, 8 MB": {"stock": [100.0], "pyhost": [100.0]},
                                      "a*2, 32 MB": {"stock": [100.0], "pyhost": [101.0]}})
        told = self.told({"arrays": samples}, ["pyhost"])
        self.assertEqual(told["a*2, 8 MB"], (1.0, True, "pyhost"))
        self.assertEqual(told["a*2, 32 MB"], (1.01, False, "pyhost"))
        self.assertEqual(told["a*2, 100 MB"], (None, None, "pyhost"))

    def test_a_target_of_the_small_profile_is_its_alone(self):
        after = "resident after freeing most, `small`"
        samples = samples_of("MiB", **{"after freeing most": {
            "stock": [100.0], "pyhost": [103.0], "pyhost small": [100.0]}})
        told = self.told({"resident": samples}, ["pyhost", "pyhost small"])
        self.assertEqual(told[after], (1.0, True, "pyhost small"))
        self.assertEqual(told["resident after freeing most"], (1.03, True, "pyhost"))
        self.assertEqual(self.told({"resident": samples}, ["pyhost"])[after], (1.03, False, "pyhost"))

    def test_the_nine_programs_are_summed_up_without_the_others(self):
        samples = samples_of("ms", **{"JSON": {"stock": [1.0], "pyhost": [0.5]}, "XML": {"stock": [1.0], "pyhost": [2.0]},
                                      "join and split": {"stock": [1.0], "pyhost": [9.0]}})
        told = self.told({"programs": samples}, ["pyhost"])
        self.assertAlmostEqual(told["nine programs, geometric mean"][0], 1.0)
        self.assertEqual(told["nine programs, worst"][0], 2.0)

    def test_pyperformance_counts_times_and_not_sizes(self):
        samples = samples_of("ms", a={"stock": [1.0], "pyhost": [2.0]}, b={"stock": [2.0], "pyhost": [1.0]})
        samples.add("a" + suite.RESIDENT, "MiB", "stock", 1.0)
        samples.add("a" + suite.RESIDENT, "MiB", "pyhost", 9.0)
        told = self.told({"pyperformance": samples}, ["pyhost"])
        self.assertAlmostEqual(told["pyperformance, geometric mean"][0], 1.0)
        self.assertEqual(told["pyperformance, worst benchmark"][0], 2.0)

    def test_a_peer_is_compared_with_by_times_that_both_have(self):
        samples = samples_of("ms", x={"stock": [1.0], "pyhost": [1.0], "jemalloc": [2.0]},
                             y={"stock": [1.0], "pyhost": [1.0]})
        self.assertEqual(list(peers.beside(samples, "pyhost", "jemalloc")), ["x"])
        self.assertAlmostEqual(targets.against("jemalloc")({"peers": samples}, "pyhost"), 0.5)

    def test_a_peer_is_compared_with_by_peaks(self):
        by = {"stock": [1.0], "pyhost": [3.0], "jemalloc": [2.0]}
        samples = samples_of("MiB", **{"JSON, peak": by, "JSON, after": {**by, "pyhost": [9.0]}})
        read = targets.against("jemalloc", peers.KINDS_OF_SIZE, "peak")
        self.assertAlmostEqual(read({"peers": samples}, "pyhost"), 1.5)


class ReportTests(unittest.TestCase):
    FACTS = {"mode": "short", "executables": "a b", "python": "3.11.7", "linkage": "static"}

    def result(self, **facts):
        samples = samples_of("ms", **{"`-c pass`": {"stock": [10.0, 10.0], "pyhost": [10.4, 10.2]}})
        return report.as_json({**self.FACTS, **facts}, {"startup": samples}, ["pyhost"], ["a note"])

    def test_the_tables_hold_ratio_interval_and_whether_the_target_was_met(self):
        markdown = report.as_markdown(self.result())
        self.assertIn("| `-c pass` | 10.00 ms | 1.030 | 1.020 to 1.040 |", markdown)
        self.assertIn("| start-up, `-c pass` | 1.030 | ≤ 1.05 | met |", markdown)
        self.assertIn("- a note", markdown)

    def test_a_program_has_a_row_with_its_sizes(self):
        samples = samples_of("ms", JSON={"stock": [10.0], "pyhost": [9.0]})
        for size, value in ((", peak", 2.0), (", after", 3.0)):
            samples.add("JSON" + size, "MiB", "stock", 1.0)
            samples.add("JSON" + size, "MiB", "pyhost", value)
        markdown = report.as_markdown(report.as_json(self.FACTS, {"programs": samples}, ["pyhost"], []))
        self.assertIn("| JSON | 10.00 ms | 0.900 | 0.900 to 0.900 | 2.000 | 3.000 |  |", markdown)

    def test_parts_of_one_measurement_are_joined(self):
        part = report.as_json(self.FACTS, {"resident": samples_of("MiB", peak={"stock": [1.0], "pyhost": [1.0]})},
                              ["pyhost"], [])
        whole = report.added(part, self.result())
        self.assertEqual(list(whole["sections"]), ["startup", "resident"])
        self.assertEqual(whole["notes"], ["a note"])

    def test_results_of_other_executables_are_not_joined(self):
        with self.assertRaises(report.Unwritable):
            report.added(self.result(), self.result(executables="a c"))

    def test_only_the_marked_block_is_replaced(self):
        text = f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n"
        once = report.replaced(text, "new")
        self.assertEqual(once, f"before\n{report.BEGIN}\n\nnew\n\n{report.END}\nafter\n")
        self.assertEqual(report.replaced(once, "new"), once)
        with self.assertRaises(report.Unwritable):
            report.replaced("no block", "new")

    def test_a_section_is_a_title_and_a_measure(self):
        for section in SECTIONS.values():
            self.assertTrue(section.TITLE and callable(section.measure))

    def test_the_document_has_the_block(self):
        document = (HERE.parent / "docs" / "results" / "performance.md").read_text(encoding="utf-8")
        self.assertIn(report.BEGIN, document)
        self.assertIn(report.END, document)


class ComparisonTests(unittest.TestCase):
    def test_a_line_is_the_programs_own_or_else_the_innermost(self):
        own, library = {"file": "/p.py", "line": 3}, {"file": "/json/decoder.py", "line": 353}
        records = [{"bytes": 5, "stack": [library, own]}, {"bytes": 2, "stack": [own]}, {"bytes": 1, "stack": [library]},
                   {"bytes": 9, "stack": []}]
        self.assertEqual(memory_tools.places(records, "/p.py"), {("/p.py", 3): 7, ("/json/decoder.py", 353): 1})

    def test_stacks_of_fil_begin_with_the_outermost_call(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "fil", "2026-11-29", "peak-memory.prof")
            path.parent.mkdir(parents=True)
            path.write_text("/p.py:3 (<module>);/json/decoder.py:353 (raw_decode) 4096\n[No Python stack] 7\n", encoding="utf-8")
            peak, records = memory_tools.of_fil(pathlib.Path(folder))
        self.assertEqual(peak, 4103)
        self.assertEqual(records[0]["stack"], [{"file": "/json/decoder.py", "line": 353}, {"file": "/p.py", "line": 3}])
        self.assertEqual(records[1]["stack"], [])

    def test_a_tool_that_wrote_nothing_has_failed(self):
        with tempfile.TemporaryDirectory() as folder:
            for read in (memory_tools.of_pyhost, memory_tools.of_fil, lambda own: memory_tools.of_ddtrace("python", own)):
                with self.assertRaises(launch.Failed):
                    read(pathlib.Path(folder))

    def test_of_two_tables_of_pyhost_the_one_counts_that_has_more(self):
        row = {"bytes": 5, "stack": []}
        report_of_it = {"at_resident_peak": {"resident_bytes": 9}, "lines": {"at_peak": [], "at_resident_peak": [row]}}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "report.json")
            for lines, expected in ((report_of_it["lines"], [row]), (None, [])):
                path.write_text(json.dumps({**report_of_it, "lines": lines}), encoding="utf-8")
                self.assertEqual(memory_tools.of_pyhost(pathlib.Path(folder)), (9, expected))

    def test_a_line_that_is_not_first_stands_in_brackets(self):
        label = next(iter(comparison.PROGRAMS))
        samples = pairs.Samples()
        for name, size, first in (("stock", 4.0, 1), ("Fil", 2.0, 0), ("memray", 3.0, 1)):
            samples.add(label + comparison.LINE, "MiB", name, size)
            samples.add(label + comparison.FIRST, "", name, first)
            samples.add(label + comparison.AROUND, "s", name, size)
        program = {"raw": samples.as_json(), "load": [1.0, 2.0], "rounds": 1}
        markdown = comparison.as_markdown({"facts": {}, "notes": ["a note"], "programs": {label: program}})
        self.assertIn(f"| {label} | 4.000 MiB | (0.50) | 0.75 |", markdown)
        self.assertIn(f"| {label} | 4.000 s | 2.00 | 3.00 |", markdown)
        self.assertIn("- a note", markdown)

    def test_each_program_has_its_marked_line_and_the_document_its_block(self):
        for program in comparison.PROGRAMS.values():
            comparison.marked(comparison.WORK / "compared" / f"{program}.py")
        document = (HERE.parent / "docs" / "results" / "comparison.md").read_text(encoding="utf-8")
        self.assertIn(comparison.BEGIN, document)
        self.assertIn(report.END, document)

    def test_an_unknown_program_is_told_in_one_line(self):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), self.assertRaises(SystemExit):
            comparison.parse(["--only", "churns"])
        self.assertIn("no program is called churns", errors.getvalue())


if __name__ == "__main__":
    unittest.main()
