#!/usr/bin/env python3
"""Compares how fast runtime and PyTorch continue a text, in tokens per second, in rounds in which all contenders take turns.

PyTorch is tried with a cache of keys and values, eagerly and with torch.compile, and without one. Every measurement is a
process of its own; a figure is that of the median token.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

import measure

CONFIGS = {"gpt": "configs/bench_gpt.toml", "llama": "configs/bench_llama.toml"}
CONTEXT = {"gpt": 256, "llama": 256}


def runtime_command(arguments, command, model, *rest):
    return [os.path.join(os.path.abspath(arguments.bin), "runtime"), command, CONFIGS[model],
            "--set", f"device.threads={arguments.threads}", *rest]


def run_predict(command):
    """Runs a command that writes one token at a time; returns the tokens per second of the median token, without the first
    ones, for which programs are made."""
    times = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=measure.ROOT) as child:
        while os.read(child.stdout.fileno(), 4096):
            times.append(time.perf_counter())
    if child.returncode != 0 or len(times) < 10:
        sys.exit(f"'{' '.join(command)}' ended with {child.returncode} after {len(times)} writes, expected 0 and a write a token")
    return 1 / statistics.median(b - a for a, b in zip(times[3:], times[4:]))


def pytorch_command(arguments, model, *flags):
    return [arguments.python, os.path.join("tools", "peers", "pytorch_generation.py"), model, "--tokens",
            str(arguments.tokens), "--threads", str(arguments.threads), *flags]


def contenders(arguments, model, folder):
    """Maps the name of each contender to a function that returns its tokens per second."""
    # No token of the text is behind a full window.
    tokens = min(arguments.tokens, CONTEXT[model] - 2)
    predict = runtime_command(arguments, "predict", model, "--weights", f"{folder}/{model}/weights.safetensors",
                              "--prompt", "7", "--tokens", str(tokens))
    result = {"runtime": lambda: run_predict(predict)}
    for name, flags in (("PyTorch eager", ["--cache"]), ("PyTorch compile", ["--cache", "--compile"]),
                        ("PyTorch eager, no cache", [])):
        command = pytorch_command(arguments, model, *flags)
        result[name] = lambda command=command: measure.run(command).json()["samples_per_second"]
    return result


def compare(arguments, model, folder):
    """Returns the tokens per second of each contender in each round."""
    measure.run(runtime_command(arguments, "train", model, "--max-steps", "1", "--set", f"job.dump_folder={folder}/{model}"))
    runs = contenders(arguments, model, folder)
    runs["runtime"]()  # fills the tuning cache
    rates = {name: [] for name in runs}
    for _ in range(arguments.rounds):
        for name, run in runs.items():
            rates[name].append(run())
    return rates


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    measure.add_common_arguments(parser, list(CONFIGS))
    parser.add_argument("--tokens", type=int, default=250)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", default="python3", help="the Python that has torch")
    arguments = parser.parse_args()

    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for model in arguments.models:
            rates = compare(arguments, model, folder)
            medians = {name: statistics.median(r) for name, r in rates.items()}
            for name, rate in medians.items():
                print(f"{model:<10} {name:<28} {rate:10.1f} tokens/s {medians['runtime'] / rate:8.2f}x", flush=True)
            figures[model] = rates
    measure.write_json(arguments.json, {"threads": arguments.threads, "tokens_per_second": figures})


if __name__ == "__main__":
    main()
