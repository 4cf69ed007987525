"""Compares random meshes of ranks (threads of one process, or processes over Gloo) with one rank, on the reference in float64.

Losses, gradients and the weights after five steps must equal those of one rank within 1e-9 (relative to the change, for
weights). An ill-conditioned network gets an additional allowance for the order of sums, which PyTorch measures
(networks_check.py). With debug.deterministic the results must be the same bits. The program may refuse a mesh that the model
does not allow, with exit code 2 and one of the reasons in networks_check.DOCUMENTED, which runtime/parallel/README.md lists.
"""
import copy
import functools
import os
import random
import tempfile

import numpy as np

from exchange import read_safetensors
from networks_check import Truth, complete, norm, status_of
from networks_files import Failed, read_metrics, run, toml_text, write_data
from networks_random import LISTS, Networks, batches, fewest_rows, finish
from networks_training import check_rules
from networks_twin import Network, Unsupported

RELATIVE, ROUNDINGS = 1e-9, 64


def mesh_case(seed):
    r = random.Random(f"mesh {seed}")
    samples, data, training = batches(r)
    training.pop("micro_batch_size", None)
    kind = r.choice(("images",) * 3 + ("vectors",) + ("tokens", "language_model") * 2)
    ranks, parallelism, deterministic = mesh(r)
    data_ranks = ranks // parallelism.get("tensor", 1) // parallelism.get("pipeline", 1)
    training["global_batch_size"] = max(training["global_batch_size"], data_ranks)
    samples = max(samples, training["global_batch_size"])  # at least one full batch, for last_batch = "drop"
    pipelined = parallelism.get("pipeline", 1) > 1
    batch_norm = not pipelined and r.random() < 0.6
    networks = Networks(r, fewest_rows(samples, data, training), batch_norm, dropout=r.random() < 0.5)
    case = finish(r, seed, networks, kind, samples, data, training)
    config = case["config"]
    config["training"].pop("mixed_precision", None)
    if not pipelined and not deterministic and r.random() < 0.25 and not has(config, "batch_norm"):
        training["micro_batch_size"] = r.randint(1, 4)
    if has(config, "batch_norm"):
        parallelism["sync_batch_norm"] = True
    if deterministic:
        config["debug"].update(deterministic=True, virtual_shards=r.choice((12, data_ranks, data_ranks + 3)))
        if parallelism.get("zero_stage", 0):
            config["training"].pop("max_norm", None)
    if r.random() < 0.3 and pipelined:
        pin_stages(r, config["model"]["layers"], parallelism)
    if r.random() < 0.3 and parallelism.get("tensor", 1) > 1:
        pin_shards(r, config["model"]["layers"])
    config["parallelism"], config["launch"] = parallelism, {"ranks": ranks}
    config["comm"] = {"backend": "local", "overlap": r.choice((True, False))}
    if r.random() < 0.6:
        config["comm"]["bucket_mb"] = r.choice((0.0001, 0.001, 0.01))
    if r.random() < 0.25:
        config["comm"].update(backend="gloo", gloo={"ranks_per_host": r.choice((0, 1, 2, 2, 3, 4))})
    if r.random() < 0.3:  # of several batches, for the ranks to share
        case["data"]["validation"] = r.randint(1, 4 * training["global_batch_size"])
    case["data"]["start"] = "own"
    return dict(complete(case), kind="mesh")


