#!/usr/bin/python3
"""Runs one rank of PyTorch's DistributedDataParallel with Gloo for several_hosts.py; rank 0 prints one JSON line."""

import argparse
import json
import statistics
import time

import torch
from torch import distributed
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from pytorch_step import MODELS


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--layout", choices=("nchw", "nhwc"), default="nchw")
    parser.add_argument("--batch", type=int, required=True, help="of all ranks")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--warm-up", type=int, default=2)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(42)
    distributed.init_process_group("gloo")
    make, shape, _, make_optimizer = MODELS[arguments.model]
    batch = arguments.batch // distributed.get_world_size()
    images, labels = torch.randn(batch, *shape), torch.randint(0, 10, (batch,))
    model = make().train()
    if arguments.layout == "nhwc":
        model = model.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = make_optimizer(model.parameters())

    times = []
    for step in range(arguments.warm_up + arguments.steps):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        loss.item()
        if step >= arguments.warm_up:
            times.append(time.perf_counter() - begin)
    if distributed.get_rank() == 0:
        print(json.dumps({"step_ms_median": statistics.median(times) * 1e3}), flush=True)


if __name__ == "__main__":
    main()
