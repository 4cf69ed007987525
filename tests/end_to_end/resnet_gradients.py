#!/usr/bin/env python3
"""Compares ResNet-18 for CIFAR (the preset) with PyTorch: loss, every gradient and the running statistics of 10 steps.

usage: resnet_gradients.py RUNTIME BACKEND [--data FOLDER] [--dtype float32|float64] [--activation relu|tanh] [--steps N]
                           [--batch B] [--width W]

Before each step `runtime gradients --batch k` gets PyTorch's weights and running statistics as a safetensors file, and gives
back the batch, the loss, the gradients and the statistics in the same format. Every tensor must agree by norm with PyTorch in
float64: |ours - theirs| <= 1e-4 |theirs|. In float32 one activation that rounding puts on the other side of a ReLU changes
gradients that pass through batch norm, where large terms cancel, by 1e-3 to 1e-2 (see pytorch_parity.py). The larger the net,
the more likely this is, in PyTorch too. So with relu, if PyTorch's own float32 differs from its float64 by more than 1e-4,
gradients and statistics may differ by twice that difference; the loss may not. With tanh there is no such kink, and no such
exception.
--data: CIFAR-10 in its binary form, otherwise noise. --width: channels of the first stage, 64 in the preset.
Exit code 0: all agree, 1: some differ, 77: PyTorch is absent (skipped).
"""
import argparse
import copy
import json
import os
import re
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
from pytorch_parity import Block

TOLERANCE = 1e-4
LR = 0.05
PRESET = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../configs/presets/resnet18_cifar.toml")


class ResNet18(nn.Module):
    """ResNet-18 with torchvision's parameter names and the stem for small images."""

    def __init__(self, width, activation):
        super().__init__()
        self.activation = activation
        self.conv1, self.bn1 = nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        for stage in range(4):
            inputs, outputs = width * max(1, 2 ** (stage - 1)), width * 2**stage
            setattr(self, f"layer{stage + 1}", nn.Sequential(
                Block(inputs, outputs, 1 + (stage > 0), activation), Block(outputs, outputs, 1, activation)))
        self.fc = nn.Linear(8 * width, 10)

    def forward(self, x):
        x = self.activation(self.bn1(self.conv1(x)))
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return self.fc(x.mean((2, 3)))


def write_config(a, folder):
    with open(PRESET, encoding="utf-8") as file:
        model = re.sub(r"channels = (\d+)", lambda m: f"channels = {int(m[1]) * a.width // 64}", file.read())
    model = model.replace('"relu"', f'"{a.activation}"')
    if a.data:
        data = f'format = "cifar10"\npath = {json.dumps(a.data)}\nmean = [0.4914, 0.4822, 0.4465]\nstd = [0.2470, 0.2435, 0.2616]\n'
    else:
        random = np.random.default_rng(1)
        np.save(os.path.join(folder, "x.npy"), random.standard_normal((a.batch * a.steps, 32, 32, 3)).astype(np.float32))
        np.save(os.path.join(folder, "y.npy"), random.integers(0, 10, a.batch * a.steps).astype(np.int64))
        data = 'format = "npy"\npath = "x.npy"\ntarget_path = "y.npy"\nclasses = 10\n'
    path = os.path.join(folder, "resnet.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'{model}\n[dataset]\n{data}[training]\nglobal_batch_size = {a.batch}\nsteps = 1\ndtype = "{a.dtype}"\n'
                   f'[validation]\nevery_epochs = 0\n[device]\nbackend = "{a.backend}"\n')
    return path


def state(model):
    return {k: v.detach().double().numpy() for k, v in model.state_dict().items() if not k.endswith("num_batches_tracked")}


def ours(a, folder, config, step, model):
    weights, output = (os.path.join(folder, name + ".safetensors") for name in ("weights", "step"))
    write_safetensors(weights, state(model))
    subprocess.run([a.runtime, "gradients", config, "--weights", weights, "--batch", str(step), "--output", output],
                   check=True, stdout=subprocess.DEVNULL, cwd=folder, env=dict(os.environ, XDG_CACHE_HOME=folder))
    return read_safetensors(output)


def theirs(model, features, labels, dtype):
    """Loss, gradients and (under `after.`) the statistics after the forward pass, from a copy of the model."""
    model = copy.deepcopy(model).to(dtype)
    loss = nn.functional.cross_entropy(model(features.to(dtype)), labels)
    loss.backward()
    found = {name: parameter.grad.double().numpy() for name, parameter in model.named_parameters()}
    found.update({"after." + k: v for k, v in state(model).items() if "running_" in k})
    return {"loss": np.array([loss.item()]), **found}


def worst_error(actual, expected):
    return max((relative_error(actual[name], value), name) for name, value in expected.items())


def one_step(a, folder, config, step, model):
    """The largest difference from PyTorch's float64, and whether it is within bounds; then makes a step of gradient descent."""
    mine = ours(a, folder, config, step, model)
    features, labels = torch.from_numpy(mine["features"].copy()).permute(0, 3, 1, 2), torch.from_numpy(mine["labels"].copy()).long()
    exact = theirs(model, features, labels, torch.float64)
    error, name = worst_error(mine, exact)
    allowed, single = TOLERANCE, ""
    if a.dtype == "float32":
        other = worst_error(theirs(model, features, labels, torch.float32), exact)[0]
        single = f"; PyTorch in float32: {other:.2e}"
        if a.activation == "relu":
            allowed = max(TOLERANCE, 2 * other)
    loss = relative_error(mine["loss"], exact["loss"])
    print(f"step {step}: loss {exact['loss'][0]:.5f}, difference {loss:.1e}; largest difference {error:.2e} ({name}{single})",
          flush=True)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            parameter -= LR * torch.from_numpy(exact[parameter_name]).float()
        for buffer_name, buffer in model.named_buffers():
            if "running_" in buffer_name:
                buffer.copy_(torch.from_numpy(exact["after." + buffer_name]))
    return error, error <= allowed and loss <= TOLERANCE


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runtime", type=os.path.abspath)
    parser.add_argument("backend")
    parser.add_argument("--data", type=os.path.abspath)
    parser.add_argument("--dtype", default="float32", choices=("float32", "float64"))
    parser.add_argument("--activation", default="relu", choices=("relu", "tanh"))
    for name, value in (("steps", 10), ("batch", 64), ("width", 64)):
        parser.add_argument(f"--{name}", type=int, default=value)
    a = parser.parse_args()
    torch.set_num_threads(2)
    torch.manual_seed(0)
    model = ResNet18(a.width, getattr(torch, a.activation))
    with tempfile.TemporaryDirectory() as folder:
        config = write_config(a, folder)
        steps = [one_step(a, folder, config, step, model) for step in range(a.steps)]
    good = all(fine for _, fine in steps)
    print(f"ResNet-18 with {a.activation} on {a.backend} in {a.dtype}: {a.steps} steps, largest relative difference {max(steps)[0]:.2e}: "
          f"{'ok' if good else 'DIFFERS'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