def mesh(r):
    """The number of ranks, the section [parallelism], and whether results must be the same bits."""
    while True:
        data, tensor, pipeline = r.choice((1, 1, 2, 2, 3, 4, 5)), r.choice((1, 1, 2, 2, 3, 4)), r.choice((1, 1, 1, 2, 2, 3, 4))
        if 2 <= data * tensor * pipeline <= 8:
            break
    parallelism = {}
    if tensor > 1:
        parallelism["tensor"] = tensor
    if pipeline > 1:
        parallelism.update(pipeline=pipeline, pipeline_schedule=r.choice(("gpipe", "1f1b", "interleaved")))
        if r.random() < 0.6:
            parallelism["microbatches"] = r.randint(1, 5)
    parallelism["zero_stage"] = r.choice((0, 1, 2, 3))
    plain = tensor == pipeline == 1
    deterministic = plain and r.random() < 0.35
    if deterministic:
        parallelism["zero_stage"] = r.choice((0, 1))
    elif plain and parallelism["zero_stage"] < 2 and r.random() < 0.2:
        parallelism["share"] = "by_speed"
    if parallelism["zero_stage"] and not deterministic and r.random() < 0.5:
        parallelism["zero_ranks"] = r.choice([d for d in range(2, data + 1) if data % d == 0] or [0])
    if r.random() < 0.2:
        parallelism["data"] = data
    return data * tensor * pipeline, parallelism, deterministic


def every_layer(layers):
    for layer in layers:
        yield layer
        yield from every_layer(sum((layer.get(key, []) for key in LISTS), []))


def has(config, kind):
    return any(layer["type"] == kind for layer in every_layer(config["model"]["layers"]))


def pin_stages(r, layers, parallelism):
    stages = parallelism["pipeline"] * (2 if parallelism["pipeline_schedule"] == "interleaved" else 1)
    for i, stage in enumerate(sorted(r.randrange(stages) for _ in layers)):
        if r.random() < 0.5:
            layers[i]["stage"] = stage


def pin_shards(r, layers):
    for layer in every_layer(layers):
        if layer["type"] in ("linear", "conv2d", "embedding") and not layer.get("tie") and r.random() < 0.5:
            layer["shard"] = r.choice(("auto", "none") + (("column", "row") if layer["type"] != "embedding" else ()))


def plain(case):
    """The same training on one rank."""
    found = copy.deepcopy(case)
    for section in ("parallelism", "launch", "comm"):
        found["config"].pop(section, None)
    if case["config"].get("debug", {}).get("deterministic") and case["config"].get("parallelism", {}).get("sync_batch_norm"):
        found["config"]["parallelism"] = {"sync_batch_norm": True}
    return found


def results(runtime, folder, name):
    """Losses, gradients of the first batch and final weights, by name."""
    wanted = ("device.backend=reference", "training.dtype=float64", f"job.dump_folder=run-{name}", "job.overwrite=true")
    settings = [word for setting in wanted for word in ("--set", setting)]
    run(runtime, folder, ["gradients", f"{name}.toml", *settings, "--output", f"{name}.safetensors"])
    run(runtime, folder, ["train", f"{name}.toml", *settings])
    found = {}
    for key, value in read_safetensors(os.path.join(folder, f"{name}.safetensors")).items():
        if not key.startswith(("weights.", "inputs.")) and key not in ("logits", "features", "labels", "targets"):
            found["loss" if key == "loss" else "gradient " + key] = value
        elif key.startswith("weights."):
            found["start " + key[8:]] = value
    for key, value in read_safetensors(os.path.join(folder, f"run-{name}", "weights.safetensors")).items():
        found["final " + key] = value
    for line in read_metrics(os.path.join(folder, f"run-{name}", "metrics.jsonl")):
        found[f"loss of step {line['step'] - 1}"] = np.array([line["loss"]])
        if "validation_loss" in line:
            found["validation loss"] = np.array([line["validation_loss"]])
    return found


def noise_of_steps(case, size, gradient):
    """How far five steps may move `size` weights whose gradients are only rounding errors of `gradient`, the largest
    gradient."""
    optimizer = case["config"]["optimizer"]
    steps = 5 * optimizer["lr"]
    rounding = ROUNDINGS * 2.0**-53 * gradient
    rules = [optimizer] + optimizer.get("group", [])
    if all(rule.get("name", "sgd") == "sgd" for rule in rules):
        return steps * rounding * max(rule.get("lr", 0) / optimizer["lr"] if optimizer["lr"] else 1 for rule in rules)
    # These rules divide by about the size of the gradient, so that noise moves weights as far as gradients do; Lion takes
    # the sign of noise.
    largest = max([rule.get("lr", 0) for rule in rules])
    eps = 0 if any(rule.get("name") == "lion" for rule in rules) else min(rule.get("eps", 1e-10) for rule in rules)
    return 2 * 5 * largest * 10 * np.sqrt(size) * min(1.0, rounding / eps if eps else 1.0)


