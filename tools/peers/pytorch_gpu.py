#!/usr/bin/env python3
"""Full training steps of PyTorch on one GPU, as a fair peer of `runtime bench`: the same models, optimizers and numbers
as configs/bench_*.toml and tools/gpu/gpt2.toml, each in the forms that are known to be fastest.

A step is zero_grad(set_to_none), forward, mean cross-entropy, backward, clipping if asked for, and one fused optimizer
step. It is timed by CUDA events between consecutive steps, without a wait in between, after a warm-up; the figure is the
median of at least 30 steps. The batch stays on the device (`runtime bench` loads and sends one for each step, so this
favours PyTorch a little). One JSON line for each variant:

  {"model", "variant", "ms", "samples_per_s", "max_mem_MiB", ...}      or  {"model", "variant", "error"}

  pytorch_gpu.py --budget-seconds 540                              # everything, the most valuable first
  pytorch_gpu.py --models gpt2:8,gpt2:32 --variants default --budget-seconds 240
  pytorch_gpu.py --models lenet:256 --variants eager,eager+graph,compile+graph,eager+tf32+graph
  pytorch_gpu.py --list

A model is NAME or NAME:BATCH. A variant is a mode with modifiers, joined by "+":

  modes      eager | compile | reduce-overhead | max-autotune | max-autotune-no-cudagraphs   (torch.compile's modes)
  graph      the whole step (with the optimizer) is one CUDA graph, for the modes eager and compile
  v50304     the vocabulary padded to a multiple of 64, as nanoGPT does (the step computes 0.1 % more)
  bf16 fp32 tf32   numbers: bf16 autocast over float32 weights | exact float32 | float32 weights, TF32 products
  bf16master bf16 weights and gradients; float32 copy, moments and update (llm.c's form). Same promise as `runtime`'s
  bf16pure   bf16 weights, gradients and moments: fewer digits than `runtime` keeps, so it is no like for like
  nhwc nchw  layout of images
  clip       gradients clipped to norm 1.0 (no bench configuration has it)
  flash cudnn efficient   the attention backend; without one the fastest for the shape is measured and taken

The parent process keeps the time: a worker process runs the variants of one model, and is ended and replaced if one
takes too long (max-autotune above all). When the budget is out, the last line lists what was left out.
"""

import argparse
import collections
import contextlib
import gc
import json
import math
import os
import queue
import signal
import statistics
import subprocess
import sys
import threading
import time

