"""Tests tools/gpu/report.py: time budgets, the log, and programs that have to be ended."""

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
import time
import unittest

importlib.import_module("support")  # puts tools/gpu into the path

import counters
import report

FILES = 8  # limit on the number of result files, as these are copied from another machine


class Report(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(lambda: subprocess.run(["rm", "-rf", self.folder], check=True))

    def check(self, seconds=None, begun=0.0):
        arguments = argparse.Namespace(build=self.folder, output=os.path.join(self.folder, "out"), device="cuda", against="cpu",
                                       seconds=seconds, quick=False)
        c = report.Check(arguments, self.folder, begun)
        self.addCleanup(c.log.file.close)
        return c

    def log(self):
        with open(os.path.join(self.folder, "out/output.log"), encoding="utf-8") as f:
            return f.read()

    def test_the_log_has_the_whole_output(self):
        self.check().run(["sh", "-c", "echo one; echo two >&2; exit 4"], 10)
        self.assertIn("exit code 4", self.log())
        self.assertIn("\none\n", self.log())
        self.assertIn("--- standard error\ntwo\n", self.log())

    def test_a_long_output_loses_its_middle_only(self):
        c = self.check()
        c.run([sys.executable, "-c", f"print('begin' + 'x' * {2 * report.STREAM_BYTES} + 'end')"], 20)
        self.assertIn("\nbegin", self.log())
        self.assertIn("characters left out", self.log())
        self.assertTrue(self.log().rstrip().endswith("end"))

    def test_the_log_is_bounded(self):
        c = self.check()
        done = report.Done(0, "x" * (1 << 21), "", 0)
        for _ in range(3 * report.LOG_MIB):
            c.log.add("step", ["program"], {}, done)
        self.assertLessEqual(os.path.getsize(os.path.join(self.folder, "out/output.log")), report.LOG_MIB << 20)

    def test_few_files_come_back(self):
        self.assertLessEqual(len({"results.md", "results.json", "output.log"}) + len(counters.KERNELS), FILES)
        self.assertLess(counters.MOST_BYTES, 16 << 20)

    def test_a_program_ends_with_the_call_and_its_children_too(self):
        c = self.check(seconds=3)
        begin = time.monotonic()
        with self.assertRaisesRegex(report.Cut, "the call's time is over: ended after"):
            c.run(["sh", "-c", "echo begun; sleep 60 & sleep 60"], 50)
        self.assertLess(time.monotonic() - begin, 20)
        self.assertIn("\nbegun\n", self.log())

    def test_the_time_of_a_step_is_its_own(self):
        c = self.check(seconds=500)
        c.deadlines.begin_step(1)
        with self.assertRaisesRegex(report.Cut, "the step's time is over: not started: true"):
            c.run(["true"], 50)
        c.deadlines.begin_step(None)
        self.assertEqual(c.run(["true"], 50).code, 0)

    def test_what_is_over_already_counts(self):
        with self.assertRaisesRegex(report.Cut, "not started"):
            self.check(seconds=500, begun=499).run(["true"], 50)

    def test_a_limit_of_its_own_is_no_cut(self):
        self.assertEqual(self.check(seconds=500).run(["sleep", "60"], 0.2).reason(), "not done after 0 s")

    def test_the_first_that_fails_ends_the_others(self):
        c = self.check()

        def fails():
            time.sleep(0.3)
            raise ValueError("failed")
        begin = time.monotonic()
        with self.assertRaisesRegex(ValueError, "failed"):
            c.all_of([fails, lambda: c.run(["sleep", "60"], 50)])
        self.assertLess(time.monotonic() - begin, 20)


if __name__ == "__main__":
    unittest.main()
