"""The judge of the fleet, on lists that are wrong."""

import unittest

from ledger import Fleet


class Judged(unittest.TestCase):
    def setUp(self):
        self.fleet = Fleet()
        self.fleet.ready(1)
        self.fleet.ready(2)

    def test_a_right_list_has_nothing_wrong(self):
        self.assertEqual(self.fleet.judge([2, 1], self.fleet.now()), [])

    def test_one_that_is_missing_is_told(self):
        self.assertEqual(self.fleet.judge([1], self.fleet.now()), ["2 runs and is not listed"])

    def test_one_that_started_meanwhile_may_be_missing(self):
        began = self.fleet.now()
        self.fleet.ready(3)
        self.assertEqual(self.fleet.judge([1, 2], began), [])

    def test_one_that_may_have_ended_may_be_missing_or_not(self):
        self.fleet.leaving(2)
        for listed in ([1], [1, 2]):
            self.assertEqual(self.fleet.judge(listed, self.fleet.now()), [])

    def test_one_that_was_gone_before_is_stale(self):
        began = self.fleet.now()
        self.fleet.gone(2)
        self.assertEqual(self.fleet.judge([1, 2], began), [])
        self.assertEqual(self.fleet.judge([1, 2], self.fleet.now()), ["2 is listed and was gone"])

    def test_one_that_came_again_is_not(self):
        self.fleet.gone(2)
        self.fleet.ready(2)
        self.assertEqual(self.fleet.judge([1, 2], self.fleet.now()), [])

    def test_what_a_killed_one_said_before_counts_no_more(self):
        self.fleet.doom(2)
        self.fleet.ready(2)
        self.assertEqual(self.fleet.judge([1], self.fleet.now()), [])
        self.fleet.gone(2)
        self.fleet.ready(2)
        self.assertEqual(self.fleet.judge([1, 2], self.fleet.now()), ["2 is listed and was gone"])
        self.fleet.started(2)
        self.fleet.ready(2)
        self.assertEqual(self.fleet.judge([1], self.fleet.now()), ["2 runs and is not listed"])

    def test_one_that_has_not_said_a_word_may_be_listed_or_not(self):
        self.fleet.started(3)
        for listed in ([1, 2], [1, 2, 3]):
            self.assertEqual(self.fleet.judge(listed, self.fleet.now()), [])

    def test_a_stranger_and_a_double_are_told(self):
        wrong = self.fleet.judge([1, 1, 2, 7], self.fleet.now())
        self.assertEqual(wrong, ["1 is listed twice", "7 is listed and was never a host"])


if __name__ == "__main__":
    unittest.main()