PEAK_BF16 = 989.4e12  # FLOP/s of an H100 SXM, dense (data sheet); for "mfu"
MODES = ("eager", "compile", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
NUMBERS = ("bf16", "fp32", "tf32", "bf16master", "bf16pure")
BACKENDS = ("flash", "cudnn", "efficient")
MODIFIERS = NUMBERS + BACKENDS + ("graph", "v50304", "nhwc", "nchw", "clip")
SECONDS = {"eager": 60, "compile": 150, "reduce-overhead": 150}  # of one variant, compilation included

# Variants of each model, the most valuable first. Those behind "|" run with --variants all only.
GPT2 = ("compile+v50304", "compile", "compile+v50304+bf16master+graph", "eager+v50304", "reduce-overhead+v50304", "|",
        "compile+v50304+graph", "compile+v50304+bf16master", "eager", "max-autotune+v50304")
IMAGES = ("compile+nhwc", "eager+nhwc", "eager+nhwc+graph", "|", "reduce-overhead+nhwc", "compile+nhwc+graph",
          "compile+nhwc+bf16master+graph", "eager+nchw", "compile+nchw", "max-autotune+nhwc")
SMALL = ("eager", "eager+graph", "compile+graph", "eager+tf32+graph", "compile+tf32+graph", "|", "compile", "reduce-overhead",
         "eager+tf32", "reduce-overhead+tf32", "max-autotune", "max-autotune+tf32")
MODELS = {  # name: (default batch, numbers of its bench configuration, variants)
    "gpt2": (8, "bf16", GPT2),
    "resnet18": (512, "bf16", IMAGES),
    "resnet50": (256, "bf16", IMAGES),
    "lenet": (256, "fp32", SMALL[:2] + ("eager+nhwc+graph",) + SMALL[2:]),
    "mlp": (256, "fp32", SMALL),
    "gpt": (8, "fp32", ("eager", "compile+graph", "compile+bf16+graph", "|", "compile", "reduce-overhead", "compile+tf32+graph")),
    "llama": (64, "bf16", ("compile+graph", "compile+bf16master+graph", "compile", "|", "eager", "reduce-overhead")),
    "vit_small": (512, "bf16", ("compile+graph", "eager", "|", "compile", "reduce-overhead", "eager+graph")),
}
ORDER = ("gpt2:8", "resnet18:512", "lenet:256", "gpt2:32", "mlp:256", "resnet50:256", "gpt:8", "llama:64", "vit_small:512")
# The attention of a model, for the choice of a backend: heads, key heads, length, columns, causal
ATTENTION = {"gpt2": (12, 12, 1024, 64, True), "gpt": (6, 6, 256, 64, True), "llama": (6, 2, 256, 64, True),
             "vit_small": (3, 3, 64, 64, False)}


def words_of(variant):
    words = variant.split("+")
    if words[0] not in MODES or any(w not in MODIFIERS for w in words[1:]):
        raise SystemExit(f"variant {variant}: a mode ({', '.join(MODES)}), then any of {', '.join(MODIFIERS)}")
    if "graph" in words and words[0] not in ("eager", "compile"):
        raise SystemExit(f"variant {variant}: graph goes with eager and compile only; the others have graphs of their own")
    return words[0], set(words[1:])


# ---------------------------------------------------------------------------------------------------------------- models

def make_models(torch, tiny):
    """Functions that build the models. Their layers, biases, eps, GELU and tied weights are those of configs/presets."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):  # basic block of ResNet-18
        def __init__(self, i, o, stride):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
            self.conv2, self.bn2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
            self.down = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o)) if stride != 1 or i != o \
                else nn.Identity()

        def forward(self, x):
            y = functional.relu(self.bn1(self.conv1(x)), inplace=True)
            return functional.relu(self.bn2(self.conv2(y)) + self.down(x), inplace=True)

    class Bottleneck(nn.Module):  # of ResNet-50, with the stride in the 3x3 convolution
        def __init__(self, i, width, stride):
            super().__init__()
            o = 4 * width
            self.convs = nn.Sequential(
                nn.Conv2d(i, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
                nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
                nn.Conv2d(width, o, 1, bias=False), nn.BatchNorm2d(o))
            self.down = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o)) if stride != 1 or i != o \
                else nn.Identity()

        def forward(self, x):
            return functional.relu(self.convs(x) + self.down(x), inplace=True)

    class Attention(nn.Module):  # pre-norm transformer block
        def __init__(self, width, heads, causal, gelu):
            super().__init__()
            self.heads, self.causal = heads, causal
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.fc, self.out, self.gelu = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), gelu

        def forward(self, x):
            n, t, width = x.shape
            q, k, v = self.qkv(self.ln_1(x)).split(width, dim=2)
            q, k, v = (z.view(n, t, self.heads, width // self.heads).transpose(1, 2) for z in (q, k, v))
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
            x = x + self.proj(y.transpose(1, 2).reshape(n, t, width))
            return x + self.out(functional.gelu(self.fc(self.ln_2(x)), approximate=self.gelu))

    class Gpt(nn.Module):  # tied embeddings, no dropout, no bias in the head
        def __init__(self, vocabulary, context, width, layers, heads, gelu):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
            self.h = nn.Sequential(*(Attention(width, heads, True, gelu) for _ in range(layers)))
            self.ln_f = nn.LayerNorm(width)
            for module in self.modules():
                if isinstance(module, (nn.Linear, nn.Embedding)):
                    nn.init.normal_(module.weight, std=0.02)
                if isinstance(module, nn.Linear) and module.bias is not None:
                    nn.init.zeros_(module.bias)
            for block in self.h:
                nn.init.normal_(block.proj.weight, std=0.02 / math.sqrt(2 * layers))
                nn.init.normal_(block.out.weight, std=0.02 / math.sqrt(2 * layers))

        def forward(self, tokens):  # [n, t] -> [n t, vocabulary]
            x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
            return functional.linear(self.ln_f(self.h(x)), self.wte.weight).flatten(0, 1)

    def rotated(x, cos, sin):  # pairs of columns half a head apart, as in transformers' Llama
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)

    class LlamaBlock(nn.Module):
        def __init__(self, width, heads, key_heads, hidden):
            super().__init__()
            self.heads, self.key_heads, self.columns = heads, key_heads, width // heads
            self.norm_1, self.norm_2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
            self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
            self.kv = nn.Linear(width, 2 * key_heads * self.columns, bias=False)
            self.gate_up, self.down = nn.Linear(width, 2 * hidden, bias=False), nn.Linear(hidden, width, bias=False)

        def forward(self, x, cos, sin):
            n, t, width = x.shape
            h = self.norm_1(x)
            q = self.q(h).view(n, t, self.heads, self.columns).transpose(1, 2)
            k, v = self.kv(h).view(n, t, 2 * self.key_heads, self.columns).transpose(1, 2).chunk(2, dim=1)
            y = functional.scaled_dot_product_attention(rotated(q, cos, sin), rotated(k, cos, sin), v, is_causal=True,
                                                        enable_gqa=self.heads != self.key_heads)
            x = x + self.o(y.transpose(1, 2).reshape(n, t, width))
            gate, up = self.gate_up(self.norm_2(x)).chunk(2, dim=-1)
            return x + self.down(functional.silu(gate) * up)

    class Llama(nn.Module):  # tied embeddings
        def __init__(self, vocabulary, context, width, layers, heads, key_heads, hidden):
            super().__init__()
            self.embedding = nn.Embedding(vocabulary, width)
            self.blocks = nn.ModuleList(LlamaBlock(width, heads, key_heads, hidden) for _ in range(layers))
            self.norm = nn.RMSNorm(width, eps=1e-5)
            for module in self.modules():
                if isinstance(module, (nn.Linear, nn.Embedding)):
                    nn.init.normal_(module.weight, std=0.02)
            columns = width // heads
            angles = torch.outer(torch.arange(context), 10000.0 ** (-torch.arange(0, columns, 2) / columns))
            self.register_buffer("cos", angles.cos(), persistent=False)
            self.register_buffer("sin", angles.sin(), persistent=False)

        def forward(self, tokens):  # [n, t] -> [n t, vocabulary]
            x = self.embedding(tokens)
            cos, sin = self.cos[: tokens.shape[1]].to(x.dtype), self.sin[: tokens.shape[1]].to(x.dtype)
            for block in self.blocks:
                x = block(x, cos, sin)
            return functional.linear(self.norm(x), self.embedding.weight).flatten(0, 1)

    class Vit(nn.Module):
        def __init__(self, width=192, layers=6, heads=3):
            super().__init__()
            self.patches, self.places = nn.Conv2d(3, width, 4, 4), nn.Parameter(torch.randn(64, width) * 0.02)
            self.blocks = nn.Sequential(*(Attention(width, heads, False, "none") for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

        def forward(self, x):
            x = self.patches(x).flatten(2).transpose(1, 2) + self.places
            return self.head(self.norm(self.blocks(x)).mean(1))

    def resnet18():
        layers, i = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(True)], 64
        for o, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            layers += [Block(i, o, stride), Block(o, o, 1)]
            i = o
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))

    def resnet50():
        layers, i = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)], 64
        for blocks, width, stride in ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)):
            for b in range(blocks):
                layers.append(Bottleneck(i, width, stride if b == 0 else 1))
                i = 4 * width
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))

    def lenet():
        return nn.Sequential(nn.Conv2d(1, 20, 3), nn.ReLU(True), nn.AvgPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(True),
                             nn.AvgPool2d(2), nn.Flatten(), nn.Linear(800, 128), nn.ReLU(True), nn.Linear(128, 10))

    def mlp():
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(True), nn.Linear(1024, 1024), nn.ReLU(True),
                             nn.Linear(1024, 10))

    gpt2 = (257, 64, 64, 2, 4) if tiny else (50257, 1024, 768, 12, 12)  # vocabulary, context, width, layers, heads
    gpt = (65, 32, 48, 2, 6) if tiny else (65, 256, 384, 6, 6)
    llama = (65, 32, 48, 2, 6, 2, 64) if tiny else (65, 256, 384, 6, 6, 2, 1024)
    side = 64 if tiny else 224

    def padded(sizes, pads):
        return ((sizes[0] + 63) // 64 * 64,) + sizes[1:] if pads else sizes

    # name: (build(pads), shape of a sample, classes, optimizer, FLOPs of a step for one sample or None)
    return {
        "gpt2": (lambda pads: Gpt(*padded(gpt2, pads), "tanh"), (gpt2[1],), gpt2[0], "adamw", gpt_flops(*gpt2)),
        "gpt": (lambda pads: Gpt(*padded(gpt, pads), "none"), (gpt[1],), gpt[0], "adamw", gpt_flops(*gpt)),
        "llama": (lambda pads: Llama(*padded(llama, pads)), (llama[1],), llama[0], "adamw", None),
        "vit_small": (lambda pads: Vit(), (3, 32, 32), 10, "adamw", None),
        "resnet18": (lambda pads: resnet18(), (3, 32, 32), 10, "momentum", 3.331e9),
        "resnet50": (lambda pads: resnet50(), (3, side, side), 1000, "momentum", 24.3e9),
        "lenet": (lambda pads: lenet(), (1, 28, 28), 10, "sgd", 13.27e6),
        "mlp": (lambda pads: mlp(), (1, 28, 28), 10, "sgd", 9.56e6),
    }


def gpt_flops(vocabulary, context, width, layers, heads):
    """As `runtime bench` counts them: three products for each one of the forward pass, causal attention at half."""
    del heads
    weights = layers * 12 * width * width + vocabulary * width
    attention = layers * 7 * 2 * width * context * (context + 1) / 2  # 2 products forward, 5 backward
    return 6.0 * context * weights + attention


def set_attention(torch, backend):
    """Allows only this backend; None: any."""
    for name, allow in (("flash", torch.backends.cuda.enable_flash_sdp),
                        ("efficient", torch.backends.cuda.enable_mem_efficient_sdp),
                        ("cudnn", torch.backends.cuda.enable_cudnn_sdp)):
        allow(backend is None or name == backend)
    torch.backends.cuda.enable_math_sdp(backend is None)


def fastest_attention(torch, n, dtype, heads, key_heads, t, d, causal):
    """{backend: milliseconds of forward and backward}, measured by themselves."""
    times = {}
    for backend in BACKENDS:
        try:
            set_attention(torch, backend)
            widths = (heads * d, key_heads * d, key_heads * d)
            qkv = torch.randn(n, t, sum(widths), device="cuda", dtype=dtype, requires_grad=True)
            dy = torch.randn(n, heads, t, d, device="cuda", dtype=dtype)
            marks = [torch.cuda.Event(enable_timing=True) for _ in range(13)]
            for i in range(16):
                q, k, v = (z.view(n, t, -1, d).transpose(1, 2) for z in qkv.split(widths, dim=2))
                y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != key_heads)
                y.backward(dy)
                if i >= 3:
                    marks[i - 3].record()
            torch.cuda.synchronize()
            times[backend] = statistics.median(a.elapsed_time(b) for a, b in zip(marks, marks[1:]))
        except RuntimeError:  # this backend does not take the shape or the type
            continue
    set_attention(torch, None)
    return times


# ---------------------------------------------------------------------------------------------------------------- a step

class Master:
    """An optimizer over float32 copies of 16-bit parameters, with gradients and moments in float32."""

    def __init__(self, torch, groups, make):
        self.foreach_copy = torch._foreach_copy_  # pylint: disable=protected-access
        self.params = [p for group in groups for p in group["params"]]
        masters = [p.detach().float().clone() for p in self.params]
        self.grads = [torch.zeros_like(m) for m in masters]
        for m, g in zip(masters, self.grads):
            m.grad = g
        self.masters, rest = masters, iter(masters)
        self.optimizer = make([{**group, "params": [next(rest) for _ in group["params"]]} for group in groups])
        self.no_grad = torch.no_grad

    def zero_grad(self, set_to_none=True):
        del set_to_none
        for p in self.params:
            p.grad = None

    def step(self):
        with self.no_grad():
            self.foreach_copy(self.grads, [p.grad for p in self.params])
            self.optimizer.step()
            self.foreach_copy(self.params, self.masters)


def make_optimizer(torch, kind, model, captured, on_gpu, master):
    params = [p for p in model.parameters() if p.requires_grad]
    if kind == "adamw":  # decay on matrices only
        groups = [{"params": [p for p in params if p.dim() >= 2], "weight_decay": 0.1},
                  {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0}]
        make = lambda g: torch.optim.AdamW(g, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, fused=on_gpu,  # noqa: E731
                                           **({"capturable": True} if captured and on_gpu else {}))
    else:
        groups = [{"params": params}]
        make = lambda g: torch.optim.SGD(g, lr=0.01, momentum=0.9 if kind == "momentum" else 0.0, fused=on_gpu)  # noqa: E731
    return Master(torch, groups, make) if master else make(groups)


def measure(torch, args, name, batch, variant, best_attention):
    """Runs one variant and returns its row."""
    mode, words = words_of(variant)
    on_gpu = args.device == "cuda"
    numbers = next((w for w in NUMBERS if w in words), MODELS[name][1])
    tf32, bf16, wide = numbers == "tf32", numbers.startswith("bf16"), numbers in ("bf16", "fp32", "tf32")
    torch.set_float32_matmul_precision("high" if tf32 or bf16 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32 or bf16
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(42)

    build, shape, classes, kind, flops = make_models(torch, args.tiny)[name]
    tokens = len(shape) == 1
    model = build("v50304" in words).train().to(args.device)
    if tokens:
        x = torch.randint(0, classes, (batch, *shape), device=args.device)
        y = torch.randint(0, classes, (batch * shape[0],), device=args.device)
    else:
        x = torch.randn(batch, *shape, device=args.device)
        y = torch.randint(0, classes, (batch,), device=args.device)
    if not wide:
        model = model.to(torch.bfloat16)
        for module in model.modules():  # running statistics and weights of batch norm stay float32
            if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):  # pylint: disable=protected-access
                module.float()
        if not tokens:
            x = x.to(torch.bfloat16)
    if "nhwc" in words:
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)

    attention = next((w for w in BACKENDS if w in words), best_attention.get("bf16" if bf16 else "fp32"))
    if on_gpu:
        set_attention(torch, attention)
    captured = "graph" in words and on_gpu
    optimizer = make_optimizer(torch, kind, model, captured, on_gpu, numbers == "bf16master")
    # A captured step may not keep casts of weights from one step to the next.
    cast = (lambda: torch.autocast(args.device, torch.bfloat16, cache_enabled=not captured)) if numbers == "bf16" \
        else contextlib.nullcontext
    parameters = [p for p in model.parameters() if p.requires_grad]

    def loss_of(inputs, targets):
        return torch.nn.functional.cross_entropy(model(inputs), targets)

    if mode != "eager":
        loss_of = torch.compile(loss_of, **({} if mode == "compile" else {"mode": mode}), dynamic=False, fullgraph=True)
    marks_steps = mode in ("reduce-overhead", "max-autotune")

    def step():
        if marks_steps:
            torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad(set_to_none=True)
        with cast():
            loss = loss_of(x, y)
        loss.backward()
        if "clip" in words:
            torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
        optimizer.step()
        return loss

    begun = time.perf_counter()
    first = step().item()
    compiled = time.perf_counter() - begun
    if captured:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(5):
                step()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        graph = torch.cuda.CUDAGraph()
        optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            last = step()
        once = graph.replay
    else:
        last = None
        once = step

    warm_until = time.perf_counter() + (0.0 if args.tiny else 1.0)
    warmed = 0
    while warmed < (2 if args.tiny else 12) or (time.perf_counter() < warm_until and warmed < 2000):
        once()
        warmed += 1
    sync = torch.cuda.synchronize if on_gpu else (lambda: None)
    sync()
    if on_gpu and not captured:
        torch.cuda.reset_peak_memory_stats()
    begun = time.perf_counter()
    for _ in range(3):
        once()
    sync()
    guess = (time.perf_counter() - begun) / 3
    count = 3 if args.tiny else int(min(max(args.steps, args.seconds / max(guess, 1e-5)), 1000))

    loss, times = last, []
    begun = time.perf_counter()
    if on_gpu:
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        marks[0].record()
        for mark in marks[1:]:
            result = once()
            mark.record()
            loss = loss if captured else result
        torch.cuda.synchronize()
        times = [a.elapsed_time(b) for a, b in zip(marks, marks[1:])]
    else:
        for _ in range(count):
            start = time.perf_counter()
            loss = once()
            times.append((time.perf_counter() - start) * 1e3)
    wall = (time.perf_counter() - begun) / count * 1e3
    ms = statistics.median(times)
    times.sort()
    row = {"model": f"{name}:{batch}", "variant": variant, "ms": round(ms, 4), "samples_per_s": round(batch / ms * 1e3, 1),
           "max_mem_MiB": 0, "steps": count, "p10_ms": round(times[len(times) // 10], 4),
           "p90_ms": round(times[min(len(times) * 9 // 10, len(times) - 1)], 4), "wall_ms": round(wall, 4),
           "numbers": numbers, "like_for_like": numbers != "bf16pure", "first_step_s": round(compiled, 2),
           "first_loss": round(first, 4), "last_loss": round(loss.item(), 4)}
    if tokens:
        row["tokens_per_s"] = round(batch * shape[0] / ms * 1e3)
        row["attention"] = attention or "any"
    if flops and not args.tiny:
        row["tflops"] = round(flops * batch / ms / 1e9, 2)
        if bf16:
            row["mfu"] = round(flops * batch / (ms * 1e-3) / PEAK_BF16, 4)
    if on_gpu:
        free, total = torch.cuda.mem_get_info()
        row.update(max_mem_MiB=round(torch.cuda.max_memory_allocated() / 2**20),
                   reserved_MiB=round(torch.cuda.max_memory_reserved() / 2**20), device_used_MiB=round((total - free) / 2**20))
    if not math.isfinite(row["last_loss"]):
        row["error"] = "the loss is not finite"
    return row


def work(args):
    """The worker: prints "BEGIN variant" and then a row for each variant."""
    import warnings
    warnings.filterwarnings("ignore")
    import torch  # pylint: disable=import-outside-toplevel
    name, batch = args.worker_model.split(":")
    batch = int(batch)
    torch.set_num_threads(max(1, min(8, os.cpu_count() or 1)))
    best = {}
    if args.device == "cuda" and name in ATTENTION:
        for numbers, dtype in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
            if numbers == "fp32" and MODELS[name][1] != "fp32":
                continue
            times = fastest_attention(torch, batch, dtype, *ATTENTION[name])
            best[numbers] = min(times, key=times.get) if times else None
            rounded = {k: round(v, 4) for k, v in times.items()}
            print("NOTE " + json.dumps({"model": args.worker_model, "attention_fwd_bwd_ms": rounded, "type": numbers}), flush=True)
    for variant in args.worker_variants.split(","):
        print("BEGIN " + variant, flush=True)
        try:
            row = measure(torch, args, name, batch, variant, best)
            row["torch"] = torch.__version__
            if args.device == "cuda":
                row["device"] = torch.cuda.get_device_name()
        except Exception as error:  # pylint: disable=broad-except
            row = {"model": args.worker_model, "variant": variant, "error": f"{type(error).__name__}: {error}"[:400]}
        print("ROW " + json.dumps(row), flush=True)
        if hasattr(torch, "_dynamo"):
            torch._dynamo.reset()  # pylint: disable=protected-access
        gc.collect()
        if args.device == "cuda":
            torch.cuda.empty_cache()


# ---------------------------------------------------------------------------------------------------------------- parent

def end(child):
    """Ends the worker and the compilers that it started: its own process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def start(args, model, variants):
    command = [sys.executable, os.path.abspath(__file__), "--worker-model", model, "--worker-variants", ",".join(variants),
               "--device", args.device, "--steps", str(args.steps), "--seconds", str(args.seconds)]
    command += ["--tiny"] if args.tiny else []
    env = {**os.environ, "PYTHONUNBUFFERED": "1", "TOKENIZERS_PARALLELISM": "false"}
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace", start_new_session=True, env=env,
                             stderr=None if args.verbose else subprocess.PIPE)
    lines, last_words = queue.Queue(), collections.deque(maxlen=3)

    def read():
        for line in child.stdout:
            lines.put(line.rstrip("\n"))
        lines.put(None)

    def listen():
        for line in child.stderr:
            if line.strip():
                last_words.append(line.strip()[:200])

    threading.Thread(target=read, daemon=True).start()
    if child.stderr is not None:
        threading.Thread(target=listen, daemon=True).start()
    return child, lines, last_words


