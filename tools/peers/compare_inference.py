#!/usr/bin/env python3
"""Compares the speed of the forward pass of runtime, PyTorch and ONNX Runtime, in rounds in which all contenders take
turns.

PyTorch is tried eagerly, with torch.compile and with torch.compile that takes the weights as constants, for convolutions
in both memory layouts; the best of all but runtime counts. Every measurement is a process of its own.
"""

import argparse
import os
import subprocess
import sys

import measure

# Measured steps of a batch of one sample; larger batches get fewer.
STEPS = {"lenet": 1000, "mlp": 1000, "resnet18": 100, "gpt": 30}
CONVOLUTIONS = ("lenet", "resnet18")
# What the rate of runtime is to be, as a multiple of the best other's: 0.8 of its latency, or 1.5 of its throughput.
GOALS = {1: 1 / 0.8}
GOAL = 1.5


def steps_of(model, batch):
    return max(3, STEPS[model] // batch, 100 if model in ("lenet", "mlp") else 0)


def contenders(arguments, model, batch):
    """Maps the name of each contender to its command."""
    steps = steps_of(model, batch)
    result = {"runtime": measure.bench_command(arguments, model, steps) + ["--inference", "--batch", str(batch)]}
    script = [arguments.python, os.path.join("tools", "peers", "pytorch_inference.py"), model, "--batch", str(batch),
              "--steps", str(steps), "--threads", str(arguments.threads), "--seconds", str(arguments.seconds)]
    for layout in ("nchw", "nhwc") if model in CONVOLUTIONS else ("nchw",):
        suffix = f" {layout.upper()}" if model in CONVOLUTIONS else ""
        for engine in ("eager", "compile", "freeze"):
            result[f"PyTorch {engine}{suffix}"] = [*script, "--engine", engine, "--layout", layout]
    result["ONNX Runtime"] = [*script, "--engine", "onnx"]
    return result


def compare(arguments):
    """Returns the series of each contender by model and batch."""
    every = {(m, b): contenders(arguments, m, b) for m in arguments.models for b in arguments.batches}
    series = {case: {name: measure.Series() for name in commands} for case, commands in every.items()}
    for case, commands in every.items():
        measure.run(commands["runtime"])  # fills the tuning cache
        for _ in range(arguments.rounds):
            for name, command in commands.items():
                series[case][name].add(measure.run(command))
        print_case(*case, series[case])
    return series


def best_of_others(by_name):
    return max((n for n in by_name if n != "runtime"), key=lambda n: by_name[n].median())


def ratio(by_name):
    return by_name["runtime"].median() / by_name[best_of_others(by_name)].median()


def print_case(model, batch, by_name):
    for name, s in by_name.items():
        figures = s.to_json()
        print(f"{model:<10} {batch:>5} {name:<24} {s.median():10.1f} {batch / s.median() * 1e3:10.3f} "
              f"{figures['peak_resident_mib']:9.0f} {figures['foreign_load']:15.0%}")
    print(f"{model:<10} {batch:>5} {'runtime / ' + best_of_others(by_name):<35} {ratio(by_name):8.2f}x, "
          f"goal {GOALS.get(batch, GOAL):.2f}x", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    measure.add_common_arguments(parser, list(STEPS))
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 32, 256])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8, help="of the steps of one process of the others")
    parser.add_argument("--python", default="python3", help="the Python that has torch, onnx, onnxscript and onnxruntime")
    arguments = parser.parse_args()

    probe = subprocess.run([arguments.python, "-c", "import onnxscript, onnxruntime, torch; "
                            "print(torch.__version__, onnxruntime.__version__)"], capture_output=True, check=False, text=True)
    if probe.returncode != 0:
        sys.exit(f"{arguments.python} cannot import torch, onnxscript and onnxruntime. Install them into a virtual environment "
                 "(python3 -m venv peers && peers/bin/pip install torch onnx onnxscript onnxruntime) and name its Python: "
                 "--python peers/bin/python")
    pytorch, onnxruntime = probe.stdout.split()
    print(f"{'model':<10} {'batch':>5} {'contender':<24} {'samples/s':>10} {'ms a batch':>10} {'peak MiB':>9} "
          f"{'load by others':>15}", flush=True)
    series = compare(arguments)
    cases = [{"model": m, "batch": b, "ratio": ratio(c), "best": best_of_others(c), **{n: s.to_json() for n, s in c.items()}}
             for (m, b), c in series.items()]
    measure.write_json(arguments.json, {"threads": arguments.threads, "rounds": arguments.rounds, "pytorch": pytorch,
                                        "onnxruntime": onnxruntime, "cases": cases})


if __name__ == "__main__":
    main()
