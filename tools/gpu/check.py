#!/usr/bin/env python3
"""Runs the steps of tools/gpu/check.sh on a build. Every step has a time limit and a verdict; no step stops the others.

Writes into the folder of --output: results.md and results.json after every row, so that a run that is cut off leaves
its results; output.log with the output of all programs; reports of ncu. The exit code is 1 if a step failed; steps that
could not run or were cut say why and do not count.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time

import correct
import counters
import differential
import libraries
import speed
from report import ROOT, Check, Cut

# Time limit of each `--call`; a, b and c fit into 15 minutes with three starts.
CALL_SECONDS = {"a": 200, "b": 300, "c": 240, "d": 200}


def facts(c):
    """Collects the facts about the machine; gives no verdict on them."""
    c.facts["date"] = time.strftime("%Y-%m-%d")
    c.facts["command"] = "tools/gpu/check.sh " + " ".join(c.arguments.words)
    done = c.run(["git", "rev-parse", "--short", "HEAD"], 10)
    c.facts["commit"] = done.out.strip() or "unknown"
    smi = c.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm", "--format=csv,noheader"], 60)
    c.facts["device (name, driver, memory, clock)"] = smi.out.strip() or "no NVIDIA GPU: " + smi.reason()
    nvcc = c.run([shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc", "--version"], 30)
    c.facts["nvcc"] = next((l for l in nvcc.out.splitlines() if "release" in l), "not found")
    torch = c.run([c.arguments.python, "-c", "import torch; print(torch.__version__, torch.version.cuda, "
                   "torch.backends.cudnn.version())"], 120)
    c.facts["PyTorch"] = torch.out.strip() or "not found"
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
        name = next((l.split(":")[1].strip() for l in f if l.startswith("model name")), "unknown")
    c.facts["processor"] = f"{name}, {os.cpu_count()} cores"
    c.facts["build"] = os.environ.get("RUNTIME_GPU_BUILD_KIND", "given")
    c.facts["libraries"] = "; ".join(libraries.report())
    for name, value in c.facts.items():
        print(f"{name}: {value}", flush=True)
    for words in (["nvidia-smi", "-q"], ["cat", "/etc/os-release", "/proc/version", "/proc/meminfo"], ["ldd", "--version"],
                  ["sh", "-c", 'echo "$PATH"; echo "$LD_LIBRARY_PATH"'], ["ls", "/usr/local", "/opt"]):
        c.run(words, 20)  # only for output.log
    check_links(c)


def check_links(c):
    """Checks that the programs and plugins find all the libraries that they are linked with."""
    folder = c.path("lib", "runtime", "plugins")
    files = [c.path("bin", "runtime"), *(os.path.join(folder, name) for name in sorted(os.listdir(folder)))]
    done = c.ours(["ldd", *files], 30)
    missing = sorted({line.split()[0] for line in done.out.splitlines() if line.strip().endswith("not found")})
    what = "shared libraries of the program and the plugins"
    if done.code == 127:
        c.skip(what, done.reason())
    elif not missing:
        c.verdict(what, True, f"all of {len(files)} files are found", done.seconds)
    elif set(missing) <= {"libnccl.so.2"} or not c.on_gpu:
        c.skip(what, f"not on this machine: {', '.join(missing)}")
    else:
        c.verdict(what, False, f"not found: {', '.join(missing)}", done.seconds)


STEPS = {f.__name__: f for f in (
    facts, correct.devices, speed.limits, correct.train, correct.conformance, speed.layers, speed.bench, speed.pytorch,
    correct.racecheck, differential.differential, correct.verify, correct.ranks, correct.nccl, correct.memory,
    correct.large, correct.memcheck, speed.capture, speed.sizes, counters.ncu)}

# The steps of each call in their order: name, seconds, and arguments. A step may also use the time that earlier steps
# have left over, up to its own seconds; together the seconds may exceed those of the call.
CALLS = {
    "a": (("limits", 40, {}), ("train", 40, {"models": ["lenet", "mlp"]}), ("conformance", 120, {"options": ("", "tf32=true")}),
          ("differential", 90, {}), ("verify", 60, {"models": ["lenet", "gpt"]})),
    "b": (("layers", 60, {"first": 3}), ("bench", 80, {}), ("pytorch", 200, {"turns": 1, "judged_only": True, "first": 3}),
          ("capture", 30, {})),
    "c": (("racecheck", 60, {}), ("memcheck", 40, {}), ("ranks", 20, {}), ("nccl", 20, {}), ("memory", 20, {}),
          ("sizes", 60, {}), ("ncu", 120, {})),
    "d": (("conformance", 50, {"operations": ["dot_product_attention"], "options": ("",)}), ("layers", 30, {"models": ["llama"]}),
          ("bench", 30, {"models": ["llama"]}), ("pytorch", 120, {"models": ["llama"], "turns": 1})),
}


def plan_of(arguments):
    """The steps to run: [(step, seconds or None, arguments of the step)]."""
    if arguments.call:
        return CALLS[arguments.call]
    plan = []
    for word in arguments.only.split(",") if arguments.only else STEPS:
        name, _, seconds = word.partition(":")
        if name not in STEPS:
            sys.exit(f"--only {word}: no such step; there are {', '.join(STEPS)}")
        if seconds and not (seconds.isdecimal() and int(seconds) > 0):
            sys.exit(f"--only {word}: the time limit is {seconds!r}, expected a whole number of seconds, at least 1")
        plan.append((name, int(seconds) if seconds else None, {}))
    return plan


def run_step(c, name, seconds, wants):
    c.step, c.wants = name, wants
    c.deadlines.begin_step(seconds)
    if c.unusable:
        return c.skip(name, c.unusable)
    try:
        return STEPS[name](c)
    except Cut as cut:
        return c.row("rest of the step", "cut", str(cut))
    except Exception as error:  # pylint: disable=broad-except
        return c.verdict(name, False, f"{type(error).__name__}: {error}")


def check(c, plan):
    """Runs the plan and returns the exit code."""
    needed = [("facts", None, {}), ("devices", None, {})]  # all other steps need the results of these two
    for name, seconds, wants in needed + [step for step in plan if step[0] not in ("facts", "devices")]:
        run_step(c, name, seconds, wants)
    print(f"{len(c.rows)} rows, {c.count('FAILED')} failed, {c.count('skipped')} skipped, {c.count('cut')} cut: "
          f"{c.arguments.output}/results.md")
    return 1 if c.count("FAILED") else 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="build folder, with bin/, lib/ and tests/")
    parser.add_argument("--output", default=os.environ.get("OUT") or os.path.join(ROOT, "outputs", "gpu"))
    parser.add_argument("--call", choices=CALLS, help="a prepared list of steps, which ends by itself after at most " +
                        ", ".join(f"{seconds} s ({call})" for call, seconds in CALL_SECONDS.items()))
    parser.add_argument("--only", help="steps, separated by commas; with a time limit in seconds: "
                        "bench:60. Steps: " + ", ".join(STEPS))
    parser.add_argument("--seconds", type=float, help="of the whole call; what does not fit is cut, and says so")
    parser.add_argument("--quick", action="store_true", help="fewer forms of each step, in a few minutes")
    parser.add_argument("--model", dest="models", type=lambda text: text.split(","), help="only these, separated by commas")
    parser.add_argument("--operations", type=lambda text: text.split(","), help="of the step conformance: only these")
    parser.add_argument("--first-seed", type=int, default=1, help="of the step differential: other seeds draw other cases")
    parser.add_argument("--form", dest="forms", action="append", choices=("eager", "compile"), help="of the step pytorch")
    parser.add_argument("--turns", type=int, help="rounds of the step pytorch")
    parser.add_argument("--device", default="cuda", help="what is checked (cpu: tries this script without a GPU)")
    parser.add_argument("--against", default="cpu", help="what it is compared with")
    parser.add_argument("--python", default="python3", help="the Python that has torch")
    arguments = parser.parse_args()
    arguments.words = sys.argv[3:] if sys.argv[1] == "--build" else sys.argv[1:]
    arguments.build, arguments.output = os.path.abspath(arguments.build), os.path.abspath(arguments.output)
    known = {job.model for job in speed.JOBS + speed.TRIAL_JOBS} | set(correct.TRAINED) | set(correct.VERIFIED)
    for model in arguments.models or ():
        if model not in known:
            parser.error(f"--model {model}: no such model; there are {', '.join(sorted(known))}")
    if arguments.call and arguments.only:
        parser.error("--call and --only: one of them")
    if arguments.call and arguments.seconds is None:
        arguments.seconds = CALL_SECONDS[arguments.call]
    return arguments


def main():
    arguments = parse()
    plan = plan_of(arguments)
    begun = time.time() - float(os.environ.get("RUNTIME_GPU_BEGIN") or time.time())  # from check.sh: includes unpacking
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    with tempfile.TemporaryDirectory() as scratch:
        sys.exit(check(Check(arguments, scratch, begun), plan))


if __name__ == "__main__":
    main()