def limit_of(args, variant):
    mode, words = words_of(variant)
    if mode.startswith("max-autotune"):
        return args.autotune_seconds
    return SECONDS[mode] + (15 if "graph" in words else 0)


def run_model(args, model, variants, deadline, out):
    """Runs the variants of one model; returns those that the budget did not reach."""
    rest = list(variants)
    while rest:
        if time.monotonic() > deadline - args.least_seconds:
            return rest
        child, lines, last_words = start(args, model, rest)
        until, current = min(deadline, time.monotonic() + 90), None  # import of torch, context, choice of attention
        try:
            while True:
                try:
                    line = lines.get(timeout=max(0.05, until - time.monotonic()))
                except queue.Empty:
                    if time.monotonic() >= deadline:
                        return rest
                    if current is None:
                        out({"model": model, "variant": rest[0], "error": "the worker did not begin in time"})
                        rest.pop(0)
                    else:
                        out({"model": model, "variant": current, "error": f"not done after {limit_of(args, current)} s"})
                        rest.remove(current)
                    break
                if line is None:  # the worker has ended
                    if rest:
                        out({"model": model, "variant": current or rest[0], "error": f"the worker ended, code {child.wait()}: "
                             f"{' / '.join(last_words)}"[:500]})
                        rest.remove(current or rest[0])
                    break
                if line.startswith("BEGIN "):
                    current = line[6:]
                    if time.monotonic() > deadline - args.least_seconds:
                        return rest
                    until = min(deadline, time.monotonic() + limit_of(args, current))
                elif line.startswith("ROW "):
                    out(json.loads(line[4:]))
                    rest.remove(current)
                    current, until = None, min(deadline, time.monotonic() + 60)
                    if not rest:
                        break
                elif line.startswith("NOTE "):
                    print(line[5:], file=sys.stderr, flush=True)
        finally:
            end(child)
    return []


