#!/usr/bin/env python3
"""Injects random faults into small jobs of `runtime`; README.md lists the faults and the rules that the program must keep.

usage: chaos.py --build BUILD --seeds A..B [--kind KIND,...] [--jobs N] [--append FILE] [--failures FOLDER]
       chaos.py --build BUILD --replay FILE [--seed N]
       chaos.py --summary FILE

A seed makes one case. The case also depends on the trace of the job's calls, which each run takes anew: only a line of the
results, not a seed, replays a case exactly. With --append the result of a case is one JSON line of FILE, with everything that
replays it, and seeds that FILE has are left out, so that a long run can be stopped and started again. The folders of cases that
end wrong are kept in --failures. Exit code 0: nothing is wrong, 1: something is.
"""
import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import chaos_cases
import chaos_summary
from chaos_baseline import Baselines
from chaos_do import do
from chaos_judge import judge
from chaos_run import keep_folder

LOCK = threading.Lock()


def run_case(case, baselines, failures=None):
    folder = tempfile.mkdtemp(prefix="case-", dir=baselines.work)
    begin = time.time()
    try:
        done = do(case, baselines, folder)
        # If the case also has another fault, that fault decides whether the case was reached.
        alone = "peers" not in case and "actions" not in case
        if alone and any(word in case.get("variables", {}) for word in ("CHAOS", "CHAOS_PLUGIN")):
            done.reached = bool(done.log)
        result = judge(case, done, baselines, folder)
        if result["status"] == "wrong" and failures:
            os.makedirs(failures, exist_ok=True)
            keep_folder(folder, os.path.join(failures, f"{case['kind']}-{case['seed']}"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {**case, **result, "seconds": round(time.time() - begin, 2)}


def known_seeds(path):
    if not path or not os.path.exists(path):
        return set()
    with open(path, encoding="utf-8") as file:
        return {json.loads(line)["seed"] for line in file}


def tell(result, a):
    with LOCK:
        if a.append:
            with open(a.append, "a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")
        if result["status"] == "wrong" or a.verbose:
            fault = result.get("variables", {}).get("CHAOS") or result.get("variables", {}).get("CHAOS_PLUGIN") or ""
            print(f"seed {result['seed']}: {result['status']}: {result['kind']} {result['job']} {fault} {result.get('what', '')}",
                  flush=True)


def run_seeds(a, baselines):
    begin, end = (int(part) for part in a.seeds.split(".."))
    done = known_seeds(a.append)
    kinds = a.kind.split(",") if a.kind else None
    counts = {}

    def one(seed):
        result = run_case(chaos_cases.draw(seed, baselines, kinds), baselines, a.failures)
        tell(result, a)
        counts[result["status"]] = counts.get(result["status"], 0) + 1

    with ThreadPoolExecutor(a.jobs) as pool:
        list(pool.map(one, [seed for seed in range(begin, end + 1) if seed not in done]))
    print(f"{begin}..{end}: " + (", ".join(f"{n} {s}" for s, n in sorted(counts.items())) or "nothing to do"))
    return 1 if "wrong" in counts else 0


def replay(a, baselines):
    failed = []
    with open(a.replay, encoding="utf-8") as file:
        cases = [json.loads(line) for line in file]
    for case in cases:
        if a.seed is not None and case["seed"] != a.seed:
            continue
        if a.only and case["status"] != a.only:
            continue
        fresh = {k: v for k, v in case.items() if k not in ("status", "what", "stderr", "codes", "took", "seconds")}
        result = run_case(fresh, baselines, a.failures)
        print(json.dumps(result, indent=None if a.seed is None else 1), flush=True)
        if result["status"] == "wrong" or (a.reached and result["status"] != "passed"):
            failed.append(result)
    for result in failed:
        said = " | ".join(result.get("stderr", "").splitlines())
        print(f"seed {result['seed']}: {result['status']}: {result.get('what', 'the fault did not happen')}; stderr: {said}")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=os.path.abspath)
    parser.add_argument("--seeds", help="A..B, both of them included")
    parser.add_argument("--kind", help="only these, with commas between: " + ", ".join(chaos_cases.KINDS))
    parser.add_argument("--jobs", type=int, default=1, help="how many cases at the same time")
    parser.add_argument("--append")
    parser.add_argument("--failures")
    parser.add_argument("--replay")
    parser.add_argument("--seed", type=int, help="of --replay: this case only")
    parser.add_argument("--reached", action="store_true", help="of --replay: a fault that does not come is a failure too")
    parser.add_argument("--only", help="of --replay: cases that ended so, e.g. wrong")
    parser.add_argument("--summary")
    parser.add_argument("--verbose", action="store_true")
    a = parser.parse_args()
    if a.summary:
        return chaos_summary.print_summary(a.summary)
    if not a.build or not (a.seeds or a.replay):
        parser.print_usage()
        return 2
    work = tempfile.mkdtemp(prefix="chaos-")
    try:
        tests = os.path.join(a.build, "tests")
        baselines = Baselines(os.path.join(a.build, "bin/runtime"), work, os.path.join(tests, "preload/libchaos_shim.so"),
                              os.path.join(tests, "chaos_plugin"))
        return replay(a, baselines) if a.replay else run_seeds(a, baselines)
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
