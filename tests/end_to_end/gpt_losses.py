#!/usr/bin/env python3
"""Trains a character GPT in `runtime` and in PyTorch from the same weights on the same batches and compares the losses.

usage: gpt_losses.py RUNTIME BACKEND [--text FILE] [--steps N] [--warm-up N] [--verbose]
                     [--layers L --heads H --width C --context T --batch B] [--dropout P] [--no-bias]

Without --text the characters are drawn from a small Markov chain, so that no data set is needed. Both sides use AdamW with
weight decay on matrices only, and gradient clipping. With --dropout PyTorch drops what plugins/operations.md says that the runtime
drops: numbers of embeddings and branches, and weights of attention. --no-bias leaves out all biases, as nanoGPT does. Every loss must agree with PyTorch's within 1e-4, and the loss must have
fallen. Exit code 0: all agree, 1: some differ, 77: PyTorch is absent (skipped).
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError as error:
    print(f"skipped: {error} for {sys.executable}; install python3-torch, or run it with /usr/bin/python3")
    sys.exit(77)

from exchange import read_safetensors

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "differential", "networks"))
from networks_twin import attention_mask, dropout_mask  # noqa: E402

TOLERANCE, SEED = 1e-4, 42
LR, BETAS, DECAY, MAX_NORM = 1e-3, (0.9, 0.99), 0.1, 1.0


class Drops:
    """The masks of one step, in the order in which layers draw them."""

    def __init__(self, probability):
        self.probability, self.step, self.stream = probability, 0, 0

    def begin(self, step):
        self.step, self.stream = step, 0

    def drop(self, x, mask_of):
        if self.probability == 0:
            return x
        kept = torch.from_numpy(mask_of(tuple(x.shape), self.probability, SEED, self.step, 0, self.stream))
        self.stream += 1
        return x * kept.to(x.dtype) / (1 - self.probability)

    def numbers(self, x):
        return self.drop(x, dropout_mask)

    def weights(self, x):
        return self.drop(x, attention_mask)


class Norm(nn.Module):
    """nn.LayerNorm without a bias, which PyTorch has from 2.1 on."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return functional.layer_norm(x, self.weight.shape, self.weight)


def norm(width, bias):
    return nn.LayerNorm(width) if bias else Norm(width)


