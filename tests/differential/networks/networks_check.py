"""Runs a case on the devices, compares everything with PyTorch in float64, and decides how far apart the results may be.

The distance of a tensor from PyTorch's float64 result, by norm, may be the sum of these allowances:
  relative   RELATIVE of the tensor's own norm (for weights after five steps: of the norm of their *change*),
  rounding   ROUNDINGS roundings of the type, times the largest gradient's norm (for weights: times the norms of weight and steps),
  sensitive  SENSITIVE times the largest change in three trainings under noise: initial weights and features move by 8 roundings,
             and in every pass each stored number, each gradient, and the sums of products, softmax and normalisations move by
             about one rounding (a sum: of its terms; a convolution that Winograd's algorithm may compute: of its norm). This
             models the effect of rounding on an ill-conditioned network wherever it arises, on gradients that consist of
             rounding errors, and on the steps of AdamW with them, element by element.
             Before a network is called wrong, SECOND_DRAWS such trainings more are made, and as many with noise in the backward
             pass only: noise before a normalisation of equal numbers makes them unequal, and the gradients smaller,
  float32    SINGLE times PyTorch's own error in float32, for a run in float32; for a run in float64 this is scaled by the ratio of
             the roundings. It allows for the digits that a sum loses by cancellation.
In float32 an activation may fall on the other side of a ReLU's kink, or a max-pooling window may choose another element: a
network with ReLU or max-pooling is wrong only if it is wrong with three draws of data and weights. On the reference in float64
there is no such exception.
If PyTorch's own float32 changes a loss by CHAOTIC of itself (for example with a layer_norm of one feature in front of a
batch_norm), or cannot represent it, the network is compared in float64 only, and counted.
For 16-bit types the twin rounds what the runtime stores in 16 bits, and other runs of the twin disturb the stored numbers by
noise of that size; a tensor may be HALF times as far away as the largest of these changes. For 29 networks in bf16 the ratio of
the gradients' errors to the largest change was 0.5 in the median, 1.03 at the 99th percentile and 1.65 at most; that of losses
and weights after five steps was 0.3, 1.24 and 2.7. The first gradient is as far away as the twin's own rounding (1.00 in the
median), since both round at the same places. If this changes a loss by CHAOTIC_HALF of itself, nothing is compared, and the
network is counted as well. The noise is drawn HALF_DRAWS times. Before a network is called wrong, it is drawn SECOND_HALF_DRAWS
times more, and SECOND_HALF times the largest change counts instead: where the sign of a small gradient decides the direction
of a step of Adam or Lion, a few draws may all find the same sign. In the network that showed this, 7 of 40 draws moved a bias
as far as the runtime did, and none of the first three.
"""
import fnmatch
import math
import os
import random
import re
import tempfile
import warnings

import numpy as np
import torch

from exchange import read_safetensors, write_safetensors
from networks_files import Failed, read_metrics, run, toml_text, types_of, write_data
from networks_training import STATISTICS, Batches, Samples, Training, check_rules, rules_of, start_values
from networks_twin import Network, Unsupported

warnings.filterwarnings("ignore")

RELATIVE = {"float64": 1e-9, "float32": 2e-5}
ROUNDING = {"float64": 2.0**-53, "float32": 2.0**-24}
HALF_TYPES = {"bf16": (torch.bfloat16, 2.0**-9), "f16": (torch.float16, 2.0**-12)}  # and the error of one rounding
TYPE_NAMES = {"bf16": "bfloat16", "f16": "float16"}
ROUNDINGS, SENSITIVE, SINGLE, HALF = 64, 20, 16, 4
SECOND_DRAWS = 20
HALF_DRAWS, SECOND_HALF_DRAWS, SECOND_HALF = 3, 40, 2
CHAOTIC, CHAOTIC_HALF = 1e-3, 0.5  # relative change of a loss above which nothing is compared
SMALL = 1.0  # the least gradient norm in bounds for rounding, for cases in which all gradients vanish
KINKS = {"relu", "max_pool2d"}
DRAWS = 3


