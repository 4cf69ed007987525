"""Random networks and options that the schema (`runtime config schema`, configs/README.md) accepts and PyTorch can compute.

A shape is ("image", c, h, w), ("tokens", t, c), ("vector", f) or ("ids", t). A case is a dictionary: "config" (the sections of
the TOML file), "data" (how its data are drawn) and "seed"; the whole case follows from the seed.
"""
import random

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "tanh", "sigmoid")
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 16, 17, 19)
CHANNELS = (1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 24, 32)
MOST_ELEMENTS = 3000  # in one activation of one sample
MOST_PRODUCTS = 1 << 20  # in one layer, for one sample
LISTS = ("layers", "shortcut", "other", "gate", "up", "query", "key", "value")  # keys of layers whose values are layers
SMOOTH = 0.2  # probability that a network has neither ReLU nor max-pooling


def pair(value):
    return tuple(value) if isinstance(value, (list, tuple)) else (value, value)


def elements(shape):
    n = 1
    for size in shape[1:]:
        n *= size
    return n


def window_size(size, kernel, stride, padding, dilation=1):
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


class Networks:
    """Draws the layers of one network. `rows` is the smallest number of samples in a pass, which limits batch normalisation."""

    def __init__(self, draw, rows, batch_norm=True, dropout=False):
        self.r, self.rows, self.batch_norm, self.dropout = draw, rows, batch_norm, dropout
        self.smooth = draw.random() < SMOOTH
        self.names = 0
        self.inputs = {}  # the named inputs that layers read: name -> shape, values and the range of integers
        self.named = draw.random() < 0.35  # whether layers may read any
        self.separator = None  # of a language model whose text has documents

    def chance(self, probability):
        return self.r.random() < probability

    def activation(self):
        choices = ACTIVATIONS[1:] if self.smooth else ACTIVATIONS
        return self.r.choice(choices)

    # ---- keys that every layer may have

    def decorate(self, layer, shape=None, after=None):
        """Adds common keys at random. `after` is the shape behind the layer; the layer may repeat if it equals the shape
        before it."""
        kind = layer["type"]
        if kind in ("conv2d", "linear", "residual", "join") and self.chance(0.45):
            layer["activation"] = self.activation()
        if kind in ("batch_norm", "layer_norm", "rms_norm") and self.chance(0.35):
            layer["activation"] = self.activation()
        if kind in ("conv2d", "linear", "embedding", "position_embedding"):
            if self.chance(0.1):
                layer["l2"] = self.r.choice((0.0, 1e-4, 0.01, 0.1))
            if self.chance(0.15):
                layer["init"] = self.init()
        if self.chance(0.35):
            self.names += 1
            layer["name"] = self.r.choice(("n{}", "a.b{}", "deep.er.x{}", "m-{}", "k_{}")).format(self.names)
        repeatable = ("conv2d", "linear", "max_pool2d", "avg_pool2d", "residual", "block")
        if kind in repeatable and shape is not None and shape == after and self.chance(0.2):
            layer["repeat"] = self.r.choice((1, 2, 2, 3))
        if kind in ("residual", "block") and "repeat" not in layer and self.chance(0.2):
            layer["prefix"] = self.r.choice((True, False, False))
        return layer

    def init(self):
        kind = self.r.choice(("default", "xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal",
                              "normal", "uniform", "constant"))
        if kind in ("normal", "uniform", "constant"):
            return {kind: self.r.choice((0.02, 0.1, 0.3) if kind != "constant" else (0.0, 0.05, -0.1))}
        return kind

    def both(self, values, same=0.6):
        """One number for both height and width, or two numbers."""
        if self.chance(same):
            return self.r.choice(values)
        return [self.r.choice(values), self.r.choice(values)]

    # ---- layers; each function returns the layer and the shape behind it, or None where the layer is impossible

    def conv2d(self, shape, keep=False):
        _, c, h, w = shape
        groups = self.r.choice([g for g in range(1, c + 1) if c % g == 0]) if self.chance(0.4) else 1
        out = groups * self.r.choice((1, 1, 2, 3, 4, 5, 8)) if groups > 1 else self.r.choice(CHANNELS)
        layer = {"type": "conv2d", "channels": c if keep else out, "kernel": self.both((1, 2, 3, 3, 3, 4, 5, 7))}
        if keep or self.chance(0.25):
            layer["padding"] = "same"
        elif self.chance(0.6):
            layer["padding"] = self.both((0, 1, 1, 2, 3))
        if self.chance(0.3):
            layer["dilation"] = self.both((1, 2, 3))
        if not keep and self.chance(0.35):
            layer["stride"] = self.both((1, 2, 2, 3))
        if groups > 1 and layer["channels"] % groups == 0:
            layer["groups"] = groups
        if self.chance(0.3):
            layer["bias"] = False
        kernel, stride, dilation = pair(layer["kernel"]), pair(layer.get("stride", 1)), pair(layer.get("dilation", 1))
        if layer.get("padding") == "same":
            size = [-(-n // s) for n, s in zip((h, w), stride)]
        else:
            size = [window_size(n, k, s, p, d) for n, k, s, p, d in
                    zip((h, w), kernel, stride, pair(layer.get("padding", 0)), dilation)]
        products = layer["channels"] * c // layer.get("groups", 1) * kernel[0] * kernel[1] * max(1, size[0]) * max(1, size[1])
        if min(size) < 1 or products > MOST_PRODUCTS:
            return None
        return layer, ("image", layer["channels"], *size)

    def pool(self, shape, kind):
        _, c, h, w = shape
        layer = {"type": kind, "kernel": self.both((1, 2, 2, 3, 3, 4, 5))}
        kernel = pair(layer["kernel"])
        if self.chance(0.5):
            layer["stride"] = self.both((1, 1, 2, 3))
        if self.chance(0.4):  # PyTorch pads by at most half of the window
            padding = [self.r.randint(0, k // 2) for k in kernel]
            layer["padding"] = padding[0] if padding[0] == padding[1] else padding
        if kind == "avg_pool2d" and self.chance(0.4):
            layer["count_include_pad"] = self.r.choice((True, False))
        stride = pair(layer.get("stride", layer["kernel"]))
        size = [window_size(n, k, s, p) for n, k, s, p in zip((h, w), kernel, stride, pair(layer.get("padding", 0)))]
        return None if min(size) < 1 else (layer, ("image", c, *size))

    def max_pool2d(self, shape):
        return None if self.smooth else self.pool(shape, "max_pool2d")

    def avg_pool2d(self, shape):
        return self.pool(shape, "avg_pool2d")

    def adaptive_avg_pool2d(self, shape):
        size = [self.r.choice([d for d in range(1, n + 1) if n % d == 0]) for n in shape[2:]]
        return {"type": "adaptive_avg_pool2d", "size": size[0] if size[0] == size[1] else size}, ("image", shape[1], *size)

    def plain(self, shape):
        kind = self.r.choice(ACTIVATIONS + ("softmax", "dropout", "silu", "l2_norm"))
        if kind == "l2_norm" and shape[0] == "image":
            kind = "silu"
        if kind == "relu" and self.smooth:
            kind = "tanh"
        layer = {"type": kind}
        if kind == "dropout":
            layer["probability"] = self.r.choice((0.0, 0.1, 0.5)) if self.dropout else 0.0
        return layer, shape

    def normalisation(self, shape):
        pixels = elements(shape) // (shape[1] if shape[0] == "image" else shape[-1])
        kind = self.r.choice(("batch_norm", "layer_norm", "rms_norm"))
        if kind == "batch_norm" and (not self.batch_norm or self.rows * pixels < 2):
            return None
        layer = {"type": kind}
        if self.chance(0.3):
            layer["eps"] = self.r.choice((1e-5, 1e-3, 0.1))
        if kind == "rms_norm" and shape[0] == "tokens" and self.chance(0.5):
            layer["heads"] = self.r.choice([h for h in range(1, shape[2] + 1) if shape[2] % h == 0])
        if kind == "layer_norm" and self.chance(0.25):
            layer["bias"] = False
        if kind == "batch_norm" and self.chance(0.3):
            layer["momentum"] = self.r.choice((0.01, 0.3, 0.9, 1.0))
        return layer, shape

    def linear(self, shape, features=0):
        features = features or self.r.choice(CHANNELS + (33, 64))
        if features * elements(shape) > MOST_PRODUCTS:
            return None
        layer = {"type": "linear", "features": features}
        if self.chance(0.3):
            layer["bias"] = False
        if self.chance(0.15):
            layer["file_layout"] = self.r.choice(("out_in", "in_out"))
        return layer, (*shape[:-1], features)

    def attention(self, shape):
        """A block of a linear layer and an attention, or an attention with branches, for `tokens` only."""
        shared, width = self.r.choice((1, 1, 2, 3)), self.r.choice((1, 2, 3, 4, 5, 8))
        heads = shared * self.r.choice((1, 1, 2, 3))
        layer = {"type": "attention", "heads": heads}
        if heads != shared:
            layer["key_heads"] = shared
        if self.chance(0.5):
            layer["causal"] = self.r.choice((True, False))
        if layer.get("causal") and self.chance(0.3):
            layer["window"] = self.r.choice((1, 2, 3, 7, 40))
        if self.chance(0.2):
            layer["scale"] = self.r.choice((0.1, 1.0))
        if self.dropout and self.chance(0.4):
            layer["dropout"] = self.r.choice((0.1, 0.5))
        if self.chance(0.4) and (documents := self.documents(shape[1])):
            layer["documents"] = documents
        if self.chance(0.5):
            inner = [{"type": "linear", "features": (heads + 2 * shared) * width}, layer]
            return {"type": "block", "layers": inner}, ("tokens", shape[1], heads * width)
        own = self.r.choice((width, width, self.r.choice((1, 3, 6))))  # columns of the values of a head
        branch = lambda count, columns: [self.decorate({"type": "linear", "features": count * columns})]
        layer.update(query=branch(heads, width), key=branch(shared, width), value=branch(shared, own))
        for key, count in (("query", heads), ("key", shared)):
            if width > 1 and self.chance(0.4):
                if self.chance(0.5):
                    layer[key].append({"type": "rms_norm", "heads": count})
                layer[key].append({"type": "rotary", "heads": count, "columns": width // 2 * 2})
        if self.chance(0.3):
            layer["prefix"] = False
        return layer, ("tokens", shape[1], heads * own)

    # ---- named inputs

    def new_input(self, shape, values="numbers", least=0, most=0):
        name = f"in{len(self.inputs)}"
        self.inputs[name] = {"shape": list(shape), "values": values, "least": least, "most": most}
        return name

    def documents(self, length):
        """The name of an input that says to which document each token belongs, or None."""
        if self.separator is not None:
            return "documents"
        return self.new_input([length], "integers", -1, 2) if self.named else None

    def extra(self, shape):
        """Layers that begin with a named input and give a shape of the kind of `shape`, and that shape; or None."""
        if not self.named or len(self.inputs) > 5:
            return None
        length = shape[1]
        if shape[0] == "tokens" and self.chance(0.6):
            rows, features = self.r.choice((1, 2, 5)), self.r.choice(CHANNELS)
            name = "segments" if self.separator is not None else self.new_input([length], "integers", 0, rows - 1)
            layers = [{"type": "input", "input": name, "shape": [length], "values": "integers"},
                      self.decorate({"type": "embedding", "vocabulary": rows, "features": features})]
            return layers, ("tokens", length, features)
        if self.separator is not None:
            return None
        if shape[0] == "vector" and self.chance(0.4):
            rows, count, features = self.r.choice((1, 2, 7)), self.r.choice((1, 2, 3)), self.r.choice((1, 2, 5))
            layers = [{"type": "input", "input": self.new_input([count], "integers", 0, rows - 1), "shape": [count], "values": "integers"},
                      self.decorate({"type": "embedding", "vocabulary": rows, "features": features}), {"type": "flatten"}]
            return layers, ("vector", count * features)
        own = list(shape[1:])
        if shape[0] != "image":
            own[-1] = self.r.choice(CHANNELS)
        return [{"type": "input", "input": self.new_input(own), "shape": own}], (shape[0], *own)

    def with_input(self, shape):
        """A join of the layers before with a named input."""
        found = self.extra(shape)
        if found is None:
            return None
        layers, after = found
        by = self.r.choice(("add", "multiply", "concat"))
        if by == "concat":
            at = 1 if shape[0] == "image" else len(shape) - 1
            if after[:at] + after[at + 1:] != shape[:at] + shape[at + 1:]:
                return None
            return {"type": "join", "layers": layers, "by": by}, (*shape[:at], after[at] + shape[at], *shape[at + 1:])
        bridge = self.bridge(after, shape)
        if bridge is None:
            return None
        return {"type": "join", "layers": layers + bridge, "by": by}, shape

    def rotary(self, shape):
        """Turns tokens whose heads have at least two features."""
        heads = self.r.choice([h for h in range(1, shape[2] + 1) if shape[2] % h == 0])
        width = shape[2] // heads
        if width < 2:
            return None
        layer = {"type": "rotary", "heads": heads}
        if width % 2 or self.chance(0.3):
            layer["columns"] = self.r.choice(range(2, width + 1, 2))
        if self.chance(0.5):
            layer["base"] = self.r.choice((100.0, 10000, 500000.0))
        if self.chance(0.3):
            layer.update(scaling="linear", factor=self.r.choice((1, 2.5, 8)))
        return layer, shape

    def join(self, shape, depth):
        """Two branches, by a sum, a product or side by side, or as the gate of the other."""
        layers, after = self.sequence(shape, self.r.randint(1, 2), depth + 1)
        if not layers:
            return None
        other = self.bridge(shape, after)
        if other is None:
            return None
        if not other and self.chance(0.5):
            other = self.keeping(shape, depth)
        if self.chance(0.4):
            function = self.r.choice(("silu", "gelu", "gelu_tanh", "tanh", "sigmoid") + (() if self.smooth else ("relu",)))
            layer = {"type": "gated", "gate": layers, "function": function}
            return ({**layer, "up": other} if other else layer), after
        by = self.r.choice(("add", "multiply", "concat"))
        layer = {"type": "join", "layers": layers, "by": by}
        if other:
            layer["other"] = other
        if by != "concat":
            return layer, after
        at = 1 if after[0] == "image" else len(after) - 1
        return layer, (*after[:at], 2 * after[at], *after[at + 1:])

    def auxiliary_head(self, shape, depth):
        """A branch with a loss of its own; the positions of a text with documents are its labels."""
        if len(self.inputs) > 5:
            return None
        layers, after = self.sequence(shape, self.r.randint(0, 2), depth + 1)
        if self.separator is None and after[0] != "vector":
            layers, after = layers + [{"type": "flatten"}], ("vector", elements(after))
        classes = shape[1] if self.separator is not None else self.r.choice((1, 2, 3, 5))
        last = self.linear(after, classes)
        if last is None or after[0] not in ("vector", "tokens"):
            return None
        head = {"type": "auxiliary_head", "layers": layers + [self.decorate_head(last[0])]}
        if self.separator is not None:
            head["target"] = "positions"
        elif self.chance(0.5):
            head["target"] = self.new_input([1], "integers", 0, classes - 1)
        else:
            head.update(target=self.new_input([classes]), loss=self.r.choice(("mean_squared_error", "mean_absolute_error", "huber")))
        if self.chance(0.7):
            head["loss_weight"] = self.r.choice((0.1, 0.4, 3.0))
        return head, shape

    def position_embedding(self, shape):
        layer = {"type": "position_embedding"}
        if self.chance(0.3):
            layer = {"type": "sinusoidal_position", "base": self.r.choice((10000.0, 50.0))}
        elif self.chance(0.5):
            layer["length"] = shape[1] + self.r.choice((0, 0, 1, 5))
        if self.separator is not None and self.chance(0.5):
            layer["positions"] = "positions"
        elif self.named and self.separator is None and self.chance(0.4):
            layer["positions"] = self.new_input([shape[1]], "integers", 0, shape[1] - 1)
        return layer, shape

    def mean_of_tokens(self, shape):
        layer = {"type": "global_avg_pool"}
        if self.named and self.separator is None and self.chance(0.5):
            layer["documents"] = self.new_input([shape[1]], "integers", -1, 1)
        return layer, ("vector", shape[2])

    def bridge(self, before, after):
        """Layers from one shape to another, for the shortcut of a residual."""
        if before == after:
            return []
        if before[0] == after[0] == "image":
            (_, _, h, w), (_, c, u, v) = before, after
            layer = {"type": "conv2d", "channels": c, "kernel": 1}
            if (h, w) != (u, v):
                padding = [max(0, (b - a + 1) // 2) for a, b in ((h, u), (w, v))]
                stride = [self.r.randint(1, max(1, (a + 2 * p - 1) // max(1, b - 1))) if b > 1 else 1
                          for a, b, p in ((h, u, padding[0]), (w, v, padding[1]))]
                kernel = [a + 2 * p - (b - 1) * s for a, b, p, s in ((h, u, padding[0], stride[0]), (w, v, padding[1], stride[1]))]
                layer.update(kernel=kernel, stride=stride, padding=padding)
            return [self.decorate(layer)]
        if before[0] == after[0]:
            if before[0] == "tokens" and before[1] != after[1]:
                return None
            return [self.decorate({"type": "linear", "features": after[-1]})]
        if before[0] == "image" and after[0] == "tokens" and before[2] * before[3] == after[1]:
            return [{"type": "image_to_tokens"}, {"type": "linear", "features": after[-1]}]
        if after[0] == "vector":
            return [{"type": "flatten"}, {"type": "linear", "features": after[-1]}]
        return None

    def residual(self, shape, depth):
        layers, after = self.sequence(shape, self.r.randint(1, 3), depth + 1)
        if not layers:
            return None
        if after != shape and self.chance(0.5):  # returns to the first shape, so that the shortcut may be empty
            back = self.bridge(after, shape) if after[0] == shape[0] else None
            if back:
                layers, after = layers + back, shape
        shortcut = self.bridge(shape, after)
        if shortcut is None:
            return None
        if not shortcut and self.chance(0.3):
            shortcut = self.keeping(shape, depth)
        layer = {"type": "residual", "layers": layers}
        if shortcut:
            if self.chance(0.25) and (extra := self.normalisation(after)):
                shortcut.append(self.decorate(extra[0]))
            layer["shortcut"] = shortcut
        return layer, after

    def keeping(self, shape, depth):
        """One or two layers that keep the shape."""
        layers = []
        for _ in range(self.r.randint(1, 2)):
            makers = [self.plain, self.normalisation]
            makers.append((lambda s: self.conv2d(s, keep=True)) if shape[0] == "image" else lambda s: self.linear(s, s[-1]))
            found = self.r.choice(makers)(shape)
            if found:
                layers.append(self.decorate(found[0]))
        return layers

    def block(self, shape, depth):
        layers, after = self.sequence(shape, self.r.randint(1, 3), depth + 1)
        return ({"type": "block", "layers": layers}, after) if layers else None

    def candidates(self, shape, depth):
        nested = [lambda s: self.residual(s, depth)] * 2 + [lambda s: self.block(s, depth), lambda s: self.join(s, depth)]
        if self.named:
            nested.append(lambda s: self.auxiliary_head(s, depth))
        nested = nested if depth < 3 else []
        every = [self.plain, self.plain, self.normalisation, self.normalisation] + nested + [self.with_input] * (2 if self.named else 0)
        if shape[0] == "image":
            to_vector = [lambda s: ({"type": "flatten"}, ("vector", elements(s))),
                         lambda s: ({"type": "global_avg_pool"}, ("vector", s[1])),
                         lambda s: ({"type": "image_to_tokens"}, ("tokens", s[2] * s[3], s[1])),
                         lambda s: ({"type": "image_to_tokens"}, ("tokens", s[2] * s[3], s[1]))]
            return every + [self.conv2d] * 5 + [self.max_pool2d, self.avg_pool2d, self.adaptive_avg_pool2d] + \
                ([self.r.choice(to_vector)] if self.chance(0.2) else [])
        if shape[0] == "tokens":
            to_vector = [lambda s: ({"type": "flatten"}, ("vector", elements(s))),
                         self.mean_of_tokens, lambda s: ({"type": "first_token"}, ("vector", s[2]))]
            return every + [self.linear] * 3 + [self.attention] * 2 + [self.position_embedding, self.rotary] + \
                ([self.r.choice(to_vector)] if self.chance(0.15) and self.to_vectors else [])
        return every + [self.linear] * 4

    to_vectors = True

    def sequence(self, shape, count, depth=0):
        layers = []
        for _ in range(count):
            found = self.one_of(shape, depth)
            if found is None:
                continue
            layers.append(self.decorate(found[0], shape, found[1]))
            shape = found[1]
        return layers, shape

    def one_of(self, shape, depth):
        """A layer that fits, or None if a few trials find none."""
        for _ in range(4):
            found = self.r.choice(self.candidates(shape, depth))(shape)
            if found is not None and elements(found[1]) <= MOST_ELEMENTS:
                return found
        return None

    # ---- whole networks

    def images(self):
        shape = ("image", self.r.choice(CHANNELS), self.r.choice(SIZES), self.r.choice(SIZES))
        layers, after = self.sequence(shape, self.r.randint(1, 9))
        return list(shape[1:]), *self.head(layers, after)

    def vectors(self):
        shape = ("vector", self.r.choice(CHANNELS + (33, 64)))
        layers, after = self.sequence(shape, self.r.randint(1, 6))
        return list(shape[1:]), *self.head(layers, after)

    def tokens(self, language_model):
        length, vocabulary, width = self.r.choice((1, 2, 3, 5, 8, 13, 16)), self.r.choice((2, 5, 11, 32)), self.r.choice(CHANNELS)
        table = self.decorate({"type": "embedding", "vocabulary": vocabulary, "features": width})
        self.to_vectors = not language_model
        if language_model and self.named:
            self.separator = self.r.randrange(vocabulary)
        layers, after = self.sequence(("tokens", length, width), self.r.randint(1, 6))
        layers = [table] + layers
        if language_model:
            head = {"type": "linear", "features": vocabulary}
            if after[-1] == width and self.chance(0.6):
                table["name"] = "wte"
                head.update(tie="wte", bias=self.chance(0.5))
            return [length], layers + [self.decorate_head(head)], ("tokens", length, vocabulary), vocabulary
        return [length], *self.head(layers, after), vocabulary

    def decorate_head(self, head):
        head = self.decorate(head)
        for key in ("activation",) + (("init", "l2") if "tie" in head else ()):  # a tied head takes these from the embedding
            head.pop(key, None)
        return head

    def head(self, layers, after):
        """Flattens to vectors, mostly with a linear layer after them; without it the features themselves are the classes."""
        if after[0] != "vector":
            pool = self.chance(0.4)
            layers = layers + [{"type": "global_avg_pool" if pool else "flatten"}]
            after = ("vector", (after[1] if after[0] == "image" else after[2]) if pool else elements(after))
        if self.chance(0.85) or not 2 <= after[1] <= 64 or not layers:
            features = self.r.choice((2, 3, 5, 10))
            layers = layers + [self.decorate_head({"type": "linear", "features": features})]
            after = ("vector", features)
        return layers, after


# ---- options

def regression_loss(r):
    found = r.choice(({}, {"loss": "mean_squared_error"}, {"loss": "mean_absolute_error"}, {"loss": "huber"},
                      {"loss": "binary_cross_entropy"}, {"loss": "kl_divergence"}))
    if found.get("loss") == "huber" and r.random() < 0.5:
        return {"loss": "huber", "huber_delta": r.choice((0.1, 0.5, 2.0))}
    return found


def update_rule(r):
    name = r.choice(("sgd",) * 8 + ("adamw",) * 4 + ("adam", "adam", "rmsprop", "rmsprop", "adagrad", "lion"))
    found = {"name": name, "lr": r.choice((0.0, 0.001, 0.01, 0.05) if name == "sgd" else (1e-4, 1e-3, 5e-3))}
    if name in ("sgd", "rmsprop") and r.random() < 0.5:
        found["momentum"] = r.choice((0.0, 0.5, 0.9))
        if name == "sgd" and found["momentum"] and r.random() < 0.5:
            found.update(r.choice(({"nesterov": True}, {"dampening": r.choice((0.1, 0.5, 1.0))})))
    if name in ("adam", "adamw", "lion") and r.random() < 0.5:
        found["betas"] = [r.choice((0.0, 0.5, 0.9, 0.95)), r.choice((0.9, 0.99, 0.999, 0.9999))]
    if name not in ("sgd", "lion") and r.random() < 0.5:
        found["eps"] = r.choice((1e-8, 1e-6, 1e-3))
    if name == "rmsprop" and r.random() < 0.5:
        found["alpha"] = r.choice((0.5, 0.9, 0.99))
        found["centered"] = r.random() < 0.5 and found.get("eps", 0) == 1e-3  # the root of a rounded zero is not compared
    if name == "adagrad" and r.random() < 0.5:
        found["initial_accumulator"] = r.choice((0.0, 0.1, 1.0))
    if r.random() < 0.4:
        found["weight_decay"] = r.choice((0.0, 1e-4, 0.01, 0.1))
        if r.random() < 0.5:
            found["weight_decay_on"] = r.choice(("all", "matrices"))
    return found


def optimizer(r):
    """One rule; or, every fifth time, some for groups of parameters, whose patterns are chosen when the names are known."""
    found = update_rule(r)
    if r.random() < 0.15:
        found["average_decay"] = r.choice((0.5, 0.9, 0.99))
    if r.random() < 0.2 and found["lr"]:
        found["group"] = []
        for _ in range(r.choice((1, 1, 2, 3))):
            group = update_rule(r) if r.random() < 0.5 else {"lr": found["lr"] * r.choice((0.0, 0.1, 3.0))}
            if r.random() < 0.3:
                group["weight_decay"] = r.choice((0.0, 0.1))
            found["group"].append(group)
    return found


def lr_scheduler(r, lr, batch):
    found = {"name": r.choice(("constant", "step", "multi_step", "cosine", "linear"))}
    if found["name"] == "step":
        found.update(step_size=r.choice((1, 2)), gamma=r.choice((0.1, 0.5, 1.0)))
    if found["name"] == "multi_step":
        found.update(milestones=sorted(r.sample((1, 2, 3, 4), r.randint(1, 2))), gamma=r.choice((0.1, 0.5)))
    if r.random() < 0.4:
        found["warmup_steps"] = r.choice((0, 1, 2, 3, 7))
    if found["name"] in ("cosine", "linear") and r.random() < 0.6:
        found["decay_steps"] = found.get("warmup_steps", 0) + r.choice((1, 2, 3, 4, 10))
    if r.random() < 0.3:
        found["min_lr"] = lr * r.choice((0.0, 0.1, 0.5, 1.0))
    if r.random() < 0.2:
        found.update(scale_with_batch=r.choice(("none", "linear", "sqrt")), reference_batch_size=r.choice((1, batch, 2 * batch)))
    return found


def batches(r, most=9):
    """Samples, batch size, handling of the last batch, and micro-batches, for five steps that sometimes cross the end of an
    epoch."""
    size = r.choice([n for n in (1, 2, 3, 4, 5, 7, 8, 9) if n <= most])
    samples = size * r.randint(1, 5) + (r.randint(0, size - 1) if r.random() < 0.5 else 0)
    data = {"last_batch": r.choice(("drop", "pad", "keep"))} if r.random() < 0.5 else {}
    training = {"global_batch_size": size, "steps": 5}
    if r.random() < 0.3:
        training["micro_batch_size"] = r.randint(1, size)
    return samples, data, training


def fewest_rows(samples, data, training):
    """The smallest number of samples in any pass of the run."""
    size = training["global_batch_size"]
    last = samples % size if data.get("last_batch", "keep") != "drop" else 0
    micro = training.get("micro_batch_size", 0) or size
    found = []
    for rows in (size, last or size):
        found += [min(micro, rows)] + ([rows % micro] if rows % micro else [])
    return min(found)


def network_case(seed):
    r = random.Random(f"network {seed}")
    samples, data, training = batches(r)
    rows = fewest_rows(samples, data, training)
    networks = Networks(r, rows, dropout=r.random() < 0.3)
    kind = r.choice(("images",) * 7 + ("vectors", "tokens", "language_model"))
    return finish(r, seed, networks, kind, samples, data, training)


def finish(r, seed, networks, kind, samples, data, training):
    vocabulary = 0
    if kind in ("images", "vectors"):
        shape, layers, after = getattr(networks, kind)()
    else:
        shape, layers, after, vocabulary = networks.tokens(kind == "language_model")
    model = {"input": shape, "layers": layers}
    drawn = {"samples": samples, "vocabulary": vocabulary, "kind": kind}
    config = {"model": model, "dataset": data, "training": training}
    describe_targets(r, config, drawn, after)
    describe_inputs(r, networks, config, drawn)
    if r.random() < 0.15:
        model["init"] = networks.init()
    if r.random() < 0.1:
        training["max_norm"] = r.choice((0.01, 0.1, 1.0))
    elif r.random() < 0.07:
        training["max_value"] = r.choice((0.001, 0.01, 0.1))
    if r.random() < 0.3 and has_blocks(layers):
        training["recompute"] = "blocks"
    config["optimizer"] = optimizer(r)
    if r.random() < 0.4:
        config["lr_scheduler"] = lr_scheduler(r, config["optimizer"]["lr"], training["global_batch_size"])
    if r.random() < 0.12:
        training["mixed_precision"] = r.choice(("bf16", "bf16", "f16"))
    drawn["start"] = "own" if r.random() < 0.2 else "given"  # initial weights: drawn by the runtime, or read from a file
    if r.random() < 0.25:
        drawn["validation"] = r.randint(1, 6)
    if r.random() < 0.15:
        drawn["freeze"] = True  # the names are chosen when they are known
    config["debug"] = {"seed": r.choice((0, 1, 42, 2**40 + 7))}
    return {"seed": seed, "kind": "network", "config": config, "data": drawn}


def has_blocks(layers):
    """Whether the network has a named residual or repeated block, which `recompute` works on."""
    for layer in layers:
        named = layer.get("prefix", True)
        if named and (layer["type"] == "residual" or (layer["type"] == "block" and layer.get("repeat", 1) > 1)):
            return True
        if has_blocks(sum((layer.get(key, []) for key in LISTS), [])):
            return True
    return False


def describe_inputs(r, networks, config, drawn):
    if networks.separator is not None:
        config["dataset"]["separator"] = str(networks.separator)
        return
    if not networks.named:
        return
    if r.random() < 0.5 and config["training"].get("label_smoothing", 0) == 0:
        config["training"]["sample_weights"] = "weights"
        networks.inputs["weights"] = {"shape": [1], "values": "weights", "least": 0, "most": 0}
    if networks.inputs:
        drawn["inputs"] = networks.inputs
        config["dataset"]["input"] = [{"name": name, "path": name + ".npy", **({"type": "int32"} if given["values"] == "integers" else {})}
                                      for name, given in networks.inputs.items()]


def describe_targets(r, config, drawn, after):
    dataset = config["dataset"]
    dataset["shuffle"] = r.random() < 0.15
    if drawn["kind"] == "language_model":
        dataset.update(format="tokens", path="x.tokens", classes=after[-1])
        if r.random() < 0.25 and config["training"].get("label_smoothing", 0) == 0:
            config["training"]["ignore_label"] = r.randint(0, after[-1] - 1)
        if r.random() < 0.3:
            dataset["token_type"] = "uint32"
        return
    dataset.update(format="npy", path="x.npy", target_path="y.npy")
    if r.random() < 0.2:
        dataset["task"] = "regression"
        drawn["targets"] = after[1]
        config["training"].update(regression_loss(r))
    else:
        dataset["classes"] = drawn["classes"] = after[1]
        if r.random() < 0.3:
            config["training"]["loss"] = "cross_entropy"
        if r.random() < 0.2:
            config["training"]["label_smoothing"] = r.choice((0.05, 0.1, 0.5))
        elif r.random() < 0.15:
            config["training"]["class_weights"] = [r.choice((0.1, 0.5, 1.0, 3.0)) for _ in range(after[1])]
