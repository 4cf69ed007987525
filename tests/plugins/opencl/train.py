#!/usr/bin/env python3
"""Trains a model with the example plugin for OpenCL and with `reference`: the losses of the first steps must agree.

    train.py RUNTIME SOURCE_FOLDER lenet|resnet|gpt

The plugin is found through RUNTIME_PLUGIN_PATH. Exits with 77 (skipped) where no device for OpenCL is usable.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

# In float32 on both devices, the sums differ in their order only. Later steps amplify rounding, and Adam's first steps
# divide gradients by their own size, so that rounding of very small ones counts.
TOLERANCE = {"lenet": 1e-5, "resnet": 1e-5, "gpt": 1e-4}
STEPS = 3


def configuration(source, model):
    if model == "lenet":
        return ["configs/bench_lenet.toml", "training.global_batch_size=16", "optimizer.lr=0.1"]
    if model == "gpt":
        return ["configs/bench_gpt.toml", "model.preset=gpt_char_small", "training.global_batch_size=2",
                "dataset.samples=16"]
    return ["tests/plugins/opencl/resnet.toml"]


def losses(runtime, source, model, backend, folder):
    config, *settings = configuration(source, model)
    command = [runtime, "train", str(source / config), "--max-steps", str(STEPS), "--progress", "lines"]
    for setting in settings + [f"device.backend={backend}", "metrics.log_every_steps=1", "debug.seed=7"]:
        command += ["--set", setting]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {run.returncode}:\n{run.stderr}")
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    return [line["loss"] for line in lines if "loss" in line and "step" in line][:STEPS]


def main():
    runtime, source, model = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    devices = subprocess.run([runtime, "devices"], capture_output=True, text=True).stdout
    listed = [line for line in devices.splitlines() if line.startswith("opencl:0")]
    if not listed or " usable" not in listed[0]:
        print(f"skipped: no device for OpenCL: {listed or devices}")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        actual, expected = (losses(runtime, source, model, backend, folder) for backend in ("opencl", "reference"))
    print("opencl   ", actual, "\nreference", expected)
    if len(expected) != STEPS or len(actual) != STEPS:
        sys.exit(f"expected {STEPS} losses")
    if len(set(expected)) != STEPS:
        sys.exit("the loss does not move, so that wrong gradients would not be seen")
    for step, (a, e) in enumerate(zip(actual, expected), 1):
        if not abs(a - e) <= TOLERANCE[model] * abs(e):
            sys.exit(f"step {step}: loss {a}, expected {e} within {TOLERANCE[model]} of it")


main()