def norm(x):
    return float(np.linalg.norm(np.asarray(x, dtype=np.float64)))


# Reasons for which the runtime may refuse a mesh; runtime/parallel/README.md explains them under "What is refused".
DOCUMENTED = (
    r"splits no layer of this model",
    r"has \d+ (outputs|inputs|rows|groups|heads|heads or groups) to split",
    r"a pipeline of \d+ stages needs as many layers",
    r"leaves some of the pipeline's \d+ stages without a layer",
    r"the interleaved pipeline schedule needs a number of micro-batches",
)


TENSOR_REMEDY = r"set (?:it|parallelism\.tensor) to (\d+) or less"


def contradicts(message, parallelism):
    """Whether the message that refuses a mesh advises a setting that is already set, or asks for a key that is already
    given."""
    remedy = re.search(TENSOR_REMEDY, message)
    if remedy and parallelism.get("tensor", 1) <= int(remedy.group(1)):
        return True
    stages = parallelism.get("pipeline", 1)
    return "interleaved" in message and parallelism.get("microbatches", stages) % stages == 0


def status_of(error, config):
    """The status of a case whose run raised Failed."""
    if not 2 <= error.code <= 6:
        return "crashed"
    documented = error.code == 2 and any(re.search(pattern, str(error)) for pattern in DOCUMENTED)
    return "not possible" if documented and not contradicts(str(error), config.get("parallelism", {})) else "refused"


