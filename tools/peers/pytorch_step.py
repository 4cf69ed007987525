#!/usr/bin/python3
"""Trains one model with PyTorch in one memory layout and prints one JSON line, for compare_pytorch.py and ../gpu.

The models are those of configs/presets; a step is zero_grad, forward, cross-entropy, backward, update.
"""

import argparse
import gzip
import json
import os
import statistics
import time

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """Basic residual block (He et al. 2015)."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                            nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        y += x if self.downsample is None else self.downsample(x)
        return functional.relu(y, inplace=True)


class Bottleneck(nn.Module):
    """Residual block of three convolutions, with its stride in the second one."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.convs = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.downsample = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                            nn.BatchNorm2d(outputs))

    def forward(self, x):
        return functional.relu(self.convs(x) + self.downsample(x), inplace=True)


def sgd(momentum):
    return lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=momentum, fused=True)


def adamw(parameters):
    parameters = list(parameters)
    return torch.optim.AdamW([{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
                              {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}], lr=1e-3,
                             fused=True)


def lenet():
    return nn.Sequential(nn.Conv2d(1, 20, 3), nn.ReLU(True), nn.AvgPool2d(2), nn.Conv2d(20, 50, 5),
                         nn.ReLU(True), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(800, 128),
                         nn.ReLU(True), nn.Linear(128, 10))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(True), nn.Linear(1024, 1024),
                         nn.ReLU(True), nn.Linear(1024, 10))


def resnet18():
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(True)]
    inputs = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for blocks, width, stride in ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, stride if block == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


class TransformerBlock(nn.Module):
    """Pre-norm block of a GPT (Radford et al. 2019)."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):  # (B, T, C)
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(self.ln_1(x)).split(width, 2))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """GPT with tied embeddings and without dropout."""

    def __init__(self, vocabulary=65, context=256, width=384, layers=6, heads=6):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.h = nn.Sequential(*(TransformerBlock(width, heads) for _ in range(layers)))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens):  # (B, T) -> (B * T, V)
        x = self.ln_f(self.h(self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]))
        return (x @ self.wte.weight.T).flatten(0, 1)


class Llama(nn.Module):
    """The Llama of transformers with tied embeddings, as in configs/presets/llama_char.toml."""

    def __init__(self, vocabulary=65, context=256, width=384, layers=6, heads=6, key_heads=2, hidden=1024):
        super().__init__()
        import transformers  # the other models do without it
        self.model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=vocabulary, max_position_embeddings=context, hidden_size=width, num_hidden_layers=layers,
            num_attention_heads=heads, num_key_value_heads=key_heads, intermediate_size=hidden, tie_word_embeddings=True,
            rms_norm_eps=1e-5, attn_implementation="sdpa"))

    def forward(self, tokens):  # (B, T) -> (B * T, V)
        return self.model(input_ids=tokens, use_cache=False).logits.flatten(0, 1)


def gpt2():
    """GPT-2 with 124 million parameters. The preset of runtime uses the other GELU (by tanh), which costs about the
    same. Its 50,257 tokens are padded to a multiple of 64, which PyTorch multiplies faster.
    """
    return Gpt(50304, 1024, 768, 12, 12)


# name: (model, shape of a sample, batch, optimizer), as in configs/bench_*.toml and tools/gpu/gpt2.toml
MODELS = {"lenet": (lenet, (1, 28, 28), 256, sgd(0.0)),
          "mlp": (mlp, (1, 28, 28), 256, sgd(0.0)),
          "resnet18": (resnet18, (3, 32, 32), 64, sgd(0.9)),
          "resnet50": (resnet50, (3, 224, 224), 8, sgd(0.9)),
          "gpt": (Gpt, (256,), 8, adamw),
          "llama": (Llama, (256,), 8, adamw),
          "gpt2": (gpt2, (1024,), 8, adamw)}
CLASSES = {"resnet50": 1000, "gpt": 65, "llama": 65, "gpt2": 50257}


def fashion_mnist(folder, batch):
    """Reads the whole training set, as a training does, and returns one random batch."""
    with gzip.open(os.path.join(folder, "train-images-idx3-ubyte.gz")) as f:
        images = torch.frombuffer(bytearray(f.read()), dtype=torch.uint8, offset=16).view(-1, 1, 28, 28)
    with gzip.open(os.path.join(folder, "train-labels-idx1-ubyte.gz")) as f:
        labels = torch.frombuffer(bytearray(f.read()), dtype=torch.uint8, offset=8)
    chosen = torch.randperm(len(images))[:batch]
    return images[chosen].float() / 255, labels[chosen].long()


def timed(run, arguments):
    """Runs the steps and returns the last loss and the seconds of each step after the warm-up. A GPU's steps are timed by
    its events, so that no step waits for the one before.
    """
    gpu = arguments.device != "cpu"
    marks, end = [], time.perf_counter() + arguments.seconds
    for step in range(arguments.warm_up + arguments.steps + 1):
        if gpu:
            mark = torch.cuda.Event(enable_timing=True)
            mark.record()
        else:
            mark = time.perf_counter()
        if step >= arguments.warm_up:
            marks.append(mark)
        if len(marks) > arguments.steps or (len(marks) > 3 and time.perf_counter() > end):
            break
        loss = run()
    if not gpu:
        return loss, [b - a for a, b in zip(marks, marks[1:])]
    torch.cuda.synchronize()
    return loss, [a.elapsed_time(b) / 1e3 for a, b in zip(marks, marks[1:])]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--layout", choices=("nchw", "nhwc"), default="nchw")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8, help="stop after so long, but not before 3 steps")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--fashion-mnist", metavar="FOLDER", help="real data instead of random")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, help="another than that of the model's configuration")
    parser.add_argument("--bf16", action="store_true", help="autocast: weights stay float32")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    parser.add_argument("--tf32", action="store_true", help="float32 products by tensor cores; without it neither in matrix "
                        "products nor, where PyTorch's default has it, in convolutions")
    arguments = parser.parse_args()

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = arguments.tf32

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(42)
    make, shape, batch, make_optimizer = MODELS[arguments.model]
    batch, classes = arguments.batch or batch, CLASSES.get(arguments.model, 10)
    if arguments.fashion_mnist:
        images, labels = fashion_mnist(arguments.fashion_mnist, batch)
    elif len(shape) == 1:  # tokens
        images, labels = torch.randint(0, classes, (batch, *shape)), torch.randint(0, classes, (batch * shape[0],))
    else:
        images, labels = torch.randn(batch, *shape), torch.randint(0, classes, (batch,))
    images, labels = images.to(arguments.device), labels.to(arguments.device)
    model = make().train().to(arguments.device)
    if arguments.layout == "nhwc":
        model = model.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    optimizer = make_optimizer(model.parameters())

    def loss_of(inputs, targets):
        return functional.cross_entropy(model(inputs), targets)

    if arguments.compile:  # the loss is compiled, too
        loss_of = torch.compile(loss_of)

    def run():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(images.device.type, torch.bfloat16, enabled=arguments.bf16):
            loss = loss_of(images, labels)
        loss.backward()
        optimizer.step()
        return loss

    loss, times = timed(run, arguments)
    seconds = statistics.median(times)
    print(json.dumps({"step_ms_median": seconds * 1e3, "samples_per_second": batch / seconds,
                      "steps": len(times), "loss": loss.item(), "tf32": arguments.tf32}), flush=True)


if __name__ == "__main__":
    main()
