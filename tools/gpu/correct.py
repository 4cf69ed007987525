"""The steps of check.py that check whether the results of the device are right, and how it refuses impossible requests.
"""

import functools
import json
import math
import os
import re
import shutil
import tempfile

from report import processes, sets

MOST_SHARDS = 12  # parallel shards of the conformance suite; the reference in each has one thread


def losses(done):
    """The losses that `runtime train` has printed with metrics.log_every_steps = 1."""
    rows = [json.loads(l) for l in done.out.splitlines() if l.startswith("{")]
    return [row["loss"] for row in rows if row.get("loss") is not None]


def lacks_type(done):
    """Whether the command failed because the device does not compute in a requested type."""
    return done.code == 3 and "does not compute in" in done.err


def devices(c):
    done = c.runtime(["devices"], 60)
    lines = [l for l in done.out.splitlines() if l.startswith(c.device + ":0")]
    usable = bool(lines) and " usable " in lines[0]
    if usable:
        return c.verdict("runtime devices", True, " ".join(lines[0].split()), done.seconds)
    reason = " ".join(lines[0].split()) if lines else f"plugin {c.device} is not there" + \
        (f"; {done.reason()}" if done.code else "; see runtime plugins list")
    c.unusable = reason
    # A machine without a GPU is not a failure; a machine whose GPU cannot be used is.
    if shutil.which("nvidia-smi") and c.run(["nvidia-smi"], 60).code == 0:
        return c.verdict("runtime devices", False, reason, done.seconds)
    return c.skip("runtime devices", reason)


def shard(c, program, report, options, pattern, index, count):
    """Runs shard `index` of `count` of the suite. Returns its tests from GoogleTest's JSON report, and the ended
    program.
    """
    env = {"RUNTIME_TEST_DEVICE_OPTIONS": options, "RUNTIME_TEST_PLUGINS": c.path("lib", "runtime", "plugins"),
           "GTEST_TOTAL_SHARDS": str(count), "GTEST_SHARD_INDEX": str(index), "OMP_NUM_THREADS": "1"}
    done = c.ours([program, f"--gtest_output=json:{report}", f"--gtest_filter={pattern}"], 280, env)
    if not os.path.exists(report):
        return None, done
    with open(report, encoding="utf-8") as f:
        return [t for suite in json.load(f)["testsuites"] for t in suite["testsuite"]], done


def suite(c, program, what, options="", pattern="*", most_shards=MOST_SHARDS):
    count = processes(most_shards)
    with tempfile.TemporaryDirectory() as folder:
        parts = c.all_of([functools.partial(shard, c, program, os.path.join(folder, f"{i}.json"), options, pattern, i, count)
                          for i in range(count)])
    seconds = max(done.seconds for _, done in parts)
    broken = [done.reason() for tests, done in parts if tests is None]
    if broken:
        return c.verdict(what, False, f"{len(broken)} of {count} parts left no report: {broken[0]}", seconds)
    tests = [t for some, _ in parts for t in some]
    skipped = sum(t["result"] == "SKIPPED" for t in tests)
    failed = [t["name"].split("/")[-1] for t in tests if t.get("failures")]
    lines = [l.strip() for _, done in parts for l in done.out.splitlines()]
    first = next((l[:300] for l in lines if "differs from" in l or "claims" in l or l.startswith("error")), "")
    total = next((l for l in lines if l.startswith("conformance: ")), "").removeprefix("conformance: ")
    if skipped > 1:
        return c.skip(what, f"{skipped} of {len(tests)} tests skip themselves")
    good = not failed and all(done.code == 0 for _, done in parts) and len(tests) > 0
    return c.verdict(what, good, (f"{total}; " if total else "") + f"{len(tests) - len(failed)} of {len(tests)} tests pass" +
                     (f"; failed: {', '.join(failed)}: {first}" if failed else ""), seconds, failed=failed)


def conformance(c):
    program = c.path("tests", f"backends_{c.device}_conformance_test")
    if not os.path.exists(program):
        return c.skip("conformance", f"{program} is not there; build with tests")
    forms = ("", "vendor_libraries=false", "tf32=true") if c.device == "cuda" else ("",)
    operations = c.want("operations", None)
    pattern = ":".join(f"*/{name}*" for name in operations) if operations else "*"
    for options in c.want("options", forms)[: 1 if c.arguments.quick or c.device != "cuda" else 3]:
        suite(c, program, f"{', '.join(operations) if operations else 'all operations'}; {options or 'defaults'}", options,
              pattern)
    return None


