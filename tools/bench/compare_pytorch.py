#!/usr/bin/env python3
"""Compares the training speed of runtime and PyTorch, in rounds in which all contenders take turns.

Every measurement is a process of its own. The speed of PyTorch's linear layers is that of its BLAS: name the folder of
each libblas.so.3 to try with --blas (Debian's python3-torch alone installs the slow reference BLAS). The script also
measures the time from process start to the first LeNet step on Fashion-MNIST, and the largest resident set of that
process.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import measure

STEPS = {"lenet": 100, "mlp": 100, "resnet18": 5, "gpt": 5}
WARM_UP = {"lenet": 5, "mlp": 5, "resnet18": 2, "gpt": 2}
LAYOUTS = {"lenet": ("nchw", "nhwc"), "mlp": ("nchw",), "resnet18": ("nchw", "nhwc"),
           "gpt": ("nchw",)}
STEP_PROGRAM = os.path.join("tools", "bench", "pytorch_step.py")


def pytorch_command(arguments, model, layout):
    return [arguments.python, STEP_PROGRAM, model, "--layout", layout, "--threads", str(arguments.threads),
            "--steps", str(STEPS[model]), "--warm-up", str(WARM_UP[model])]


def blas_variants(arguments):
    """Maps the name of each BLAS that PyTorch is run with to its environment."""
    if not arguments.blas:
        return {"default BLAS": {}}
    return {os.path.basename(os.path.abspath(f)): {"LD_LIBRARY_PATH": os.path.abspath(f)} for f in arguments.blas}


def contenders(arguments, model):
    """Maps the name of each contender to (command, environment)."""
    bench = measure.bench_command(arguments, model, STEPS[model])
    result = {"runtime": (bench, {}), "runtime, tune=full": (bench + ["--set", "device.tune=full"], {})}
    for layout in LAYOUTS[model]:
        for blas, environment in blas_variants(arguments).items():
            result[f"PyTorch {layout.upper()}, {blas}"] = (pytorch_command(arguments, model, layout), environment)
    return result


def compare_speed(arguments):
    all_contenders = {model: contenders(arguments, model) for model in arguments.models}
    series = {m: {name: measure.Series() for name in c} for m, c in all_contenders.items()}
    for commands in all_contenders.values():  # fills the tuning cache
        for command, _ in commands.values():
            if "bench" in command:
                measure.run(command)
    for _ in range(arguments.rounds):
        for model, commands in all_contenders.items():
            for name, (command, environment) in commands.items():
                series[model][name].add(measure.run(command, environment))
    return series


def ratio(by_name):
    best = max(s.median() for name, s in by_name.items() if name.startswith("PyTorch"))
    return by_name["runtime"].median() / best


def print_speed(series):
    print(f"{'model':<10} {'contender':<32} {'samples/s':>10} {'runtime is':>11} {'load by others':>15}")
    for model, by_name in series.items():
        for name, s in by_name.items():
            times = by_name["runtime"].median() / s.median()
            print(f"{model:<10} {name:<32} {s.median():10.1f} {times:10.2f}x {s.to_json()['foreign_load']:15.0%}")
        print(f"{model:<10} {'runtime / the best of PyTorch':<32} {ratio(by_name):22.2f}x")


def first_step_commands(arguments, folder):
    train = [os.path.join(os.path.abspath(arguments.bin), "runtime"), "train", "configs/fashion_mnist_lenet.toml",
             "--max-steps", "1", "--set", "validation.every_epochs=0", "--set", f"device.threads={arguments.threads}",
             "--set", f"job.dump_folder={folder}/run"]
    pytorch = [arguments.python, STEP_PROGRAM, "lenet", "--steps", "1", "--warm-up", "0", "--threads",
               str(arguments.threads), "--fashion-mnist", arguments.fashion_mnist]
    return {"runtime, tuning cache warm": (train, {}), "runtime, tune=off": (train + ["--set", "device.tune=off"], {}),
            **{f"PyTorch, {blas}": (pytorch, env) for blas, env in blas_variants(arguments).items()}}


def compare_first_step(arguments):
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        commands = first_step_commands(arguments, folder)
        measure.run(*commands["runtime, tuning cache warm"])
        for _ in range(arguments.rounds):
            for name, command in commands.items():
                shutil.rmtree(f"{folder}/run", ignore_errors=True)  # a run does not replace another one
                result = measure.run(*command)
                seconds = next(t for t, line in zip(result.times, result.lines) if '"loss"' in line)
                figures.setdefault(name, []).append((seconds, result.peak_mib))
    return {name: {"seconds_to_first_step": statistics.median(s for s, _ in runs),
                   "peak_resident_mib": statistics.median(m for _, m in runs)}
            for name, runs in figures.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    measure.add_common_arguments(parser, list(STEPS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", default="/usr/bin/python3", help="the Python that has torch")
    parser.add_argument("--blas", nargs="+", metavar="FOLDER", help="folders with a libblas.so.3 for PyTorch")
    parser.add_argument("--fashion-mnist", default="/usr/share/datasets/fashion-mnist", metavar="FOLDER")
    parser.add_argument("--only", choices=("speed", "first-step"))
    arguments = parser.parse_args()

    probe = subprocess.run([arguments.python, "-c", "import torch"], capture_output=True, check=False)
    if probe.returncode != 0:
        sys.exit(f"skipped: {arguments.python} cannot import torch; install it (Debian: python3-torch) or name "
                 "another with --python")
    figures = {"threads": arguments.threads, "rounds": arguments.rounds}
    if arguments.only != "first-step":
        series = compare_speed(arguments)
        print_speed(series)
        figures["speed"] = {m: {"ratio": ratio(c), **{n: s.to_json() for n, s in c.items()}}
                            for m, c in series.items()}
    if arguments.only != "speed":
        figures["first_step"] = compare_first_step(arguments)
        for name, f in figures["first_step"].items():
            print(f"{name:<28} first step after {f['seconds_to_first_step']:.2f} s, peak "
                  f"{f['peak_resident_mib']:.0f} MiB")
    measure.write_json(arguments.json, figures)


if __name__ == "__main__":
    main()
