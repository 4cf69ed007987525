"""Tests tools/gpu/check.sh: it unpacks with and without xz, keeps LD_LIBRARY_PATH, and reports programs that do not run."""

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import unittest

from support import ROOT, put

TOOLS = ("bash", "cat", "cut", "date", "dirname", "grep", "head", "mkdir", "nproc", "python3", "rm", "stat", "tr", "timeout", "sh")
# Logs the library path that it was started with, and pretends that a device exists.
PROGRAM = '''#!/bin/sh
echo "$LD_LIBRARY_PATH" >>"$FAKE_LOG"
case "$LD_LIBRARY_PATH" in $FAKE_NEEDS*) ;; *) echo "libstdc++.so.6: version GLIBCXX_3.4.99 not found" >&2; exit 127 ;; esac
[ "$1" != devices ] || echo 'cuda:0   usable   a device'
'''


class Shell(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(lambda: subprocess.run(["rm", "-rf", self.folder], check=True))
        self.tree, self.log = os.path.join(self.folder, "tree"), os.path.join(self.folder, "log")
        shutil.copytree(os.path.join(ROOT, "tools/gpu"), os.path.join(self.tree, "tools/gpu"),
                        ignore=shutil.ignore_patterns("carried", "__pycache__"))
        shutil.copy(os.path.join(ROOT, "tools/common.sh"), os.path.join(self.tree, "tools"))
        put(os.path.join(self.tree, "tools/gpu/check.py"), "import os, sys\nprint('build', os.environ['RUNTIME_GPU_BUILD_KIND'])\n"
            "print('begin', float(os.environ['RUNTIME_GPU_BEGIN']) > 1e9, *sys.argv[1:])\n")
        put(os.path.join(self.tree, "tools/gpu/carried/none"))
        self.pack({"build/bin/runtime": PROGRAM, "commit": "abc\nand changes\n"})
        self.programs = os.path.join(self.folder, "programs")
        os.mkdir(self.programs)
        for name in TOOLS:
            os.symlink(shutil.which(name), os.path.join(self.programs, name))

    def pack(self, files):
        with tarfile.open(os.path.join(self.tree, "tools/gpu/carried/pack.tar.xz"), "w:xz") as pack:
            for name, text in files.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode, entry.uid = len(text), 0o775, 12345
                pack.addfile(entry, io.BytesIO(text.encode()))

    def run_check(self, *words, **env):
        return subprocess.run([os.path.join(self.tree, "tools/gpu/check.sh"), *words], capture_output=True, text=True, check=False,
                              timeout=60, env={"PATH": self.programs, "RUNTIME_GPU_FOLDER": os.path.join(self.folder, "unpacked"),
                                               "FAKE_LOG": self.log, "FAKE_NEEDS": "", **env})

    def libraries(self):
        with open(self.log, encoding="utf-8") as f:
            return f.read().splitlines()[-1].split(":")

    def test_without_xz(self):
        done = self.run_check("--call", "a")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("build carried: abc and changes", done.stdout)
        self.assertIn(f"begin True --build {self.folder}/unpacked/build --call a", done.stdout)

    @unittest.skipUnless(shutil.which("xz"), "xz is not installed")
    def test_with_xz(self):
        for name in ("tar", "xz"):
            os.symlink(shutil.which(name), os.path.join(self.programs, name))
        self.assertIn("build carried: abc", self.run_check().stdout)

    def test_what_was_inherited_stays(self):
        self.run_check(LD_LIBRARY_PATH="/driver/lib64")
        self.assertEqual(self.libraries()[:2], [f"{self.folder}/unpacked/lib", "/driver/lib64"])

    def test_a_pack_is_unpacked_once_and_a_new_one_again(self):
        self.run_check()
        mark = put(os.path.join(self.folder, "unpacked/build/mark"))
        self.run_check()
        self.assertTrue(os.path.exists(mark))
        self.pack({"build/bin/runtime": PROGRAM, "commit": "a newer one\n"})
        self.assertIn("a newer one", self.run_check().stdout)
        self.assertFalse(os.path.exists(mark))

    def test_the_compilers_libraries_serve_where_the_machines_are_older(self):
        done = self.run_check(FAKE_NEEDS=f"{self.folder}/unpacked/lib-compiler:")
        self.assertIn("C++ library is older", done.stdout)
        self.assertIn("build carried: abc", done.stdout)

    def test_a_build_that_does_not_run_says_why(self):
        done = self.run_check(FAKE_NEEDS="/dev/null/nowhere")
        self.assertIn("GLIBCXX_3.4.99 not found", done.stdout)
        self.assertIn("cmake is not installed", done.stdout)
        self.assertIn("error: no build: what was carried does not run here", done.stderr)
        self.assertEqual(done.returncode, 1)

    def test_a_device_that_cannot_be_used_is_left_to_the_steps_to_report(self):
        put(os.path.join(self.programs, "nvidia-smi"), "#!/bin/sh\n", program=True)
        self.pack({"build/bin/runtime": PROGRAM.replace("usable", "unusable"), "commit": "abc\n"})
        done = self.run_check()
        self.assertIn("the device cannot be used", done.stdout)
        self.assertIn("build carried: abc", done.stdout)
        self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
