#!/usr/bin/env python3
"""Compares how many images a second the loaders of runtime and of PyTorch deliver, with the same number of workers.

Both read the same folder of JPEG files and do the same: a random resized crop of 224 x 224 pixels, a random flip,
normalisation. Both take turns, each in a process of its own; nothing uses the batches.
"""

import argparse
import os
import tempfile

import measure

CONFIG = """
[model]
input = [3, 224, 224]
layers = [{{ type = "flatten" }}, {{ type = "linear", features = 10 }}]
[training]
global_batch_size = {batch}
[dataset]
format = "images"
path = "{folder}"
resize = [224, 224]
random_resized_crop = 0.08
random_flip = true
mean = [0.485, 0.456, 0.406]
std = [0.229, 0.224, 0.225]
workers = {workers}
prefetch = {prefetch}
"""


def commands(arguments, folder, config):
    batches = str(arguments.batches)
    return {
        "runtime": [os.path.join(os.path.abspath(arguments.bin), "runtime"), "bench", config, "--data", "--steps",
                    batches, "--json"],
        "PyTorch": [arguments.python, os.path.join("tools", "peers", "pytorch_loader.py"), folder, "--workers",
                    str(arguments.workers), "--batch", str(arguments.batch), "--batches", batches]}


def compare(arguments, folder):
    images = os.path.join(folder, "images")
    measure.run([arguments.python, os.path.join("tools", "peers", "pytorch_loader.py"), images, "--write",
                 str(arguments.images)])
    config = os.path.join(folder, "loader.toml")
    with open(config, "w", encoding="utf-8") as f:
        # PyTorch makes two batches ahead for each worker, runtime as many in all.
        f.write(CONFIG.format(folder=images, batch=arguments.batch, workers=arguments.workers,
                              prefetch=2 * arguments.workers))
    series = {}
    for _ in range(arguments.rounds):
        for name, command in commands(arguments, images, config).items():
            series.setdefault(name, measure.Series()).add(measure.run(command))
    return series


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default=os.path.join(measure.ROOT, "build", "bin"),
                        help="folder of the built programs (default: build/bin)")
    parser.add_argument("--python", default="python3", help="the Python that has torch and torchvision")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--images", type=int, default=1000, help="JPEG files of 500 x 375 pixels to make")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        series = compare(arguments, folder)
    ratio = series["runtime"].median() / series["PyTorch"].median()
    for name, s in series.items():
        figures = s.to_json()
        print(f"{name:<8} {s.median():.0f} images/s, peak {figures['peak_resident_mib']:.0f} MiB of one process, load "
              f"by others {figures['foreign_load']:.0%}")
    print(f"runtime / PyTorch {ratio:.2f}, medians of {arguments.rounds} rounds, {arguments.workers} workers")
    measure.write_json(arguments.json, {"workers": arguments.workers, "ratio": ratio,
                                        **{name: s.to_json() for name, s in series.items()}})


if __name__ == "__main__":
    main()
