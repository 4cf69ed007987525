#!/usr/bin/env python3
"""Measures the same as limits.cpp, but with PyTorch: prints one JSON line with the bandwidth of a copy and the speed of
large products.
"""

import json
import statistics

import torch

BYTES = 4 << 30
SIDE = 8192


def seconds(work, runs=10):
    """The median seconds of one run, by the device's clock, after three warm-up runs."""
    times = []
    for i in range(runs + 3):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        if i >= 3:
            times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times)


def product_rate(dtype):
    a, b = (torch.rand(SIDE, SIDE, device="cuda").mul_(2).sub_(1).to(dtype) for _ in range(2))
    c = torch.empty_like(a)
    return 2 * SIDE**3 / seconds(lambda: torch.mm(a, b, out=c))


def main():
    one, two = (torch.ones(BYTES, dtype=torch.uint8, device="cuda") for _ in range(2))
    found = {"copy_bytes_per_second": 2 * BYTES / seconds(lambda: two.copy_(one)),
             "bf16_flops_per_second": product_rate(torch.bfloat16)}
    for name, allowed in (("tf32", True), ("float32", False)):
        torch.backends.cuda.matmul.allow_tf32 = allowed
        found[f"{name}_flops_per_second"] = product_rate(torch.float32)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
