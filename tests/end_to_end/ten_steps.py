#!/usr/bin/env python3
"""Trains ten steps with each optimizer, schedule and loss by itself, with each of its options, and compares with PyTorch.

usage: ten_steps.py RUNTIME BACKEND DTYPE [--only TEXT]      (DTYPE: float32 or float64; TEXT: a part of the names of rows)

Each row below is one training of a small network by `runtime train` and by PyTorch in float64, from the same float32 weights;
no weights are exchanged afterwards, so that the state of an optimizer, of an average and of a schedule is compared as well.
Compared are the loss of each step, the loss of each validation, the learning rate of each step, and the change of each parameter
(and of its average) in ten steps, each by norm: |ours - theirs| <= LIMITS |theirs|. The change is compared instead of the
weights because it is smaller: an error of the rule cannot hide behind the initial weights. Learning rates are so large that the
changes are far above the roundings of float32 weights, and the activation is tanh, because in float32 rounding may decide on
which side of a ReLU's kink its input is.
A row that trains as another one does would test nothing: the exit code is then 1 as well.
Exit code 0: all agree, 1: some differ, 77: PyTorch is absent (skipped).
"""
import argparse
import itertools
import math
import os
import sys
import tempfile
from collections import OrderedDict
from dataclasses import dataclass, field

try:
    import numpy as np
    import torch
    from torch import nn
    from torch.optim import lr_scheduler
    from torch.optim.swa_utils import AveragedModel
except ImportError as error:
    print(f"skipped: {error} for {sys.executable}; install python3-torch, or run it with /usr/bin/python3")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../differential/networks")]

from exchange import read_safetensors, relative_error, write_safetensors
from networks_files import Failed, read_metrics, run, toml_text
from networks_training import torch_optimizer

STEPS, BATCH, BATCHES = 10, 16, 4  # an epoch has four steps, so ten steps see the rates of three epochs
LIMITS = {"float64": 1e-12, "float32": 1e-5}
RATE_LIMIT = 1e-12  # the runtime computes rates in double for every type
DISTINCT = 1e-3  # relative difference of two rows in at least one result
VOCABULARY, LENGTH, FEATURES, OUTPUTS = 12, 5, 6, 4


# ---- the rows: [optimizer], [lr_scheduler] and [training] as in a configuration, and what they are in PyTorch

@dataclass
class Row:
    name: str
    optimizer: dict  # the keys of [optimizer], whose names are PyTorch's
    schedule: dict = field(default_factory=dict)  # [lr_scheduler]
    torch_schedule: object = lambda optimizer: []  # optimizer -> pairs of a scheduler and what it is stepped by
    training: dict = field(default_factory=dict)  # [training]
    loss: object = nn.CrossEntropyLoss()  # (outputs, labels or targets) -> mean loss
    data: str = "classes"  # or "tokens", "numbers", "probabilities", "distributions"
    torch_optimizers: object = None  # model -> optimizers, where [optimizer] alone does not say it
    validation: dict = field(default_factory=dict)  # [validation]

    def optimizers(self, model):
        if self.torch_optimizers:
            return self.torch_optimizers(model)
        return [torch_optimizer(model.parameters(), **{k: v for k, v in self.optimizer.items() if k != "average_decay"})]


def rule(name, **keys):
    return Row(" ".join([name] + [f"{key}={value}" for key, value in keys.items()]), dict(name=name, **keys))


OPTIMIZER_ROWS = [
    rule("sgd", lr=0.2),
    rule("sgd", lr=0.1, momentum=0.9),
    rule("sgd", lr=0.1, momentum=0.9, dampening=0.4),
    rule("sgd", lr=0.1, momentum=0.9, nesterov=True),
    rule("sgd", lr=0.2, weight_decay=0.05),
    rule("sgd", lr=0.1, momentum=0.9, weight_decay=0.05),
    rule("sgd", lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.05),
    rule("adam", lr=0.02),
    rule("adam", lr=0.02, betas=(0.7, 0.9)),
    rule("adam", lr=0.02, eps=0.01),
    rule("adam", lr=0.02, weight_decay=0.05),
    rule("adamw", lr=0.02, weight_decay=0.5),
    rule("adamw", lr=0.02, weight_decay=0.5, betas=(0.7, 0.9)),
    rule("adamw", lr=0.02, weight_decay=0.5, eps=0.01),
    rule("rmsprop", lr=0.01),
    rule("rmsprop", lr=0.01, alpha=0.7),
    rule("rmsprop", lr=0.01, eps=0.01),
    rule("rmsprop", lr=0.01, weight_decay=0.05),
    rule("rmsprop", lr=0.01, momentum=0.8),
    rule("rmsprop", lr=0.01, centered=True),
    rule("rmsprop", lr=0.01, centered=True, momentum=0.8, weight_decay=0.05),
    rule("adagrad", lr=0.05),
    rule("adagrad", lr=0.05, initial_accumulator=0.01),
    rule("adagrad", lr=0.05, eps=0.01),
    rule("adagrad", lr=0.05, weight_decay=0.05),
    rule("lion", lr=0.02),
    rule("lion", lr=0.02, betas=(0.7, 0.9)),
    rule("lion", lr=0.02, weight_decay=0.5),
]


