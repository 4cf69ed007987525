#!/usr/bin/env python3
"""Records one training step of a PyTorch module, for `runtime verify CONFIG --against step.safetensors`.

    from record_step import record_step
    record_step(model, inputs, targets, loss, "step.safetensors", optimizer=optimizer)

`loss(output, targets)` is what is differentiated; the update of `optimizer`, if one is given, is recorded, too. The module is
set to train, without dropout. The outputs of modules that have parameters are recorded under their names; what a function
like relu makes of such an output becomes NAME.activation. Where names differ from those that `runtime model CONFIG` lists,
`names` has pairs of patterns for modules and their parameters, and `outputs` those for outputs alone, also of modules
without parameters: "*" stands for a name without dots, "**" for any, and None leaves the output out.

usage: record_step.py FOLDER step.safetensors [--batch N] [--length T]   (a language model that `transformers` saved; random
tokens)
"""
import argparse
import json
import re
import struct

import torch

ACTIVATIONS = {"elu", "gelu", "hardswish", "leaky_relu", "mish", "relu", "relu_", "sigmoid", "silu", "softplus", "tanh"}
TYPES = {torch.float32: "F32", torch.float64: "F64", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
         torch.int32: "I32"}
# The names of models of `transformers`, by class.
GPT2 = {"names": {"transformer.**": "**"},
        "outputs": {"transformer.wpe": None, "transformer.drop": "wpe", "transformer.h.*": "h.*.residual2",
                    "transformer.h.*.mlp.act": "h.*.mlp.c_fc.activation"}}
KNOWN = {"GPT2LMHeadModel": GPT2}


def renamed(name, patterns):
    """What the first pattern that fits makes of a name: a name, None, or False if none fits."""
    for pattern, result in patterns.items():
        found = re.fullmatch(re.escape(pattern).replace(r"\*\*", "(.+)").replace(r"\*", r"([^.]+)"), name)
        if found:
            groups = iter(found.groups())
            return result and re.sub(r"\*+", lambda _: next(groups), result)
    return False


class Activations(torch.overrides.TorchFunctionMode):
    """Records what functions make of outputs; `layers` has the name of each output that was recorded, by its id."""

    def __init__(self, record, layers):
        super().__init__()
        self.record, self.layers = record, layers

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if getattr(function, "__name__", "") in ACTIVATIONS and args and id(args[0]) in self.layers:
            self.record(self.layers[id(args[0])][0] + ".activation", result)
        return result


def record_step(model, inputs, targets, loss, path, optimizer=None, names=None, outputs=None):
    known = KNOWN.get(type(model).__name__, {})
    names, outputs = names or known.get("names", {}), outputs or known.get("outputs", {})
    tensors, layers, hooks = {"input": inputs, "target": targets}, {}, []

    def record(name, tensor):
        tensors.setdefault(name, tensor.detach().clone())

    def record_parameters(prefix, value):
        seen = set()
        for module_name, module in model.named_modules():
            layer = renamed(module_name, names) or module_name
            own = dict(module.named_parameters(recurse=False))
            if prefix == "weights":
                own.update((k, b) for k, b in module.named_buffers(recurse=False) if k.startswith("running_"))
            for key, parameter in own.items():
                tensor = value(parameter)
                if tensor is None or id(parameter) in seen:  # seen: tied to one before it
                    continue
                seen.add(id(parameter))
                if type(module).__name__ == "Conv1D" and tensor.dim() == 2:  # [in, out], in GPT-2 of `transformers`
                    tensor = tensor.t()
                record(".".join(part for part in (prefix, layer, key) if part), tensor)

    def hook(name):
        def after(module, arguments, output):
            first = output[0] if isinstance(output, (tuple, list)) else output
            record(name, first)
            layers[id(first)] = (name, first)  # the reference keeps the id from being used again
        return after

    for module_name, module in model.named_modules():
        layer = renamed(module_name, outputs)
        if layer is False and list(module.parameters(recurse=False)):
            layer = renamed(module_name, names) or module_name
        if layer:
            hooks.append(module.register_forward_hook(hook("output." + layer)))
    dropouts = [(m, m.p) for m in model.modules() if isinstance(m, torch.nn.modules.dropout._DropoutNd)]
    for module, _ in dropouts:
        module.p = 0.0
    model.train()
    model.zero_grad(set_to_none=True)
    record_parameters("weights", lambda p: p)
    with Activations(record, layers):
        output = model(inputs)
    value = loss(getattr(output, "logits", output), targets)
    value.backward()
    record("loss", value)
    record_parameters("gradient", lambda p: p.grad)
    if optimizer is not None:
        optimizer.step()
        record_parameters("updated", lambda p: p)
    for handle in hooks:
        handle.remove()
    for module, probability in dropouts:
        module.p = probability
    save(path, tensors)


def save(path, tensors):
    header, blobs, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name, tensor in tensors.items():
        blob = tensor.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("output")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--length", type=int, default=16)
    a = parser.parse_args()
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained(a.folder)
    tokens = torch.randint(model.config.vocab_size, (a.batch, a.length + 1))
    record_step(model, tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous(),
                lambda logits, y: torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten()), a.output)


if __name__ == "__main__":
    main()
