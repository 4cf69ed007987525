#!/usr/bin/env python3
"""Compares logits, loss and every gradient with PyTorch's in 10 steps; before each step both sides get the same weights.

usage: pytorch_parity.py RUNTIME BACKEND [MODEL...]     (models: lenet mlp residual residual_relu transformer; default all)

For each model and step k, `runtime gradients --batch k` gets PyTorch's weights as a safetensors file, and gives back the batch,
the logits, the loss and the gradients in the same format. Every tensor must agree by norm: |ours - theirs| <= 1e-4 |theirs|,
where PyTorch computes in float64 from the same float32 weights; the difference from PyTorch's float32 is printed beside it.

In float32 one activation that rounding puts on the other side of a ReLU changes a gradient of the residual net by 1e-3 to 1e-2,
because batch norm makes large terms cancel; this is so in PyTorch as well. Therefore `residual` uses tanh and is compared on
every backend, while `residual_relu` is for the reference, whose sums in double leave no such difference.
With PARITY_MIXED=bf16 `training.mixed_precision` is compared. bfloat16 moves some gradients of these untrained nets by 0.1 from
float64, so a tensor may be 2e-2 away, or twice as far away as PyTorch's own result under torch.autocast. How far one step is
away is chance, which also differs between processors, so the root mean square over the 10 steps is what is compared.
Exit code 0: all agree, 1: some differ, 77: PyTorch is absent (skipped).
"""
import copy
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    from torch import nn
except ImportError as error:
    print(f"skipped: {error} for {sys.executable}; install python3-torch, or run it with /usr/bin/python3")
    sys.exit(77)

from exchange import read_safetensors, relative_error, write_safetensors

STEPS = 10
MIXED = os.environ.get("PARITY_MIXED") == "bf16"
TOLERANCE = 2e-2 if MIXED else 1e-4
EXTRA = os.environ.get("PARITY_ARGUMENTS", "").split()  # further arguments of `runtime gradients`
if MIXED:
    EXTRA += ["--set", "training.mixed_precision=bf16"]


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 20, 3), nn.Conv2d(20, 50, 5)
        self.fc1, self.fc2 = nn.Linear(800, 128), nn.Linear(128, 10)
        self.pool = nn.AvgPool2d(2)

    def forward(self, x):
        x = self.pool(torch.relu(self.conv1(x)))
        x = self.pool(torch.relu(self.conv2(x)))
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(784, 1024), nn.Linear(1024, 1024), nn.Linear(1024, 10)

    def forward(self, x):
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x.flatten(1))))))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride, activation):
        super().__init__()
        self.activation = activation
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(self.activation(self.bn1(self.conv1(x)))))
        return self.activation(y + (x if self.downsample is None else self.downsample(x)))


class Residual(nn.Module):
    def __init__(self, activation=torch.tanh):
        super().__init__()
        self.activation = activation
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.block1, self.block2 = Block(16, 16, 1, activation), Block(16, 32, 2, activation)
        self.fc = nn.Linear(32, 10)

    def forward(self, x):
        x = self.block2(self.block1(self.pool(self.activation(self.bn1(self.conv1(x))))))
        return self.fc(x.mean((2, 3)))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.ln1, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)
        self.ln2, self.head = nn.LayerNorm(32), nn.Linear(16 * 32, 10)

    def forward(self, x):
        x = self.embedding(x.long())
        x = x + self.down(nn.functional.gelu(self.up(self.ln1(x))))
        return self.head(self.ln2(x).flatten(1))


def block_layers(channels, stride, activation):
    text = ('layers = [ { type = "conv2d", name = "conv1", channels = %d, kernel = 3, stride = %d, padding = 1, bias = false }, '
            '{ type = "batch_norm", name = "bn1", activation = "%s" }, '
            '{ type = "conv2d", name = "conv2", channels = %d, kernel = 3, padding = 1, bias = false }, '
            '{ type = "batch_norm", name = "bn2" } ]' % (channels, stride, activation, channels))
    if stride != 1:
        text += (', shortcut = [ { type = "conv2d", name = "downsample.0", channels = %d, kernel = 1, stride = %d, bias = false }, '
                 '{ type = "batch_norm", name = "downsample.1" } ]' % (channels, stride))
    return text


def residual_layers(activation):
    return """
[model]
input = [3, 24, 24]
layers = [
  { type = "conv2d", name = "conv1", channels = 16, kernel = 3, padding = 1, bias = false },
  { type = "batch_norm", name = "bn1", activation = "%s" },
  { type = "max_pool2d", kernel = 3, stride = 2, padding = 1 },
  { type = "residual", name = "block1", activation = "%s", %s },
  { type = "residual", name = "block2", activation = "%s", %s },
  { type = "global_avg_pool" },
  { type = "linear", name = "fc", features = 10 },
]
""" % (activation, activation, block_layers(16, 1, activation), activation, block_layers(32, 2, activation))


TRANSFORMER_LAYERS = """
[model]
input = [16]
layers = [
  { type = "embedding", name = "embedding", vocabulary = 50, features = 32 },
  { type = "residual", name = "mlp", layers = [ { type = "layer_norm", name = "ln1" }, { type = "linear", name = "up", features = 128, activation = "gelu" }, { type = "linear", name = "down", features = 32 } ] },
  { type = "layer_norm", name = "ln2" },
  { type = "flatten" },
  { type = "linear", name = "head", features = 10 },
]
"""
# Names of the transformer's parameters that belong to layers inside the residual.
TRANSFORMER_NAMES = {n: "mlp." + n for n in ("ln1.weight", "ln1.bias", "up.weight", "up.bias", "down.weight", "down.bias")}

