#!/usr/bin/env python3
"""What tools/gpu/check.sh runs, once it has a build: every step with a time limit and a verdict, none stops the others.

Writes results.md and results.json after every row, so that a run that is cut off leaves what it has. Exit code 1 if a
step failed; steps that could not run say why and do not count.
"""

import argparse
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PYTORCH_STEP = os.path.join("tools", "bench", "pytorch_step.py")


class Done:
    """A command that has ended, or was ended (code None)."""

    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    def reason(self):
        """The last words of what went wrong."""
        if self.code is None:
            return f"not done after {self.seconds:.0f} s"
        lines = [l for l in (self.err + "\n" + self.out).splitlines() if l.strip()]
        errors = [l for l in lines if "error" in l.lower()] or lines[-1:]
        return f"exit code {self.code}: " + (errors[0].strip()[:300] if errors else "no output")


def run(words, limit, env=None):
    """In a process group of its own, all of which is killed after `limit` seconds."""
    begin = time.monotonic()
    try:
        child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                                 stdin=subprocess.DEVNULL, cwd=ROOT, env={**os.environ, **(env or {})},
                                 start_new_session=True)
    except OSError as error:
        return Done(127, "", str(error), 0)
    try:
        out, err = child.communicate(timeout=limit)
        code = child.returncode
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        out, err = child.communicate()
        code = None
    except BaseException:  # this script is stopped
        os.killpg(child.pid, signal.SIGKILL)
        raise
    return Done(code, out, err, time.monotonic() - begin)


def sets(**keys):
    """sets(training__steps=5) -> ["--set", "training.steps=5"]"""
    return [word for key, value in keys.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]


def losses(done):
    """Of `runtime train` with metrics.log_every_steps = 1."""
    rows = [json.loads(l) for l in done.out.splitlines() if l.startswith("{")]
    return [row["loss"] for row in rows if row.get("loss") is not None]


class Check:
    """The rows so far, and how programs are started."""

    def __init__(self, arguments, scratch):
        self.arguments, self.scratch = arguments, scratch  # a folder for what runs write
        self.device, self.other = arguments.device, arguments.against
        self.rows, self.facts, self.unusable = [], {}, ""
        self.step = ""
        libraries = os.environ.get("RUNTIME_GPU_LIBRARIES", "")
        self.env = {"LD_LIBRARY_PATH": libraries} if libraries else {}

    def quick(self, usual, quick):
        return quick if self.arguments.quick else usual

    def runtime(self, words, limit, env=None):
        program = os.path.join(self.arguments.build, "bin", "runtime")
        return run([program, *words], limit, {**self.env, **(env or {})})

    def bench(self, config, steps, limit, **keys):
        """(step in ms, or None; what to say)"""
        done = self.runtime(["bench", config, "--steps", str(steps), "--json", *sets(**keys)], limit)
        if done.code != 0:
            return None, done.reason()
        return json.loads(done.out.splitlines()[-1])["step_ms_median"], ""

    def row(self, what, verdict, detail, seconds=0.0, **figures):
        self.rows.append({"step": self.step, "what": what, "verdict": verdict, "detail": detail,
                          "seconds": round(seconds, 1), **figures})
        print(f"{verdict:<8} {self.step:<12} {what:<52} {detail}", flush=True)
        self.write()

    def verdict(self, what, good, detail, seconds=0.0, **figures):
        self.row(what, "ok" if good else "FAILED", detail, seconds, **figures)

    def skip(self, what, reason):
        self.row(what, "skipped", reason)

    def write(self):
        os.makedirs(self.arguments.output, exist_ok=True)
        with open(os.path.join(self.arguments.output, "results.json"), "w", encoding="utf-8") as f:
            json.dump({"facts": self.facts, "rows": self.rows}, f, indent=1)
            f.write("\n")
        with open(os.path.join(self.arguments.output, "results.md"), "w", encoding="utf-8") as f:
            f.write("".join(f"- {name}: {value}\n" for name, value in self.facts.items()))
            f.write("\n| step | what | verdict | figures |\n|---|---|---|---|\n")
            for r in self.rows:
                detail = r["detail"].replace("|", "\\|").replace("\n", " ")
                f.write(f"| {r['step']} | {r['what']} | {r['verdict']} | {detail} |\n")


