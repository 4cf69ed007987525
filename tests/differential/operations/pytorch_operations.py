#!/usr/bin/env python3
"""Compares the plugin `reference` with PyTorch in float64, on the cases of differential_operations.

    pytorch_operations.py PROGRAM [--seeds A..B] [--cases N] [--operations NAME,NAME] [--results FILE]

PROGRAM is the built differential_operations, which writes its cases with the reference's results. For each seed one JSON line
is appended to --results; seeds that the file already has are left out. The exit code is 0 if nothing differs, 1 if something
does, and 77 (skipped) where PyTorch is not installed.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
except ImportError as error:
    print(f"skipped: {error}; Debian's package python3-torch has it")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import pytorch_definitions

# Both sides compute in float64; sums in another order differ by a few units in the last place.
TOLERANCE = 1e-11
LAST_BITS = 1e-13  # for sums of some thousand terms
NUMPY_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1"}


def read_safetensors(path):
    """Reads the cases of the file, and its tensors by name."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    cases = json.loads(header.pop("__metadata__")["cases"])
    return cases, {name: read_tensor(data, 8 + length, about) for name, about in header.items()}


def read_tensor(data, start, about):
    begin, end = (start + offset for offset in about["data_offsets"])
    raw = bytearray(data[begin:end])
    if about["dtype"] == "BF16":
        flat = torch.from_numpy(np.frombuffer(raw, "<i2").copy()).view(torch.bfloat16)
    else:
        flat = torch.from_numpy(np.frombuffer(raw, NUMPY_TYPES[about["dtype"]]).copy())
    return flat.reshape(about["shape"])


def tensors_of(tensors, number, kind):
    """The tensors "number/kind/0", "number/kind/1", ... as a list."""
    result = []
    while f"{number}/{kind}/{len(result)}" in tensors:
        result.append(tensors[f"{number}/{kind}/{len(result)}"])
    return result


def disturbed(inputs):
    """The operands, with every element made larger or smaller by TOLERANCE at random."""
    generator = torch.Generator().manual_seed(1)
    result = []
    for x in inputs:
        if x.is_floating_point():
            sign = torch.randint(0, 2, x.shape, generator=generator).double() * 2 - 1
            x = (x.double() * (1 + TOLERANCE * sign)).to(x.dtype)
        result.append(x)
    return result


def cancelling_terms(case, inputs):
    """The norm of terms that cancel for all operands, so that disturbed operands do not show them: dgamma of a constant dy
    is a sum of deviations from the mean, to which every element adds the rounding error of the mean. Little is left of
    1 - y^2 where tanh or sigmoid is near its limit."""
    if case["operation"] == "conv2d_pool2d_backward_weights":
        x, dy = (tensor.double().abs() for tensor in inputs)
        limits = case["attributes"]["function"] in (4, 5) and x.numel() and dy.numel()
        return (x.max() * dy.sum()).item() if limits else 0.0
    if case["operation"] != "batch_norm_backward":
        return 0.0
    dy, x, _ = (tensor.double() for tensor in inputs)
    rows = tuple(range(x.dim() - 1))
    deviation = (x.var(rows, unbiased=False) + case["attributes"]["epsilon"]).sqrt()
    return (dy.abs() * x.abs() / deviation).sum(rows).nan_to_num(0.0, 0.0, 0.0).norm().item()


def norm_difference(actual, expected, disturbed_result, terms, large):
    """A text that says what is wrong with the finite elements of large (or of other) magnitude, or None."""
    chosen = actual.isfinite() & expected.isfinite() & ((expected.abs() > 1e12) == large)
    error = (actual[chosen] - expected[chosen]).norm().item()
    norm = expected[chosen].norm().item()
    if error <= TOLERANCE * norm + LAST_BITS * terms + 1e-300:
        return None
    change = (disturbed_result()[chosen] - expected[chosen]).norm().item()
    # `change` is the effect of disturbed operands on the result. Ten times as much is allowed, because one rounding error of a
    # mean affects all elements. `change` is NaN if the disturbed operands left the domain of the function.
    if error <= 10 * change or change != change:
        return None
    return f"off by {error / max(norm, 1e-300):.3g} in the norm, allowed are {TOLERANCE:.3g}"


# For these operations the C interface does not say where a NaN or an infinity spreads to, because an implementation may mask
# scores and pad images by products with zero (0 * inf is NaN), and may multiply factors in any order.
LOOSE = ("attention", "dot_product_attention", "conv2d", "batch_norm", "layer_norm", "rms_norm", "gated_activation", "rotary", "adamw",
         "sgd", "cross_entropy_backward",
         "cross_entropy_with_gradient")