MODELS = {
    "lenet": (LeNet, '[model]\npreset = "lenet"\n', {}),
    "mlp": (Mlp, '[model]\npreset = "mlp"\n', {}),
    "residual": (Residual, residual_layers("tanh"), {}),
    "residual_relu": (lambda: Residual(torch.relu), residual_layers("relu"), {}),
    "transformer": (Transformer, TRANSFORMER_LAYERS, TRANSFORMER_NAMES),
}


def write_data(name, folder):
    """Writes samples as NPY files, so that no data set needs to be installed."""
    random = np.random.default_rng(1)
    samples = 64 * STEPS
    if name == "transformer":
        features = random.integers(0, 50, (samples, 16)).astype(np.float32)
    elif name.startswith("residual"):
        features = random.standard_normal((samples, 24, 24, 3)).astype(np.float32)
    else:
        features = random.standard_normal((samples, 28, 28, 1)).astype(np.float32)
    np.save(os.path.join(folder, "x.npy"), features)
    np.save(os.path.join(folder, "y.npy"), random.integers(0, 10, samples).astype(np.int64))


def write_config(name, folder):
    text = MODELS[name][1] + """
[dataset]
format = "npy"
path = "x.npy"
target_path = "y.npy"
classes = 10
[training]
global_batch_size = 64
steps = 1
[validation]
every_epochs = 0
"""
    path = os.path.join(folder, name + ".toml")
    with open(path, "w") as file:
        file.write(text)
    return path


def gradients(model, features, labels, dtype, autocast=False):
    """Logits, loss and gradients of a copy of the model in another type."""
    model = copy.deepcopy(model).to(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        logits = model(features.to(dtype))
    loss = nn.functional.cross_entropy(logits.to(dtype), labels)
    loss.backward()
    found = {name: parameter.grad.double().numpy() for name, parameter in model.named_parameters()}
    return {"logits": logits.detach().double().numpy(), "loss": np.array([loss.item()]), **found}


def compare_step(model, names, ours):
    """Two dictionaries, and the loss: how far our tensors are from PyTorch's in float64, relatively, and what they are compared
    with: in mixed precision how far PyTorch's own are, otherwise how far ours are from PyTorch's in float32. Then makes one
    step of gradient descent."""
    features = torch.from_numpy(ours["features"].copy())
    if features.dim() == 4:
        features = features.permute(0, 3, 1, 2)
    labels = torch.from_numpy(ours["labels"].astype(np.int64))
    exact = gradients(model, features, labels, torch.float64)
    single = gradients(model, features, labels, torch.float32, autocast=MIXED)
    errors, single_errors = {}, {}
    for name, theirs in exact.items():
        mine = ours[names.get(name, name)]
        errors[name] = relative_error(mine, theirs)
        single_errors[name] = relative_error(single[name], theirs) if MIXED else relative_error(mine, single[name])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter -= 0.1 * torch.from_numpy(exact[name]).float()
    return errors, single_errors, exact["loss"][0]


def judge(errors, single_errors):
    """The tensor that is furthest from PyTorch for what it may be: its name, its difference and what is allowed. The arguments
    have a dictionary for each step."""
    def over_steps(steps, name):
        values = [step[name] for step in steps]
        return float(np.sqrt(np.mean(np.square(values)))) if MIXED else max(values)

    found = []
    for name in errors[0]:
        allowed = max(TOLERANCE, 2 * over_steps(single_errors, name)) if MIXED else TOLERANCE
        found.append((name, over_steps(errors, name), allowed))
    return max(found, key=lambda row: np.nan_to_num(row[1] / row[2], nan=np.inf))


def compare(runtime, backend, name, folder):
    torch.manual_seed(0)
    model = MODELS[name][0]()
    names = MODELS[name][2]
    write_data(name, folder)
    config = write_config(name, folder)
    errors, single_errors, losses = [], [], []
    for step in range(STEPS):
        weights = os.path.join(folder, "weights.safetensors")
        output = os.path.join(folder, "step.safetensors")
        state = {k: v for k, v in model.state_dict().items() if not k.endswith("num_batches_tracked")}
        write_safetensors(weights, {names.get(k, k): v.numpy() for k, v in state.items()})
        subprocess.run([runtime, "gradients", config, "--set", f"device.backend={backend}", *EXTRA, "--weights", weights, "--batch",
                        str(step), "--output", output], check=True, stdout=subprocess.DEVNULL, cwd=folder,
                       env=dict(os.environ, XDG_CACHE_HOME=folder))
        found, single, loss = compare_step(model, names, read_safetensors(output))
        errors.append(found)
        single_errors.append(single)
        losses.append(loss)
    tensor, error, allowed = judge(errors, single_errors)
    worst_single = max(max(step.values()) for step in single_errors)
    verdict = "ok" if error <= allowed else "DIFFERS"
    print(f"{name:13} on {backend}: {STEPS} steps, loss {losses[0]:.4f} -> {losses[-1]:.4f}, largest relative difference "
          f"{error:.2e} ({tensor}, allowed {allowed:.2e}; {'PyTorch in bf16' if MIXED else 'float32'}: {worst_single:.2e}): {verdict}", flush=True)
    return error <= allowed


def main():
    if len(sys.argv) < 3:
        print(__doc__)
        return 2
    runtime, backend = os.path.abspath(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(2)
    good = True
    for name in sys.argv[3:] or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            good &= compare(runtime, backend, name, folder)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