# The batch of each configuration; small, because the processor computes it too.
VERIFIED = {"lenet": 32, "mlp": 64, "resnet18": 8, "gpt": 2}


def verify(c):
    forms = (("float32", 1e-4, [], ()), ("float32, isolated", 1e-4, ["--isolate"], ()),
             ("bf16, isolated", 2e-2, ["--isolate"], ("training.mixed_precision=bf16",)))
    models = c.want("models", list(VERIFIED)[: 1 if c.arguments.quick else 4])
    for model in [m for m in models if m in VERIFIED]:
        for form, tolerance, flags, keys in forms:
            if model == "resnet18" and form == "float32":
                continue  # in a step with millions of ReLUs some number always rounds to the other side of zero
            verify_one(c, model, form, tolerance, [*flags, *(word for key in keys for word in ("--set", key))])


def verify_one(c, model, form, tolerance, words):
    batch = VERIFIED[model]
    done = c.runtime(["verify", f"configs/bench_{model}.toml", "--steps", "2" if c.arguments.quick else "10", "--rtol",
                      str(tolerance), "--json", *words, "--against", c.other,
                      *sets(device__backend=c.device, training__global_batch_size=batch)], 200)
    what = f"{model}, {form}, batch {batch}, against {c.other}"
    if lacks_type(done):
        return c.skip(what, done.reason())
    if done.code not in (0, 6):
        return c.verdict(what, False, done.reason(), done.seconds)
    report = done.last_json()
    worst = report["worst"] if report["worst"] is not None else math.inf
    return c.verdict(what, done.code == 0,
                     f"{len(report['steps'])} steps, {sum(s['compared'] for s in report['steps'])} values, worst "
                     f"{worst:.1e}" + ("; " + done.reason() if done.code else ""), done.seconds, worst=worst)


def trained(c, model, steps, batch, limit, *words, **keys):
    return c.runtime(["train", f"configs/bench_{model}.toml", "--max-steps", str(steps), *words,
                      *sets(metrics__log_every_steps=1, training__global_batch_size=batch,
                            job__dump_folder=tempfile.mkdtemp(dir=c.scratch), **keys)], limit)


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


# The steps and the batch of each configuration.
TRAINED = {"lenet": (20, 64), "mlp": (20, 64), "gpt": (50, 4), "resnet18": (10, 64)}


def train(c):
    models = c.want("models", list(TRAINED)[: 1 if c.arguments.quick else 4])
    for model in [m for m in models if m in TRAINED]:
        steps, batch = TRAINED[model]
        one = trained(c, model, steps, batch, 120, device__backend=c.device)
        if model != "resnet18":  # takes minutes on a processor
            two = trained(c, model, steps, batch, 280, device__backend=c.other)
            compare_losses(c, f"{model}, {steps} steps, {c.device} beside {c.other}", one, two, 1e-4)
            continue
        values = losses(one)
        c.verdict(f"{model}, {steps} steps on {c.device}", one.code == 0 and all(map(math.isfinite, values)),
                  f"loss {values[0]:.4f} to {values[-1]:.4f}" if values and one.code == 0 else one.reason(), one.seconds)


def ranks(c):
    one = trained(c, "lenet", 10, 64, 120, device__backend=c.device)
    two = trained(c, "lenet", 10, 64, 180, "--nproc", "2", comm__backend="gloo",
                  launch__devices=json.dumps([c.device, c.other]))
    compare_losses(c, f"lenet, ranks on {c.device} and {c.other} over Gloo beside one rank", two, one, 1e-4)


def nccl(c):
    """NCCL refuses two ranks on one device, so one rank runs the suite of communicators."""
    program = c.path("tests", "collectives_nccl_gpu_test")
    if c.device != "cuda":
        return c.skip("nccl", "for CUDA")
    if not os.path.exists(program):
        return c.skip("nccl", f"{program} is not there; build with tests where NCCL is installed")
    return suite(c, program, "plugin nccl, one rank", most_shards=1)