def chosen_variants(args, name):
    everything = MODELS[name][2]
    defaults = list(everything[: everything.index("|")])
    if args.variants == "all":
        return [v for v in everything if v != "|"]
    if args.variants in (None, "default"):
        return defaults
    chosen = []
    for word in args.variants.split(","):
        if word == "default":
            chosen += [v for v in defaults if v not in chosen]
            continue
        words_of(word)
        skip = ("v50304" in word and name not in ("gpt2", "gpt")) or (("nhwc" in word or "nchw" in word) and name in
                                                                     ("gpt2", "gpt", "mlp"))
        if not skip and word not in chosen:
            chosen.append(word)
    return chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(ORDER), help="NAME or NAME:BATCH, separated by commas")
    parser.add_argument("--variants", default="default", help="default, all (--list shows both), or variants separated by commas")
    parser.add_argument("--budget-seconds", type=float, default=540)
    parser.add_argument("--autotune-seconds", type=float, default=150, help="limit of one variant with max-autotune")
    parser.add_argument("--steps", type=int, default=30, help="the least number of measured steps")
    parser.add_argument("--seconds", type=float, default=2.0, help="more steps are measured while they take less than this")
    parser.add_argument("--breadth-first", action="store_true", help="three variants of each model first, then the others")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--tiny", action="store_true", help="tiny models, three steps: tries this script without a GPU")
    parser.add_argument("--output", help="a file that receives the lines too")
    parser.add_argument("--verbose", action="store_true", help="shows what the workers write to standard error")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--worker-model", help=argparse.SUPPRESS)
    parser.add_argument("--worker-variants", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.least_seconds = 2 if args.tiny else 12
    if args.worker_model:
        return work(args)
    if args.list:
        for name, (batch, numbers, variants) in MODELS.items():
            print(f"{name} (batch {batch}, {numbers}): {', '.join(variants).replace(', |,', '; with all')}")
        return None

    plan = []
    for word in args.models.split(","):
        name, _, batch = word.partition(":")
        if name not in MODELS:
            raise SystemExit(f"model {name}: one of {', '.join(MODELS)}")
        batch = int(batch) if batch else MODELS[name][0]
        plan.append((f"{name}:{2 if args.tiny else batch}", chosen_variants(args, name)))
    if args.breadth_first:  # three variants of each model first: one worker each
        plan = [(m, v[:3]) for m, v in plan] + [(m, v[3:]) for m, v in plan if v[3:]]

    deadline = time.monotonic() + args.budget_seconds
    file = open(args.output, "a", encoding="utf-8") if args.output else None  # pylint: disable=consider-using-with
    best = {}

    def out(row):
        text = json.dumps(row)
        print(text, flush=True)
        if file:
            file.write(text + "\n")
            file.flush()
        if "ms" in row and "error" not in row and row.get("like_for_like"):
            key = (row["model"], row["numbers"][:4])  # bf16 and bf16master keep the same promise
            if key not in best or row["ms"] < best[key]["ms"]:
                best[key] = row

    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    left = {}
    for model, variants in plan:
        missed = run_model(args, model, variants, deadline, out)
        if missed:
            left.setdefault(model, []).extend(missed)
    out({"best": {f"{m} {n}".strip(): {"variant": r["variant"], "ms": r["ms"], "max_mem_MiB": r["max_mem_MiB"]}
                  for (m, n), r in best.items()}, "left_out": left,
         "seconds": round(args.budget_seconds - (deadline - time.monotonic()), 1)})
    return None


if __name__ == "__main__":
    main()
