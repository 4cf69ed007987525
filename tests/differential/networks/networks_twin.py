"""The network of a configuration in PyTorch: an independent implementation of configs/README.md and plugins/operations.md.

`Network(model)` reads the [model] table. `declare` names the parameters; `forward` computes with tensors that the caller holds,
so that one description serves every type and any weights. Images are [N, C, H, W] here, tokens [N, T, C], vectors [N, F].
"""
import math
import os

import numpy as np
import torch
import torch.nn.functional as F

from networks_noise import Noise, NoisyConvolution, NoisyMean, NoisyNormalisation, NoisyProduct, NoisySoftmax, StoredActivation

try:
    import tomllib
except ImportError:  # Python below 3.11 cannot read presets
    tomllib = None

PRESETS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../configs/presets")
ACTIVATIONS = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "l2_norm": lambda x: x / torch.sqrt((x * x).sum(-1, keepdim=True) + 1e-24),
}
# The default name of an unnamed layer, before its number.
SHORT_NAMES = {
    "conv2d": "conv", "linear": "fc", "max_pool2d": "pool", "avg_pool2d": "pool", "adaptive_avg_pool2d": "adaptive_pool",
    "global_avg_pool": "global_pool", "flatten": "flatten", "image_to_tokens": "tokens", "softmax": "softmax",
    "dropout": "dropout", "batch_norm": "bn", "layer_norm": "ln", "rms_norm": "rms_norm", "embedding": "embedding",
    "position_embedding": "position", "sinusoidal_position": "sinusoids", "attention": "attention", "block": "block",
    "residual": "residual", "join": "join", "gated": "gated", "rotary": "rotary", "silu": "silu",
    "auxiliary_head": "aux", "input": "input", "first_token": "first_token", "l2_norm": "l2_norm",
}
CONTAINERS = ("block", "residual", "join", "gated", "attention", "auxiliary_head")


class Unsupported(Exception):
    """PyTorch would not accept this network, or the configuration gives it no meaning."""


class Parameter:
    """The properties of a parameter besides its values. `rows` and `columns` are those of the weight as a matrix, for
    initial values."""

    def __init__(self, shape, kind, layer=None, fan_in=0, fan_out=0):
        self.shape, self.kind, self.layer = tuple(shape), kind, layer or {}
        self.fan_in, self.fan_out = fan_in, fan_out


def pair(value):
    return tuple(value) if isinstance(value, (list, tuple)) else (value, value)


class Rounding(torch.autograd.Function):
    """Rounds activations and their gradients to a 16-bit type."""

    @staticmethod
    def forward(context, x, dtype):
        context.dtype = dtype
        return x.to(dtype).to(x.dtype)

    @staticmethod
    def backward(context, gradient):
        return gradient.to(context.dtype).to(gradient.dtype), None


def philox(counter, key):
    """Philox-4x32-10 (Salmon et al., 2011) on arrays: a counter of four 32-bit words and a key of two."""
    c = [np.asarray(word, dtype=np.uint64) & 0xFFFFFFFF for word in counter]
    k = [np.uint64(word) for word in key]
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> np.uint64(32)) ^ c[1] ^ k[0], b & low, (a >> np.uint64(32)) ^ c[3] ^ k[1], a & low]
        k = [(k[0] + np.uint64(0x9E3779B9)) & low, (k[1] + np.uint64(0xBB67AE85)) & low]
    return c


def dropout_mask(shape, probability, seed, step, base, stream):
    """The mask of kept elements of [N, ...], in the order of the runtime's memory, by the rule in plugins/operations.md."""
    elements = int(np.prod(shape[1:]))
    blocks = (elements + 3) // 4
    e, n = np.meshgrid(np.arange(blocks), np.arange(shape[0]) + base)
    words = philox((e, n, np.full_like(e, step), np.full_like(e, stream)), (seed & 0xFFFFFFFF, seed >> 32))
    r = np.stack(words, -1).reshape(shape[0], -1)[:, :elements]
    return ((r >> np.uint64(8)).astype(np.float64) / 2**24 >= probability).reshape(shape)


