"""Random sets of options on a few small models, compared with PyTorch. The number of ranks must not change the results."""
import random

from networks_random import fewest_rows, has_blocks, lr_scheduler, optimizer, regression_loss


def conv(name, channels, kernel, **keys):
    return {"type": "conv2d", "name": name, "channels": channels, "kernel": kernel, **keys}


def linear(name, features, **keys):
    return {"type": "linear", "name": name, "features": features, **keys}


def mlp(r):
    layers = [linear("fc1", 12, activation="tanh"), {"type": "dropout", "probability": r.choice((0.0, 0.2))},
              linear("fc2", 8, activation="gelu", l2=r.choice((0.0, 0.01))), {"type": "layer_norm", "name": "ln"}, linear("fc3", 4)]
    return {"input": [6], "layers": layers}, 4


def lenet(r):
    return {"preset": "lenet", "outputs": r.choice((3, 10)), "input": [1, 28, 28]}, None


def convolutions(r):
    layers = [conv("conv1", 6, 3, padding="same", activation="gelu"), {"type": "avg_pool2d", "kernel": 2},
              conv("conv2", 8, 3, activation="sigmoid", groups=2), {"type": "flatten"}, linear("fc", 4)]
    return {"input": [2, 9, 8], "layers": layers}, 4


def residual(r):
    branch = [conv("conv1", 8, 3, padding=1, bias=False), {"type": "batch_norm", "name": "bn1", "activation": "tanh"},
              conv("conv2", 8, 3, padding=1, bias=False), {"type": "batch_norm", "name": "bn2"}]
    layers = [conv("stem", 8, 3, padding=1, activation="tanh"),
              {"type": "residual", "name": "a", "layers": branch, "activation": "tanh", "repeat": r.choice((1, 2))},
              {"type": "global_avg_pool"}, linear("fc", 3)]
    return {"input": [3, 6, 5], "layers": layers}, 3


def gpt(r):
    dropout = {"type": "dropout", "probability": r.choice((0.0, 0.1))}
    attention = [{"type": "layer_norm", "name": "ln_1"}, linear("c_attn", 24, file_layout="in_out"),
                 {"type": "attention", "heads": 2, "causal": True}, linear("c_proj", 8), dict(dropout)]
    mlp_ = [{"type": "layer_norm", "name": "ln_2"}, linear("c_fc", 16, activation="gelu_tanh"), linear("c_proj2", 8), dict(dropout)]
    layers = [{"type": "embedding", "name": "wte", "vocabulary": 12, "features": 8}, {"type": "position_embedding", "name": "wpe"},
              {"type": "block", "name": "h", "repeat": 2, "layers": [{"type": "residual", "prefix": False, "layers": attention},
                                                                     {"type": "residual", "prefix": False, "layers": mlp_}]},
              {"type": "layer_norm", "name": "ln_f"}, linear("head", 12, bias=False, tie="wte")]
    model = {"input": [6], "layers": layers}
    if r.random() < 0.3:
        model["dropout"] = r.choice((0.0, 0.3))
    return model, 12


def llama(r):
    """A decoder of the Llama family: shared heads of keys, rotary positions, SwiGLU, windows and dropout on attention's weights."""
    heads, shared = r.choice(((4, 2), (4, 1), (2, 2)))

    def projection(name, count, turned):
        rotary = [{"type": "rms_norm", "name": f"{name}_norm", "heads": count}, {"type": "rotary", "heads": count}]
        return [linear(f"{name}_proj", count * 4, bias=r.random() < 0.3)] + (rotary if turned else [])

    attend = {"type": "attention", "prefix": False, "heads": heads, "key_heads": shared, "causal": True, "window": r.choice((0, 0, 3)),
              "dropout": r.choice((0.0, 0.0, 0.2)), "query": projection("q", heads, True), "key": projection("k", shared, True),
              "value": projection("v", shared, False)}
    attention = [{"type": "rms_norm", "name": "ln_1"}, attend, linear("o_proj", 8, bias=False)]
    mlp_ = [{"type": "rms_norm", "name": "ln_2"},
            {"type": "gated", "prefix": False, "gate": [linear("gate_proj", 12, bias=False)], "up": [linear("up_proj", 12, bias=False)],
             "function": r.choice(("silu", "gelu"))}, linear("down_proj", 8, bias=False)]
    layers = [{"type": "embedding", "name": "wte", "vocabulary": 12, "features": 8},
              {"type": "block", "name": "h", "repeat": 2, "layers": [{"type": "residual", "prefix": False, "layers": attention},
                                                                     {"type": "residual", "prefix": False, "layers": mlp_}]},
              {"type": "rms_norm", "name": "ln_f"}, linear("head", 12, bias=False)]
    return {"input": [6], "layers": layers}, 12


MODELS = {"mlp": mlp, "lenet": lenet, "convolutions": convolutions, "residual": residual, "gpt": gpt,
          "llama": llama}


