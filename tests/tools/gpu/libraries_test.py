"""Tests tools/gpu/libraries.py: it keeps the entries of LD_LIBRARY_PATH and finds both layouts of Python's packages."""

import os
import subprocess
import sys
import tempfile
import unittest

from support import ROOT, put


class Libraries(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(lambda: subprocess.run(["rm", "-rf", self.folder], check=True))

    def run_script(self, *words, **env):
        done = subprocess.run([sys.executable, os.path.join(ROOT, "tools/gpu/libraries.py"), *words], capture_output=True,
                              text=True, check=True, env={"PATH": os.environ["PATH"], **env})
        return done.stdout.strip().split(":"), done.stderr

    def test_what_is_there_stays_and_comes_before_what_is_found(self):
        packages = os.path.join(self.folder, "site-packages")
        found = os.path.dirname(put(os.path.join(packages, "nvidia/cu13/lib/libcublasLt.so.13")))
        path, _ = self.run_script("/packed/lib", LD_LIBRARY_PATH="/driver/lib64::/other", PYTHONPATH=packages)
        self.assertEqual(path[:3], ["/packed/lib", "/driver/lib64", "/other"])
        self.assertIn(found, path[3:])
        self.assertNotIn("", path)

    def test_packages_of_both_layouts(self):
        packages = os.path.join(self.folder, "site-packages")
        folders = [os.path.dirname(put(os.path.join(packages, "nvidia", name)))
                   for name in ("cu13/lib/libcublasLt.so.13", "cu13/lib/libnvrtc.so.13", "cudnn/lib/libcudnn.so.9",
                                "nccl/lib/libnccl.so.2")]
        path, words = self.run_script(PYTHONPATH=packages)
        for folder in folders:
            self.assertEqual(path.count(folder), 1)
        self.assertIn(f"libcudnn.so.9: {packages}/nvidia/cudnn/lib/libcudnn.so.9", words)

    def test_a_toolkit_of_the_environment(self):
        home = os.path.join(self.folder, "cuda")
        found = os.path.dirname(put(os.path.join(home, "targets/x86_64-linux/lib/libcublasLt.so.13")))
        path, _ = self.run_script(CUDA_HOME=home)
        self.assertIn(found, path)

    def test_what_is_missing_is_said_with_its_consequence(self):
        import libraries
        libraries.WANTED = (("libnobody.so.1", "nothing works"),)
        self.assertEqual(libraries.report(), ["libnobody.so.1: not found (nothing works)"])


if __name__ == "__main__":
    unittest.main()
