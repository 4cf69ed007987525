#!/usr/bin/python3
"""Runs one model forward with PyTorch or with ONNX Runtime and prints one JSON line, for compare_inference.py.

The models are those of pytorch_step.py with random weights, in eval mode. A step is one batch in host memory to outputs in
host memory. `compile` is torch.compile, `freeze` is torch.compile with the weights as constants (the configuration
`freezing` of its inductor), and `onnx` is ONNX Runtime with the model as torch.onnx exports it.
"""

import argparse
import json
import os
import statistics
import tempfile
import time

import torch

from pytorch_step import CLASSES, MODELS

ENGINES = ("eager", "compile", "freeze", "onnx")


def make_batch(name, batch):
    _, shape, _, _ = MODELS[name]
    if name in CLASSES:
        return torch.randint(0, CLASSES[name], (batch, *shape))
    return torch.randn(batch, *shape)


def onnx_step(model, x, threads):
    """Exports the model for this batch and returns a function that runs it with ONNX Runtime."""
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        torch.onnx.export(model, (x,), path, dynamo=True, verbose=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = {session.get_inputs()[0].name: x.numpy()}
    return lambda: session.run(None, given)


def pytorch_step(model, x, engine):
    """Returns a function that runs the model eagerly, or compiled at its first call."""
    if engine == "freeze":
        torch._inductor.config.freezing = True
    if engine != "eager":
        model = torch.compile(model)
    return lambda: model(x)


def measure(step, warm_up, steps, seconds):
    times, end = [], None
    for i in range(warm_up + steps):
        begin = time.perf_counter()
        step()
        if i >= warm_up:
            times.append(time.perf_counter() - begin)
            end = end or begin + seconds  # compiling belongs to the warm-up
        if len(times) >= 3 and time.perf_counter() > end:
            break
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--engine", choices=ENGINES, default="eager")
    parser.add_argument("--layout", choices=("nchw", "nhwc"), default="nchw")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8, help="stop after so long, but not before 3 steps")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(42)
    model, x = MODELS[arguments.model][0]().eval(), make_batch(arguments.model, arguments.batch)
    if arguments.layout == "nhwc":
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    # Freezing needs constant weights, which those of an inference_mode are not.
    with torch.inference_mode() if arguments.engine == "eager" else torch.no_grad():
        if arguments.engine == "onnx":
            step = onnx_step(model, x, arguments.threads)
        else:
            step = pytorch_step(model, x, arguments.engine)
        times = measure(step, arguments.warm_up, arguments.steps, arguments.seconds)
    seconds = statistics.median(times)
    print(json.dumps({"step_ms_median": seconds * 1e3, "samples_per_second": arguments.batch / seconds,
                      "steps": len(times)}), flush=True)


if __name__ == "__main__":
    main()
