#!/usr/bin/env python3
"""Compares the training speed of runtime with bare sequences of oneDNN primitives, in interleaved pairs."""

import argparse
import os

import measure

STEPS = {"lenet": 40, "mlp": 60}


def bare_command(arguments, model):
    return [os.path.join(os.path.abspath(arguments.bin), f"bare_{model}"), "--steps", str(STEPS[model]),
            "--threads", str(arguments.threads)]


def compare(arguments, model):
    commands = [measure.bench_command(arguments, model, STEPS[model]), bare_command(arguments, model)]
    series = [measure.Series(), measure.Series()]
    for command in commands:  # fills the tuning cache
        measure.run(command)
    for pair in range(arguments.pairs):
        for i in (0, 1) if pair % 2 == 0 else (1, 0):
            series[i].add(measure.run(commands[i]))
    return {"ratio": series[0].median() / series[1].median(), "runtime": series[0].to_json(),
            "bare": series[1].to_json()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    measure.add_common_arguments(parser, list(STEPS))
    parser.add_argument("--pairs", type=int, default=20)
    arguments = parser.parse_args()

    figures = {}
    for model in arguments.models:
        f = figures[model] = compare(arguments, model)
        load = max(f["runtime"]["foreign_load"], f["bare"]["foreign_load"])
        print(f"{model:<8} runtime / bare oneDNN {f['ratio']:.3f}: {f['runtime']['samples_per_second']:.0f} and "
              f"{f['bare']['samples_per_second']:.0f} samples/s, medians of {arguments.pairs} pairs, load by others "
              f"{load:.0%}")
    measure.write_json(arguments.json, {"threads": arguments.threads, "pairs": arguments.pairs, "models": figures})


if __name__ == "__main__":
    main()
