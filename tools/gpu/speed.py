"""The steps of check.py that measure how fast the device is, and why."""

import dataclasses
import json
import os
import re
import statistics

from correct import lacks_type
from report import Cut, sets

PYTORCH_STEP = os.path.join("tools", "peers", "pytorch_step.py")
PYTORCH_GPU = os.path.join("tools", "peers", "pytorch_gpu.py")
PYTORCH_LIMITS = os.path.join("tools", "gpu", "pytorch_limits.py")


@dataclasses.dataclass(frozen=True)
class Job:
    """A model that is timed, with the arguments for runtime and for PyTorch. The forms eager and compile of PyTorch are
    those of tools/peers/pytorch_step.py, any other is a variant of tools/peers/pytorch_gpu.py.
    """

    model: str
    batch: int
    config: str
    keys: dict = dataclasses.field(default_factory=dict)  # keys for runtime, as sets() takes them
    flags: tuple = ()  # flags for PyTorch, in every form
    forms: tuple = ("eager", "compile")  # of PyTorch
    wanted: dict = dataclasses.field(default_factory=dict)  # {form: required speed relative to that PyTorch}
    numbers: str = "float32"
    note: str = ""  # a remark about PyTorch's run

    def name(self):
        return f"{self.model}, batch {self.batch}, {self.numbers}"


BF16 = {"training__mixed_precision": "bf16"}
GPT2 = "tools/gpu/gpt2.toml"
LLAMA = "configs/bench_llama.toml"
RESNET = "configs/bench_resnet18.toml"
LENET = "configs/bench_lenet.toml"


def resnet(batch):
    return Job("resnet18", batch, RESNET, BF16, ("--bf16", "--layout", "nhwc"), wanted={"compile": 1.0}, numbers="bf16",
               note=" in NHWC")


def gpt2(batch):
    return Job("gpt2", batch, GPT2, BF16, ("--bf16",), wanted={"compile": 1.0}, numbers="bf16, context 1024")


def llama(batch):
    forms = ("compile+graph", "compile+bf16master+graph")
    return Job("llama", batch, LLAMA, BF16, forms=forms, wanted=dict.fromkeys(forms, 1.0), numbers="bf16, context 256")


JOBS = (Job("lenet", 256, LENET, wanted={"eager": 5.0}, numbers="float32, TF32 off on both sides"), resnet(512), gpt2(8),
        llama(64), resnet(256), resnet(1024), gpt2(32),
        Job("lenet", 256, LENET, {"device__cuda__tf32": "true"}, ("--tf32",), numbers="TF32 on both sides"))
# The jobs when a processor replaces the device: they only show that the script works.
TRIAL_JOBS = (Job("lenet", 16, LENET, wanted={"eager": 0.0}), Job("resnet18", 2, RESNET), Job("gpt", 1, "configs/bench_gpt.toml"),
              Job("llama", 1, LLAMA, forms=()))


def jobs(c):
    all_jobs = JOBS if c.on_gpu else TRIAL_JOBS
    models = c.want("models", None)
    chosen = [job for job in all_jobs if models is None or job.model in models]
    return chosen[: 1 if c.arguments.quick else c.want("first", len(chosen))]


def measured(c, job, steps, limit, **keys):
    """Returns (the report of `runtime bench`, or None; the reason if it failed)."""
    words = ["bench", job.config, "--steps", str(steps), "--json",
             *sets(**{"device__backend": c.device, "training__global_batch_size": job.batch, **job.keys, **keys})]
    done = c.runtime(words, limit)
    return (done.last_json(), "") if done.code == 0 else (None, done.reason())


def step_ms(c, job, steps, limit, **keys):
    report, reason = measured(c, job, steps, limit, **keys)
    return (report["step_ms_median"] if report else None), reason


def limits(c):
    """Measures the limits of the machine with the vendor's libraries alone, and with PyTorch."""
    if c.device != "cuda":
        return c.skip("limits of the machine", "for CUDA")
    program = c.path("bin", "gpu_limits")
    if os.path.exists(program):
        done = c.ours([program], 90)
        lines = [l for l in done.out.splitlines() if l.startswith("{")]
        c.limits = done.last_json() if lines else {}
        c.verdict("own program", done.code == 0, words_of(c.limits) if done.code == 0 else done.reason(), done.seconds)
    else:
        c.skip("own program", f"{program} is not there")
    if c.facts.get("PyTorch", "not found") == "not found":
        return c.skip("PyTorch", "not found")
    done = c.run([c.arguments.python, PYTORCH_LIMITS], 90)
    if done.code != 0:
        return c.verdict("PyTorch", False, done.reason(), done.seconds)
    theirs = done.last_json()
    c.limits = {**{k: v for k, v in theirs.items() if k not in c.limits}, **c.limits}
    return c.verdict("PyTorch", True, words_of(theirs), done.seconds, **theirs)