def options_case(seed):
    r = random.Random(f"options {seed}")
    name = r.choice(("mlp", "lenet", "convolutions", "residual", "residual", "gpt", "gpt", "llama"))
    model, classes = MODELS[name](r)
    classes = classes or model["outputs"]
    size = r.choice((4, 6, 7, 8, 12))
    samples = size * r.randint(1, 3) + r.choice((0, 0, 1, size - 1, size // 2))
    config = {"model": model, "dataset": {"shuffle": False}, "training": {"global_batch_size": size, "steps": 5}}
    data = {"samples": samples, "vocabulary": 12 if name in ("gpt", "llama") else 0, "start": r.choice(("given", "given", "own"))}
    config["optimizer"] = optimizer(r)
    config["lr_scheduler"] = lr_scheduler(r, config["optimizer"]["lr"], size)
    parallel_options(r, config, name == "residual")
    training_options(r, config, name, has_blocks(model.get("layers", [])))
    if name in ("gpt", "llama"):
        data["kind"] = "language_model"
        config["dataset"].update(format="tokens", path="x.tokens", classes=classes)
        if r.random() < 0.3:
            config["training"]["ignore_label"] = r.randint(0, classes - 1)
    else:
        data["kind"] = "vectors" if name == "mlp" else "images"
        config["dataset"].update(format="npy", path="x.npy", target_path="y.npy")
        if r.random() < 0.2:
            config["dataset"]["task"] = "regression"
            data["targets"] = classes
            config["training"].update(regression_loss(r))
        else:
            config["dataset"]["classes"] = data["classes"] = classes
            if r.random() < 0.3:
                config["training"]["label_smoothing"] = r.choice((0.1, 0.3))
            elif r.random() < 0.3:
                config["training"]["class_weights"] = [r.choice((0.2, 1.0, 2.5)) for _ in range(classes)]
    if r.random() < 0.3 and "update" not in config["parallelism"]:  # asynchronous ranks synchronise at the ends of epochs only
        data["validation"] = r.randint(1, 9)
    if r.random() < 0.2:
        data["freeze"] = True
    return {"seed": seed, "kind": "options", "config": config, "data": data}


def parallel_options(r, config, batch_norm):
    """One to four ranks; with several, batch normalisation uses the whole batch."""
    debug = config["debug"] = {"seed": r.choice((1, 42))}
    config["device"] = {"tune": r.choice(("off", "quick", "quick"))}
    parallelism = config["parallelism"] = {}
    deterministic = r.random() < 0.2
    if deterministic:
        debug["deterministic"] = True
        if r.random() < 0.5:
            debug["virtual_shards"] = r.choice((4, 5, 8))
    ranks = r.choice((1, 1, 2, 2, 3, 4))
    if ranks > 1:
        config["launch"] = {"ranks": ranks}
        config["comm"] = {"backend": "local", "overlap": r.choice((True, False))}
        if r.random() < 0.5:
            config["comm"]["bucket_mb"] = r.choice((0.0001, 0.001, 1.0))
        if not deterministic:
            divide_model(r, config, ranks, batch_norm)
    elif r.random() < 0.3:
        parallelism["zero_stage"] = r.choice((1, 2, 3) if not deterministic else (1,))
    if batch_norm and (ranks > 1 or deterministic):
        parallelism["sync_batch_norm"] = True
    if r.random() < 0.2:
        debug["check_replicas_every"] = r.choice((1, 2))


def divide_model(r, config, ranks, batch_norm):
    parallelism = config["parallelism"]
    tensor = r.choice([d for d in (1, 1, 2, 3, 4) if ranks % d == 0])
    pipeline = r.choice([d for d in (1, 1, 2) if ranks // tensor % d == 0]) if not batch_norm else 1
    if tensor > 1:
        parallelism["tensor"] = tensor
    if pipeline > 1:
        parallelism.update(pipeline=pipeline, pipeline_schedule=r.choice(("gpipe", "1f1b")))
        if r.random() < 0.5:
            parallelism["microbatches"] = r.choice((1, 2, 3))
    parallelism["zero_stage"] = r.choice((0, 1, 2, 3))
    if tensor == pipeline == 1 and r.random() < 0.2:
        if parallelism["zero_stage"] < 2 and not batch_norm:
            parallelism["share"] = "by_speed"
        elif not batch_norm:
            config["parallelism"] = {"update": "asynchronous"}


def training_options(r, config, name, blocks):
    training, parallelism = config["training"], config["parallelism"]
    asynchronous = parallelism.get("update") == "asynchronous"
    deterministic = config["debug"].get("deterministic", False)
    if r.random() < 0.5:
        config["dataset"]["last_batch"] = r.choice(("drop", "pad", "keep"))
    if r.random() < 0.3:
        config["dataset"]["prefetch"] = r.choice((0, 1, 5))
    several_parts = deterministic or parallelism.get("pipeline", 1) > 1 or (name == "residual" and config.get("launch"))
    if not several_parts and r.random() < 0.4:
        training["micro_batch_size"] = r.choice((1, 2, 3, 5))
        if name == "residual" and fewest_rows(1, config["dataset"], training) < 1:
            del training["micro_batch_size"]
    if blocks and r.random() < 0.4:
        training["recompute"] = "blocks"
    if not asynchronous and not (deterministic and parallelism.get("zero_stage", 0)) and r.random() < 0.4:
        training["max_norm"] = r.choice((0.01, 0.3, 5.0))
    if asynchronous:
        config["debug"].pop("check_replicas_every", None)
        config["optimizer"].pop("average_decay", None)  # no rank has all weights after a step
