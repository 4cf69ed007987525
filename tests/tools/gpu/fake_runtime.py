#!/usr/bin/env python3
"""Stands in for bin/runtime: prints the output of its commands, and appends its arguments to the file FAKE_LOG."""

import json
import os
import sys
import time

words = sys.argv[1:]
with open(os.environ["FAKE_LOG"], "a", encoding="utf-8") as log:
    print(os.environ.get("LD_LIBRARY_PATH", ""), *words, sep="\t", file=log)
time.sleep(float(os.environ.get("FAKE_SECONDS", "0")))
if words[0] == "devices":
    print("cuda:0         usable     NVIDIA H200, 139.8 GiB\ncpu:0          usable     AMD EPYC, 125.0 GiB")
elif words[0] == "train" and any("32767" in word for word in words):
    print("error: the step needs 812 GiB of cuda:0, which has 139 GiB", file=sys.stderr)
    sys.exit(3)
elif words[0] == "train":
    for step in range(3):
        print(json.dumps({"step": step, "loss": 2.5 - step}))
elif words[0] == "verify":
    print(json.dumps({"steps": [{"compared": 7}] * 2, "worst": 3e-6}))
elif "--layers" in words:
    print(f"{'layer':<22} {'operation':<26} {'implementation':<38} {'us':>10} {'planned us':>10} {'GFLOP/s':>10}")
    for layer, operation, implementation, us in (("h.0.qkv", "matmul", "cublaslt", 70.5), ("h.1.qkv", "matmul", "cublaslt", 71.5),
                                                 ("", "copy", "own", 3.0), ("h.0.attention", "attention", "cudnn engine 7", 20)):
        print(f"{layer:<22} {operation:<26} {implementation:<38} {us:>10.1f} {us:>10.1f} {1.0:>10.1f}")
    print(f"{'sum':<88} {165.0:>10.1f} {165.0:>10.1f}")
else:
    print(json.dumps({"step_ms_median": 2.0, "samples_per_second": 4000.0, "flops_per_second": 3.5e14, "operations": 9,
                      "recorded_operations": 9}))
