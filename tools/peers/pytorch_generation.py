#!/usr/bin/python3
"""Continues a text with PyTorch and prints one JSON line, for compare_generation.py.

The model is the GPT or the Llama of pytorch_step.py with random weights. With a cache, the keys and values of earlier tokens are
kept; a compiled model reads the whole cache with a mask, because its shapes must not change, and an eager one the part in use.
"""

import argparse
import json
import statistics
import time

import torch
from torch.nn import functional

from pytorch_step import MODELS


class Cached(torch.nn.Module):
    """One token of a Gpt, with the keys and values of those before it."""

    def __init__(self, gpt, whole):
        super().__init__()
        self.gpt, self.whole = gpt, whole
        context, width = gpt.wpe.weight.shape
        heads = gpt.h[0].heads
        shape = (len(gpt.h), 1, heads, context, width // heads)
        self.register_buffer("keys", torch.zeros(shape))
        self.register_buffer("values", torch.zeros(shape))
        self.register_buffer("masks", torch.ones(context, context, dtype=torch.bool).tril())

    def attend(self, layer, block, x, position, end):
        q, k, v = (t.view(1, 1, block.heads, -1).transpose(1, 2) for t in block.qkv(block.ln_1(x)).split(x.shape[-1], 2))
        keys, values = self.keys[layer], self.values[layer]
        keys.index_copy_(2, position, k)
        values.index_copy_(2, position, v)
        if self.whole:
            y = functional.scaled_dot_product_attention(q, keys, values, attn_mask=self.masks[position])
        else:
            y = functional.scaled_dot_product_attention(q, keys[:, :, :end], values[:, :, :end])
        return block.proj(y.transpose(1, 2).reshape(x.shape))

    def forward(self, token, position, end):  # (1, 1), (1), a number -> (1, V)
        x = self.gpt.wte(token) + self.gpt.wpe(position)
        for layer, block in enumerate(self.gpt.h):
            x = x + self.attend(layer, block, x, position, end)
            x = x + block.mlp(block.ln_2(x))
        return (self.gpt.ln_f(x) @ self.gpt.wte.weight.T).flatten(0, 1)


class CachedLlama(torch.nn.Module):
    """One token of transformers' Llama, with its own cache: a whole one, whose shapes do not change, or one that grows."""

    def __init__(self, llama, whole):
        super().__init__()
        import transformers  # the other model does without it
        self.llama = llama.model
        config = self.llama.config
        if whole:
            # Its tensors are made here, because a compiled step that makes them is compiled again for each token.
            self.cache = transformers.StaticCache(config=config, max_cache_len=config.max_position_embeddings)
            self.cache.early_initialization(1, config.num_key_value_heads, config.head_dim, torch.float32, torch.device("cpu"))
        else:
            self.cache = transformers.DynamicCache(config=config)

    def forward(self, token, position, _):  # (1, 1), (1), not used -> (1, V)
        return self.llama(input_ids=token, position_ids=position[None], cache=self.cache, use_cache=True).logits[0]


def generate(arguments, model, context):
    """Returns the seconds of each token."""
    window, times = torch.zeros(1, context, dtype=torch.long), []
    window[0, 0] = 7
    for i in range(min(arguments.tokens, context - 1)):
        begin = time.perf_counter()
        if arguments.cache:
            logits = model(window[:, i:i + 1], torch.tensor([i]), 0 if arguments.compile else i + 1)
        else:
            logits = model(window)[i:i + 1]
        window[0, i + 1] = torch.multinomial(functional.softmax(logits[0] / 0.8, 0), 1)
        times.append(time.perf_counter() - begin)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=("gpt", "gpt2", "llama"))
    parser.add_argument("--tokens", type=int, default=250)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cache", action="store_true")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(42)
    make, (context,), *_ = MODELS[arguments.model]
    whole = make().eval()
    model = whole
    if arguments.cache:
        model = (CachedLlama if arguments.model == "llama" else Cached)(whole, arguments.compile)
    if arguments.compile:
        model = torch.compile(model)
    with torch.no_grad() if arguments.compile else torch.inference_mode():
        times = generate(arguments, model, context)
    print(json.dumps({"tokens": len(times), "samples_per_second": 1 / statistics.median(times[3:])}), flush=True)


if __name__ == "__main__":
    main()
