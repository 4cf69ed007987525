#!/usr/bin/env python3
"""Compares random networks and options with PyTorch, and random meshes with one rank; README.md tells how and why.

usage: networks.py --runtime build/bin/runtime --seeds A..B [--kind networks|options|meshes] [--device cpu,reference]
                   [--append FILE] [--failures FOLDER]
       networks.py --runtime build/bin/runtime --replay FILE.toml [--device cpu]
       networks.py --summary FILE

A seed always makes the same case. With --append the result of a case is one JSON line of FILE, and seeds that FILE has are left
out, so that a long run can be stopped and started again. A failing case is made smaller and written to FOLDER as a TOML file
with the command that replays it. Exit code 0: all right, 1: something is wrong, refused or crashed, 77: PyTorch is absent.
"""
import argparse
import importlib
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../../end_to_end")]

try:
    import torch
    importlib.import_module("numpy")  # networks_check needs it
except ImportError as missing:
    print(f"skipped: {missing} for {sys.executable}; install python3-torch, or run it with /usr/bin/python3")
    sys.exit(77)

import meshes
import networks_check
import networks_options
import networks_random
import networks_summary
from networks_files import read_case, toml_text
from networks_shrink import shrink


def make_case(kind, seed):
    if kind == "meshes":
        return meshes.mesh_case(seed)
    make = networks_random.network_case if kind == "networks" else networks_options.options_case
    return networks_check.complete(make(seed))


def check(case, a):
    found = meshes.check(case, a.runtime) if case["kind"] == "mesh" else networks_check.check(case, a.runtime, a.device.split(","))
    return dict(found, options=networks_summary.options_of(case))


def signature(result):
    """A smaller case has the same fault as the first one if this value is the same."""
    what = result.get("what", "")
    if result["status"] == "wrong":
        return "wrong", result.get("device"), what.split(" ")[0], "is missing" in what
    return result["status"], result.get("code"), networks_summary.message_kind(what)


def report_failure(case, result, a):
    case = shrink(case, lambda smaller: signature(check(smaller, a)) == signature(result))
    os.makedirs(a.failures, exist_ok=True)
    path = os.path.join(a.failures, f"{case['kind']}-{case['seed']}.toml")
    smaller = check(case, a)
    with open(path, "w", encoding="utf-8") as file:
        file.write(toml_text(case))
        file.write("\n# " + (smaller.get("what") or "").replace("\n", "\n# ") + "\n")
        file.write(f"# replay: python3 tests/differential/networks/networks.py --runtime build/bin/runtime --replay {path}\n")
    return path


def known_seeds(path):
    if not path or not os.path.exists(path):
        return set()
    with open(path, encoding="utf-8") as file:
        return {json.loads(line)["seed"] for line in file}


def run_seeds(a):
    begin, end = (int(part) for part in a.seeds.split(".."))
    done, counts = known_seeds(a.append), {}
    for seed in range(begin, end + 1):
        if seed in done:
            continue
        started, case = time.time(), make_case(a.kind, seed)
        result = check(case, a)
        bad = result["status"] in ("wrong", "refused", "crashed")
        if bad and not a.no_shrink:
            result["file"] = report_failure(case, result, a)
        counts[result["status"]] = counts.get(result["status"], 0) + 1
        result.update(seed=seed, kind=a.kind, seconds=round(time.time() - started, 2))
        if a.append:
            with open(a.append, "a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")
        if bad or a.verbose:
            told = [str(result[key]) for key in ("status", "device", "what", "file") if result.get(key)]
            print(f"seed {seed}: " + " ".join(told), flush=True)
    total = ", ".join(f"{n} {s}" for s, n in sorted(counts.items()))
    print(f"{a.kind} {begin}..{end} on {a.device}: {total or 'nothing to do'}")
    return 1 if any(s in counts for s in ("wrong", "refused", "crashed")) else 0


def replay(a):
    case = read_case(a.replay)
    result = check(case, a)
    print(json.dumps({k: v for k, v in result.items() if k not in ("types", "pairs", "options")}, indent=1))
    return 0 if result["status"] in ("ok", "unsupported") else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", type=os.path.abspath)
    parser.add_argument("--seeds", help="A..B, both of them included")
    parser.add_argument("--kind", default="networks", choices=("networks", "options", "meshes"))
    parser.add_argument("--device", default="reference,cpu")
    parser.add_argument("--append")
    parser.add_argument("--failures", default="differential-failures")
    parser.add_argument("--replay")
    parser.add_argument("--summary")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    a = parser.parse_args()
    torch.set_num_threads(1)
    if a.summary:
        return networks_summary.print_summary(a.summary)
    if not a.runtime or not (a.seeds or a.replay):
        parser.print_usage()
        return 2
    return replay(a) if a.replay else run_seeds(a)


if __name__ == "__main__":
    sys.exit(main())
