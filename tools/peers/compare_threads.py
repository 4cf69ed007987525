#!/usr/bin/env python3
"""Measures how the training speed of runtime and PyTorch grows with threads, and how much it scatters from run to run.

All contenders take turns; each run is a process of its own. Beside the median stand the 10th and the 90th percentile, and how
often the system took a processor from a thread (involuntary context switches a second). Without --python only runtime is
measured.
"""

import argparse
import functools
import os
import statistics
import subprocess

import measure


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def thread_counts(most):
    counts, threads = [], 1
    while threads < most:
        counts.append(threads)
        threads *= 2
    return counts + [most]


class Contender:
    """One program, model and number of threads, with the samples per second of its runs. command(steps) runs it."""

    def __init__(self, name, command, rounds):
        self.name, self.command, self.rounds = name, command, rounds
        self.steps, self.rates, self.switches = 5, [], []

    def run(self, batch, seconds):
        """Runs for about so many seconds, by the rate of the run before."""
        if self.rates:
            self.steps = max(3, round(self.rates[-1] * seconds / batch))
        result = measure.run(self.command(self.steps))
        self.rates.append(result.json()["samples_per_second"])
        self.switches.append(result.involuntary_switches / max(result.times[-1], 1e-3))

    def row(self):
        rates = self.rates[1:]  # the first is short, and tunes
        return [percentile(rates, 0.1), statistics.median(rates), percentile(rates, 0.9),
                statistics.median(self.switches[1:])]


BATCH = {"lenet": 256, "mlp": 256, "resnet18": 64, "gpt": 8}


def contenders(arguments, model):
    found = []
    counts = arguments.counts or thread_counts(os.cpu_count())
    for threads in counts:
        given = argparse.Namespace(bin=arguments.bin, threads=threads)
        found.append(Contender(f"runtime {threads}", functools.partial(measure.bench_command, given, model),
                               arguments.rounds))
    if arguments.python:
        layout = ["--layout", "nhwc"] if model in ("lenet", "resnet18") else []
        for form in ([], ["--compile"]):
            name = f"PyTorch {'compiled' if form else 'eager'} {counts[-1]}"
            command = [arguments.python, "tools/peers/pytorch_step.py", model, *layout, *form, "--threads", str(counts[-1]),
                       "--seconds", str(arguments.seconds), "--steps"]
            found.append(Contender(name, lambda steps, command=command: command + [str(steps)], arguments.pytorch_rounds))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    measure.add_common_arguments(parser, list(BATCH))
    parser.add_argument("--counts", type=int, nargs="+", help="numbers of threads (default: 1, 2, 4... and all processors)")
    parser.add_argument("--rounds", type=int, default=10, help="runs of each number of threads")
    parser.add_argument("--pytorch-rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="of a run")
    parser.add_argument("--python", help="the Python that has torch")
    arguments = parser.parse_args()

    topology = subprocess.run(["lscpu"], capture_output=True, check=False, text=True).stdout
    print(measure.machine()["processor"], *(" ".join(line.split()) for line in topology.splitlines()
                                            if line.startswith(("CPU(s):", "Thread(s)", "NUMA node(s)"))), sep="; ")
    figures = {}
    for model in arguments.models:
        all_contenders = contenders(arguments, model)
        for number in range(1 + max(arguments.rounds, arguments.pytorch_rounds)):
            for contender in all_contenders:
                if number <= contender.rounds:
                    contender.run(BATCH[model], arguments.seconds)
        print(f"{model:<10} {'samples/s':<22} {'10th':>10} {'median':>10} {'90th':>10} {'switches/s':>11}")
        for contender in all_contenders:
            low, median, high, switches = contender.row()
            print(f"{'':<10} {contender.name:<22} {low:10.1f} {median:10.1f} {high:10.1f} {switches:11.0f}", flush=True)
        figures[model] = {c.name: {"samples_per_second": c.rates[1:], "involuntary_switches_per_second": c.switches[1:]}
                          for c in all_contenders}
    measure.write_json(arguments.json, figures)


if __name__ == "__main__":
    main()