def memory(c):
    """A batch that does not fit into memory must be refused with a message that has sizes."""
    what = "resnet18, batch 32767"
    if not c.on_gpu:
        return c.skip(what, "the memory of the machine is not filled")
    done = c.runtime(["train", "configs/bench_resnet18.toml", "--max-steps", "1",
                      *sets(device__backend=c.device, training__global_batch_size=32767, dataset__samples=32767,
                            job__dump_folder=c.scratch)], 200)
    text = " ".join(done.err.split())
    sized = any(unit in text for unit in ("GiB", "MiB", "bytes"))
    return c.verdict(what, done.code == 3 and sized, f"exit code {done.code}: {text[-400:]}", done.seconds)


def large(c):
    """GPT-2 with batches of more than 2^31 logits must lose what the same batches in smaller micro-batches lose."""
    if not c.on_gpu:
        return c.skip("gpt2, batches 64 and 96", "tensors of 10 GB")

    def three_steps(batch, **keys):
        return c.runtime(["train", "tools/gpu/gpt2.toml", "--max-steps", "3",
                          *sets(metrics__log_every_steps=1, training__global_batch_size=batch, dataset__samples=batch,
                                training__mixed_precision="bf16", device__backend=c.device, device__tune="off",
                                job__dump_folder=tempfile.mkdtemp(dir=c.scratch), **keys)], 120)
    for batch in (64, 96):
        compare_losses(c, f"gpt2, batch {batch} beside micro-batches of 32", three_steps(batch),
                       three_steps(batch, training__micro_batch_size=32), 5e-3)
    return None


def sanitizer_program():
    return shutil.which("compute-sanitizer") or next(
        (p for p in ("/usr/local/cuda/bin/compute-sanitizer", "/usr/local/cuda/compute-sanitizer/compute-sanitizer")
         if os.path.exists(p)), None)


def sanitize(c, what, tool, words, env=None):
    """Runs one program under one tool of compute-sanitizer."""
    done = c.ours([sanitizer_program(), "--tool", tool, "--error-exitcode", "9", *words], 280, env)
    if "not supported" in done.out + done.err:
        return c.skip(what, done.reason())
    # "ERROR SUMMARY: 0 errors"; racecheck: "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"
    summaries = re.findall(r"\b(?:ERROR|RACECHECK) SUMMARY: .*", done.out + done.err)
    good = done.code == 0 and bool(summaries) and all(re.search(r": 0 (errors|hazards)", s) for s in summaries)
    return c.verdict(what, good, summaries[-1] if summaries else done.reason(), done.seconds)


def can_sanitize(c, tool):
    if c.device != "cuda":
        c.skip(tool, "for CUDA")
    elif sanitizer_program() is None:
        c.skip(tool, "compute-sanitizer is not installed")
    else:
        return True
    return False


def step_of(c, model, batch, **keys):
    """The command for two training steps with as few different kernels as possible."""
    return [c.path("bin", "runtime"), "train", f"configs/bench_{model}.toml", "--max-steps", "2",
            *sets(device__backend=c.device, device__tune="off", training__global_batch_size=batch,
                  job__dump_folder=tempfile.mkdtemp(dir=c.scratch), **keys)]


def memcheck(c):
    if not can_sanitize(c, "memcheck"):
        return
    for model, batch in (("mlp", 8), ("lenet", 4)):
        sanitize(c, f"{model}, memcheck", "memcheck", step_of(c, model, batch))


# The conformance cases whose kernels use shared memory.
SHARED = ("matmul_float32", "conv2d*_float32", "attention*_float32", "softmax*_float32", "cross_entropy*_float32",
          "layer_norm*_float32", "batch_norm*_float32", "reduce*_float32", "mean_squared_error*_float32",
          "correct_count_float32", "square_sum_float32")


def racecheck(c):
    """Checks the plugin's own kernels. Those of the vendor's libraries are left out: they are not part of this project,
    and the tool takes minutes for them.
    """
    if not can_sanitize(c, "racecheck"):
        return
    own = {"device__cuda__vendor_libraries": "false", "device__graph_capture": "false"}
    for model, batch in (("mlp", 8), ("lenet", 4)):
        sanitize(c, f"{model}, own kernels, racecheck", "racecheck", step_of(c, model, batch, **own))
    program = c.path("tests", "backends_cuda_conformance_test")
    for operation in SHARED if os.path.exists(program) else ():
        sanitize(c, f"conformance of {operation}, own kernels, racecheck", "racecheck",
                 [program, f"--gtest_filter=*/{operation}"],
                 {"RUNTIME_TEST_DEVICE_OPTIONS": "vendor_libraries=false",
                  "RUNTIME_TEST_PLUGINS": c.path("lib", "runtime", "plugins")})