def words_of(found):
    parts = []
    for name, unit, scale in (("copy_bytes_per_second", "GB/s copied (read and written)", 1e9),
                              ("to_device_bytes_per_second", "GB/s to the device", 1e9),
                              ("to_host_bytes_per_second", "GB/s to the host", 1e9),
                              ("bf16_flops_per_second", "TFLOP/s bf16", 1e12), ("tf32_flops_per_second", "TFLOP/s TF32", 1e12),
                              ("float32_flops_per_second", "TFLOP/s float32", 1e12),
                              ("graph_node_seconds", "us a node of a graph", 1e-6)):
        if name in found:
            parts.append(f"{found[name] / scale:.4g} {unit}")
    return ", ".join(parts)


LAYER = re.compile(r"^(?P<left>.*\S)\s+(?P<us>[\d.]+)\s+(?P<planned>[\d.]+)\s+(?P<rate>[\d.]+|-?nan|inf)\s*$")


def by_operation(table):
    """Returns {"matmul, cublaslt": (microseconds, launches)} from the table that `runtime bench --layers` prints."""
    sums = {}
    for line in table.splitlines():
        found = LAYER.match(line)
        if found is None:
            continue
        left = found["left"]
        words = left.split() if left[0] != " " else ["", *left.split()]  # a node that belongs to no layer
        if len(words) < 3 or words[0] == "sum":
            continue
        name = f"{words[1]}, {' '.join(words[2:])}"
        us, count = sums.get(name, (0.0, 0))
        sums[name] = (us + float(found["us"]), count + 1)
    return sums


def layers(c):
    """Reports the time of a step by operation; output.log has the whole table."""
    models = c.want("models", None) or (("gpt2", "resnet18") if c.on_gpu else ("gpt", "resnet18", "lenet"))
    for job in (j for j in jobs(c) if j.model in models):
        words = ["bench", job.config, "--layers", "--steps", "10",
                 *sets(**{"device__backend": c.device, "training__global_batch_size": job.batch, **job.keys})]
        done = c.runtime(words, 120)
        what = f"{job.name()}: microseconds by operation"
        sums = by_operation(done.out) if done.code == 0 else {}
        if lacks_type(done):
            c.skip(what, done.reason())
            continue
        largest = sorted(sums.items(), key=lambda item: -item[1][0])
        total = sum(us for us, _ in sums.values())
        text = "; ".join(f"{name} {us:.0f} ({n} x)" for name, (us, n) in largest[:12])
        c.verdict(what, bool(sums), f"{total:.0f} in {sum(n for _, n in sums.values())} operations: {text}" if sums
                  else done.reason(), done.seconds, by_operation={name: us for name, (us, _) in largest})


def bench(c):
    for job in jobs(c):
        report, reason = measured(c, job, 50 if c.on_gpu else 5, 120)
        if report is None:
            (c.skip if "does not compute in" in reason else lambda what, why: c.verdict(what, False, why))(job.name(), reason)
            continue
        rate, limit = report["flops_per_second"], c.limits.get("bf16_flops_per_second")
        share = f" ({100 * rate / limit:.0f}% of the machine's bf16 product)" if limit and "bf16" in job.numbers else ""
        c.row(job.name(), "ok", f"{report['step_ms_median']:.3f} ms a step, {report['samples_per_second']:.0f} samples/s, "
              f"{rate / 1e12:.2f} TFLOP/s{share}, {report['recorded_operations']} of {report['operations']} operations recorded",
              0, step_ms=report["step_ms_median"], flops_per_second=rate)


def pytorch_flags(form):
    return ["--compile"] if form == "compile" else []