class Truth:
    """The results of a case in PyTorch, and how far rounding can change them."""

    def __init__(self, case, draw):
        self.case, self.draw = case, draw
        self.mixed = case["config"]["training"].get("mixed_precision", "none")
        network = Network(case["config"]["model"])
        self.parameters, self.output, self.coverage = network.declare()
        check_targets(case, self.output)
        self.penalties = self.coverage.penalties
        self.batches = Batches(case, draw)
        if self.batches.per_epoch() == 0:
            raise Unsupported("an epoch without a batch")
        self.start = start_values(self.parameters, case, draw)
        if not self.training().trained():
            raise Unsupported("no parameter to train")
        check_rules(case["config"]["optimizer"])

    def training(self, **options):
        return Training(self.case, self.parameters, self.penalties, self.batches, **options)

    def compute(self):
        torch.manual_seed(self.draw)
        try:
            self.exact = self.training().run(self.start)
        except (RuntimeError, ValueError, IndexError) as error:
            raise Unsupported(str(error)) from error
        if not all(np.isfinite(v).all() for v in self.exact.values()):
            raise Unsupported("PyTorch's own numbers are not finite")
        self.largest = max([norm(v) for n, v in self.exact.items() if n.startswith("gradient ")] or [0.0])
        self.changes, self.half, self.half_factor, self.doubted = {}, {}, HALF, set()

    def change(self, dtype):
        """For every tensor, the largest change by noise of the size of the type's rounding."""
        if dtype not in self.changes:
            self.changes[dtype] = {n: 0.0 for n in self.exact}
            self.disturb(self.changes[dtype], 3, (ROUNDING[dtype],) * 2, 8 * ROUNDING[dtype])
        return self.changes[dtype]

    def disturb(self, changes, draws, noise, jitter, forward=1):
        """Raises the changes to the largest ones in trainings under noise."""
        for _ in range(draws):
            moved = self.errors_of(noise=noise, jitter=jitter, forward=forward)
            changes.update({n: max(change, moved[n]) for n, change in changes.items()})

    def errors_of(self, jitter=0.0, **options):
        found = self.training(**options).run(self.start, jitter)
        return {n: norm(found[n] - v) for n, v in self.exact.items()}

    def half_errors(self):
        """For every tensor, the error of a 16-bit type: by rounding as the runtime does, and by noise of that size."""
        if not self.half:
            dtype, rounding = HALF_TYPES[self.mixed]
            self.half = self.errors_of(rounding=dtype)
            self.disturb(self.half, HALF_DRAWS, (rounding, 0.0), rounding)
        return self.half

    def doubt(self, dtype):
        """Draws the noise many times more, half of the times in the backward pass only; once for each type."""
        if dtype in self.doubted:
            return
        self.doubted.add(dtype)
        noise = (ROUNDING[dtype],) * 2
        self.disturb(self.change(dtype), SECOND_DRAWS, noise, 8 * ROUNDING[dtype])
        self.disturb(self.change(dtype), SECOND_DRAWS, noise, 0.0, forward=0)
        if self.mixed != "none":
            rounding = HALF_TYPES[self.mixed][1]
            self.disturb(self.half_errors(), SECOND_HALF_DRAWS, (rounding, 0.0), rounding)
            self.half_factor = SECOND_HALF

    def is_chaotic(self):
        """Whether rounding alone moves a loss so far that a comparison tells nothing, or makes it overflow the type."""
        mixed = self.mixed != "none"
        errors = self.half_errors() if mixed else self.errors_of(dtype=torch.float32)
        most = CHAOTIC_HALF if mixed else CHAOTIC
        names = [n for n in self.exact if "loss" in n and self.is_compared(n)]
        return any(not errors[n] <= most * norm(self.exact[n]) for n in names)

    def is_compared(self, name):
        """False for steps whose gradients overflow in float16: the runtime skips these steps, and the PyTorch twin does not
        know that."""
        return self.mixed != "f16" or name in ("loss", "logits", "loss of step 0") or name.startswith("gradient ")

    def allowed(self, dtype):
        """For every tensor, the largest distance that is not a fault."""
        change, found = self.change(dtype), {}
        single = self.errors_of(dtype=torch.float32)
        share = SINGLE * ROUNDING[dtype] / ROUNDING["float32"]
        half = self.half_errors() if self.mixed != "none" else {}
        for name, value in self.exact.items():
            own, scale = norm(value), norm(value)
            if name.startswith("gradient "):
                scale = max(scale, self.largest, SMALL)
            if name.startswith("loss of step"):  # logits are assumed to be as large as in the first step
                scale = max(scale, norm(self.exact["loss"]))
            if name.startswith("final ") and not self.is_statistic(name):
                own = norm(value - self.start[name[6:]])
                scale += 5 * self.case["config"]["optimizer"]["lr"] * max(self.largest, SMALL)  # five steps
            limit = RELATIVE[dtype] * own + ROUNDINGS * ROUNDING[dtype] * scale + self.signs_of_noise(name, dtype)
            error = single[name] if math.isfinite(single[name]) else 0.0
            limit += SENSITIVE * change[name] + share * error
            if half:
                limit += self.half_factor * half[name] + 2 * HALF_TYPES[self.mixed][1] * own
            if self.kind_of(name) == "running_var":  # of equal numbers: (error of the mean)^2
                limit += (ROUNDINGS * ROUNDING[dtype]) ** 2
            found[name] = limit
        return found

    def signs_of_noise(self, name, dtype):
        """How far Lion moves the numbers of "final ..." whose gradient is rounding alone, of which it takes the sign, in five
        steps."""
        gradient = self.exact.get("gradient " + name[6:]) if name.startswith("final ") else None
        if gradient is None:
            return 0.0
        optimizer = self.case["config"]["optimizer"]
        own = [i for i, table in enumerate(optimizer.get("group", []))
               if any(fnmatch.fnmatchcase(name[6:], pattern) for pattern in table["parameters"])]
        rule = rules_of(optimizer)[own[0] + 1 if own else 0]
        if rule["name"] != "lion":
            return 0.0
        count = np.count_nonzero(np.abs(gradient) < ROUNDINGS * ROUNDING[dtype] * self.largest)
        return 2 * 5 * rule["lr"] * math.sqrt(count)

    def kind_of(self, name):
        """The kind of parameter or statistic that a name "final ..." stands for; None for any other name."""
        return self.parameters[name[6:]].kind if name.startswith("final ") else None

    def is_statistic(self, name):
        return self.kind_of(name) in STATISTICS