def attention_mask(shape, probability, seed, step, base, stream):
    """The mask of kept weights [N, H, T, S] of attention, by the rule in plugins/operations.md."""
    n, h, t, s = shape
    low, high = seed & 0xFFFFFFFF, seed >> 32
    words = philox([np.array([word]) for word in (step & 0xFFFFFFFF, step >> 32, stream, 0xFFFFFFFF)], (low, high))
    key = (int(words[0][0]), int(words[1][0]))
    grid = np.meshgrid(np.arange(n) + base, np.arange(h), np.arange(t), np.arange((s + 3) // 4), indexing="ij")
    words = philox((grid[3], grid[2], grid[1], grid[0]), key)
    r = np.stack(words, -1).reshape(n, h, t, -1)[..., :s]
    return ((r >> np.uint64(8)).astype(np.float64) / 2**24 >= probability)


class Pass:
    """One pass over a batch: the source of its tensors, and records of the pass. `noise` disturbs stored numbers and sums;
    with forward = 0 only those of the backward pass."""

    def __init__(self, tensors, training=True, step=0, base=0, seed=42, rounding=None, noise=(0.0, 0.0), forward=1):
        self.tensors, self.training, self.rounding = tensors, training, rounding
        self.stored_noise, self.noise = noise
        self.forward = forward
        self.step, self.base, self.seed = step, base, seed
        self.declared = None  # name -> Parameter, while parameters are declared
        self.inputs = {}  # the named inputs of the samples
        self.heads = []  # each auxiliary head and its result
        self.counts, self.dropouts = {}, 0
        self.types, self.pairs, self.last = set(), set(), "input"
        self.penalties = []  # name and factor of an L2 penalty, one entry for each layer that asks for it

    def get(self, name, parameter):
        if self.declared is not None:
            if name in self.declared:
                raise Unsupported(f"two parameters are named {name}")
            self.declared[name] = parameter
            value = 1.0 if parameter.kind in ("gamma", "running_var") else 0.01
            self.tensors[name] = torch.full(parameter.shape, value)
        return self.tensors[name]

    def operand(self, x):
        """A number that is stored between two operations and therefore rounded; integers are not."""
        if not x.is_floating_point():
            return x
        if self.stored_noise:
            return Noise.apply(x, self.stored_noise, self.forward)
        return Rounding.apply(x, self.rounding) if self.rounding else x

    def linear(self, x, w, b):
        if not self.noise:
            return F.linear(x, w, b)
        rows = x.reshape(-1, x.shape[-1])
        y = NoisyProduct.apply(rows, w.t(), self.noise, self.forward)
        if b is not None:
            y = y + NoisyProduct.apply(torch.ones_like(rows[:, :1]), b[None], self.noise, self.forward)
        return y.reshape(*x.shape[:-1], -1)

    def convolution(self, x, w, b, stride, padding, dilation, groups):
        winograd = w.shape[2:] in ((3, 3), (5, 5)) and stride == dilation == (1, 1)
        if not self.noise or not winograd:
            return F.conv2d(x, w, b, stride, padding, dilation, groups)
        y = NoisyConvolution.apply(x, w, padding, groups, self.noise, self.forward)
        return y if b is None else y + b[:, None, None]

    def product(self, a, b):
        return NoisyProduct.apply(a, b, self.noise, self.forward) if self.noise else a @ b

    def rounds(self):
        return self.noise or self.stored_noise or self.rounding

    def activation(self, name, x):
        if self.rounds() and name in ("tanh", "sigmoid"):
            return StoredActivation.apply(x, name, self.operand)
        return ACTIVATIONS[name](x)

    def softmax(self, x, dim):
        return NoisySoftmax.apply(x, dim, self.noise, self.operand) if self.rounds() else torch.softmax(x, dim)

    def weighted_mean(self, scores, v, factors=None):
        if factors is not None:
            return self.product(self.softmax(scores, -1) * factors.to(scores.dtype), v)
        if not self.rounds():
            return torch.softmax(scores, -1) @ v
        return NoisyMean.apply(scores, v, self.noise, self.forward, self.operand)

    def normalised(self, x, mean, variance, eps, dims):
        """x normalised with statistics of x itself over `dims`."""
        if not self.noise:
            return (x - mean) / torch.sqrt(variance + eps)
        y = NoisyNormalisation.apply(x, mean.detach(), variance.detach(), eps, dims, self.noise)
        return Noise.apply(y, self.noise, self.forward)


def with_preset(model):
    """The [model] table with the layers of its preset and the keys that override it."""
    if not model.get("preset"):
        return model
    with open(os.path.join(PRESETS, model["preset"] + ".toml"), encoding="utf-8") as file:
        model = {**tomllib.loads(file.read())["model"], **model}
    if model.get("outputs"):
        model["layers"][-1]["features"] = model["outputs"]
    return model


class Network:
    def __init__(self, model):
        self.model = with_preset(model)
        self.default_dropout = model.get("dropout", -1)

    def declare(self, batch=2):
        """The parameters by name, the output's shape and the coverage, found by applying the network once to zeros."""
        self.run, self.image = Pass({}), None
        self.run.declared = {}
        x = torch.zeros([batch] + list(self.model["input"]))
        try:
            with torch.no_grad():
                y = self.sequence(self.model["layers"], "", x)
        except (RuntimeError, ValueError) as error:
            raise Unsupported(str(error)) from error
        return self.run.declared, tuple(y.shape), self.run

    def forward(self, run, x):
        self.run, self.image = run, None
        return self.sequence(self.model["layers"], "", x)

    def named(self, name, x, shape=None, integers=True):
        """A named input of the samples of x; zeros while parameters are declared."""
        if self.run.declared is not None:
            return torch.zeros([x.shape[0]] + list(shape or [x.shape[1]]), dtype=torch.long if integers else torch.float32)
        return self.run.inputs[name]

    def input(self, layer, name, x):
        self.image = None
        return self.named(layer["input"], x, layer.get("shape") or self.model["input"], layer.get("values") == "integers")

    # ---- names

    def base_name(self, layer, prefix, unnamed):
        if layer.get("name"):
            return layer["name"]
        short = SHORT_NAMES.get(layer["type"], "activation")
        key = prefix + unnamed + short
        self.run.counts[key] = self.run.counts.get(key, 0) + 1
        return f"{unnamed}{short}{self.run.counts[key]}"

    def sequence(self, layers, prefix, x, unnamed=""):
        for layer in layers:
            base = self.base_name(layer, prefix, unnamed)
            repeat = layer.get("repeat", 1)
            for i in range(repeat):
                x = self.apply(layer, prefix + base + (f".{i}" if repeat > 1 else ""), prefix, x)
        return x

    def apply(self, layer, name, prefix, x):
        kind = layer["type"]
        self.run.types.add(kind)
        self.run.pairs.add((self.run.last, kind))
        if kind not in CONTAINERS:
            self.run.last = kind
        if kind in ACTIVATIONS:
            x = self.run.activation(kind, x)
        elif kind in CONTAINERS:
            x = getattr(self, kind)(layer, name + "." if layer.get("prefix", True) else prefix, x)
        else:
            x = getattr(self, kind)(layer, name, x)
        if layer.get("activation"):
            self.run.pairs.add((kind, layer["activation"]))
            self.run.last = layer["activation"]
            x = self.run.activation(layer["activation"], self.run.operand(x))
        return self.run.operand(x)

    # ---- layers

    def block(self, layer, prefix, x):
        return self.sequence(layer["layers"], prefix, x)

    def branches(self, layer, prefix, x, first, second):
        """The results of two lists of layers, each given as its key and what goes before the names of unnamed layers."""
        last, image, kind = self.run.last, self.image, layer["type"]
        y = self.sequence(layer[first[0]], prefix, x, first[1])
        end, self.run.last = self.run.last, last
        main_image, self.image = self.image, image
        other = self.sequence(layer.get(second[0], []), prefix, x, second[1])
        if self.image != main_image:
            self.image = None
        self.run.pairs.add((self.run.last, kind))
        self.run.pairs.add((end, kind))
        self.run.last = kind
        if y.shape != other.shape and layer.get("by") != "concat":
            raise Unsupported(f"branches of {tuple(y.shape)} and {tuple(other.shape)}")
        return y, other

    def residual(self, layer, prefix, x):
        y, shortcut = self.branches(layer, prefix, x, ("layers", ""), ("shortcut", "shortcut."))
        return y + shortcut

    def join(self, layer, prefix, x):
        y, other = self.branches(layer, prefix, x, ("layers", ""), ("other", "other."))
        if layer["by"] == "concat":
            self.image = None
            return torch.cat([y, other], 1 if y.dim() == 4 else -1)
        return y + other if layer["by"] == "add" else y * other

    def gated(self, layer, prefix, x):
        gate, up = self.branches(layer, prefix, x, ("gate", "gate."), ("up", "up."))
        return self.run.activation(layer.get("function", "silu"), gate) * up

    def auxiliary_head(self, layer, prefix, x):
        last, image = self.run.last, self.image
        y = self.sequence(layer["layers"], prefix, x)
        self.run.last, self.image = last, image
        self.run.heads.append((layer, y))
        return x

    def penalise(self, layer, name):
        if layer.get("l2", 0) > 0:
            self.run.penalties.append((name + ".weight", layer["l2"]))

    def weight(self, layer, name, shape, fan_in, fan_out):
        self.penalise(layer, name)
        return self.run.get(name + ".weight", Parameter(shape, "weight", layer, fan_in, fan_out))

    def bias(self, layer, name, size, fan_in):
        if not layer.get("bias", True):
            return None
        return self.run.operand(self.run.get(name + ".bias", Parameter((size,), "bias", layer, fan_in)))

    def conv2d(self, layer, name, x):
        if x.dim() != 4:
            raise Unsupported("a convolution of something else than an image")
        kernel, stride, dilation = pair(layer["kernel"]), pair(layer.get("stride", 1)), pair(layer.get("dilation", 1))
        groups, padding = layer.get("groups", 1), layer.get("padding", 0)
        shape = (layer["channels"], x.shape[1] // groups, *kernel)
        receptive = kernel[0] * kernel[1]
        w = self.weight(layer, name, shape, shape[1] * receptive, shape[0] * receptive)
        b = self.bias(layer, name, shape[0], shape[1] * receptive)
        if padding == "same":
            missing = [max(0, (-(-size // s) - 1) * s + d * (k - 1) + 1 - size)
                       for size, k, s, d in zip(x.shape[2:], kernel, stride, dilation)]
            x = F.pad(x, (missing[1] // 2, missing[1] - missing[1] // 2, missing[0] // 2, missing[0] - missing[0] // 2))
            padding = 0
        return self.run.convolution(x, self.run.operand(w), b, stride, pair(padding), dilation, groups).contiguous()

    def linear(self, layer, name, x):
        if x.dim() == 4:
            raise Unsupported("a linear layer of an image")
        self.image = None
        features = layer["features"]
        if layer.get("tie"):
            self.penalise(layer, layer["tie"])
            w = self.run.tensors[layer["tie"] + ".weight"]
            if w.shape != (features, x.shape[-1]):
                raise Unsupported("a tied table of another shape")
        elif layer.get("file_layout") == "in_out":
            w = self.weight(layer, name, (x.shape[-1], features), x.shape[-1], features).t()
        else:
            w = self.weight(layer, name, (features, x.shape[-1]), x.shape[-1], features)
        return self.run.linear(x, self.run.operand(w), self.bias(layer, name, features, x.shape[-1]))

    def windows(self, layer, x):
        kernel, padding = pair(layer["kernel"]), pair(layer.get("padding", 0))
        if x.dim() != 4 or any(k > size + 2 * p for k, size, p in zip(kernel, x.shape[2:], padding)):
            raise Unsupported("a window that does not fit")
        return kernel, pair(layer.get("stride", kernel)), (padding[1], padding[1], padding[0], padding[0])

    def max_pool2d(self, layer, name, x):
        kernel, stride, padding = self.windows(layer, x)
        return F.max_pool2d(F.pad(x, padding, value=-math.inf), kernel, stride)

    def avg_pool2d(self, layer, name, x):
        kernel, stride, padding = self.windows(layer, x)
        y = F.avg_pool2d(F.pad(x, padding), kernel, stride)
        if layer.get("count_include_pad", True):
            return y
        return y / F.avg_pool2d(F.pad(torch.ones_like(x), padding), kernel, stride)

    def adaptive_avg_pool2d(self, layer, name, x):
        return F.adaptive_avg_pool2d(x, pair(layer["size"]))

    def global_avg_pool(self, layer, name, x):
        if x.dim() == 2:
            raise Unsupported("a mean over the pixels of vectors")
        if layer.get("documents"):
            if x.dim() != 3:
                raise Unsupported("documents of something else than tokens")
            real = (self.named(layer["documents"], x) >= 0).to(x.dtype)
            share = self.run.operand(real / real.sum(1, keepdim=True))
            return self.run.product(share[:, None], x)[:, 0]
        return x.mean((2, 3)) if x.dim() == 4 else x.mean(1)

    def first_token(self, layer, name, x):
        if x.dim() != 3:
            raise Unsupported("the first token of something else")
        return x[:, 0]

    def flatten(self, layer, name, x):
        if x.dim() == 4:
            self.image = tuple(x.shape[1:])
        return x.flatten(1)

    def image_to_tokens(self, layer, name, x):
        if x.dim() != 4:
            raise Unsupported("tokens of something else than an image")
        return x.flatten(2).transpose(1, 2)

    def softmax(self, layer, name, x):
        return self.run.softmax(x, 1 if x.dim() == 4 else -1)

    def dropout(self, layer, name, x):
        probability = self.default_dropout if self.default_dropout >= 0 else layer.get("probability", 0.5)
        stream = self.run.dropouts
        self.run.dropouts += 1
        if not self.run.training or probability == 0 or self.run.declared is not None:
            return x
        # Dropout numbers elements in the order of memory: images as [N, H, W, C], also after they were flattened.
        image = tuple(x.shape[1:]) if x.dim() == 4 else self.image
        stored = (x.shape[0], *image[1:], image[0]) if image else tuple(x.shape)
        kept = torch.from_numpy(dropout_mask(stored, probability, self.run.seed, self.run.step, self.run.base, stream))
        kept = kept.permute(0, 3, 1, 2).reshape(x.shape) if image else kept
        return x * kept.to(x.dtype) / (1 - probability)

    def batch_norm(self, layer, name, x):
        size = x.shape[1] if x.dim() == 4 else x.shape[-1]
        gamma = self.run.get(name + ".weight", Parameter((size,), "gamma", layer))
        beta = self.run.get(name + ".bias", Parameter((size,), "beta", layer))
        mean = self.run.get(name + ".running_mean", Parameter((size,), "running_mean", layer))
        variance = self.run.get(name + ".running_var", Parameter((size,), "running_var", layer))
        rows = x.reshape(-1, size) if x.dim() != 4 else x
        axes = (0, 2, 3) if x.dim() == 4 else (0,)
        form = (1, size, 1, 1) if x.dim() == 4 else (1, size)
        # F.batch_norm is not used: PyTorch 1.13 computes wrong gradients where memory formats mix (an image of [1, 2, 1, 2]
        # with channels last, and the gradient of a mean).
        m, v = mean.reshape(form), variance.reshape(form)
        if self.run.training:
            m = rows.mean(axes, keepdim=True)
            v = ((rows - m) ** 2).mean(axes, keepdim=True)
            self.update_statistics(layer, rows.numel() // size, (mean, m), (variance, v))
            y = self.run.normalised(rows, m, v, layer.get("eps", 1e-5), axes)
        else:
            y = (rows - m) / torch.sqrt(v + layer.get("eps", 1e-5))
        y = y * gamma.reshape(form) + beta.reshape(form)
        return y.reshape(x.shape)

    @staticmethod
    def update_statistics(layer, count, mean, variance):
        if count == 1:
            raise Unsupported("batch normalisation of one value a channel")
        momentum = layer.get("momentum", 0.1)
        for (running, value), factor in ((mean, 1.0), (variance, count / (count - 1))):
            running.mul_(1 - momentum).add_(value.detach().reshape(-1), alpha=momentum * factor)

    def layer_norm(self, layer, name, x):
        image = x.dim() == 4
        if image:  # normalises over the channels of each pixel
            x = x.permute(0, 2, 3, 1)
        size = x.shape[-1]
        gamma = self.run.get(name + ".weight", Parameter((size,), "gamma", layer))
        beta = self.run.get(name + ".bias", Parameter((size,), "beta", layer)) if layer.get("bias", True) else 0
        # F.layer_norm is not used: for a single feature its mean differs from that feature by rounding, and 1 / sqrt(eps)
        # amplifies the difference.
        m = x.mean(-1, keepdim=True)
        v = ((x - m) ** 2).mean(-1, keepdim=True)
        y = self.run.normalised(x, m, v, layer.get("eps", 1e-5), -1) * gamma + beta
        return y.permute(0, 3, 1, 2) if image else y

    def rms_norm(self, layer, name, x):
        image = x.dim() == 4
        if image:
            x = x.permute(0, 2, 3, 1)
        shape = x.shape
        x = x.reshape(*shape[:-1], layer.get("heads", 1), -1)
        weight = self.run.get(name + ".weight", Parameter((x.shape[-1],), "gamma", layer))
        y = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + layer.get("eps", 1e-6)) * weight
        y = y.reshape(shape)
        return y.permute(0, 3, 1, 2) if image else y

    def rotary(self, layer, name, x):
        n, t, width = x.shape
        heads = x.reshape(n, t, layer["heads"], -1)
        d = layer.get("columns", 0) or heads.shape[-1]
        pairs = layer.get("base", 10000.0) ** -(torch.arange(0, d, 2, dtype=torch.float64) / d)
        if layer.get("scaling", "none") == "linear":
            pairs = pairs / layer["factor"]
        angles = torch.arange(t, dtype=torch.float64)[:, None, None] * pairs
        cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second, rest = heads[..., :d // 2], heads[..., d // 2:d], heads[..., d:]
        y = torch.cat([first * cosine - second * sine, second * cosine + first * sine, rest], -1)
        return y.reshape(n, t, width)

    def embedding(self, layer, name, x):
        if x.dim() != 2:
            raise Unsupported("an embedding of something else than tokens")
        self.penalise(layer, name)
        table = self.run.get(name + ".weight", Parameter((layer["vocabulary"], layer["features"]), "table", layer,
                                                         layer["features"], layer["vocabulary"]))
        return F.embedding(x.long(), self.run.operand(table))

    def position_embedding(self, layer, name, x):
        if x.dim() != 3:
            raise Unsupported("places of something else than tokens")
        rows = layer.get("length", 0) or x.shape[1]
        self.penalise(layer, name)
        table = self.run.get(name + ".weight", Parameter((rows, x.shape[2]), "table", layer, x.shape[2], rows))
        if layer.get("positions"):
            return x + F.embedding(self.named(layer["positions"], x).long(), self.run.operand(table))
        return x + self.run.operand(table)[:x.shape[1]]

    def sinusoidal_position(self, layer, name, x):
        if x.dim() != 3:
            raise Unsupported("places of something else than tokens")
        places, features = x.shape[1:]
        pair = torch.arange(features).double() // 2
        angles = torch.arange(places).double()[:, None] * layer.get("base", 10000.0) ** (-2 * pair / features)
        table = torch.where(torch.arange(features) % 2 == 0, angles.sin(), angles.cos()).to(x.dtype)
        if layer.get("positions"):
            return x + F.embedding(self.named(layer["positions"], x).long(), table)
        return x + table

    def attention(self, layer, prefix, x):
        """Heads of keys may be shared by neighbouring heads of queries; queries, keys and values are columns or branches."""
        heads, shared = layer["heads"], layer.get("key_heads", 0) or layer["heads"]
        if x.dim() != 3:
            raise Unsupported("attention of something else than tokens")
        n, t = x.shape[:2]
        if any(layer.get(key) for key in ("query", "key", "value")):
            last = self.run.last
            q, k, v = (self.branch(layer.get(key, []), prefix, x, key + ".", last) for key in ("query", "key", "value"))
        elif x.shape[2] % (heads + 2 * shared):
            raise Unsupported("attention of a width that does not divide into queries, keys and values")
        else:
            d = x.shape[2] // (heads + 2 * shared)
            q, k, v = x.split((heads * d, shared * d, shared * d), 2)
        if q.shape[2] % heads or k.shape[2] % shared or v.shape[2] % shared or q.shape[2] // heads != k.shape[2] // shared:
            raise Unsupported("queries and keys of different widths")
        q, k, v = (part.reshape(n, t, count, -1).transpose(1, 2) for part, count in ((q, heads), (k, shared), (v, shared)))
        k, v = (part.repeat_interleave(heads // shared, 1) for part in (k, v))
        scores = self.run.product(q, k.transpose(2, 3)) * (layer.get("scale", 0) or 1 / math.sqrt(q.shape[3]))
        hidden = torch.ones(t, t, dtype=torch.bool).triu(1) if layer.get("causal", False) else torch.zeros(t, t, dtype=torch.bool)
        if layer.get("window", 0):
            hidden = hidden | torch.ones(t, t, dtype=torch.bool).tril(-layer["window"])
        if layer.get("documents"):
            documents = self.named(layer["documents"], x)
            same = (documents[:, :, None] == documents[:, None, :]) & (documents >= 0)[:, :, None]
            hidden = (hidden | ~same)[:, None].expand(scores.shape)
        # A query that sees no key gives 0.
        blind = hidden.all(-1, keepdim=True)
        scores = scores.masked_fill(hidden & ~blind, -math.inf)
        y = self.run.weighted_mean(scores, v, self.kept_weights(layer, n, heads, t))
        y = y.masked_fill(blind, 0.0)
        return y.transpose(1, 2).reshape(n, t, -1)

    def branch(self, layers, prefix, x, unnamed, last):
        self.run.last = last
        return self.sequence(layers, prefix, x, unnamed)

    def kept_weights(self, layer, n, heads, t):
        """What the weights of attention are multiplied by where they have dropout, or None."""
        if not layer.get("dropout", 0):
            return None
        probability = self.default_dropout if self.default_dropout >= 0 else layer["dropout"]
        if probability == 0:
            return None
        stream = self.run.dropouts
        self.run.dropouts += 1
        if not self.run.training or self.run.declared is not None:
            return None
        kept = attention_mask((n, heads, t, t), probability, self.run.seed, self.run.step, self.run.base, stream)
        return torch.from_numpy(kept / (1 - probability))