def pytorch_ms(c, job, form):
    if form not in ("eager", "compile"):
        return pytorch_gpu_ms(c, job, form)
    done = c.run([c.arguments.python, PYTORCH_STEP, job.model, "--device", "cuda" if c.device == "cuda" else "cpu", "--batch",
                  str(job.batch), "--threads", str(os.cpu_count()), "--warm-up", "10", "--seconds", "4", *job.flags,
                  *pytorch_flags(form)], 200)
    return (done.last_json()["step_ms_median"] if done.code == 0 else None), done.reason()


def pytorch_gpu_ms(c, job, variant):
    done = c.run([c.arguments.python, PYTORCH_GPU, "--models", f"{job.model}:{job.batch}", "--variants", variant,
                  "--budget-seconds", "150"], 200)
    rows = [json.loads(line) for line in done.out.splitlines() if line.startswith("{")]
    row = next((row for row in rows if row.get("variant") == variant), {})
    return row.get("ms"), row.get("error", done.reason())


def pytorch(c):
    """Compares with PyTorch: the processes take turns, in reversed order every other round; the figures are medians of
    the medians.
    """
    if c.facts.get("PyTorch", "not found") == "not found":
        return c.skip("beside PyTorch", f"{c.arguments.python} has no torch")
    for job in jobs(c):
        forms = [form for form in job.forms
                 if form in c.want("forms", job.forms) and (form in job.wanted or not c.want("judged_only", False))]
        if forms:
            beside(c, job, forms, 1 if c.arguments.quick else c.want("turns", 3))
    return None


def beside(c, job, forms, turns):
    """Writes a row for each form of PyTorch, from what was measured before the time had passed."""
    times = {name: [] for name in ("runtime", *forms)}
    stopped = None
    try:
        for turn in range(turns):
            for name in reversed(times) if turn % 2 else times:
                ms, reason = step_ms(c, job, 50, 150) if name == "runtime" else pytorch_ms(c, job, name)
                if ms is None:
                    return c.verdict(job.name(), False, f"{name}: {reason}")
                times[name].append(ms)
    except Cut as cut:
        stopped = cut
    for form in forms:
        if not times["runtime"] or not times[form]:
            continue
        ours, theirs = (statistics.median(times[name]) for name in ("runtime", form))
        factor = job.wanted.get(form)
        c.verdict(f"{job.name()}, PyTorch {form}{job.note}", factor is None or theirs / ours >= factor,
                  f"{ours:.3f} ms a step, PyTorch {theirs:.3f}: {theirs / ours:.2f} times as fast" +
                  (f", wanted {factor}" if factor else "") + f" ({len(times['runtime'])} and {len(times[form])} turns)", 0,
                  runtime_ms=times["runtime"], pytorch_ms=times[form])
    if stopped:
        raise stopped
    return None


def capture(c):
    for model, batch in (("lenet", 256), ("mlp", 256), ("gpt", 8))[: 1 if c.arguments.quick or not c.on_gpu else 3]:
        job, times = Job(model, batch, f"configs/bench_{model}.toml"), {}
        for graph in ("true", "false"):
            times[graph], reason = step_ms(c, job, 50 if c.on_gpu else 5, 120, device__graph_capture=graph)
            if times[graph] is None:
                c.verdict(f"{model}, graph_capture={graph}", False, reason)
        if None not in times.values():
            c.row(f"{model}, step captured / launched", "ok", f"{times['true']:.3f} / {times['false']:.3f} ms", 0,
                  **{f"graph_capture_{k}_ms": v for k, v in times.items()})


# Networks from small to large, to see from which size on the device is faster.
SIZES = (("mlp", 16), ("mlp", 256), ("lenet", 16), ("lenet", 256), ("lenet", 2048), ("gpt", 1), ("gpt", 8),
         ("resnet18", 8), ("resnet18", 64))


def sizes(c):
    for model, batch in SIZES[: 3 if c.arguments.quick or not c.on_gpu else 9]:
        times = []
        for device in (c.device, c.other):
            ms, reason = step_ms(c, Job(model, batch, f"configs/bench_{model}.toml"), 20 if c.on_gpu else 3, 120,
                                 device__backend=device)
            if ms is None:
                c.verdict(f"{model}, batch {batch}, {device}", False, reason)
                break
            times.append(ms)
        else:
            c.row(f"{model}, batch {batch}", "ok", f"{c.device} {times[0]:.3f} ms, {c.other} {times[1]:.3f} ms: "
                  f"{times[1] / times[0]:.2f} times as fast", 0, device_ms=times[0], other_ms=times[1])
