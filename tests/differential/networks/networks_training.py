"""Trains a case in PyTorch: loss, logits and gradients of the first batch, five steps, and the validation loss."""
import fnmatch
import math

import numpy as np
import torch
import torch.nn.functional as F

from networks_files import draw_data, draw_inputs
from networks_twin import Network, Pass, Rounding, Unsupported

STATISTICS = ("running_mean", "running_var")


def start_values(parameters, case, draw):
    """Initial weights for which the functions are neither flat nor steep, rounded to float32."""
    random = np.random.default_rng([case["seed"], draw, 7])
    values = {}
    for name, p in parameters.items():
        noise = random.standard_normal(p.shape)
        if p.kind == "weight":
            value = noise * (1.2 / math.sqrt(p.fan_in))
        elif p.kind == "gamma":
            value = 1 + 0.2 * noise
        elif p.kind == "running_var":
            value = 0.5 + random.random(p.shape)
        else:
            value = noise * {"table": 0.7}.get(p.kind, 0.2)
        values[name] = value.astype(np.float32)
    return values


def frozen_names(parameters, case):
    patterns = case["config"]["model"].get("freeze", [])
    return {name for name in parameters if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)}


def learning_rate(config, step, epoch):
    """The learning rate, by the rule of configs/README.md."""
    s, o = config.get("lr_scheduler", {}), config["optimizer"]
    name, warmup, lr = s.get("name", "constant"), s.get("warmup_steps", 0), o["lr"]
    factor = config["training"]["global_batch_size"] / s.get("reference_batch_size", 1)
    lr *= {"none": 1.0, "linear": factor, "sqrt": math.sqrt(factor)}[s.get("scale_with_batch", "none")]
    low = min(s.get("min_lr", 0.0), lr)
    if name == "step":
        lr = max(low, lr * s.get("gamma", 0.1) ** (epoch // s.get("step_size", 1)))
    elif name == "multi_step":
        lr = max(low, lr * s.get("gamma", 0.1) ** sum(m <= epoch for m in s["milestones"]))
    elif name in ("cosine", "linear"):
        end = s.get("decay_steps", 0) or config["training"]["steps"]
        p = min(1.0, max(0.0, (step - warmup) / max(1, end - warmup)))
        lr = low + (lr - low) * ((1 + math.cos(math.pi * p)) / 2 if name == "cosine" else 1 - p)
    return lr * (step + 1) / warmup if step < warmup else lr


class Samples:
    """The features of some samples, and their named inputs."""

    def __init__(self, features, inputs):
        self.features, self.inputs = features, inputs

    def __len__(self):
        return len(self.features)

    def __getitem__(self, rows):
        return Samples(self.features[rows], {name: numbers[rows] for name, numbers in self.inputs.items()})


def documents_of(tokens, separator):
    """The inputs that a text with documents has."""
    ends = torch.nn.functional.pad((tokens == separator).long(), (1, 0))[:, :-1]
    documents, positions = ends.cumsum(1), torch.zeros_like(ends)
    for i in range(1, tokens.shape[1]):
        positions[:, i] = torch.where(ends[:, i] > 0, 0, positions[:, i - 1] + 1)
    return {"documents": documents, "positions": positions, "segments": torch.zeros_like(ends)}


class Batches:
    """The rows of every step, in the order of the files."""

    def __init__(self, case, draw):
        self.case, self.config = case, case["config"]
        self.features, self.labels = self.tensors("training", draw)
        self.validation = self.tensors("validation", draw) if case["data"].get("validation") else None
        self.given = {}  # step -> (features, labels): the batches of the runtime, if it shuffles

    def tensors(self, part, draw):
        features, labels = draw_data(self.case, part, draw)
        if labels is None:
            length = self.config["model"]["input"][0]
            features, labels = features[:-1].reshape(-1, length), features[1:].reshape(-1, length)
        inputs = {name: self.convert(numbers) for name, numbers in draw_inputs(self.case, part, draw, len(features)).items()}
        features = self.convert(features)
        if "separator" in self.config["dataset"]:
            inputs = documents_of(features, int(self.config["dataset"]["separator"]))
        return Samples(features, inputs), torch.from_numpy(np.ascontiguousarray(labels))

    @staticmethod
    def convert(features):
        features = torch.from_numpy(np.ascontiguousarray(features))
        return features.permute(0, 3, 1, 2).contiguous() if features.dim() == 4 else features

    def per_epoch(self):
        n, size = len(self.features), self.config["training"]["global_batch_size"]
        drop = self.config["dataset"].get("last_batch", "keep") == "drop"
        return n // size if drop else -(-n // size)

    def at(self, step):
        if step in self.given:
            return self.given[step]
        size = self.config["training"]["global_batch_size"]
        begin = step % self.per_epoch() * size
        return self.features[begin:begin + size], self.labels[begin:begin + size]


class Lion(torch.optim.Optimizer):
    """The rule of "Symbolic Discovery of Optimization Algorithms" (Chen and others, 2023), algorithm 2."""

    def __init__(self, parameters, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                direction = torch.sign(group["betas"][0] * m + (1 - group["betas"][0]) * p.grad)
                p.sub_(group["lr"] * (direction + group["weight_decay"] * p))
                m.copy_(group["betas"][1] * m + (1 - group["betas"][1]) * p.grad)


# The runtime calls a rule as PyTorch does, in small letters; what PyTorch does not have stands behind.
OPTIMIZERS = {name.lower(): kind for name, kind in vars(torch.optim).items() if isinstance(kind, type)}
OPTIMIZERS.update(lion=Lion)
OTHER_NAMES = {"initial_accumulator": "initial_accumulator_value"}
NOT_OF_RULE = ("lr", "weight_decay", "weight_decay_on", "group", "parameters", "average_decay")  # groups have the first two


def torch_optimizer(parameters, name, **keys):
    """A key that is not given has the same default in PyTorch and in the runtime."""
    return OPTIMIZERS[name](parameters, **{OTHER_NAMES.get(key, key): value for key, value in keys.items()})


def optimizer_of_rule(rule, groups):
    """PyTorch's optimizer of a rule of the configuration."""
    return torch_optimizer(groups, lr=1.0, **{key: value for key, value in rule.items() if key not in NOT_OF_RULE})


def rule_of_group(base, group):
    """The rule of a table of optimizer.group with what it leaves out."""
    same = group.get("name", base["name"]) == base["name"]
    kept = [key for key in base if key not in ("group", "average_decay") and (same or key in ("lr", "weight_decay", "weight_decay_on"))]
    return {**{key: base[key] for key in kept}, **group}


def rules_of(optimizer):
    """The rules of the [optimizer] section: its own, and that of each group."""
    return [optimizer] + [rule_of_group(optimizer, table) for table in optimizer.get("group", [])]


def check_rules(optimizer):
    """Raises Unsupported for a rule that PyTorch refuses, for example Nesterov's momentum in a group that inherits a
    dampening."""
    try:
        for rule in rules_of(optimizer):
            optimizer_of_rule(rule, [torch.zeros(1)])
    except ValueError as error:
        raise Unsupported(str(error)) from error


class Training:
    """`rounding` is the 16-bit type of activations; `noise` is the relative size of the disturbances of stored numbers and
    sums, with forward = 0 in the backward pass only."""

    def __init__(self, case, parameters, penalties, batches, dtype=torch.float64, rounding=None,
                 noise=(0.0, 0.0), forward=1):
        self.case, self.config, self.parameters, self.penalties = case, case["config"], parameters, penalties
        self.batches, self.dtype, self.rounding, self.noise = batches, dtype, rounding, noise
        self.forward = forward
        self.network = Network(self.config["model"])
        self.frozen = frozen_names(parameters, case)

    def trained(self):
        return [n for n, p in self.parameters.items() if p.kind not in STATISTICS and n not in self.frozen]

    def output(self, run, features):
        """The output of the network for features as read from the files. Numbers are cast to the stored type, token ids are
        not."""
        stored = lambda numbers: run.operand(numbers.to(self.dtype))
        x = features.features if self.case["data"]["vocabulary"] else stored(features.features)
        run.inputs = {name: stored(numbers) if numbers.is_floating_point() else numbers for name, numbers in features.inputs.items()}
        return self.network.forward(run, x)

    def pass_of(self, tensors, training, step=0, base=0):
        return Pass(tensors, training, step, base, self.config.get("debug", {}).get("seed", 42), self.rounding, self.noise,
                    self.forward)

    def weights_of_samples(self, samples):
        name = self.config["training"].get("sample_weights")
        return samples.inputs[name].to(torch.float64).flatten() if name else None

    def weight_of_labels(self, labels, weights=None):
        """The sum of the weights of the labels, divided by the labels of a sample: what losses() of a batch is divided by."""
        if weights is not None:
            return sum(weight.item() * self.weight_of_labels(labels[i:i + 1]) for i, weight in enumerate(weights))
        training = self.config["training"]
        if "targets" in self.case["data"]:
            return len(labels)
        weights = torch.ones(max(self.config["dataset"].get("classes", 0), int(labels.max()) + 1), dtype=torch.float64)
        if training.get("class_weights"):
            weights = torch.tensor(training["class_weights"], dtype=torch.float64)
        if training.get("ignore_label", -1) >= 0:
            weights[training["ignore_label"]] = 0
        return weights[labels.long()].sum().item() * len(labels) / labels.numel()

    def losses(self, output, labels, weights=None):
        """The sum over the samples of the mean loss of each sample."""
        if weights is not None:
            return sum(weight.to(output.dtype) * self.losses(output[i:i + 1], labels[i:i + 1]) for i, weight in enumerate(weights))
        training = self.config["training"]
        if training.get("class_weights") or training.get("ignore_label", -1) >= 0:
            weights = torch.tensor(training["class_weights"], dtype=output.dtype) if training.get("class_weights") else None
            whole = F.cross_entropy(output.flatten(0, -2), labels.flatten().long(), weights, reduction="sum",
                                    ignore_index=training.get("ignore_label", -100),
                                    label_smoothing=training.get("label_smoothing", 0.0))
            return whole * len(labels) / labels.numel()
        if "targets" in self.case["data"]:
            return self.regression_losses(training, output, labels.to(output.dtype)).sum()
        smoothing = training.get("label_smoothing", 0.0)
        if smoothing and self.rounding:  # the gradients of the two terms are rounded before they are added
            label, uniform = (Rounding.apply(output, self.rounding).flatten(0, -2) for _ in range(2))
            whole = (1 - smoothing) * F.cross_entropy(label, labels.flatten().long(), reduction="sum")
            whole = whole - smoothing * F.log_softmax(uniform, 1).mean(1).sum()
            return whole / (labels.shape[1] if labels.dim() == 2 else 1)
        if labels.dim() == 2:
            whole = F.cross_entropy(output.flatten(0, 1), labels.flatten().long(), reduction="sum", label_smoothing=smoothing)
            return whole / labels.shape[1]
        return F.cross_entropy(output, labels.long(), reduction="sum", label_smoothing=smoothing)

    @staticmethod
    def regression_losses(training, output, targets):
        """The loss of each sample."""
        name = training.get("loss", "auto")
        if name == "mean_absolute_error":
            return F.l1_loss(output, targets, reduction="none").mean(1)
        if name == "huber":
            return F.huber_loss(output, targets, reduction="none", delta=training.get("huber_delta", 1.0)).mean(1)
        if name == "binary_cross_entropy":
            return F.binary_cross_entropy_with_logits(output, targets, reduction="none").mean(1)
        if name == "kl_divergence":
            return F.kl_div(F.log_softmax(output, 1), targets, reduction="none").sum(1)
        return F.mse_loss(output, targets, reduction="none").mean(1)

    def weights_of_rows(self, labels, weights):
        """The weight of each label; those of all labels of a sample that are 1 sum to 1."""
        training, found = self.config["training"], torch.ones(labels.shape, dtype=self.dtype)
        if "targets" in self.case["data"]:
            found = found[:, 0]
        elif training.get("class_weights"):
            found = torch.tensor(training["class_weights"], dtype=self.dtype)[labels.long()]
        if training.get("ignore_label", -1) >= 0:
            found = found * (labels != training["ignore_label"])
        if weights is not None:
            found = found * weights.to(found.dtype).reshape(-1, *[1] * (found.dim() - 1))
        return found / (found.shape[1] if found.dim() == 2 else 1)

    def head_losses(self, run, samples, labels, weights):
        """The weighted sum of the losses of the auxiliary heads."""
        total = 0.0
        for layer, output in run.heads:
            target, rows = samples.inputs[layer["target"]], self.weights_of_rows(labels, weights)
            if layer.get("loss", "cross_entropy") == "cross_entropy":
                target = target.reshape(output.shape[:-1])
                found = F.cross_entropy(output.flatten(0, -2), target.flatten().long(), reduction="none").reshape(target.shape)
            else:
                found = self.regression_losses(layer, output, target.to(output.dtype))
            if found.dim() < rows.dim():
                rows = rows.sum(1)
            total = total + layer.get("loss_weight", 1.0) * (found * rows).sum()
        return total

    def backward(self, tensors, step):
        """Accumulates the gradients of a batch; returns its loss, and the logits of its last pass."""
        features, labels = self.batches.at(step)
        weights = self.weights_of_samples(features)
        of = lambda rows: None if weights is None else weights[rows]
        micro = self.config["training"].get("micro_batch_size", 0) or len(features)
        total = 0.0
        for begin in range(0, len(features), micro):
            rows = slice(begin, begin + micro)
            run = self.pass_of(tensors, True, step, begin)
            output = self.output(run, features[rows])
            loss = self.losses(output, labels[rows], of(rows)) + self.head_losses(run, features[rows], labels[rows], of(rows))
            loss = loss / self.weight_of_labels(labels, weights)
            loss.backward()
            total += loss.item()
        for name, factor in self.penalties:
            penalty = factor * (tensors[name] ** 2).sum()
            if tensors[name].requires_grad:
                penalty.backward()
            total += penalty.item()
        return total, output.detach()

    def optimizers(self, tensors):
        """One optimizer for each rule. Its groups have the factor of their learning rate to that of the schedule."""
        base = self.config["optimizer"]
        tables = base.get("group", [])
        members = [[] for _ in range(len(tables) + 1)]
        for name in self.trained():
            own = [i for i, table in enumerate(tables) if any(fnmatch.fnmatchcase(name, p) for p in table["parameters"])]
            members[own[0] + 1 if own else 0].append(tensors[name])
        found = []
        for rule, parameters in zip(rules_of(base), members):
            decay, small = rule.get("weight_decay", 0.0), rule.get("weight_decay_on", "all") == "matrices"
            decayed = [t for t in parameters if not small or t.dim() >= 2]
            others = [t for t in parameters if small and t.dim() < 2]
            factor = rule["lr"] / base["lr"] if rule["lr"] != base["lr"] else 1.0
            groups = [{"params": decayed, "weight_decay": decay, "factor": factor},
                      {"params": others, "weight_decay": 0.0, "factor": factor}]
            if parameters:
                found.append(optimizer_of_rule(rule, [g for g in groups if g["params"]]))
        return found

    def run(self, start, jitter=0.0, steps=5):
        """All compared results as float64 arrays by name. `jitter` is the relative noise of weights and features."""
        tensors = {name: torch.from_numpy(np.array(value)).to(self.dtype) for name, value in start.items()}
        if jitter:
            for t in tensors.values():
                t *= 1 + jitter * torch.randn(t.shape, dtype=t.dtype)
        for name in self.trained():
            tensors[name].requires_grad_(True)
        optimizers, found = self.optimizers(tensors), {}
        decay = self.config["optimizer"].get("average_decay", 0.0)
        average = {name: tensors[name].detach().clone() for name in self.trained()}
        for step in range(steps):
            for t in tensors.values():
                t.grad = None
            loss, logits = self.backward(tensors, step)
            if step == 0:
                self.note_first(found, tensors, loss, logits)
            found[f"loss of step {step}"] = np.array([loss])
            if self.config["training"].get("max_norm", 0) > 0:
                torch.nn.utils.clip_grad_norm_([tensors[n] for n in self.trained()], self.config["training"]["max_norm"])
            if self.config["training"].get("max_value", 0) > 0:
                torch.nn.utils.clip_grad_value_([tensors[n] for n in self.trained()], self.config["training"]["max_value"])
            rate = learning_rate(self.config, step, step // self.batches.per_epoch())
            for optimizer in optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = rate * group["factor"]
                optimizer.step()
            for name in average:
                average[name].mul_(decay).add_(tensors[name].detach(), alpha=1 - decay)
        for name, t in tensors.items():
            found["final " + name] = t.detach().double().numpy().copy()
        self.validate(found, {**tensors, **average})  # without decay the average is the weights
        return found

    def note_first(self, found, tensors, loss, logits):
        found["loss"] = np.array([loss])
        found["logits"] = logits.double().numpy().copy()
        for name in self.trained():
            gradient = tensors[name].grad
            zeros = torch.zeros_like(tensors[name])
            found["gradient " + name] = (zeros if gradient is None else gradient).double().numpy().copy()

    def validate(self, found, tensors):
        if self.batches.validation is None:
            return
        features, labels = self.batches.validation
        with torch.no_grad():
            output = self.output(self.pass_of(tensors, False), features)
            weights = self.weights_of_samples(features)
            found["validation loss"] = np.array([self.losses(output, labels, weights).item() / self.weight_of_labels(labels, weights)])
