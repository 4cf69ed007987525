"""Tests tools/gpu/check.py with all its steps for a GPU, with programs that stand in for those of such a machine."""

import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

from support import ROOT, put

import check
import correct
import counters
import speed

HERE = os.path.dirname(os.path.abspath(__file__))
SUITE = r'''#!/usr/bin/env python3
import json, os, sys
report = next(w.split("json:")[1] for w in sys.argv if w.startswith("--gtest_output"))
assert os.path.isdir(os.environ["RUNTIME_TEST_PLUGINS"])
failures = {"failures": [{}]} if os.environ["RUNTIME_TEST_DEVICE_OPTIONS"] == os.environ.get("FAKE_FAILS") else {}
test = {"name": "AgreesWithTheReference/matmul_float32", "result": "COMPLETED", **failures}
with open(report, "w") as f: json.dump({"testsuites": [{"testsuite": [test]}]}, f)
if failures: print("matmul/float32/2x2: claims a tolerance of 0.002, at most 0.001 is accepted")
sys.exit(1 if failures else 0)
'''
OPERATIONS = r'''#!/usr/bin/env python3
import json, os, sys, time
found = [{"case": "conv2d float16", "finding": {"implementation": "own", "detail": "is 0, expected 1"}}]
failures = found if os.environ.get("FAKE_WRONG") in sys.argv else []
if os.environ.get("FAKE_BREAKS") in sys.argv: sys.exit(1)
line = {"tally": {"rows": {"conv2d": [100, 700, 0, 0, 0]}}, "failures": failures}
with open(sys.argv[sys.argv.index("--results") + 1], "w") as f: print(json.dumps(line), file=f)
if os.environ.get("FAKE_HANGS") in sys.argv: time.sleep(60)
if "FAKE_SEEDS" in os.environ:
    with open(os.environ["FAKE_SEEDS"], "a") as f: print(sys.argv[sys.argv.index("--seeds") + 1], file=f)
sys.exit(1 if failures else 0)
'''
NETWORKS = r'''
import json, os, sys
if os.environ.get("FAKE_BREAKS") in sys.argv: sys.exit(1)
with open(sys.argv[sys.argv.index("--append") + 1], "w") as f: print(json.dumps({"seed": 3, "status": "ok"}), file=f)
'''
SANITIZER = '''#!/bin/sh
case "$2" in
  racecheck) echo "========= RACECHECK SUMMARY: ${FAKE_HAZARDS:-0} hazards displayed (0 errors, 0 warnings)" ;;
  *) echo "========= ERROR SUMMARY: 0 errors" ;;
esac
'''
NCU = '''#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in
    --export) echo report >"$2" ;;
    --import)
      echo "==PROF== loading"
      echo '"ID","Process ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"'
      echo '"0","1","each_kernel","GPU Speed Of Light Throughput","Duration","us","512.3"'
      echo '"0","1","each_kernel","GPU Speed Of Light Throughput","DRAM Throughput","%","88.1"' ;;
  esac
  shift
done
'''
PYTHON = f'''#!/bin/sh
case "$1 $2" in
  "-c import torch"*) echo 2.11.0 13.0 91900 ;;
  *pytorch_step.py*) echo '{{"step_ms_median": 20.0}}' ;;
  *pytorch_gpu.py*) echo "{{\\"variant\\": \\"$5\\", \\"ms\\": 20.0}}" ;;
  *networks.py*) exec {shlex.quote(sys.executable)} -c {shlex.quote(NETWORKS)} "$@" ;;
  *pytorch_limits.py*) echo '{{"copy_bytes_per_second": 4.3e12, "bf16_flops_per_second": 7.9e14}}' ;;
  *) exec {shlex.quote(sys.executable)} "$@" ;;
esac
'''


