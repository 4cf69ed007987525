"""What the situations share: a folder that is removed afterwards, and the program as a user calls it.

A test file ends with `support.main()`. The program is the one that the variable RUNTIME names."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

RUNTIME = os.environ.get("RUNTIME", "runtime")
SKIPPED = 77  # the exit code by which ctest knows that nothing could be tested


class Situation(unittest.TestCase):
    """A test in a temporary folder, which is the working folder of every command."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="strangers_")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, content):
        """Writes text or bytes to a file in the folder and returns its path."""
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return path

    def runtime(self, *arguments, code=0, environment=None, seconds=120, folder=""):
        """Runs the program in a folder of the test, and returns what it printed on both streams; it must end with the exit code `code`."""
        environment = {**os.environ, "XDG_CACHE_HOME": self.path("cache"), **(environment or {})}
        done = subprocess.run([RUNTIME, *arguments], cwd=self.path(folder), env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=seconds, check=False)
        self.assertEqual(done.returncode, code, f"{' '.join(arguments)}\n{done.stdout}")
        return done.stdout

    def json_lines(self, *arguments, **options):
        """Runs the program and returns the objects of the lines that are JSON."""
        return [json.loads(line) for line in self.runtime(*arguments, **options).splitlines() if line.startswith("{")]

    def metrics(self, run):
        """The lines of metrics.jsonl of a run's folder."""
        with open(self.path(run, "metrics.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]


def main():
    if not (os.path.exists(RUNTIME) or shutil.which(RUNTIME)):
        print(f"skipped: the program {RUNTIME} was not found; RUNTIME names it")
        sys.exit(SKIPPED)
    unittest.main()