def check_targets(case, output):
    """Raises Unsupported if the loss cannot read an output of this shape."""
    wanted = 3 if case["data"]["kind"] == "language_model" else 2
    if len(output) != wanted:
        raise Unsupported(f"an output of {output}")


def complete(case):
    """Adds the keys that depend on the names of the parameters, and the sections that every case has."""
    config, data = case["config"], case["data"]
    parameters, _, _ = Network(config["model"]).declare()
    r = random.Random(f"names {case['seed']}")
    trainable = [n for n, p in parameters.items() if p.kind not in STATISTICS]
    if data.pop("freeze", False) and len(trainable) > 1:
        names = r.sample(trainable, r.randint(1, len(trainable) - 1))
        wide = names[0].split(".")[0] + ".*"
        patterns = [wide] if r.random() < 0.3 and not all(fnmatch.fnmatchcase(n, wide) for n in trainable) else names
        config["model"]["freeze"] = patterns
    if not trainable:  # such a case counts as unsupported
        config["optimizer"].pop("group", None)
    for group in config["optimizer"].get("group", []):
        names = r.sample(trainable, r.randint(1, len(trainable)))
        group["parameters"] = names[:3] if r.random() < 0.5 else ["*." + names[0].split(".")[-1]]
    config.setdefault("validation", {"every_epochs": 0})
    if data.get("validation"):
        # Every other case once, at the end; the others after each step, so that loaders begin anew.
        config["validation"]["every_steps"] = 1 if case["seed"] % 2 else config["training"]["steps"]
        names = {"path": "validation_path", "target_path": "validation_target_path"}
        for key, other in names.items():
            if key in config["dataset"]:
                config["dataset"][other] = config["dataset"][key].replace("x.", "xv.").replace("y.", "yv.")
        for table in config["dataset"].get("input", []):
            table["validation_path"] = table["name"] + "v.npy"
    config.setdefault("metrics", {"log_every_steps": 1, "progress": "off"})
    return case


