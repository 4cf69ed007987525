"""Makes a failing case smaller while it still fails in the same way: fewer layers, smaller numbers, fewer options."""
import copy
import fnmatch

from networks_random import LISTS
from networks_twin import Network, Unsupported

MOST_TRIALS = 150


def layer_lists(layers):
    """Every list of layers, the outermost first."""
    yield layers
    for layer in layers:
        for key in LISTS:
            if layer.get(key):
                yield from layer_lists(layer[key])


def without_layers(case):
    """Cases with one layer less, or with a block or residual replaced by the layers inside it."""
    count = [len(list_) for list_ in layer_lists(case["config"]["model"]["layers"])]
    for which, size in enumerate(count):
        for i in range(size):
            for replacement in (None, *LISTS):
                found = copy.deepcopy(case)
                list_ = list(layer_lists(found["config"]["model"]["layers"]))[which]
                if replacement is not None and not list_[i].get(replacement):
                    continue
                list_[i:i + 1] = list_[i][replacement] if replacement else []
                yield found


def with_plainer_layers(case):
    """Cases in which one key of one layer is left out, or one number is smaller."""
    for which, list_ in enumerate(layer_lists(case["config"]["model"]["layers"])):
        for i, layer in enumerate(list_):
            for key, value in layer.items():
                for smaller in smaller_values(key, value):
                    found = copy.deepcopy(case)
                    target = list(layer_lists(found["config"]["model"]["layers"]))[which][i]
                    if smaller is None:
                        del target[key]
                    else:
                        target[key] = smaller
                    yield found


REQUIRED = {"type", "channels", "features", "kernel", "size", "vocabulary", "heads", "probability", "tie", "by", "input", "shape", "values",
            "positions", *LISTS}


def smaller_values(key, value):
    found = [] if key in REQUIRED else [None]
    if key in (*LISTS, "type", "probability") or isinstance(value, bool):
        return found
    if isinstance(value, int) and value > 1:
        found += sorted({1, value // 2, value - 1})
    if isinstance(value, list):
        found += [value[0], value[1]] + [[a, b] for a, b in ((1, value[1]), (value[0], 1)) if [a, b] != value and key != "padding"]
    return found


def with_smaller_data(case):
    config = case["config"]
    for i, size in enumerate(config["model"]["input"]):
        for smaller in sorted({1, size // 2, size - 1} - {0, size}):
            found = copy.deepcopy(case)
            found["config"]["model"]["input"][i] = smaller
            yield found
    for smaller in sorted({1, 2, case["data"]["samples"] // 2, case["data"]["samples"] - 1}):
        if 0 < smaller < case["data"]["samples"]:
            found = copy.deepcopy(case)
            found["data"]["samples"] = smaller
            yield found
    batch = config["training"]["global_batch_size"]
    for smaller in sorted({1, 2, batch // 2, batch - 1}):
        if 0 < smaller < batch:
            found = copy.deepcopy(case)
            found["config"]["training"]["global_batch_size"] = smaller
            yield found


KEPT = {"training.global_batch_size", "training.steps", "optimizer.name", "optimizer.lr", "dataset.shuffle", "dataset.format",
        "dataset.path", "dataset.target_path", "dataset.input", "dataset.separator", "dataset.classes", "dataset.task", "model.input",
        "model.layers",
        "validation.every_epochs", "validation.every_steps", "dataset.validation_path", "dataset.validation_target_path",
        "metrics.log_every_steps", "metrics.progress", "parallelism.pipeline", "parallelism.tensor"}


def with_fewer_options(case):
    config = case["config"]
    for section in list(config):
        if section in ("lr_scheduler", "debug", "parallelism", "comm", "device"):
            found = copy.deepcopy(case)
            del found["config"][section]
            yield found
        for key in config[section]:
            if f"{section}.{key}" not in KEPT:
                found = copy.deepcopy(case)
                del found["config"][section][key]
                yield found
    if config["optimizer"]["name"] != "sgd" or len(config["optimizer"]) > 2:
        found = copy.deepcopy(case)
        found["config"]["optimizer"] = {"name": "sgd", "lr": 0.01}
        yield found
    for key, value in (("validation", None), ("start", "given")):
        if case["data"].get(key) not in (None, value):
            found = copy.deepcopy(case)
            found["data"][key] = value
            if key == "validation":
                found["config"]["validation"] = {"every_epochs": 0}
                for name in ("validation_path", "validation_target_path"):
                    found["config"]["dataset"].pop(name, None)
            yield found
    if config["dataset"].get("shuffle", True):
        found = copy.deepcopy(case)
        found["config"]["dataset"]["shuffle"] = False
        yield found


def repaired(case):
    """Adapts the number of classes and the names of frozen parameters to the layers; None if the result is no network any
    more."""
    config, data = case["config"], case["data"]
    try:
        parameters, output, _ = Network(config["model"]).declare()
    except (Unsupported, KeyError, IndexError, ZeroDivisionError):
        return None
    trained = [n for n, p in parameters.items() if not p.kind.startswith("running")]
    freeze = [p for p in config["model"].get("freeze", []) if any(fnmatch.fnmatchcase(n, p) for n in parameters)]
    config["model"].pop("freeze", None)
    if freeze:
        config["model"]["freeze"] = freeze
    if not [n for n in trained if not any(fnmatch.fnmatchcase(n, p) for p in freeze)]:
        return None
    groups = config["optimizer"].pop("group", [])
    for group in groups:
        group["parameters"] = [p for p in group["parameters"] if any(fnmatch.fnmatchcase(n, p) for n in parameters)]
    groups = [group for group in groups if group["parameters"]]
    if groups:
        config["optimizer"]["group"] = groups
    if data["kind"] == "language_model":
        return case if len(output) == 3 and output[2] == config["dataset"]["classes"] else None
    if len(output) != 2 or ("targets" not in data and output[1] < 2):
        return None
    if "targets" in data:
        data["targets"] = output[1]
    else:
        config["dataset"]["classes"] = data["classes"] = output[1]
    return case


def shrink(case, fails):
    """The smallest case found within MOST_TRIALS trials for which `fails(case)` is true: it fails in the same way as `case`."""
    trials, shrunk = 0, True
    while shrunk and trials < MOST_TRIALS:
        shrunk = False
        for make in (without_layers, with_fewer_options, with_smaller_data, with_plainer_layers):
            again = True
            while again and trials < MOST_TRIALS:
                again = False
                for candidate in make(case):
                    candidate = repaired(candidate)
                    if candidate is None or trials >= MOST_TRIALS:
                        continue
                    trials += 1
                    if fails(candidate):
                        case, again, shrunk = candidate, True, True
                        break
    return case