def matrices_and_others(model):
    sets = ([p for p in model.parameters() if p.dim() >= 2], [p for p in model.parameters() if p.dim() < 2])
    return [torch.optim.SGD([{"params": sets[0], "weight_decay": 0.1}, {"params": sets[1]}], lr=0.2)]


def two_rates(model):
    return [torch.optim.SGD([{"params": model.fc1.parameters()},
                             {"params": model.ln.parameters(), "lr": 0.02, "weight_decay": 0.3},
                             {"params": model.fc2.parameters(), "momentum": 0.5}], lr=0.1, momentum=0.9)]


def two_rules(model):
    return [torch_optimizer([*model.fc1.parameters(), *model.ln.parameters()], "sgd", lr=0.2),
            torch_optimizer(model.fc2.parameters(), "adamw", lr=0.02, weight_decay=0.5)]


SGD = {"name": "sgd", "lr": 0.2}
GROUP_ROWS = [
    Row("weight_decay_on=matrices", dict(SGD, weight_decay=0.1, weight_decay_on="matrices"), torch_optimizers=matrices_and_others),
    Row("groups with their own lr, momentum, weight_decay",
        {"name": "sgd", "lr": 0.1, "momentum": 0.9,
         "group": [{"parameters": ["ln.*"], "lr": 0.02, "weight_decay": 0.3}, {"parameters": ["fc2.*", "ln.*"], "momentum": 0.5}]},
        torch_optimizers=two_rates),
    Row("group with another rule, and a schedule",
        dict(SGD, group=[{"parameters": ["fc2.*"], "name": "adamw", "lr": 0.02, "weight_decay": 0.5}]),
        {"name": "cosine"}, lambda o: [(lr_scheduler.CosineAnnealingLR(o, STEPS), "step")], torch_optimizers=two_rules),
    Row("average_decay", dict(SGD, average_decay=0.8), validation={"every_steps": 1}),
    Row("average_decay, adam", dict(name="adam", lr=0.02, average_decay=0.5), validation={"every_steps": 1}),
    Row("max_norm", SGD, training={"max_norm": 0.3}),
    Row("max_norm, adagrad", {"name": "adagrad", "lr": 0.05, "eps": 0.01}, training={"max_norm": 0.1}),
    Row("max_value", dict(SGD, lr=0.5), training={"max_value": 0.03}),
]

WARMUP = 3  # steps


def warmup(optimizer, steps=WARMUP):
    return lr_scheduler.LinearLR(optimizer, 1 / steps, total_iters=steps - 1)


def after_warmup(*makers, ends=()):
    """Schedules one after the other: the warm-up, then each maker's, which begin with WARMUP and `ends`."""
    return lambda o: [(lr_scheduler.SequentialLR(o, [warmup(o)] + [make(o) for make in makers], [WARMUP, *ends]), "step")]


def beside_warmup(make, by):
    """A schedule by `by`, whose rate is multiplied by that of the warm-up."""
    return lambda o: [(warmup(o), "step"), (make(o), by)]


def written_out(factor):
    """factor(step) times the rate of the optimizer."""
    return lambda o: [(lr_scheduler.LambdaLR(o, factor), "step")]


def warm(step):
    return min(1.0, (step + 1) / WARMUP)


def of_plateau(**keys):
    return beside_warmup(lambda o: lr_scheduler.ReduceLROnPlateau(o, threshold_mode="rel", **keys), "validation")


def schedule(name, torch_schedule, validation=None, lr=0.2, **keys):
    text = " ".join([name] + [f"{key}={value}" for key, value in keys.items()])
    keys = dict(keys, name=name) if name == "one_cycle" else dict(keys, name=name, warmup_steps=WARMUP)
    return Row(text, dict(SGD, lr=lr), keys, torch_schedule, validation=validation or {})


