#!/usr/bin/env python3
"""Records a step of three PyTorch modules with tools/pytorch/record_step.py and compares it with `runtime verify`.

usage: pytorch_record.py RUNTIME BACKEND FOLDER_OF_RECORD_STEP

Each record must agree, with its batch, weights, outputs, loss, gradients and update; with one number changed it must differ
in that layer and tensor (exit code 6); with an unknown name, another shape, a token out of range or its end cut off it must
be refused (exit code 5). Exit code 0: all of this is so, 1: something is not, 77: PyTorch is absent (skipped).
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError as error:
    print(f"skipped: {error} for {sys.executable}; install python3-torch, or run it with /usr/bin/python3")
    sys.exit(77)

from exchange import read_safetensors, write_safetensors
from gpt_losses import Gpt, config
from pytorch_parity import LeNet

END = """
[validation]
every_epochs = 0
"""
IMAGES = """
[dataset]
name = "synthetic"
samples = 64
classes = 10
[training]
global_batch_size = 32
[optimizer]
name = "sgd"
lr = 0.1
momentum = 0.9
"""


class Model:
    def __init__(self, name, module, toml, inputs, targets, make_optimizer, **names):
        self.name, self.module, self.toml, self.inputs, self.targets = name, module, toml, inputs, targets
        self.optimizer, self.names = make_optimizer(module.parameters()), names


def cross_entropy(logits, targets):
    return functional.cross_entropy(logits.flatten(0, -2), targets.flatten())


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def mlp():
    # Modules of a sequence have numbers for names, and dropout is left out on both sides.
    module = nn.Sequential(nn.Flatten(), nn.Linear(784, 48), nn.Tanh(), nn.Dropout(0.5), nn.Linear(48, 10))
    toml = """
[model]
input = [1, 28, 28]
layers = [
  { type = "flatten" },
  { type = "linear", name = "fc1", features = 48, activation = "tanh" },
  { type = "dropout", probability = 0.5 },
  { type = "linear", name = "fc2", features = 10 },
]
""" + IMAGES + END
    return Model("mlp", module, toml, torch.randn(6, 1, 28, 28), torch.randint(10, (6,)), sgd,
                 names={"1": "fc1", "4": "fc2"})


def lenet():
    toml = '[model]\npreset = "lenet"\n' + IMAGES + END
    return Model("lenet", LeNet(), toml, torch.randn(5, 1, 28, 28), torch.randint(10, (5,)), sgd)


def gpt():
    sizes = argparse.Namespace(context=12, width=24, layers=2, heads=2, batch=4, steps=3, warm_up=0, dropout=0.0, no_bias=False)
    toml = config(sizes, 29, "text.txt").replace('format = "text"\npath = "text.txt"\ntokenizer = "char"\nshuffle = false',
                                                 'name = "synthetic"\nsamples = 16\nclasses = 29\ntask = "next_token"')
    toml = toml.replace('weight_decay_on = "matrices"', "").replace("max_norm = 1.0", "")
    return Model("gpt", Gpt(sizes, 29), toml, torch.randint(29, (3, 12)), torch.randint(29, (3, 12)),
                 lambda p: torch.optim.AdamW(p, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1),
                 outputs={"h.*": "h.*.residual2"})


class Check:
    def __init__(self, runtime, backend, folder):
        self.runtime, self.backend, self.folder, self.wrong = runtime, backend, folder, 0

    def verify(self, toml, record):
        result = subprocess.run([self.runtime, "verify", toml, "--set", f"device.backend={self.backend}", "--against", record,
                                 "--json"], capture_output=True, text=True, cwd=self.folder,
                                env=dict(os.environ, XDG_CACHE_HOME=self.folder))
        return result, json.loads(result.stdout) if result.stdout else {}

    def expect(self, condition, what, result):
        if not condition:
            self.wrong += 1
            print(f"WRONG: {what}\n  exit code {result.returncode}: {result.stderr}{result.stdout[:400]}")

    def changed(self, model, toml, tensors, code, expected, change):
        copy = {name: array.copy() for name, array in tensors.items()}
        change(copy)
        path = os.path.join(self.folder, "changed.safetensors")
        write_safetensors(path, copy)
        result, _ = self.verify(toml, path)
        right = result.returncode == code and all(text in result.stderr for text in expected)
        self.expect(right, f"{model.name}: exit code {code} and {expected}", result)

    def model(self, model, record_step):
        toml, record = (os.path.join(self.folder, model.name + end) for end in (".toml", ".safetensors"))
        with open(toml, "w", encoding="utf-8") as file:
            file.write(model.toml)
        record_step(model.module, model.inputs, model.targets, cross_entropy, record, optimizer=model.optimizer, **model.names)
        result, answer = self.verify(toml, record)
        self.expect(result.returncode == 0 and answer.get("equal"), f"{model.name} agrees", result)
        if not answer:
            return
        step = answer["steps"][0]
        few = len(step.get("only_recorded", [])) <= 4  # computed within another operation
        self.expect(few and step["compared"] >= 11, f"{model.name}: most values are compared", result)
        print(f"{model.name} on {self.backend}: {step['compared']} values, the worst differs by {answer['worst']:.1e}; "
              f"not stored: {step.get('only_recorded', [])}")
        self.faults(model, toml, record, read_safetensors(record))

    def faults(self, model, toml, record, tensors):
        matrices = [n for n in tensors if n.startswith("gradient.") and n.endswith(".weight")]
        gradient = sorted(n for n in matrices if "wte" not in n)[-1]  # wte is that of two layers
        tensor = gradient.removeprefix("gradient.")

        def change_number(t):
            t[gradient].reshape(-1)[3] += 0.5

        def add_unknown(t):
            t["output.nowhere"] = t["loss"]

        layer = f"layer '{tensor.rsplit('.', 1)[0]}'"
        self.changed(model, toml, tensors, 6, [layer, f"tensor '{tensor}.gradient'"], change_number)
        self.changed(model, toml, tensors, 5, ["'output.nowhere' is no layer"], add_unknown)
        self.changed(model, toml, tensors, 5, [f"'{gradient}' is [2, 1]", "expected ["],
                     lambda t: t.update({gradient: t[gradient].reshape(-1)[:2].reshape(2, 1)}))
        self.changed(model, toml, tensors, 5, ["'target' has the number 29.0", "integers from 0 to"],
                     lambda t: t["target"].fill(29))
        if model.name == "gpt":
            self.changed(model, toml, tensors, 5, ["'input' has the number 29.0"], lambda t: t["input"].fill(29))
        # A part of the values is enough.
        few = {name: tensors[name] for name in tensors if not name.startswith(("output.", "gradient.", "updated."))}
        self.changed(model, toml, few, 0, [], lambda t: None)
        with open(record, "rb") as file:
            whole = file.read()
        with open(os.path.join(self.folder, "cut.safetensors"), "wb") as file:
            file.write(whole[:len(whole) // 2])
        result, _ = self.verify(toml, "cut.safetensors")
        refused = result.returncode == 5 and "cut.safetensors" in result.stderr
        self.expect(refused, f"{model.name}: a cut file is refused", result)


def main():
    runtime, backend, tools = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3]
    sys.path.insert(0, tools)
    from record_step import record_step
    torch.manual_seed(1)
    torch.set_num_threads(2)
    with tempfile.TemporaryDirectory() as folder:
        check = Check(runtime, backend, folder)
        for model in (mlp(), lenet(), gpt()):
            check.model(model, record_step)
    sys.exit(1 if check.wrong else 0)


if __name__ == "__main__":
    main()
