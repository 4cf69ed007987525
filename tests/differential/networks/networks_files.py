"""Files and processes of a case: its configuration as TOML, its data, and the results of a run of the program."""
import functools
import json
import os
import re
import subprocess

import numpy as np

try:
    import tomllib
except ImportError:  # Python below 3.11 cannot replay a file
    tomllib = None

TIMEOUT_S = 300


def toml_value(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(v) for v in value) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml_value(v)}" for key, v in value.items()) + " }"
    return repr(value)


def toml_text(case):
    """The configuration as TOML; the first line is a comment that holds the rest of the case."""
    other = {key: value for key, value in case.items() if key != "config"}
    lines = ["# case: " + json.dumps(other)]
    for section, keys in case["config"].items():
        lines.append(f"\n[{section}]")
        for key, value in keys.items():
            if key == "layers":
                lines.append("layers = [\n" + "".join(f"  {toml_value(layer)},\n" for layer in value) + "]")
            else:
                lines.append(f"{key} = {toml_value(value)}")
    return "\n".join(lines) + "\n"


def read_case(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    case = json.loads(text.split("\n", 1)[0].removeprefix("# case: "))
    case["config"] = tomllib.loads(text)
    return case


def draw_targets(random, shape, loss):
    """Numbers in the range that the loss expects; some probabilities are 0 or 1."""
    if loss == "binary_cross_entropy":
        return np.clip(random.random(shape) * 1.4 - 0.2, 0, 1).astype(np.float32)
    if loss == "kl_divergence":
        weights = np.maximum(random.random(shape) - 0.2, 0) + 1e-9
        return (weights / weights.sum(1, keepdims=True)).astype(np.float32)
    return random.standard_normal(shape).astype(np.float32)


def draw_data(case, part, draw):
    """Features as the runtime reads them ([N, H, W, C]), and labels or targets. Another `draw` gives other data."""
    config, data = case["config"], case["data"]
    samples = data["validation"] if part == "validation" else data["samples"]
    random = np.random.default_rng([abs(hash_of(case)), draw, part == "validation"])
    shape = config["model"]["input"]
    if data["kind"] == "language_model":
        return random.integers(0, data["vocabulary"], samples * shape[0] + 1), None
    if data["vocabulary"]:
        features = random.integers(0, data["vocabulary"], (samples, *shape)).astype(np.float32)
    else:
        shape = [shape[1], shape[2], shape[0]] if len(shape) == 3 else shape
        features = random.standard_normal((samples, *shape)).astype(np.float32)
    if "targets" in data:
        return features, draw_targets(random, (samples, data["targets"]), case["config"]["training"].get("loss", "auto"))
    return features, random.integers(0, data["classes"], samples)


def draw_inputs(case, part, draw, samples):
    """The named inputs of the samples, as the runtime reads them. The first token of a sample belongs to a document."""
    random = np.random.default_rng([abs(hash_of(case)), draw, part == "validation", 11])
    found = {}
    for name, given in case["data"].get("inputs", {}).items():
        shape = given["shape"]
        shape = [shape[1], shape[2], shape[0]] if len(shape) == 3 else shape
        if given["values"] == "integers":
            found[name] = random.integers(given["least"], given["most"] + 1, (samples, *shape)).astype(np.int32)
            found[name][:, 0] = np.maximum(found[name][:, 0], 0)
        elif given["values"] == "weights":
            found[name] = random.choice([0.25, 0.5, 1.0, 2.0], (samples, *shape)).astype(np.float32)
        else:
            found[name] = random.standard_normal((samples, *shape)).astype(np.float32)
    return found


def hash_of(case):
    return int(case["seed"]) * 1000003 + len(case["kind"])


def write_data(case, folder, draw):
    dataset = case["config"]["dataset"]
    for part, names in (("training", ("x", "y")), ("validation", ("xv", "yv"))):
        if part == "validation" and not case["data"].get("validation"):
            continue
        features, labels = draw_data(case, part, draw)
        if labels is None:
            token = np.dtype(dataset.get("token_type", "uint16")).newbyteorder("<")
            features.astype(token).tofile(os.path.join(folder, names[0] + ".tokens"))
            continue
        np.save(os.path.join(folder, names[0] + ".npy"), features)
        np.save(os.path.join(folder, names[1] + ".npy"), labels)
        for name, numbers in draw_inputs(case, part, draw, len(features)).items():
            np.save(os.path.join(folder, name + ("v" if part == "validation" else "") + ".npy"), numbers)


class Failed(Exception):
    """A run of the program that did not end with exit code 0."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def run(runtime, folder, arguments):
    """Runs the program in the folder; raises Failed with the end of its output."""
    environment = dict(os.environ, XDG_CACHE_HOME=folder, OMP_WAIT_POLICY="PASSIVE")
    try:
        result = subprocess.run([runtime, *arguments], cwd=folder, env=environment, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise Failed(124, f"no end within {TIMEOUT_S} s") from error
    if result.returncode != 0:
        raise Failed(result.returncode, result.stdout.decode(errors="replace").strip()[-3000:])
    return result.stdout.decode(errors="replace")


@functools.lru_cache
def types_of(runtime, backend):
    """The element types in which the first device of the backend computes, as `runtime devices` names them; empty if the
    device is not usable."""
    line = re.search(rf"^{backend}:0 +usable .* computes in (.*?), (?:also stores|plugin)", run(runtime, ".", ["devices"]), re.M)
    return frozenset(line[1].split(", ")) if line else frozenset()


def read_metrics(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]