class Steps(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(lambda: subprocess.run(["rm", "-rf", self.folder], check=True))
        self.log, self.out = os.path.join(self.folder, "calls"), os.path.join(self.folder, "out")
        build = os.path.join(self.folder, "build")
        put(os.path.join(build, "lib/runtime/plugins/libbackend_cuda.so"))
        for name in ("backends_cuda_conformance_test", "collectives_nccl_gpu_test"):
            put(os.path.join(build, "tests", name), SUITE, program=True)
        put(os.path.join(build, "tests/differential_operations"), OPERATIONS, program=True)
        put(os.path.join(build, "bin/gpu_limits"), "#!/bin/sh\necho '{\"bf16_flops_per_second\": 7.8e14}'\n", program=True)
        program = put(os.path.join(build, "bin/runtime"))
        shutil.copy(os.path.join(HERE, "fake_runtime.py"), program)
        os.chmod(program, 0o755)
        for name, text in (("compute-sanitizer", SANITIZER), ("ncu", NCU), ("python-with-torch", PYTHON),
                           ("nvidia-smi", "#!/bin/sh\necho NVIDIA H200, 580.1, 143771 MiB, 1980 MHz\n"),
                           ("ldd", "#!/bin/sh\necho '  libc.so.6 => /lib/libc.so.6 (0x1)'\n")):
            put(os.path.join(self.folder, "programs", name), text, program=True)

    def run_check(self, *words, **env):
        """Returns (exit code, results.json)."""
        programs = os.path.join(self.folder, "programs")
        done = subprocess.run(
            [sys.executable, os.path.join(ROOT, "tools/gpu/check.py"), "--build", os.path.join(self.folder, "build"),
             "--output", self.out, "--python", os.path.join(programs, "python-with-torch"), *words],
            capture_output=True, text=True, check=False, timeout=100,
            env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "FAKE_LOG": self.log,
                 "RUNTIME_GPU_LIBRARIES": "/packed/lib:/driver/lib64", **env})
        self.assertEqual(done.stderr, "")
        with open(os.path.join(self.out, "results.json"), encoding="utf-8") as f:
            return done.returncode, json.load(f)

    def rows(self, results, step):
        return [row for row in results["rows"] if row["step"] == step]

    def test_every_prepared_call(self):
        for call, steps in check.CALLS.items():
            with self.subTest(call=call):
                code, results = self.run_check("--call", call)
                verdicts = {(row["step"], row["verdict"]) for row in results["rows"]}
                self.assertEqual({step for step, _ in verdicts}, {"facts", "devices", *(step for step, _, _ in steps)})
                self.assertEqual({verdict for _, verdict in verdicts}, {"ok"}, results["rows"])
                self.assertEqual(code, 0)
                files = glob.glob(os.path.join(self.out, "**"), recursive=True)
                self.assertLessEqual(sum(map(os.path.isfile, files)), 8)

    def test_programs_are_told_where_libraries_are(self):
        self.run_check("--only", "train", "--quick")
        with open(self.log, encoding="utf-8") as f:
            self.assertEqual({line.split("\t")[0] for line in f}, {"/packed/lib:/driver/lib64"})

    def test_a_step_that_does_not_fit_is_cut_and_says_so(self):
        code, results = self.run_check("--only", "train,verify", "--seconds", "9", FAKE_SECONDS="4")
        self.assertEqual({row["verdict"] for row in self.rows(results, "verify")}, {"cut"})
        self.assertIn("the call's time is over", self.rows(results, "verify")[-1]["detail"])
        self.assertEqual(code, 0)

    def test_a_suite_that_fails_fails(self):
        code, results = self.run_check("--only", "conformance", FAKE_FAILS="tf32=true")
        rows = self.rows(results, "conformance")
        self.assertEqual([row["verdict"] for row in rows], ["ok", "ok", "FAILED"])
        self.assertIn("claims a tolerance of 0.002", rows[2]["detail"])
        self.assertEqual(code, 1)

    def test_a_random_case_that_is_wrong_fails(self):
        code, results = self.run_check("--only", "differential", FAKE_WRONG="float16")
        rows = self.rows(results, "differential")
        self.assertEqual([row["verdict"] for row in rows], ["ok", "ok", "FAILED", "ok"])
        self.assertIn("found: conv2d float16: own: is 0, expected 1", rows[2]["detail"])
        self.assertEqual(code, 1)

    def test_a_process_that_breaks_off_fails(self):
        _, results = self.run_check("--only", "differential", FAKE_BREAKS="bfloat16")
        rows = self.rows(results, "differential")
        self.assertEqual([row["verdict"] for row in rows], ["ok", "FAILED", "ok", "ok"])
        self.assertIn("broke off: exit code 1", rows[1]["detail"])
        _, results = self.run_check("--only", "differential", FAKE_BREAKS="--append")
        self.assertEqual(self.rows(results, "differential")[-1]["verdict"], "FAILED")

    def test_a_process_that_is_cut_counts_with_what_it_has_done(self):
        _, results = self.run_check("--only", "differential:8", FAKE_HANGS="float32")
        rows = self.rows(results, "differential")
        self.assertEqual([row["verdict"] for row in rows], ["ok"] * 4)
        self.assertRegex(rows[0]["detail"], r"^\d+00 cases, \d+ candidates, (\d+) of \1 processes cut$")

    def test_seeds_and_forms_are_passed_on(self):
        _, results = self.run_check("--only", "pytorch", "--model", "lenet", "--form", "compile", "--turns", "1")
        self.assertTrue(all("PyTorch compile" in row["what"] for row in self.rows(results, "pytorch")))
        self.run_check("--only", "differential", "--first-seed", "700", FAKE_SEEDS=os.path.join(self.folder, "seeds"))
        with open(os.path.join(self.folder, "seeds"), encoding="utf-8") as f:
            self.assertGreaterEqual(min(int(line.split("..")[0]) for line in f), 700)

    def test_a_step_may_have_a_time_limit(self):
        _, results = self.run_check("--only", "train:3,capture", FAKE_SECONDS="2")
        self.assertEqual(self.rows(results, "train")[-1]["verdict"], "cut")
        self.assertEqual({row["verdict"] for row in self.rows(results, "capture")}, {"ok"})

    def test_the_plugin_nccl_fails_with_its_suite_or_is_not_there(self):
        code, results = self.run_check("--only", "nccl", FAKE_FAILS="")
        self.assertEqual([row["verdict"] for row in self.rows(results, "nccl")], ["FAILED"])
        self.assertEqual(code, 1)
        os.remove(os.path.join(self.folder, "build/tests/collectives_nccl_gpu_test"))
        code, results = self.run_check("--only", "nccl")
        self.assertEqual([row["verdict"] for row in self.rows(results, "nccl")], ["skipped"])
        self.assertEqual(code, 0)

    def test_hazards_fail(self):
        _, results = self.run_check("--only", "racecheck,memcheck", FAKE_HAZARDS="3")
        self.assertEqual({row["verdict"] for row in self.rows(results, "racecheck")}, {"FAILED"})
        self.assertEqual({row["verdict"] for row in self.rows(results, "memcheck")}, {"ok"})

    def test_layers_are_added_up_by_operation(self):
        _, results = self.run_check("--only", "layers", "--model", "gpt2", "--quick")
        row = self.rows(results, "layers")[0] if self.rows(results, "layers") else self.fail(results)
        self.assertEqual(row["by_operation"], {"matmul, cublaslt": 142.0, "attention, cudnn engine 7": 20.0, "copy, own": 3.0})

    def test_model_and_turns_choose(self):
        _, results = self.run_check("--only", "pytorch", "--model", "lenet", "--turns", "2")
        rows = self.rows(results, "pytorch")
        self.assertEqual(len(rows), 4)  # with and without TF32, eager and compiled
        self.assertEqual({len(row["runtime_ms"]) for row in rows}, {2})
        self.assertTrue(all(re.search("TF32 (off )?on both sides", row["what"]) for row in rows))
        with open(self.log, encoding="utf-8") as f:
            self.assertIn("device.cuda.tf32=true", f.read())

    def test_figures_of_counters(self):
        _, results = self.run_check("--only", "ncu")
        self.assertEqual([row["detail"] for row in self.rows(results, "ncu")],
                         ["time 512.3 us, of the memory's bandwidth 88.1 %"] * len(counters.KERNELS))

    def test_names_are_those_of_the_sources(self):
        kernels = ""
        for path in glob.glob(os.path.join(ROOT, "backends/gpu/*.cu")) + glob.glob(os.path.join(ROOT, "backends/gpu/*.h")):
            with open(path, encoding="utf-8") as f:
                kernels += f.read()
        for _, word, _ in counters.KERNELS:
            self.assertTrue(f"struct {word}" in kernels, f"struct {word}")
        with open(os.path.join(ROOT, "plugins/include/rt/operations.h"), encoding="utf-8") as f:
            operations = re.findall(r'#define RT_OP_\w+ "(\w+)"', f.read())
        for pattern in correct.SHARED:
            expression = pattern.replace("*", r"\w*") + "$"
            self.assertTrue(any(re.match(expression, f"{name}_float32") for name in operations), pattern)
        for script in (speed.PYTORCH_STEP, speed.PYTORCH_GPU, speed.PYTORCH_LIMITS):
            self.assertTrue(os.path.exists(os.path.join(ROOT, script)), script)


if __name__ == "__main__":
    unittest.main()