def facts(c):
    """Of the machine; nothing is judged."""
    c.facts["date"] = time.strftime("%Y-%m-%d")
    c.facts["command"] = "tools/gpu/check.sh " + " ".join(c.arguments.words)
    done = run(["git", "rev-parse", "--short", "HEAD"], 10)
    c.facts["commit"] = done.out.strip() or "unknown"
    smi = run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm", "--format=csv,noheader"], 60)
    c.facts["device (name, driver, memory, clock)"] = smi.out.strip() or "no NVIDIA GPU: " + smi.reason()
    nvcc = run([shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc", "--version"], 30)
    c.facts["nvcc"] = next((l for l in nvcc.out.splitlines() if "release" in l), "not found")
    torch = run([c.arguments.python, "-c", "import torch; print(torch.__version__, torch.version.cuda)"], 120)
    c.facts["PyTorch"] = torch.out.strip() or "not found"
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
        name = next((l.split(":")[1].strip() for l in f if l.startswith("model name")), "unknown")
    c.facts["processor"] = f"{name}, {os.cpu_count()} cores"
    c.facts["build"] = os.environ.get("RUNTIME_GPU_BUILD_KIND", "given")
    for name, value in c.facts.items():
        print(f"{name}: {value}", flush=True)


def devices(c):
    done = c.runtime(["devices"], 60)
    lines = [l for l in done.out.splitlines() if l.startswith(c.device + ":0")]
    usable = bool(lines) and " usable " in lines[0]
    if usable:
        return c.verdict("runtime devices", True, " ".join(lines[0].split()), done.seconds)
    reason = " ".join(lines[0].split()) if lines else f"plugin {c.device} is not there" + \
        (f"; {done.reason()}" if done.code else "; see runtime plugins list")
    c.unusable = reason
    # A machine without a GPU is no failure, one whose GPU cannot be used is.
    if shutil.which("nvidia-smi") and run(["nvidia-smi"], 60).code == 0:
        return c.verdict("runtime devices", False, reason, done.seconds)
    return c.skip("runtime devices", reason)


def conformance(c):
    program = os.path.join(c.arguments.build, "tests", f"backends_{c.device}_conformance_test")
    if not os.path.exists(program):
        return c.skip("conformance", f"{program} is not there; build with tests")
    for options in c.quick(("", "vendor_libraries=false", "tf32=true"), ("",)):
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            done = run([program, f"--gtest_output=json:{report}"], 280,
                       {**c.env, "RUNTIME_TEST_DEVICE_OPTIONS": options})
            what = f"float32, float64, float16, bfloat16; {options or 'defaults'}"
            if not os.path.exists(report):
                c.verdict(what, False, done.reason(), done.seconds)
                continue
            with open(report, encoding="utf-8") as f:
                tests = [t for suite in json.load(f)["testsuites"] for t in suite["testsuite"]]
        skipped = sum(t["result"] == "SKIPPED" for t in tests)
        failed = [t["name"].split("/")[-1] for t in tests if t.get("failures")]
        first = next((l.strip()[:300] for l in done.out.splitlines() if ", max" in l or "error" in l), "")
        count = next((l for l in done.out.splitlines() if l.startswith("conformance: ")), "").removeprefix("conformance: ")
        if skipped > 1:
            c.skip(what, f"{skipped} of {len(tests)} tests skip themselves")
        else:
            c.verdict(what, not failed and done.code == 0, f"{count}, {len(tests) - len(failed)} of {len(tests)} tests pass" +
                      (f"; failed: {', '.join(failed)} {first}" if failed else ""), done.seconds)


# Configuration, batch: small, for the side that computes on the processor.
VERIFIED = (("lenet", 32), ("mlp", 64), ("resnet18", 8), ("gpt", 2))


def verify(c):
    forms = (("float32", 1e-4, [], ()), ("float32, isolated", 1e-4, ["--isolate"], ()),
             ("bf16, isolated", 2e-2, ["--isolate"], ("training.mixed_precision=bf16",)))
    for model, batch in VERIFIED[: c.quick(4, 1)]:
        for form, tolerance, flags, keys in forms:
            if model == "resnet18" and form == "float32":
                continue  # in one step of millions of ReLUs some number always rounds to the other side of zero
            words = ["verify", f"configs/bench_{model}.toml", "--steps", str(c.quick(10, 2)), "--rtol", str(tolerance),
                     "--json", *flags, *sets(device__backend=c.device, training__global_batch_size=batch)]
            words += [word for key in keys for word in ("--set", key)]
            what = f"{model}, {form}, batch {batch}, against {c.other}"
            done = c.runtime(words + ["--against", c.other], 200)
            if "does not compute in" in done.err and done.code == 3:
                c.skip(what, done.reason())
                continue
            if done.code not in (0, 6):
                c.verdict(what, False, done.reason(), done.seconds)
                continue
            report = json.loads(done.out.splitlines()[-1])
            worst = report["worst"] if report["worst"] is not None else math.inf
            c.verdict(what, done.code == 0,
                      f"{len(report['steps'])} steps, {sum(s['compared'] for s in report['steps'])} values, worst "
                      f"{worst:.1e}" + ("; " + done.reason() if done.code else ""), done.seconds, worst=worst)


def trained(c, model, steps, batch, limit, *words, **keys):
    return c.runtime(["train", f"configs/bench_{model}.toml", "--max-steps", str(steps), *words,
                      *sets(metrics__log_every_steps=1, training__global_batch_size=batch,
                            job__dump_folder=c.scratch, **keys)], limit)


def compare_losses(c, what, one, two, tolerance):
    for done in (one, two):
        if done.code != 0:
            return c.verdict(what, False, done.reason(), done.seconds)
    a, b = losses(one), losses(two)
    worst = max((abs(x - y) / max(abs(y), 1e-12) for x, y in zip(a, b)), default=math.inf)
    same = len(a) == len(b) and len(a) > 0
    return c.verdict(what, same and worst <= tolerance, f"{len(a)} losses, {a[0]:.4f} to {a[-1]:.4f}, the worst differs "
                     f"by {worst:.1e}, allowed {tolerance:.0e}" if same else f"{len(a)} and {len(b)} losses",
                     one.seconds + two.seconds, worst=worst)


def train(c):
    for model, steps, batch in (("lenet", 20, 64), ("mlp", 20, 64), ("gpt", 50, 4))[: c.quick(3, 1)]:
        one = trained(c, model, steps, batch, 120, device__backend=c.device)
        two = trained(c, model, steps, batch, 280, device__backend=c.other)
        compare_losses(c, f"{model}, {steps} steps, {c.device} beside {c.other}", one, two, 1e-4)
    done = trained(c, "resnet18", 10, 64, 120, device__backend=c.device)
    values = losses(done)
    c.verdict(f"resnet18, 10 steps on {c.device}", done.code == 0 and all(map(math.isfinite, values)),
              f"loss {values[0]:.4f} to {values[-1]:.4f}" if values and done.code == 0 else done.reason(), done.seconds)


def ranks(c):
    one = trained(c, "lenet", 10, 64, 120, device__backend=c.device)
    two = trained(c, "lenet", 10, 64, 180, "--nproc", "2", comm__backend="gloo",
                  launch__devices=json.dumps([c.device, c.other]))
    compare_losses(c, f"lenet, ranks on {c.device} and {c.other} over Gloo beside one rank", two, one, 1e-4)


def capture(c):
    for model in c.quick(("lenet", "mlp", "gpt"), ("lenet",)):
        times = {}
        for graph in ("true", "false"):
            times[graph], reason = c.bench(f"configs/bench_{model}.toml", 50, 120, device__backend=c.device,
                                           device__graph_capture=graph)
            if times[graph] is None:
                c.verdict(f"{model}, graph_capture={graph}", False, reason)
        if None not in times.values():
            c.row(f"{model}, step captured / launched", "ok", f"{times['true']:.3f} / {times['false']:.3f} ms", 0,
                  **{f"graph_capture_{k}_ms": v for k, v in times.items()})


def memory(c):
    """A batch that cannot fit: refused, with sizes."""
    if c.device in ("cpu", "reference"):
        return c.skip("resnet18, batch 131072", "the memory of the machine is not filled")
    done = c.runtime(["train", "configs/bench_resnet18.toml", "--max-steps", "1",
                      *sets(device__backend=c.device, training__global_batch_size=131072, dataset__samples=131072,
                            job__dump_folder=c.scratch)], 200)
    text = " ".join(done.err.split())
    sized = any(unit in text for unit in ("GiB", "MiB", "bytes"))
    c.verdict("resnet18, batch 131072", done.code == 3 and sized, f"exit code {done.code}: {text[-400:]}", done.seconds)


def sanitizer(c):
    if c.device != "cuda":
        return c.skip("compute-sanitizer", "for CUDA")
    program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not os.path.exists(program):
        return c.skip("compute-sanitizer", "not installed")
    for model, batch in (("mlp", 8), ("lenet", 4)):
        words = [program, "--error-exitcode", "9", os.path.join(c.arguments.build, "bin", "runtime"), "train",
                 f"configs/bench_{model}.toml", "--max-steps", "2",
                 *sets(device__backend=c.device, training__global_batch_size=batch,
                       job__dump_folder=c.scratch)]
        done = run(words, 280, c.env)
        if "not supported" in done.out + done.err:
            c.skip(f"{model}, memcheck", done.reason())
            continue
        summary = next((l for l in done.out.splitlines() if "ERROR SUMMARY" in l), done.reason())
        c.verdict(f"{model}, memcheck", done.code == 0, summary.strip("= "), done.seconds)


# Name, configuration, batch, our keys, PyTorch's flags, the factor to reach.
BESIDE_PYTORCH = (
    ("lenet, batch 256, float32, eager", "configs/bench_lenet.toml", "lenet", 256, {}, [], 5.0),
    ("resnet18, batch 512, bf16, NHWC, torch.compile", "configs/bench_resnet18.toml", "resnet18", 512,
     {"training__mixed_precision": "bf16"}, ["--bf16", "--compile", "--layout", "nhwc"], 1.0),
    ("gpt2 124M, batch 8, context 1024, bf16, torch.compile", "tools/gpu/gpt2.toml", "gpt2", 8,
     {"training__mixed_precision": "bf16"}, ["--bf16", "--compile"], 1.0))


def pytorch(c):
    """Processes in turn, the order reversed every round; medians of the medians."""
    device = "cuda" if c.device == "cuda" else "cpu"
    for what, config, model, batch, keys, flags, factor in BESIDE_PYTORCH[: c.quick(3, 1)]:
        times = {"runtime": [], "PyTorch": []}
        reason = ""
        for turn in range(c.quick(3, 1)):
            for name in sorted(times, reverse=turn % 2 == 1):
                if name == "runtime":
                    ms, reason = c.bench(config, 50, 150, device__backend=c.device,
                                         training__global_batch_size=batch, **keys)
                else:
                    done = run([c.arguments.python, PYTORCH_STEP, model, "--device", device, "--batch", str(batch),
                                "--threads", str(os.cpu_count()), "--warm-up", "10", *flags], 200)
                    ms = json.loads(done.out.splitlines()[-1])["step_ms_median"] if done.code == 0 else None
                    reason = done.reason()
                if ms is None:
                    break
                times[name].append(ms)
            else:
                continue
            break
        else:
            ours, theirs = (statistics.median(times[name]) for name in ("runtime", "PyTorch"))
            c.verdict(what, theirs / ours >= factor, f"{ours:.3f} ms a step, PyTorch {theirs:.3f}: {theirs / ours:.2f} "
                      f"times as fast, wanted {factor}", 0, runtime_ms=times["runtime"], pytorch_ms=times["PyTorch"])
            continue
        c.verdict(what, False, f"{name}: {reason}")


# Networks from small to large: where does the device pay?
SIZES = (("mlp", 16), ("mlp", 256), ("lenet", 16), ("lenet", 256), ("lenet", 2048), ("gpt", 1), ("gpt", 8),
         ("resnet18", 8), ("resnet18", 64))


def sizes(c):
    for model, batch in SIZES[: c.quick(9, 3)]:
        times = []
        for device in (c.device, c.other):
            ms, reason = c.bench(f"configs/bench_{model}.toml", 20, 120, device__backend=device,
                                 training__global_batch_size=batch)
            if ms is None:
                c.verdict(f"{model}, batch {batch}, {device}", False, reason)
                break
            times.append(ms)
        else:
            c.row(f"{model}, batch {batch}", "ok", f"{c.device} {times[0]:.3f} ms, {c.other} {times[1]:.3f} ms: "
                  f"{times[1] / times[0]:.2f} times as fast", 0, device_ms=times[0], other_ms=times[1])


STEPS = {f.__name__: f for f in (facts, devices, conformance, verify, train, ranks, capture, memory, sanitizer, pytorch,
                                 sizes)}


def check(c, wanted):
    """The exit code."""
    for name in dict.fromkeys(["facts", "devices", *wanted]):  # all others need what these two find
        c.step = name
        if c.unusable:
            c.skip(name, c.unusable)
            continue
        try:
            STEPS[name](c)
        except Exception as error:  # pylint: disable=broad-except
            c.verdict(name, False, f"{type(error).__name__}: {error}")
    failed = [r for r in c.rows if r["verdict"] == "FAILED"]
    print(f"{len(c.rows)} rows, {len(failed)} failed, {sum(r['verdict'] == 'skipped' for r in c.rows)} skipped: "
          f"{c.arguments.output}/results.md")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="build folder, with bin/, lib/ and tests/")
    parser.add_argument("--output", default=os.environ.get("OUT") or os.path.join(ROOT, "outputs", "gpu"))
    parser.add_argument("--only", help="steps, separated by commas: " + ", ".join(STEPS))
    parser.add_argument("--quick", action="store_true", help="fewer forms of each step, in a few minutes")
    parser.add_argument("--device", default="cuda", help="what is checked (cpu: tries this script without a GPU)")
    parser.add_argument("--against", default="cpu", help="what it is compared with")
    parser.add_argument("--python", default="python3", help="the Python that has torch")
    arguments = parser.parse_args()
    arguments.words = sys.argv[3:] if sys.argv[1] == "--build" else sys.argv[1:]
    arguments.output = os.path.abspath(arguments.output)
    wanted = arguments.only.split(",") if arguments.only else list(STEPS)
    for name in wanted:
        if name not in STEPS:
            sys.exit(f"--only {name}: no such step; there are {', '.join(STEPS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    with tempfile.TemporaryDirectory() as scratch:
        sys.exit(check(Check(arguments, scratch), wanted))


if __name__ == "__main__":
    main()
