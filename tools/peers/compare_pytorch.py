#!/usr/bin/env python3
"""Compares the training speed of runtime and PyTorch, in rounds in which all contenders take turns.

PyTorch is tried eagerly and with torch.compile, for convolutions in both memory layouts; the best of them counts. Every
measurement is a process of its own. Each round also measures the machine: the best rate of matrix products that PyTorch
and oneDNN reach. At the end the script measures the time from process start to the first step.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import measure

STEPS = {"lenet": 100, "mlp": 100, "resnet18": 8, "gpt": 8, "llama": 8}
WARM_UP = {"lenet": 5, "mlp": 5, "resnet18": 2, "gpt": 2, "llama": 2}
CONVOLUTIONS = ("lenet", "resnet18")
# For the time to the first step: the file of the configuration, what is different in it, and the batch.
FIRST_STEP = {"lenet": ("configs/fashion_mnist_lenet.toml", [], None),
              "resnet50": ("configs/bench_resnet18.toml", ["model.preset=resnet50", "dataset.classes=1000"], 8),
              "gpt2": ("tools/gpu/gpt2.toml", [], 1)}
BF16 = ["--set", "training.mixed_precision=bf16"]


def program(arguments, name):
    return os.path.join(os.path.abspath(arguments.bin), name)


def pytorch_command(arguments, script, *rest):
    path = os.path.join("tools", "peers", script)
    return [arguments.python, path, *rest, "--threads", str(arguments.threads)]


def contenders(arguments, model):
    """Maps the name of each contender to its command."""
    bench = measure.bench_command(arguments, model, STEPS[model]) + (BF16 if arguments.bf16 else [])
    step = ["--steps", str(STEPS[model]), "--warm-up", str(WARM_UP[model])] + (["--bf16"] if arguments.bf16 else [])
    result = {"runtime": bench, "runtime, tune=full": bench + ["--set", "device.tune=full"]}
    for layout in ("nchw", "nhwc") if model in CONVOLUTIONS else ("nchw",):
        suffix = f" {layout.upper()}" if model in CONVOLUTIONS else ""
        for form, flags in (("eager", []), ("compile", ["--compile"])):
            result[f"PyTorch {form}{suffix}"] = pytorch_command(arguments, "pytorch_step.py", model, "--layout", layout,
                                                                *step, *flags)
    return result


def sgemm_commands(arguments):
    return {"PyTorch": pytorch_command(arguments, "pytorch_sgemm.py"),
            "oneDNN": [program(arguments, "onednn_sgemm"), "--threads", str(arguments.threads)]}


def measure_sgemm(arguments, rates):
    """Adds the rates of one round to `rates`, which maps a name to its GFLOP/s in each round."""
    for name, command in sgemm_commands(arguments).items():
        figures = measure.run(command).json()
        for key in ("sgemm", "matmul"):
            if f"{key}_gflops" in figures:
                rates.setdefault(f"{figures['library']}, {key}", []).append(figures[f"{key}_gflops"])


def compare_speed(arguments):
    all_contenders = {model: contenders(arguments, model) for model in arguments.models}
    series = {m: {name: measure.Series() for name in c} for m, c in all_contenders.items()}
    for commands in all_contenders.values():  # fills the tuning cache, and the one of torch.compile
        for name, command in commands.items():
            if "eager" not in name:
                measure.run(command)
    rates = {}
    for _ in range(arguments.rounds):
        measure_sgemm(arguments, rates)
        for model, commands in all_contenders.items():
            for name, command in commands.items():
                series[model][name].add(measure.run(command))
    return series, {name: statistics.median(r) for name, r in rates.items()}


def best_of_pytorch(by_name):
    return max((n for n in by_name if n.startswith("PyTorch")), key=lambda n: by_name[n].median())


def ratio(by_name):
    return by_name["runtime"].median() / by_name[best_of_pytorch(by_name)].median()


def print_speed(series, rates):
    for name, rate in rates.items():
        print(f"{name:<32} {rate:10.1f} GFLOP/s")
    print(f"{'model':<10} {'contender':<24} {'samples/s':>10} {'runtime is':>11} {'peak MiB':>9} {'load by others':>15}")
    for model, by_name in series.items():
        for name, s in by_name.items():
            times = by_name["runtime"].median() / s.median()
            figures = s.to_json()
            print(f"{model:<10} {name:<24} {s.median():10.1f} {times:10.2f}x {figures['peak_resident_mib']:9.0f} "
                  f"{figures['foreign_load']:15.0%}")
        print(f"{model:<10} {'runtime / ' + best_of_pytorch(by_name):<35} {ratio(by_name):10.2f}x")


def first_step_commands(arguments, model, folder):
    file, different, batch = FIRST_STEP[model]
    settings = [*different, "validation.every_epochs=0", f"device.threads={arguments.threads}",
                f"job.dump_folder={folder}/run", *([f"training.global_batch_size={batch}"] if batch else [])]
    train = [program(arguments, "runtime"), "train", file, "--max-steps", "1"]
    for setting in settings:
        train += ["--set", setting]
    pytorch = pytorch_command(arguments, "pytorch_step.py", model, "--steps", "1", "--warm-up", "0",
                              *(["--batch", str(batch)] if batch else ["--fashion-mnist", arguments.fashion_mnist]))
    return {"runtime, tuning cache warm": train, "runtime, tune=off": train + ["--set", "device.tune=off"],
            "PyTorch eager": pytorch, "PyTorch compile": pytorch + ["--compile"]}


def compare_first_step(arguments, model):
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        commands = first_step_commands(arguments, model, folder)
        for name in ("runtime, tuning cache warm", "PyTorch compile"):
            measure.run(commands[name])
        for _ in range(arguments.rounds):
            for name, command in commands.items():
                shutil.rmtree(f"{folder}/run", ignore_errors=True)  # a run does not replace another one
                result = measure.run(command)
                seconds = next(t for t, line in zip(result.times, result.lines) if '"loss"' in line)
                figures.setdefault(name, []).append((seconds, result.peak_mib))
    return {name: {"seconds_to_first_step": statistics.median(s for s, _ in runs),
                   "peak_resident_mib": statistics.median(m for _, m in runs)}
            for name, runs in figures.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    measure.add_common_arguments(parser, list(STEPS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", default="python3", help="the Python that has torch, 2.4 or newer, and for llama transformers")
    parser.add_argument("--bf16", action="store_true", help="mixed precision on both sides")
    parser.add_argument("--fashion-mnist", default="/usr/share/datasets/fashion-mnist", metavar="FOLDER")
    parser.add_argument("--only", choices=("speed", "first-step"))
    parser.add_argument("--first-step-models", nargs="+", choices=FIRST_STEP, default=list(FIRST_STEP))
    arguments = parser.parse_args()

    probe = subprocess.run([arguments.python, "-c", "import torch; print(torch.__version__)"], capture_output=True,
                           check=False, text=True)
    if probe.returncode != 0:
        sys.exit(f"{arguments.python} cannot import torch. Install it into a virtual environment (python3 -m venv torch && "
                 "torch/bin/pip install torch) and name its Python: --python torch/bin/python")
    figures = {"threads": arguments.threads, "rounds": arguments.rounds, "pytorch": probe.stdout.strip()}
    if arguments.only != "first-step":
        series, rates = compare_speed(arguments)
        print_speed(series, rates)
        figures["sgemm_gflops"] = rates
        figures["speed"] = {m: {"ratio": ratio(c), "best": best_of_pytorch(c), **{n: s.to_json() for n, s in c.items()}}
                            for m, c in series.items()}
    if arguments.only != "speed":
        figures["first_step"] = {m: compare_first_step(arguments, m) for m in arguments.first_step_models}
        for model, by_name in figures["first_step"].items():
            for name, f in by_name.items():
                print(f"{model:<10} {name:<28} first step after {f['seconds_to_first_step']:.2f} s, peak "
                      f"{f['peak_resident_mib']:.0f} MiB")
    measure.write_json(arguments.json, figures)


if __name__ == "__main__":
    main()
