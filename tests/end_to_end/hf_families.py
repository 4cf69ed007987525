#!/usr/bin/env python3
"""Imports models that transformers makes with random weights, compares logits, loss and gradients, and exports them again.

usage: hf_families.py RUNTIME [FAMILY...]     (default: all)

Each model has the form of a real one at a small width. In float64 on the reference everything must agree within 1e-9 of a tensor's
largest value; transformers computes rotary positions and normalisations in float32, so torch.float32 is float64 meanwhile. In float32
on `cpu` the limit is 1e-5. The exported folder is loaded by transformers, which must give the same logits.
Exit code 0: all agree, 1: some differ, 77: transformers is absent (skipped).
"""
import os
import subprocess
import sys
import tempfile
from unittest import mock

try:
    import numpy as np
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error}; install transformers and torch to run this comparison")
    sys.exit(77)

from exchange import read_safetensors

VOCABULARY, LENGTH, BATCH = 67, 24, 3
COMMON = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "max_position_embeddings": 64}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}
YARN = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 16}
FAMILIES = {
    "llama": lambda: transformers.LlamaConfig(**COMMON, rms_norm_eps=1e-5),
    "llama3": lambda: transformers.LlamaConfig(**{**COMMON, "num_hidden_layers": 1}, rope_parameters=LLAMA3, head_dim=16,
                                               tie_word_embeddings=True),
    "llama_bias": lambda: transformers.LlamaConfig(**COMMON, attention_bias=True, mlp_bias=True, hidden_act="gelu"),
    "mistral": lambda: transformers.MistralConfig(**COMMON, sliding_window=5),
    "qwen2": lambda: transformers.Qwen2Config(**COMMON, use_sliding_window=True, sliding_window=7, max_window_layers=1,
                                              rope_parameters=YARN),
    "qwen3": lambda: transformers.Qwen3Config(**COMMON, head_dim=8),
    "gpt2": lambda: transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=32, n_layer=2, n_head=4,
                                            embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0),
}


def make(name):
    """A model with random weights, also where transformers would begin with zeros or ones."""
    torch.manual_seed(1)
    config = FAMILIES[name]()
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model


def wide():
    """What transformers computes in float32 whatever the weights are, it computes in float64."""
    return [mock.patch.object(torch, "float32", torch.float64), mock.patch.object(torch, "float", torch.float64),
            mock.patch.object(torch.Tensor, "float", torch.Tensor.double)]


def theirs(folder, features, labels, dtype):
    """Logits, loss and gradients by transformers."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager")
    patches = wide() if dtype == torch.float64 else []
    for patch in patches:
        patch.start()
    try:
        if hasattr(model.base_model, "rotary_emb"):
            model.base_model.rotary_emb = type(model.base_model.rotary_emb)(model.config)
        logits = model(input_ids=features).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), labels.reshape(-1))
        loss.backward()
    finally:
        for patch in patches:
            patch.stop()
    gradients = {name.removeprefix("transformer."): p.grad for name, p in model.named_parameters()}
    return logits.detach(), loss.detach(), gradients


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def difference(ours, other):
    """The largest difference, as a part of the tensor's largest value."""
    other = other.double().numpy()
    return float(np.abs(np.asarray(ours, dtype=np.float64).reshape(other.shape) - other).max() / max(np.abs(other).max(), 1e-30))


def compare(runtime, name, work, backend, dtype, limit):
    output = os.path.join(work, f"{backend}.safetensors")
    settings = {"dataset.format": "tokens", "dataset.path": os.path.join(work, "text.tokens"), "dataset.classes": VOCABULARY,
                "model.input": [LENGTH], "training.global_batch_size": BATCH, "dataset.shuffle": "false",
                "device.backend": backend, "training.dtype": "float64" if dtype == torch.float64 else "float32"}
    sets = [argument for key, value in settings.items() for argument in ("--set", f"{key}={value}")]
    run(runtime, "gradients", os.path.join(work, "model", "config.toml"), *sets, "--output", output)
    ours = read_safetensors(output)
    features = torch.from_numpy(np.asarray(ours["features"]).astype(np.int64)).reshape(BATCH, LENGTH)
    labels = torch.from_numpy(np.asarray(ours["labels"]).astype(np.int64)).reshape(BATCH, LENGTH)
    logits, loss, gradients = theirs(os.path.join(work, "hf"), features, labels, dtype)
    found = {"logits": difference(ours["logits"], logits), "loss": difference(ours["loss"], loss)}
    found.update({key: difference(ours[key], value) for key, value in gradients.items() if value is not None})
    worst = max(found, key=found.get)
    print(f"{name:<10} {backend:<9} {dtype}: {len(found)} tensors, largest difference {found[worst]:.1e} in {worst}, limit {limit}")
    return found[worst] <= limit, features


def check(runtime, name):
    with tempfile.TemporaryDirectory() as work:
        model = make(name)
        model.save_pretrained(os.path.join(work, "hf"))
        run(runtime, "import", "hf", os.path.join(work, "hf"), "--output", os.path.join(work, "model"))
        tokens = np.random.default_rng(7).integers(0, VOCABULARY, 40 * LENGTH).astype("<u2")
        tokens.tofile(os.path.join(work, "text.tokens"))
        good, features = compare(runtime, name, work, "reference", torch.float64, 1e-9)
        good &= compare(runtime, name, work, "cpu", torch.float32, 1e-5)[0]
        run(runtime, "export", "hf", os.path.join(work, "model"), "--output", os.path.join(work, "back"))
        with torch.no_grad():
            first, second = (transformers.AutoModelForCausalLM.from_pretrained(os.path.join(work, folder), dtype=torch.float32)(
                input_ids=features).logits for folder in ("hf", "back"))
        same = torch.equal(first, second)
        print(f"{name:<10} exported: logits {'equal' if same else 'differ'}")
        return good and same


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    names = sys.argv[2:] or list(FAMILIES)
    results = {name: check(sys.argv[1], name) for name in names}
    wrong = [name for name, good in results.items() if not good]
    print(f"{len(results) - len(wrong)} of {len(results)} families agree" + (f"; wrong: {', '.join(wrong)}" if wrong else ""))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