class Attention(nn.Module):
    def __init__(self, width, heads, bias, drops):
        super().__init__()
        self.heads, self.drops = heads, drops
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width, bias), nn.Linear(width, width, bias)

    def forward(self, x):  # (B, T, C)
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.c_attn(x).split(width, 2))
        scores = q @ k.transpose(2, 3) / (width // self.heads) ** 0.5
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
        return self.c_proj((self.drops.weights(scores.softmax(3)) @ v).transpose(1, 2).reshape(batch, length, width))


class Mlp(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(width, 4 * width, bias), nn.Linear(4 * width, width, bias)

    def forward(self, x):
        return self.c_proj(functional.gelu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, width, heads, bias, drops):
        super().__init__()
        self.drops = drops
        self.ln_1, self.attn = norm(width, bias), Attention(width, heads, bias, drops)
        self.ln_2, self.mlp = norm(width, bias), Mlp(width, bias)

    def forward(self, x):
        x = x + self.drops.numbers(self.attn(self.ln_1(x)))
        return x + self.drops.numbers(self.mlp(self.ln_2(x)))


class Gpt(nn.Module):
    """A GPT with pre-norm, learned positions and tied embeddings, and with GPT-2's parameter names."""

    def __init__(self, a, vocabulary):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, a.width), nn.Embedding(a.context, a.width)
        self.drops = Drops(a.dropout)
        self.h = nn.ModuleList(Block(a.width, a.heads, not a.no_bias, self.drops) for _ in range(a.layers))
        self.ln_f = norm(a.width, not a.no_bias)

    def forward(self, tokens):  # (B, T) -> (B, T, V)
        x = self.drops.numbers(self.wte(tokens) + self.wpe.weight[: tokens.shape[1]])
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T


def markov_text(length):
    random = np.random.default_rng(3)
    steps = random.integers(0, 3, length) + (random.random(length) < 0.1) * random.integers(0, 29, length)
    return "".join(chr(ord("A") + s % 29) for s in np.cumsum(steps))


def config(a, vocabulary, text):
    residual = f"init = {{ normal = {0.02 / (2 * a.layers) ** 0.5:.8f} }}"
    bias = ", bias = false" if a.no_bias else ""
    drop = f'{{ type = "dropout", probability = {a.dropout} }},' if a.dropout else ""
    weights = f", dropout = {a.dropout}" if a.dropout else ""
    return f"""
[model]
input = [{a.context}]
init = {{ normal = 0.02 }}
layers = [
  {{ type = "embedding", name = "wte", vocabulary = {vocabulary}, features = {a.width} }},
  {{ type = "position_embedding", name = "wpe", length = {a.context} }},
  {drop}
  {{ type = "block", name = "h", repeat = {a.layers}, layers = [
    {{ type = "residual", prefix = false, layers = [
      {{ type = "layer_norm", name = "ln_1"{bias} }},
      {{ type = "linear", name = "attn.c_attn", features = {3 * a.width}{bias} }},
      {{ type = "attention", heads = {a.heads}, causal = true{weights} }},
      {{ type = "linear", name = "attn.c_proj", features = {a.width}, {residual}{bias} }},
      {drop}
    ] }},
    {{ type = "residual", prefix = false, layers = [
      {{ type = "layer_norm", name = "ln_2"{bias} }},
      {{ type = "linear", name = "mlp.c_fc", features = {4 * a.width}, activation = "gelu"{bias} }},
      {{ type = "linear", name = "mlp.c_proj", features = {a.width}, {residual}{bias} }},
      {drop}
    ] }},
  ] }},
  {{ type = "layer_norm", name = "ln_f"{bias} }},
  {{ type = "linear", name = "lm_head", features = {vocabulary}, bias = false, tie = "wte" }},
]
[dataset]
format = "text"
path = {json.dumps(text)}
tokenizer = "char"
shuffle = false
[training]
global_batch_size = {a.batch}
steps = {a.steps}
max_norm = {MAX_NORM}
[optimizer]
name = "adamw"
lr = {LR}
betas = [{BETAS[0]}, {BETAS[1]}]
weight_decay = {DECAY}
weight_decay_on = "matrices"
[lr_scheduler]
warmup_steps = {a.warm_up}
[validation]
every_epochs = 0
[metrics]
log_every_steps = 1
progress = "lines"
"""


def ours(a, folder, vocabulary, text):
    path = os.path.join(folder, "gpt.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(config(a, vocabulary, text))
    base = ["--set", f"device.backend={a.backend}"]
    environment = dict(os.environ, XDG_CACHE_HOME=folder)
    start = os.path.join(folder, "start.safetensors")
    subprocess.run([a.runtime, "gradients", path, *base, "--output", start], check=True, stdout=subprocess.DEVNULL,
                   env=environment, cwd=folder)
    run = os.path.join(folder, "run")
    subprocess.run([a.runtime, "train", path, *base, "--set", f"job.dump_folder={run}"], check=True,
                   stdout=subprocess.DEVNULL, env=environment, cwd=folder)
    with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as file:
        losses = [json.loads(line)["loss"] for line in file]
    weights = {k[len("weights."):]: v for k, v in read_safetensors(start).items() if k.startswith("weights.")}
    return losses, weights


def theirs(a, weights, tokens, vocabulary):
    model = Gpt(a, vocabulary)
    model.load_state_dict({k: torch.from_numpy(v.copy()) for k, v in weights.items()})
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": DECAY},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS)
    windows = (len(tokens) - 1) // a.context
    losses = []
    for step in range(a.steps):
        rows = [(step * a.batch + i) % windows * a.context for i in range(a.batch)]
        x = torch.stack([tokens[r:r + a.context] for r in rows])
        y = torch.stack([tokens[r + 1:r + 1 + a.context] for r in rows])
        for group in optimizer.param_groups:
            group["lr"] = LR * min(1.0, (step + 1) / max(1, a.warm_up))
        optimizer.zero_grad(set_to_none=True)
        model.drops.begin(step)
        loss = functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runtime", type=os.path.abspath)
    parser.add_argument("backend")
    parser.add_argument("--text", type=os.path.abspath)
    for name, value in (("steps", 50), ("warm-up", 0), ("layers", 2), ("heads", 2), ("width", 32), ("context", 16), ("batch", 6)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--no-bias", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="prints every loss")
    a = parser.parse_args()
    torch.set_num_threads(2)
    with tempfile.TemporaryDirectory() as folder:
        text = a.text or os.path.join(folder, "text.txt")
        if not a.text:
            with open(text, "w", encoding="utf-8") as file:
                file.write(markov_text(a.steps * a.batch * a.context + 1))
        with open(text, encoding="utf-8") as file:
            content = file.read()
        characters = sorted(set(content))
        tokens = torch.tensor([characters.index(c) for c in content])
        mine, weights = ours(a, folder, len(characters), text)
        other = theirs(a, weights, tokens, len(characters))
    if a.verbose:
        for step, (m, o) in enumerate(zip(mine, other)):
            print(f"step {step}: {m:.6f}, PyTorch {o:.6f}, relative difference {abs(m - o) / o:.1e}")
    worst = max(abs(m - o) / o for m, o in zip(mine, other))
    good = len(mine) == len(other) == a.steps and worst <= TOLERANCE and mine[-1] < 0.9 * mine[0]
    print(f"GPT on {a.backend}: {len(mine)} losses, {mine[0]:.5f} -> {mine[-1]:.5f} (PyTorch {other[-1]:.5f}), largest relative "
          f"difference {worst:.2e}: {'ok' if good else 'DIFFERS'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
