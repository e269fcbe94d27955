"""Tests of the comparison, with records and rows made by hand.

    python3 -m unittest discover embed-tests/memray_lines
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import compare  # noqa: E402

INTERVAL = 1000


def call(file, line):
    return {"file": file, "line": line, "function": "function"}


def record(size, *stack, is_map=False):
    return {"bytes": size, "blocks": 1, "is_map": is_map, "stack": list(stack)}


def row(size, *stack, account="obj"):
    return {"account": account, "bytes": size, "error_bytes": 3 * INTERVAL, "stack": list(stack)}


def lines(records, rows):
    return compare.lines_of(records, rows, INTERVAL, lambda file: file == "/own.py")


class Comparison(unittest.TestCase):
    def places(self, different):
        return [line.place for line in different]

    def test_lines_with_the_same_bytes_agree(self):
        found = lines([record(100_000, call("/lib.py", 3), call("/own.py", 7))], [row(104_000, call("/own.py", 7))])
        by_memray, by_host, different = compare.compared(found, INTERVAL)
        self.assertEqual((self.places(by_memray), self.places(by_host), different), (["own.py:7"], ["own.py:7"], []))

    def test_a_line_that_one_side_lacks_differs(self):
        for records, rows in (([record(100_000, call("/own.py", 7))], []), ([], [row(100_000, call("/own.py", 7))])):
            self.assertEqual(self.places(compare.compared(lines(records, rows), INTERVAL)[2]), ["own.py:7"])

    def test_the_host_may_have_a_fourth_more_but_not_less(self):
        for estimate, differs in ((128_000, False), (129_000, True), (97_000, False), (96_900, True)):
            found = lines([record(100_000, call("/own.py", 7))], [row(estimate, call("/own.py", 7))])
            self.assertEqual(bool(compare.compared(found, INTERVAL)[2]), differs, estimate)

    def test_maps_are_left_out_on_both_sides(self):
        found = lines([record(100_000, call("/own.py", 7), is_map=True)], [row(90_000, call("/own.py", 7), account="mapped")])
        self.assertEqual(compare.compared(found, INTERVAL), ([], [], []))

    def test_a_line_below_the_least_error_is_not_compared(self):
        found = lines([record(3_000, call("/own.py", 7))], [])
        self.assertEqual(compare.compared(found, INTERVAL), ([], [], []))

    def test_code_around_the_program_has_no_line(self):
        self.assertEqual(compare.place_of([call("/x/memray/run.py", 1)], lambda file: False), compare.ELSEWHERE)
        self.assertEqual(compare.place_of([call("/x/lib.py", 1)], lambda file: False), "lib.py:1")
        self.assertEqual(compare.place_of([], lambda file: False), compare.ELSEWHERE)

    def test_a_line_with_ten_larger_ones_for_sure_is_not_among_the_first_ten(self):
        large = [row(100_000, call("/own.py", line)) for line in range(1, 11)]
        found = lines([], [*large, row(50_000, call("/own.py", 20)), row(98_000, call("/own.py", 21))])
        self.assertFalse(compare.is_rank_possible(found["own.py:20"], found, INTERVAL))
        self.assertTrue(compare.is_rank_possible(found["own.py:21"], found, INTERVAL))


if __name__ == "__main__":
    unittest.main()
