#!/usr/bin/env python3
"""Prints as one JSON line how fast PyTorch multiplies matrices of float32 here, the best rate over some shapes. The
shapes are those of onednn_sgemm.cpp. compare_pytorch.py runs it.
"""

import argparse
import json
import time

import torch

SHAPES = ((1024, 1024, 1024), (2048, 2048, 2048), (256, 1024, 1024), (2048, 1536, 384))
ROUNDS = 15


def gflops(m, n, k):
    a, b, c = torch.rand(m, k), torch.rand(k, n), torch.empty(m, n)
    times = []
    for _ in range(ROUNDS + 1):
        begin = time.perf_counter()
        torch.mm(a, b, out=c)
        times.append(time.perf_counter() - begin)
    return 2 * m * n * k / min(times[1:]) / 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(json.dumps({"library": f"PyTorch {torch.__version__}", "sgemm_gflops": max(gflops(*s) for s in SHAPES)}))


if __name__ == "__main__":
    main()