LEFT = STEPS - WARMUP
SCHEDULE_ROWS = [
    schedule("constant", lambda o: [(warmup(o), "step")]),
    schedule("constant", written_out(lambda s: 4 * warm(s)), lr=0.03, scale_with_batch="linear", reference_batch_size=BATCH // 4),
    schedule("constant", written_out(lambda s: 0.5 * warm(s)), scale_with_batch="sqrt", reference_batch_size=BATCH * 4),
    schedule("step", beside_warmup(lambda o: lr_scheduler.StepLR(o, 1, 0.1), "epoch")),
    schedule("step", beside_warmup(lambda o: lr_scheduler.StepLR(o, 2, 0.3), "epoch"), step_size=2, gamma=0.3),
    schedule("step", written_out(lambda s: warm(s) * max(0.25, 0.3 ** (s // BATCHES))), gamma=0.3, min_lr=0.05),
    schedule("multi_step", beside_warmup(lambda o: lr_scheduler.MultiStepLR(o, [1, 2], 0.5), "epoch"),
             milestones=[1, 2], gamma=0.5),
    schedule("exponential", beside_warmup(lambda o: lr_scheduler.ExponentialLR(o, 0.6), "epoch"), gamma=0.6),
    schedule("exponential", beside_warmup(lambda o: lr_scheduler.ExponentialLR(o, 0.6 ** (1 / 3)), "step"),
             gamma=0.6, decay_steps=3),
    schedule("exponential", beside_warmup(lambda o: lr_scheduler.ExponentialLR(o, 3 ** (1 / 8)), "step"),
             lr=0.05, gamma=3.0, decay_steps=8),
    schedule("cosine", after_warmup(lambda o: lr_scheduler.CosineAnnealingLR(o, LEFT))),
    schedule("cosine", after_warmup(lambda o: lr_scheduler.CosineAnnealingLR(o, LEFT, 0.05)), min_lr=0.05),
    schedule("cosine", after_warmup(lambda o: lr_scheduler.CosineAnnealingLR(o, 4, 0.05),
                                    lambda o: lr_scheduler.ConstantLR(o, 0.25, LEFT), ends=[7]), min_lr=0.05, decay_steps=7),
    schedule("cosine_restarts", after_warmup(lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3)), period_steps=3),
    schedule("cosine_restarts", after_warmup(lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2, 2, 0.05)),
             period_steps=2, period_factor=2, min_lr=0.05),
    schedule("linear", after_warmup(lambda o: lr_scheduler.LinearLR(o, 1, 0, LEFT))),
    schedule("linear", after_warmup(lambda o: lr_scheduler.LinearLR(o, 1, 0.25, 4)), min_lr=0.05, decay_steps=7),
    schedule("polynomial", after_warmup(lambda o: lr_scheduler.PolynomialLR(o, LEFT, 2.0)), power=2.0),
    schedule("polynomial", written_out(lambda s: 0.25 + 0.75 * (1 - max(0, s - WARMUP) / LEFT) ** 0.5 if s >= WARMUP else warm(s)),
             power=0.5, min_lr=0.05),
    schedule("one_cycle", lambda o: [(lr_scheduler.OneCycleLR(o, 0.2, STEPS, cycle_momentum=False), "step")]),
    schedule("one_cycle", lambda o: [(lr_scheduler.OneCycleLR(o, 0.2, STEPS, pct_start=0.5, cycle_momentum=False, div_factor=4,
                                                              final_div_factor=5), "step")],
             warmup_share=0.5, first_factor=0.25, last_factor=0.05),
    schedule("warmup_stable_decay", after_warmup(lambda o: lr_scheduler.ConstantLR(o, 1, 2),
                                                 lambda o: lr_scheduler.CosineAnnealingLR(o, 5, 0.05), ends=[5]),
             stable_steps=2, min_lr=0.05),
    schedule("warmup_stable_decay", after_warmup(lambda o: lr_scheduler.ConstantLR(o, 1, 2),
                                                 lambda o: lr_scheduler.LinearLR(o, 1, 0, 4), ends=[5]),
             stable_steps=2, decay="linear", decay_steps=9),
    schedule("plateau", of_plateau(factor=0.1, patience=1, threshold=0.05), {"every_steps": 1}, patience=1, threshold=0.05),
    schedule("plateau", of_plateau(factor=0.5, patience=0, threshold=0.5, cooldown=2, min_lr=0.06), {"every_steps": 1},
             patience=0, gamma=0.5, threshold=0.5, cooldown=2, min_lr=0.06),
    schedule("plateau", of_plateau(mode="max", factor=0.5, patience=0, threshold=0.1), {"every_steps": 1, "monitor": "accuracy"},
             patience=0, gamma=0.5, threshold=0.1),
]


def of_tokens(loss):
    """Of outputs [N, T, V] and labels [N, T]."""
    return lambda outputs, labels: loss(outputs.flatten(0, 1), labels.flatten())


def kl_divergence(outputs, targets):
    return nn.KLDivLoss(reduction="batchmean")(nn.LogSoftmax(1)(outputs), targets)


def weights(count):
    return [0.2 + 0.3 * i for i in range(count)]


def loss_row(name, function, data, **training):
    """The gradients of the embedding are small, therefore a row with tokens has a larger learning rate. With 0.2 its changes are
    1.4e-5 away in float32, here and in PyTorch's own float32."""
    return Row(name, dict(SGD, lr=1.0 if data == "tokens" else 0.4), training=training, loss=function, data=data)


TOKEN_WEIGHTS = torch.tensor(weights(VOCABULARY), dtype=torch.float64)
LOSS_ROWS = [
    loss_row("cross_entropy of tokens", of_tokens(nn.CrossEntropyLoss()), "tokens", loss="cross_entropy"),
    loss_row("label_smoothing", nn.CrossEntropyLoss(label_smoothing=0.2), "classes", label_smoothing=0.2),
    loss_row("label_smoothing of tokens", of_tokens(nn.CrossEntropyLoss(label_smoothing=0.2)), "tokens", label_smoothing=0.2),
    loss_row("class_weights", nn.CrossEntropyLoss(torch.tensor(weights(OUTPUTS), dtype=torch.float64)), "classes",
             class_weights=weights(OUTPUTS)),
    loss_row("class_weights of tokens", of_tokens(nn.CrossEntropyLoss(TOKEN_WEIGHTS)), "tokens", class_weights=weights(VOCABULARY)),
    loss_row("ignore_label", of_tokens(nn.CrossEntropyLoss(ignore_index=3)), "tokens", ignore_label=3),
    loss_row("ignore_label and label_smoothing", of_tokens(nn.CrossEntropyLoss(ignore_index=3, label_smoothing=0.2)), "tokens",
             ignore_label=3, label_smoothing=0.2),
    loss_row("ignore_label and class_weights", of_tokens(nn.CrossEntropyLoss(TOKEN_WEIGHTS, ignore_index=3)), "tokens",
             ignore_label=3, class_weights=weights(VOCABULARY)),
    loss_row("binary_cross_entropy", nn.BCEWithLogitsLoss(), "probabilities", loss="binary_cross_entropy"),
    loss_row("mean_squared_error", nn.MSELoss(), "numbers", loss="mean_squared_error"),
    loss_row("mean_absolute_error", nn.L1Loss(), "numbers", loss="mean_absolute_error"),
    loss_row("huber", nn.HuberLoss(), "numbers", loss="huber"),
    loss_row("huber huber_delta=0.3", nn.HuberLoss(delta=0.3), "numbers", loss="huber", huber_delta=0.3),
    loss_row("kl_divergence", kl_divergence, "distributions", loss="kl_divergence"),
]
ROWS = OPTIMIZER_ROWS + GROUP_ROWS + SCHEDULE_ROWS + LOSS_ROWS


# ---- the network and its data

LAYERS = [{"type": "linear", "name": "fc1", "features": 8, "activation": "tanh"}, {"type": "layer_norm", "name": "ln"}]
EMBEDDING = {"type": "embedding", "name": "embedding", "vocabulary": VOCABULARY, "features": FEATURES}


def model_table(tokens):
    last = {"type": "linear", "name": "fc2", "features": VOCABULARY if tokens else OUTPUTS}
    return {"input": [LENGTH if tokens else FEATURES], "layers": ([EMBEDDING] if tokens else []) + LAYERS + [last]}


def make_model(tokens):
    torch.manual_seed(1)
    layers = [("embedding", nn.Embedding(VOCABULARY, FEATURES))] if tokens else []
    layers += [("fc1", nn.Linear(FEATURES, 8)), ("tanh", nn.Tanh()), ("ln", nn.LayerNorm(8)),
               ("fc2", nn.Linear(8, VOCABULARY if tokens else OUTPUTS))]
    return nn.Sequential(OrderedDict(layers))


def draw(kind, samples, seed):
    """Features, and labels or targets."""
    random = np.random.default_rng(seed)
    if kind == "tokens":
        tokens = random.integers(0, VOCABULARY, samples * LENGTH + 1)
        return tokens[:-1].reshape(samples, LENGTH), tokens[1:].reshape(samples, LENGTH)
    features = random.standard_normal((samples, FEATURES)).astype(np.float32)
    numbers = random.standard_normal((samples, OUTPUTS)) + features[:, :OUTPUTS]
    if kind == "classes":
        return features, numbers.argmax(1)
    if kind == "probabilities":
        numbers = np.clip(numbers / 4 + 0.5, 0, 1)
    if kind == "distributions":
        numbers = np.exp(numbers) / np.exp(numbers).sum(1, keepdims=True)
    return features, numbers.astype(np.float32)


def write_data(kind, folder):
    """Writes the files of both parts; returns them, and the keys of [dataset]."""
    parts, table = {}, {"shuffle": False}
    for part, prefix, samples in (("training", "", BATCH * BATCHES), ("validation", "validation_", BATCH)):
        features, labels = parts[part] = draw(kind, samples, len(part))
        if kind == "tokens":
            tokens = np.append(features.ravel(), labels.ravel()[-1])
            tokens.astype("<u2").tofile(os.path.join(folder, part + ".tokens"))
            table.update({"format": "tokens", "classes": VOCABULARY, prefix + "path": part + ".tokens"})
            continue
        np.save(os.path.join(folder, part + "_x.npy"), features)
        np.save(os.path.join(folder, part + "_y.npy"), labels)
        table.update({"format": "npy", prefix + "path": part + "_x.npy", prefix + "target_path": part + "_y.npy"})
        table.update({"classes": OUTPUTS} if kind == "classes" else {"task": "regression"})
    return parts, table


# ---- ten steps on both sides: all compared numbers by name

def exact(part):
    """Features and labels of a part as tensors of float64 or int64."""
    return [torch.from_numpy(a.astype(np.float64 if a.dtype.kind == "f" else np.int64)) for a in part]


def averaged(model, decay):
    """Equivalent to multi_avg_fn=get_ema_multi_avg_fn(decay), which PyTorch 1.13 does not have yet."""
    average = AveragedModel(model, avg_fn=lambda a, now, _: decay * a + (1 - decay) * now)
    average.update_parameters(model)  # the first call copies the weights
    return average


def clip(model, training):
    if "max_norm" in training:
        nn.utils.clip_grad_norm_(model.parameters(), training["max_norm"])
    if "max_value" in training:
        nn.utils.clip_grad_value_(model.parameters(), training["max_value"])


def validate(row, model, part, found, step):
    """Notes the loss, and returns what validation.monitor names."""
    features, labels = part
    with torch.no_grad():
        outputs = model(features)
        found[f"validation loss {step}"] = np.array([row.loss(outputs, labels).item()])
    if row.validation.get("monitor") == "accuracy":
        return (outputs.argmax(1) == labels).double().mean().item()
    return found[f"validation loss {step}"].item()


def step_schedules(schedules, step, monitored):
    """After a step, a schedule is stepped if its time has come. `monitored` is the result of the validation after this step."""
    for scheduler, by in schedules:
        if by == "validation":
            scheduler.step(monitored)
        elif by == "step" or (step + 1) % BATCHES == 0:
            scheduler.step()


def train_torch(row, parts):
    model = make_model(row.data == "tokens").double()
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizers = row.optimizers(model)
    schedules = [pair for optimizer in optimizers for pair in row.torch_schedule(optimizer)]
    average = averaged(model, row.optimizer["average_decay"]) if "average_decay" in row.optimizer else None
    (features, labels), found, monitored = exact(parts["training"]), {}, None
    for step in range(STEPS):
        rows = slice(step % BATCHES * BATCH, (step % BATCHES + 1) * BATCH)
        found[f"rate {step}"] = np.array([optimizers[0].param_groups[0]["lr"]])
        model.zero_grad()
        loss = row.loss(model(features[rows]), labels[rows])
        loss.backward()
        clip(model, row.training)
        for optimizer in optimizers:
            optimizer.step()
        found[f"loss {step}"] = np.array([loss.item()])
        if average:
            average.update_parameters(model)
        if row.validation:
            monitored = validate(row, average or model, exact(parts["validation"]), found, step)
        step_schedules(schedules, step, monitored)
    for prefix, trained in (("change of ", model), ("average's change of ", average.module if average else nn.Module())):
        found.update({prefix + name: (p - start[name]).detach().numpy() for name, p in trained.named_parameters()})
    return found


def train_runtime(row, table, runtime, backend, dtype, folder):
    start = {name: p.detach().numpy() for name, p in make_model(row.data == "tokens").named_parameters()}
    write_safetensors(os.path.join(folder, "start.safetensors"), start)
    config = {"model": model_table(row.data == "tokens"), "dataset": table,
              "optimizer": row.optimizer, "lr_scheduler": row.schedule,
              "training": {"global_batch_size": BATCH, "steps": STEPS, "dtype": dtype, **row.training},
              "validation": {"every_epochs": 0, **row.validation}, "metrics": {"log_every_steps": 1, "progress": "off"},
              "device": {"backend": backend}, "job": {"dump_folder": "run"}}
    with open(os.path.join(folder, "row.toml"), "w", encoding="utf-8") as file:
        file.write(toml_text({"config": config}))
    run(runtime, folder, ["train", "row.toml", "--weights", "start.safetensors"])
    found = {}
    for line in read_metrics(os.path.join(folder, "run", "metrics.jsonl")):
        names = {"loss": "loss", "lr": "rate", "validation_loss": "validation loss"}
        found.update({f"{name} {line['step'] - 1}": np.array([line[key]]) for key, name in names.items() if key in line})
    for prefix, name in (("change of ", "weights"), ("average's change of ", "average")):
        path = os.path.join(folder, "run", name + ".safetensors")
        trained = read_safetensors(path) if os.path.exists(path) else {}
        found.update({prefix + key: value.astype(np.float64) - start[key] for key, value in trained.items()})
    return found


# ---- the comparison

def limit(name, dtype):
    return RATE_LIMIT if name.startswith("rate ") else LIMITS[dtype]


def compare(row, runtime, backend, dtype):
    """PyTorch's results, and whether those of the runtime agree; prints one line."""
    with tempfile.TemporaryDirectory(prefix="ten-steps-") as folder:
        parts, table = write_data(row.data, folder)
        theirs = train_torch(row, parts)
        try:
            ours = train_runtime(row, table, runtime, backend, dtype, folder)
        except Failed as error:
            print(f"{row.name:70} FAILED with exit code {error.code}: {error}", flush=True)
            return theirs, False
    if ours.keys() != theirs.keys():
        print(f"{row.name:70} DIFFERS: only one side has {', '.join(sorted(ours.keys() ^ theirs.keys()))}", flush=True)
        return theirs, False
    errors = {name: relative_error(ours[name], value) for name, value in theirs.items()}
    ratios = {name: math.inf if math.isnan(error) else error / limit(name, dtype) for name, error in errors.items()}
    worst = max(ratios, key=ratios.get)
    good = ratios[worst] <= 1
    print(f"{row.name:70} {errors[worst]:.1e} ({worst}){'' if good else ': DIFFERS'}", flush=True)
    return theirs, good


def alike(found):
    """Pairs of rows whose results are all the same, except for the validation, which only some rows have."""
    trained = [(row, {n: v for n, v in results.items() if not n.startswith("validation")}) for row, results in found.items()]
    return [(a, b) for (a, x), (b, y) in itertools.combinations(trained, 2)
            if x.keys() == y.keys() and all(relative_error(x[n], y[n]) < DISTINCT for n in x)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runtime")
    parser.add_argument("backend")
    parser.add_argument("dtype", choices=LIMITS)
    parser.add_argument("--only", default="", metavar="TEXT")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{STEPS} steps on {arguments.backend} in {arguments.dtype}, PyTorch {torch.__version__} in float64: the largest "
          f"relative difference of each row, allowed {LIMITS[arguments.dtype]} (learning rates {RATE_LIMIT})")
    found, wrong = {}, []
    for row in ROWS:
        if arguments.only in row.name:
            found[row.name], good = compare(row, os.path.abspath(arguments.runtime), arguments.backend, arguments.dtype)
            wrong += [] if good else [row.name]
    wrong += [f"{a} is no other training than {b}" for a, b in alike(found)]
    print(f"{len(found)} rows, {len(wrong)} wrong" + "".join("\n  " + what for what in wrong))
    return 1 if wrong or not found else 0


if __name__ == "__main__":
    sys.exit(main())