class Case:
    """One case in a folder of its own, for one draw of data and weights."""

    def __init__(self, case, folder, draw=0):
        self.case, self.folder, self.draw = case, folder, draw
        self.truth = Truth(case, draw)
        write_data(case, folder, draw)
        with open(os.path.join(folder, "case.toml"), "w", encoding="utf-8") as file:
            file.write(toml_text(case))
        if case["data"]["start"] == "given":
            write_safetensors(os.path.join(folder, "start.safetensors"), self.truth.start)

    def arguments(self, device, dtype):
        given = ["--weights", "start.safetensors"] if self.case["data"]["start"] == "given" else []
        settings = [f"device.backend={device}", f"training.dtype={dtype}", "job.dump_folder=run", "job.overwrite=true"]
        if device == "cpu":
            settings.append("device.threads=1")
        return given + [word for setting in settings for word in ("--set", setting)]

    def gradients(self, runtime, device, dtype, batch=0):
        output = ["--batch", str(batch), "--output", "g.safetensors"]
        run(runtime, self.folder, ["gradients", "case.toml", *self.arguments(device, dtype), *output])
        return read_safetensors(os.path.join(self.folder, "g.safetensors"))

    def prepare(self, runtime):
        """Asks the runtime for what only it knows (its shuffled batches and its own initial weights), then computes the
        truth."""
        device = ("reference", "float32" if self.truth.mixed != "none" else "float64")
        shuffled = self.case["config"]["dataset"].get("shuffle", True)
        own = self.case["data"]["start"] == "own"
        for step in range(5 if shuffled else int(own)):
            found = self.gradients(runtime, *device, step)
            if shuffled and "features" in found:
                labels = found["targets"] if "targets" in self.case["data"] else found["labels"]
                rows = len(self.truth.batches.at(step)[0])  # the rows after these are padding
                inputs = {key.removeprefix("inputs."): Batches.convert(value[:rows].copy())
                          for key, value in found.items() if key.startswith("inputs.")}
                features = Samples(Batches.convert(found["features"][:rows].copy()), inputs)
                self.truth.batches.given[step] = (features, torch.from_numpy(labels[:rows].copy()))
            if own and step == 0:
                self.truth.start = {n: self.initial(n, found) for n in self.truth.parameters}
        self.truth.compute()

    def initial(self, name, found):
        kind = self.truth.parameters[name].kind
        if kind in STATISTICS:
            return np.full(self.truth.parameters[name].shape, float(kind == "running_var"))
        return found["weights." + name].astype(np.float64)

    def results(self, runtime, device, dtype):
        """The results of the runtime, with the same names as Training.run uses."""
        found, first = {}, self.gradients(runtime, device, dtype)
        for name, value in first.items():
            if name in ("loss", "logits"):
                found[name] = value
            elif name in self.truth.parameters:
                found["gradient " + name] = value
        run(runtime, self.folder, ["train", "case.toml", *self.arguments(device, dtype)])
        metrics = read_metrics(os.path.join(self.folder, "run", "metrics.jsonl"))
        for line in metrics:
            found[f"loss of step {line['step'] - 1}"] = np.array([line["loss"]])
        if "validation_loss" in metrics[-1]:
            found["validation loss"] = np.array([metrics[-1]["validation_loss"]])
        for name, value in read_safetensors(os.path.join(self.folder, "run", "weights.safetensors")).items():
            found["final " + name] = value
        os.remove(os.path.join(self.folder, "run", "metrics.jsonl"))
        return found

    def compare(self, found, dtype):
        """The worst (error / allowed, name, error, norm) of the results of the runtime."""
        allowed, list_ = self.truth.allowed(dtype), []
        overflow = self.truth.mixed == "f16" and not all(np.isfinite(v).all() for v in found.values())
        for name, exact in self.truth.exact.items():
            if self.is_left_out(name, found, overflow):
                continue
            if name not in found or found[name].shape != exact.shape:
                what = " is missing" if name not in found else f" is {found[name].shape}, expected {exact.shape}"
                return math.inf, name + what, 0, 0
            error = norm(found[name].astype(np.float64) - exact)
            if not math.isfinite(allowed[name]):
                continue  # rounding may change it by any amount, for example where a channel of 16-bit numbers is constant
            ratio = error / allowed[name] if allowed[name] > 0 else (math.inf if error > 0 else 0.0)
            list_.append((ratio if math.isfinite(error) else math.inf, name, error, norm(exact)))
        return max(list_, default=(0.0, "nothing that can be compared", 0, 0))

    def is_left_out(self, name, found, overflow):
        if name == "logits" and name not in found:
            return True  # the runtime writes no logits for a batch of several passes
        return not self.truth.is_compared(name) or (overflow and name.startswith("gradient "))


def devices_of(case, devices, runtime):
    """Pairs of device and type: those of the devices that compute in the case's 16-bit type, if it has one."""
    mixed = case["config"]["training"].get("mixed_precision", "none")
    if mixed != "none":
        devices = [d for d in devices if TYPE_NAMES[mixed] in types_of(runtime, d)]
    return [(d, "float64" if d == "reference" and mixed == "none" else "float32") for d in devices]


