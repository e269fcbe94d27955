"""Tests of the judgement, with reports and truths made by hand.

    python3 -m unittest discover embed-tests/line_oracle
"""

import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import judge  # noqa: E402

INTERVAL = 1000
PLACES = [{"site": "first", "file": "own.py", "first": 10, "last": 12},
          {"site": "second", "file": "own.py", "first": 20, "last": 20},
          {"site": "made", "file": "<made>", "first": 1, "last": 1 << 30}]


def call(file, line):
    return {"file": file, "line": line, "function": "function"}


def row(size, *stack, account="obj", error=3 * INTERVAL):
    return {"account": account, "bytes": size, "blocks": 1, "error_bytes": error, "stack": list(stack)}


def report(rows, interval=INTERVAL, live=None):
    sums = {"obj": {"bytes": sum(row["bytes"] for row in rows), "blocks": 1, "error_bytes": 3 * interval, "stacks": len(rows)}}
    views = {view: rows for view, _, _ in judge.VIEWS}
    accounts = {account: {"live_bytes": 0, "live_blocks": 0} for account in judge.ACCOUNTS}
    accounts["obj"] = {"live_bytes": sums["obj"]["bytes"] if live is None else live, "live_blocks": 1}
    return {"accounts": accounts,
            "lines": {"interval_bytes": interval, "dropped": 0, "sums": dict.fromkeys(views, sums), **views}}


def truth(**sites):
    moment = {"accounts": {**dict.fromkeys(judge.ACCOUNTS, 0), "obj": sum(sites.values())},
              "sites": {site: {**dict.fromkeys(judge.ACCOUNTS, 0), "obj": size} for site, size in sites.items()}}
    return {"peak": moment, "end": moment, "by_blocks": {}, "native_before": 0}


class Sites(unittest.TestCase):
    def setUp(self):
        self.places = judge.Places(PLACES)

    def test_the_innermost_call_of_the_programs_own_code_counts(self):
        self.assertEqual(self.places.site_of([call("lib.py", 11), call("own.py", 12), call("own.py", 20)]), "first")
        self.assertEqual(self.places.site_of([call("<made>", 3), call("own.py", 20)]), "made")

    def test_an_own_call_outside_of_all_sites_is_nobodys(self):
        self.assertIsNone(self.places.site_of([call("own.py", 13), call("own.py", 12)]))
        self.assertIsNone(self.places.site_of([]))

    def test_the_errors_of_rows_add_as_squares_beyond_three_intervals(self):
        rows = [row(100, call("own.py", 10), error=3300), row(50, call("own.py", 11), error=3400)]
        [estimate] = judge.by_site(rows, self.places, INTERVAL).values()
        self.assertEqual((estimate.bytes, estimate.error(INTERVAL)), (150, 3500))


class Verdicts(unittest.TestCase):
    def judged(self, estimates, true):
        judgement = judge.Judgement()
        for estimate in estimates:
            judgement.add(report([row(estimate, call("own.py", 10))]), truth(first=true), judge.Places(PLACES))
        return judgement

    def test_a_site_that_is_often_wrong_fails(self):
        judgement = self.judged([10_000] * 82 + [20_000] * 18, 10_000)
        self.assertIn(("at_peak", "first", "obj"), judgement.failures(judge.may_reach_share))
        judgement = self.judged([10_000] * 94 + [20_000] * 6, 10_000)
        self.assertNotIn(("at_peak", "first", "obj"), judgement.failures(judge.may_reach_share))

    def test_a_report_that_leaves_stacks_out_is_counted(self):
        judgement = self.judged([100] * 3, 100)
        self.assertEqual(judgement.cut, 0)
        longer = report([row(100, call("own.py", 10))])
        longer["lines"]["sums"]["live"] = {"obj": {**longer["lines"]["sums"]["live"]["obj"], "stacks": 2}}
        judgement.add(longer, truth(first=100), judge.Places(PLACES))
        self.assertEqual(judgement.cut, 1)

    def test_a_site_without_rows_is_an_estimate_of_zero(self):
        judgement = judge.Judgement()
        judgement.add(report([]), truth(first=3_000, second=3_001), judge.Places(PLACES))
        self.assertEqual(judgement.tallies["at_peak", "first", "obj"].within, 1)
        self.assertEqual(judgement.tallies["at_peak", "second", "obj"].within, 0)

    def test_a_share_may_be_missed_by_chance_but_not_by_more(self):
        for runs, within, passes in ((20, 16, True), (20, 13, False), (200, 186, True), (200, 170, False)):
            self.assertEqual(judge.may_reach_share(None, judge.Tally(runs=runs, within=within)), passes)

    def test_the_sums_of_accounts_count_together(self):
        account = ("live", judge.TOTAL, "obj")
        judgement = judge.Judgement()
        judgement.tallies[account] = judge.Tally(runs=200, within=186, true=1.0)
        judgement.tallies["at_peak", judge.TOTAL, "obj"] = judge.Tally(runs=200, within=190, true=1.0)
        self.assertEqual(judgement.share_of_totals(), 0.94)

    def test_a_mean_that_is_not_the_truth_is_seen_though_each_estimate_is_within_its_error(self):
        draw = random.Random(1)
        just, unjust = judge.Tally(), judge.Tally()
        for _ in range(200):
            noise = draw.gauss(0, 10_000)
            just.add(100_000, 100_000 + noise, 60_000)
            unjust.add(100_000, 112_000 + noise, 60_000)
        self.assertEqual((just.within, unjust.within), (200, 200))
        self.assertTrue(judge.is_just(("live", "first", "obj"), just))
        self.assertFalse(judge.is_just(("live", "first", "obj"), unjust))

    def test_the_worst_site_and_the_share_of_all_are_of_sites_with_an_interval(self):
        shares = self.judged([10_000] * 9 + [20_000], 10_000).shares(INTERVAL)
        self.assertEqual((shares.sites, shares.pooled, shares.worst), (1, 0.9, 0.9))


class Exactness(unittest.TestCase):
    def differences(self, size, true, **more):
        rows = [row(size, call("own.py", 10), error=0)]
        return judge.exact_differences(report(rows, 1, **more), truth(first=true), judge.Places(PLACES))

    def test_equal_sums_have_no_differences(self):
        self.assertEqual(self.differences(90_000, 90_000), [])

    def test_an_account_must_be_exact_to_the_byte(self):
        self.assertEqual(self.differences(90_000, 90_000, live=90_001), ["obj: 90000 bytes, and 90001 by the ledger"])

    def test_a_site_may_differ_by_what_free_lists_keep(self):
        self.assertEqual(self.differences(90_000, 90_000 + judge.NOT_ITS_OWN["obj"]), [])
        found = self.differences(90_000, 90_001 + judge.NOT_ITS_OWN["obj"])
        self.assertEqual(len(found), 2)
        self.assertTrue(found[0].startswith("at_peak, first, obj: 90000 bytes"))


if __name__ == "__main__":
    unittest.main()
