"""Tests of the command without a group: how mounts are read, how ends are judged.

    python3 -m unittest discover embed-tests/cgroup_limit
"""

import contextlib
import io
import pathlib
import tempfile
import unittest
from unittest import mock

import fixed_caps
import groups
import libraries
import run as command

MOUNTINFO = """\
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
34 31 0:31 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
41 31 0:38 /part /my\\040groups rw,relatime - cgroup2 cgroup2 rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
"""


class MountTests(unittest.TestCase):
    def test_hierarchies_with_the_memory_controller_are_found(self):
        found = list(groups.mounts(MOUNTINFO))
        self.assertEqual(found, [(1, "/", "/sys/fs/cgroup/memory"), (2, "/part", "/my groups")])

    def test_the_own_path_is_read_for_each_version(self):
        text = "5:cpu:/x\n4:hugetlb,memory:/a:b\n0::/c\n"
        self.assertEqual([groups.path_of(text, version) for version in (1, 2)], ["/a:b", "/c"])
        self.assertIsNone(groups.path_of("5:cpu:/x\n", 1))
        self.assertIsNone(groups.path_of("5:cpu:/x\n", 2))


class JudgeTests(unittest.TestCase):
    def test_ends_are_told_apart(self):
        for status, stdout, stderr, end in (
            (-9, "", "", "killed"),
            (0, "a\ncaught; finished\n", "pyhost: cap reached\n", "caught; finished"),
            (1, "", "Traceback\nMemoryError: cap reached\n", "MemoryError"),
            (1, "", "numpy.core._exceptions._ArrayMemoryError: x\n", "MemoryError"),
            (0, "caught", "", "status 0: nothing on stderr"),
            (1, "", "OSError: x\n", "status 1: OSError: x"),
            (-11, "", "Segmentation fault\n", "status -11: Segmentation fault"),
        ):
            self.assertEqual(command.end_of(status, stdout, stderr), end)

    def test_the_kernel_must_kill_without_a_cap_and_must_not_with_one(self):
        self.assertTrue(command.is_right("objects.py", False, "killed", 1))
        self.assertTrue(command.is_right("objects.py", False, command.STALLED, 0))
        self.assertFalse(command.is_right("objects.py", False, "timed out", 0))
        self.assertFalse(command.is_right("objects.py", True, command.STALLED, 0))
        # Killed by somebody else, or grown past a limit that was not at work.
        self.assertFalse(command.is_right("objects.py", False, "killed", 0))
        self.assertFalse(command.is_right("objects.py", False, "caught; finished", 0))
        self.assertTrue(command.is_right("objects.py", True, "caught; finished", 0))
        self.assertFalse(command.is_right("objects.py", True, "caught; finished", 1))
        self.assertFalse(command.is_right("objects.py", True, "MemoryError", 0))
        self.assertTrue(command.is_right("uncaught.py", True, "MemoryError", 0))
        for capped in (False, True):
            self.assertTrue(command.is_right("page_cache.py", capped, "page cache; finished", 0))
            self.assertFalse(command.is_right("page_cache.py", capped, "MemoryError", 0))


class LibraryTests(unittest.TestCase):
    def test_steps_grow_from_the_smallest_to_the_largest(self):
        steps = libraries.steps(20)
        self.assertEqual((steps[0], steps[-1], len(steps)), (256 << 10, 8 << 20, 20))
        self.assertEqual(steps, sorted(steps))
        self.assertEqual(libraries.steps(1), [256 << 10])

    def test_a_run_is_right_that_caught_its_error_and_whose_library_has_nine_tenths(self):
        def told(own, other):
            return {"mapped": [{"library": "libarrow.so.2600", "resident_bytes": own},
                               {"library": "libblas.so", "resident_bytes": other}]}

        good = "caught after 9 steps; finished"
        self.assertTrue(libraries.is_right("jemalloc", good, 0, told(95, 5)))
        self.assertFalse(libraries.is_right("jemalloc", good, 0, told(80, 20)))
        self.assertFalse(libraries.is_right("jemalloc", good, 1, told(95, 5)))
        self.assertFalse(libraries.is_right("jemalloc", "status 53: x", 0, told(95, 5)))
        self.assertFalse(libraries.is_right("mmap", good, 0, {"mapped": []}))
        self.assertTrue(libraries.is_right("system", good, 0, {"mapped": []}))


class FixedCapTests(unittest.TestCase):
    def test_steps_grow_to_the_largest(self):
        steps = fixed_caps.steps(6)
        self.assertEqual((steps[0], len(steps)), (256 << 10, 6))
        self.assertEqual(steps, sorted(steps))
        self.assertLess(abs(steps[-1] - 80_000_000), 4096)

    def test_an_end_with_status_53_has_a_line_and_a_dossier(self):
        line = "pyhost: fatal: cap of 1.0 GiB (total) reached: mapped asked for 8 bytes; exit status 53"
        dossier = "pyhost: cap of 1.0 GiB (total) reached: mapped asked for 8 bytes\n"
        self.assertEqual(fixed_caps.end_in_words("status 53: " + line, dossier + line), "53")
        self.assertNotEqual(fixed_caps.end_in_words("status 53: " + line, line), "53")
        self.assertNotEqual(fixed_caps.end_in_words("status 250: Aborted", dossier + line), "53")
        self.assertEqual(fixed_caps.end_in_words("caught after 3 steps; finished", ""), "caught")

    def test_a_run_is_right_that_stays_below_the_cap_beside_files_and_stacks(self):
        mib = 1 << 20
        for end, peak, facts, right in (
            ("caught", 560 * mib, {"beside": 40 * mib}, True),
            ("53", 560 * mib, {"beside": 40 * mib}, True),
            ("caught", 590 * mib, {"beside": 40 * mib}, False),
            ("caught", 560 * mib, {}, False),
            ("53", 250 * mib, {"beside": 40 * mib}, False),
            ("status 250: Aborted", 100 * mib, {"beside": 40 * mib}, False),
            ("timed out", 0, {"beside": 0}, False),
        ):
            self.assertEqual(fixed_caps.is_right("512M", end, peak, facts), right, (end, peak))


class CommandTests(unittest.TestCase):
    def test_where_no_group_can_be_made_that_is_said_in_one_line(self):
        def unavailable(*_):
            raise groups.Unavailable("read-only")

        with mock.patch.object(command, "Group", unavailable), contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(command.main(["--host", __file__]), 0)
        self.assertEqual(said.getvalue(), "skipped: read-only; read-only\n")

    def test_a_group_that_takes_no_limit_is_removed_again(self):
        with tempfile.TemporaryDirectory() as folder:
            with mock.patch.object(groups, "own_group", lambda version: pathlib.Path(folder)):
                with mock.patch.object(groups.Group, "_write", side_effect=PermissionError(1, "no")):
                    with self.assertRaises(groups.Unavailable):
                        groups.Group(1, 1)
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])


if __name__ == "__main__":
    unittest.main()
