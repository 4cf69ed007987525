#!/usr/bin/env python3
"""Loads a folder of images with torch.utils.data.DataLoader and torchvision, and prints one JSON line, for
compare_loader.py. With --write it makes the folder instead.
"""

import argparse
import json
import os
import time

import numpy
import torch
from PIL import Image

HEIGHT, WIDTH = 375, 500  # a usual size of ImageNet's photographs


def photograph(random):
    """An image with the power spectrum of a photograph: noise of each size, stronger the larger it is."""
    image = numpy.zeros((HEIGHT, WIDTH, 3), numpy.float32)
    for cells in (2, 4, 8, 16, 32, 64, 128):
        noise = random.standard_normal((cells * 3 // 4 + 1, cells, 3)).astype(numpy.float32)
        for channel in range(3):
            large = Image.fromarray(noise[:, :, channel]).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
            image[:, :, channel] += numpy.asarray(large) * (100 / cells ** 0.75)
    image += 8 * random.standard_normal(image.shape)
    return Image.fromarray(numpy.clip(image + 128, 0, 255).astype(numpy.uint8))


def write(folder, images, classes=10):
    random = numpy.random.default_rng(1)
    for i in range(images):
        place = os.path.join(folder, f"class{i % classes}")
        os.makedirs(place, exist_ok=True)
        photograph(random).save(os.path.join(place, f"{i}.jpg"), quality=90)


def loader(arguments):
    from torchvision import datasets, transforms  # --write does not need it

    data = datasets.ImageFolder(arguments.folder, transforms.Compose([
        transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]))
    return torch.utils.data.DataLoader(data, arguments.batch, shuffle=True, drop_last=True,
                                       num_workers=arguments.workers, prefetch_factor=arguments.prefetch,
                                       persistent_workers=True)


def endless(batches):
    while True:
        yield from batches


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--write", type=int, metavar="IMAGES")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--prefetch", type=int, default=2, help="batches that each worker makes ahead")
    arguments = parser.parse_args()
    if arguments.write:
        write(arguments.folder, arguments.write)
        print(arguments.folder)
        return

    batches = endless(loader(arguments))
    for _ in range(arguments.workers * arguments.prefetch + 1):
        next(batches)
    begin = time.perf_counter()
    for _ in range(arguments.batches):
        next(batches)
    seconds = time.perf_counter() - begin
    print(json.dumps({"batch_ms": seconds / arguments.batches * 1e3,
                      "samples_per_second": arguments.batches * arguments.batch / seconds}), flush=True)


if __name__ == "__main__":
    main()