def difference(name, actual, expected, disturbed_result, terms):
    """A text that says what is wrong with a result of the reference, or None."""
    if actual.shape != expected.shape:
        return f"has shape {list(actual.shape)}, PyTorch has {list(expected.shape)}"
    if not actual.is_floating_point():
        return None if torch.equal(actual, expected) else "differs"
    actual, expected = actual.double(), expected.double()
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    same |= actual.isfinite() & expected.isfinite()
    if name.startswith(LOOSE):  # accepts any value where PyTorch is not finite; finite results stay finite
        same |= ~expected.isfinite()
    if not same.all():
        at = int((~same).flatten().nonzero()[0])
        return f"element {at} is {actual.flatten()[at]}, PyTorch has {expected.flatten()[at]}"
    for large in (False, True):
        wrong = norm_difference(actual, expected, lambda: disturbed_result().double(), terms, large)
        if wrong:
            return wrong
    return None


def check(case, inputs, forward, outputs):
    """A text that says what is wrong with one case, or None."""
    case = dict(case, shapes=[list(output.shape) for output in outputs])
    case["attributes"]["types"] = [str(output.dtype).split(".")[1] for output in outputs]
    expected = pytorch_definitions.run(case, inputs, forward)
    if len(expected) != len(outputs):
        return f"has {len(outputs)} outputs, PyTorch has {len(expected)}"

    def disturbed_output(j):
        # What the pair with a convolution saves is rounded, too.
        rounded = disturbed(forward) if case["operation"].startswith("conv2d_pool2d") else forward
        return pytorch_definitions.run(case, disturbed(inputs), rounded)[j]

    terms = cancelling_terms(case, inputs)
    for j, (actual, wanted) in enumerate(zip(outputs, expected)):
        wrong = difference(case["operation"], actual, wanted, lambda: disturbed_output(j), terms)
        if wrong:
            return f"output {j} {wrong}"
    return None


def check_seed(program, seed, arguments):
    """The counts by operation, and the differences, of one seed."""
    counts, found = collections.Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "--export", folder, "--seeds", str(seed), "--cases", str(arguments.cases)]
        command += ["--types", "float64"]
        if arguments.operations:
            command += ["--operations", arguments.operations]
        subprocess.run(command, check=True)
        cases, tensors = read_safetensors(pathlib.Path(folder) / f"{seed}.safetensors")
    for number, case in enumerate(cases):
        counts[case["operation"]] += 1
        kinds = (tensors_of(tensors, number, kind) for kind in ("input", "forward", "output"))
        wrong = check(case, *kinds)
        if wrong:
            found.append({"case": case["case"], "detail": wrong})
            print(f"seed {seed} case {number}: {wrong}\n  {case['case']}", flush=True)
    return {"seed": seed, "cases": arguments.cases, "counts": counts, "found": found}


def seeds_done(arguments):
    path = pathlib.Path(arguments.results) if arguments.results else None
    if path is None or not path.exists():
        return []
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if line["cases"] == arguments.cases]


def print_summary(results):
    counts, found = collections.Counter(), collections.Counter()
    for result in results:
        counts.update(result["counts"])
        found.update(f["case"].split()[0] for f in result["found"])
    print(f"{'operation':32} {'cases':>8} {'wrong':>8}")
    for name in sorted(counts):
        print(f"{name:32} {counts[name]:8} {found[name]:8}")
    print(f"{'all':32} {sum(counts.values()):8} {sum(found.values()):8}")
    missing = sorted(set(pytorch_definitions.OPERATIONS) - set(counts))
    if missing:
        print("not drawn:", ", ".join(missing))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--seeds", default="1..1", help="A..B")
    parser.add_argument("--cases", type=int, default=100, help="cases of one seed")
    parser.add_argument("--operations", default="", help="only these, with commas between them")
    parser.add_argument("--results", default="", help="file to which one JSON line a seed is appended")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    first, _, last = arguments.seeds.partition("..")
    results = seeds_done(arguments)
    done = {result["seed"] for result in results}
    for seed in range(int(first), int(last or first) + 1):
        if seed in done:
            continue
        results.append(check_seed(arguments.program, seed, arguments))
        if arguments.results:
            with open(arguments.results, "a") as file:
                file.write(json.dumps(results[-1]) + "\n")
    print_summary(results)
    return 1 if any(result["found"] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