def initial_problem(case, parameters, start):
    """What is wrong with the runtime's own initial weights, which must keep the bounds and deviations of PyTorch's
    initialisers."""
    default = case["config"]["model"].get("init", "default")
    for name, p in parameters.items():
        if p.kind not in ("weight", "bias", "table"):
            continue
        init, values = p.layer.get("init", default), np.asarray(start[name], dtype=np.float64).ravel()
        kind, value = next(iter(init.items())) if isinstance(init, dict) else (init, 0)
        bound, deviation = expected_initial(p, kind, value)
        if bound is None and deviation is None:
            problem = not np.allclose(values, value if p.kind != "bias" else 0, atol=1e-7)
        elif bound is not None:
            low = 1 - 20 / values.size  # the largest of many uniform numbers is lower once in e^20 tensors
            problem = abs(values).max() > bound * (1 + 1e-6) or abs(values).max() < bound * low
        else:
            problem = values.size >= 30 and abs(values.std() / deviation - 1) > 6 / math.sqrt(2 * values.size)
        if problem:
            return f"initial {name}, {kind}: largest {abs(values).max():.4g}, deviation {values.std():.4g}, expected " + \
                (f"uniform below {bound:.4g}" if bound is not None else f"deviation {deviation}")
    return ""


def expected_initial(p, kind, value):
    """(bound, None) for a uniform distribution, (None, deviation) for a normal one, (None, None) for a constant."""
    if kind == "default":
        return (None, 1.0) if p.kind == "table" else (1 / math.sqrt(p.fan_in), None)
    if p.kind == "bias" or kind == "constant":
        return None, None
    if kind in ("normal", "uniform"):
        return (None, value) if kind == "normal" else (value, None)
    ins, outs = torch.nn.init._calculate_fan_in_and_fan_out(torch.empty(p.shape))
    if p.layer.get("file_layout") == "in_out":
        ins, outs = outs, ins
    if p.kind == "table":
        ins, outs = p.fan_in, p.fan_out
    deviation = math.sqrt(2 / (ins + outs)) if kind.startswith("xavier") else math.sqrt(2 / ins)
    return (deviation * math.sqrt(3), None) if kind.endswith("uniform") else (None, deviation)


def check_draw(case, runtime, devices, draw):
    """The result of one draw; raises Failed or Unsupported."""
    with tempfile.TemporaryDirectory(prefix="networks-") as folder:
        c = Case(case, folder, draw)
        c.prepare(runtime)
        coverage = c.truth.coverage
        result = {"status": "ok", "types": sorted(coverage.types), "pairs": sorted(map(list, coverage.pairs)), "worst": {}}
        if case["data"]["start"] == "own" and (problem := initial_problem(case, c.truth.parameters, c.truth.start)):
            return dict(result, status="wrong", what=problem, device="reference")
        for device, dtype in devices_of(case, devices, runtime):
            if dtype == "float32" and c.truth.is_chaotic():
                result["chaotic"] = True
                continue
            found = c.results(runtime, device, dtype)
            worst = c.compare(found, dtype)
            if worst[0] > 1:
                c.truth.doubt(dtype)
                worst = c.compare(found, dtype)
            result["worst"][device] = round(worst[0], 4)
            if worst[0] > 1:
                what = f"{worst[1]}: {worst[2]:.3g} away, norm {worst[3]:.3g}, {worst[0]:.3g} times what is allowed"
                return dict(result, status="wrong", what=what, device=device)
        return result


def check(case, runtime, devices):
    """The status of a case: ok, wrong, refused (valid, but the program refuses it), crashed, unsupported (by PyTorch)."""
    result = {}
    try:
        for draw in range(DRAWS):
            result = dict(check_draw(case, runtime, devices, draw), draws=draw + 1)
            forgiving = result.get("device") not in (None, "reference") and KINKS & seen_functions(result)
            if result["status"] == "ok" or not forgiving:
                break
    except Unsupported as error:
        result = {"status": "unsupported", "what": str(error)[:300]}
    except Failed as error:
        result = {"status": status_of(error, case["config"]), "code": error.code, "what": str(error)}
    return result


def seen_functions(result):
    return {name for names in result["pairs"] for name in names} | set(result["types"])