def distances(case, one, several):
    """A list of (error / allowed, name), the worst first."""
    exact = case["config"].get("debug", {}).get("deterministic", False)
    list_, gradients = [], [norm(v) for n, v in one.items() if n.startswith("gradient ")]
    for name, value in one.items():
        if name.startswith("start "):
            continue
        if name not in several or several[name].shape != value.shape:
            return [(float("inf"), name + " is missing or has another shape", 0.0)]
        error = norm(several[name] - value)
        own = norm(value - one["start " + name[6:]]) if name.startswith("final ") and "start " + name[6:] in one else norm(value)
        scale = max(norm(value), max(gradients)) if name.startswith("gradient ") else norm(value)
        allowed = 0.0 if exact else RELATIVE * own + ROUNDINGS * 2.0**-53 * scale
        if name.startswith("final ") and not exact:
            allowed += noise_of_steps(case, value.size, max(gradients))
        list_.append((0.0 if error == 0 else error / allowed if allowed else float("inf"), name, error))
    return sorted(list_, reverse=True)


def excused(case, one, several):
    """Whether PyTorch, with noise of float64's rounding, shows that rounding alone makes as large a difference."""
    ordered = plain(case)
    ordered["config"]["dataset"]["shuffle"] = False  # PyTorch shuffles differently; rounding matters about as much
    truth = Truth(ordered, 0)
    truth.start = {n: one["start " + n] for n in truth.parameters}
    truth.compute()
    for _ in range(2):
        allowed = truth.allowed("float64")
        if all(norm(several[n] - one[n]) <= allowed[n] for n in one if n in allowed):
            return True
        truth.doubt("float64")
    return False


@functools.cache
def plugins(runtime):
    return {line.split()[0] for line in run(runtime, ".", ["plugins", "list"]).splitlines()}


def check(case, runtime):
    backend = case["config"].get("comm", {}).get("backend", "local")  # a smaller case may have no such section
    if backend not in plugins(runtime):
        return {"status": "unsupported", "what": f"the plugin {backend} was not built"}
    with tempfile.TemporaryDirectory(prefix="meshes-") as folder:
        try:
            parameters, _, coverage = Network(case["config"]["model"]).declare()
            if not parameters:
                raise Unsupported("a model without parameters")
            check_rules(case["config"]["optimizer"])
        except Unsupported as error:
            return {"status": "unsupported", "what": str(error)[:300]}
        write_data(case, folder, 0)
        for name, which in (("one", plain(case)), ("several", case)):
            with open(os.path.join(folder, name + ".toml"), "w", encoding="utf-8") as file:
                file.write(toml_text(which))
        result = {"types": sorted(coverage.types), "pairs": sorted(map(list, coverage.pairs))}
        try:
            one = results(runtime, folder, "one")
        except Failed as error:
            return dict(result, status=status_of(error, case["config"]), code=error.code, what="one rank: " + str(error))
        try:
            several = results(runtime, folder, "several")
        except Failed as error:
            return dict(result, status=status_of(error, case["config"]), code=error.code, what=str(error))
        exact = case["config"].get("debug", {}).get("deterministic", False)
        worst = distances(case, one, several)[0]
        result["worst"] = {"reference": min(worst[0], 1e9)}
        what = f"{worst[1]}: {worst[2]:.3g} away, {worst[0]:.3g} times what is allowed"
        try:
            if worst[0] <= 1 or (not exact and np.isfinite(worst[0]) and excused(case, one, several)):
                return dict(result, status="ok")
        except Unsupported as error:  # the runtime takes it, so the difference counts
            what += f" (PyTorch cannot say whether it is rounding: {error})"
        return dict(result, status="wrong", device="reference", what=what)
