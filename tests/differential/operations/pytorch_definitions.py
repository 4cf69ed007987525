"""Defines every operation of plugins/operations.md in PyTorch: with PyTorch's functions and autograd where they exist, with
the formula otherwise."""

import numpy as np
import torch
import torch.nn.functional as F
from torch.optim._functional import adamw as functional_adamw, sgd as functional_sgd

OPERATIONS = {}


def operation(*names):
    """Registers f(attributes, inputs, forward inputs, name) -> list of outputs. The attributes also hold the shapes of the
    outputs, under "shapes"."""

    def register(function):
        for name in names:
            OPERATIONS[name] = function
        return function

    return register


def run(case, inputs, forward):
    """The outputs of a case, with its post-operations."""
    operands = sum(not is_activation(post) for post in case["post"])
    own, more = inputs[:len(inputs) - operands], inputs[len(inputs) - operands:]
    attributes = dict(case["attributes"], shapes=case["shapes"])
    outputs = OPERATIONS[case["operation"]](attributes, own, forward, case["operation"])
    for post in case["post"]:
        operand = None if is_activation(post) else more.pop(0)
        outputs[0] = post_operation(post, outputs[0], operand)
    return [output.detach() for output in outputs]


# --- activations and post-operations

ACTIVATIONS = {1: "relu", 2: "gelu", 3: "gelu_tanh", 4: "tanh", 5: "sigmoid", 6: "exp", 7: "log", 8: "sqrt",
               9: "reciprocal", 11: "sin", 12: "cos", 13: "floor"}


def is_activation(post):
    return post in ACTIVATIONS.values()


def gelu_tail(name, x):
    """gelu(x) / x and its derivative. PyTorch's 1 + erf and 1 + tanh lose all digits where these sums are small."""
    if name == "gelu":
        return torch.erfc(-x / 2**0.5) / 2, (-x * x / 2).exp() / (2 * torch.pi)**0.5
    inner = (2 / torch.pi)**0.5 * (x + 0.044715 * x**3)
    share = torch.sigmoid(2 * inner)
    return share, share * (1 - share) * 2 * (2 / torch.pi)**0.5 * (1 + 3 * 0.044715 * x**2)


def activate(name, x):
    if name.startswith("gelu"):
        usual = F.gelu(x, approximate="tanh" if name == "gelu_tanh" else "none")
        return torch.where((x < -3) & (x > -1e4), x * gelu_tail(name, x)[0], usual)
    return getattr(torch, name)(x)


def activate_backward(name, dy, s):
    if name == "relu":
        return torch.ops.aten.threshold_backward(dy, s, 0)
    if name.startswith("gelu"):
        usual = torch.ops.aten.gelu_backward(dy, s, approximate="tanh" if name == "gelu_tanh" else "none")
        share, slope = gelu_tail(name, s)
        return torch.where((s < -3) & (s > -1e4), dy * (share + s * slope), usual)
    return getattr(torch.ops.aten, f"{name}_backward")(dy, s)


def post_operation(post, y, operand):
    if post in ("bias", "residual"):
        return y + operand
    if is_activation(post):
        return activate(post, y)
    return activate_backward(post[:-len("_backward")], y, operand)


@operation("activation")
def activation(a, inputs, _, name):
    return [activate(ACTIVATIONS[a["function"]], inputs[0])]


@operation("activation_backward")
def activation_backward(a, inputs, _, name):
    return [activate_backward(ACTIVATIONS[a["function"]], *inputs)]


# --- gated activations and rotary positions


def gated(a, gate, up):
    return (F.silu(gate) if a["function"] == 10 else activate(ACTIVATIONS[a["function"]], gate)) * up


@operation("gated_activation")
def gated_activation(a, inputs, _, name):
    return [gated(a, *inputs)]


@operation("gated_activation_backward")
def gated_activation_backward(a, inputs, _, name):
    dy, gate, up = inputs
    if a["function"] == 10:
        return [torch.ops.aten.silu_backward(dy * up, gate), dy * F.silu(gate)]
    function = ACTIVATIONS[a["function"]]
    f = activate(function, gate)
    return [activate_backward(function, dy * up, gate if function.startswith("gelu") else f), dy * f]


@operation("rotary")
def rotary(a, inputs, _, name):
    x, turns = inputs
    d = turns.shape[-1]
    rows = x.reshape(-1, a["heads"], x.shape[-1] // a["heads"])
    repeats = rows.shape[0] // max(1, turns.numel() // d)
    angles = turns.reshape(-1, 1, d).repeat(repeats, 1, 1)
    cosine, sine = angles[..., :d // 2], angles[..., d // 2:] * (-1 if a["inverse"] else 1)
    first, second, rest = rows[..., :d // 2], rows[..., d // 2:d], rows[..., d:]
    turned = [first * cosine - second * sine, second * cosine + first * sine, rest]
    return [torch.cat(turned, -1).reshape(x.shape)]


# --- linear algebra, convolution, pooling


@operation("matmul")
def matmul(a, inputs, _, name):
    x, y = inputs
    return [torch.matmul(x.mT if a["transpose_a"] else x, y.mT if a["transpose_b"] else y)]


def channels_first(x):
    return x.permute(0, 3, 1, 2)


def channels_last(x):
    return x.permute(0, 2, 3, 1)


def padded(a, x, value=0.0):
    return F.pad(x, (a["pad_left"], a["pad_right"], a["pad_top"], a["pad_bottom"]), value=value)


def gradients(function, operands, dy):
    """The gradients of function(*operands) with respect to each operand."""
    operands = [x.detach().requires_grad_() for x in operands]
    with torch.enable_grad():
        y = function(*operands)
    return list(torch.autograd.grad(y, operands, dy))


def convolve(a, x, w):
    """x [N,H,W,C], w [O,KH,KW,C/G]; the batch may be empty."""
    result = F.conv2d(padded(a, channels_first(x)).contiguous(), channels_first(w).contiguous(),
                      stride=(a["stride_h"], a["stride_w"]),
                      dilation=(a["dilation_h"], a["dilation_w"]), groups=a["groups"])
    return channels_last(result)


@operation("conv2d")
def conv2d(a, inputs, _, name):
    return [convolve(a, *inputs)]


@operation("conv2d_backward_data")
def conv2d_backward_data(a, inputs, _, name):
    dy, w = inputs
    x = dy.new_zeros(a["shapes"][0])
    return gradients(lambda x: convolve(a, x, w), [x], dy)


@operation("conv2d_backward_weights")
def conv2d_backward_weights(a, inputs, _, name):
    x, dy = inputs
    w = x.new_zeros(a["shapes"][0])
    dw = gradients(lambda w: convolve(a, x, w), [w], dy)
    return dw + ([dy.sum((0, 1, 2))] if len(a["shapes"]) > 1 else [])


def max_pool(a, x):
    window = (a["kernel_h"], a["kernel_w"])
    x = padded(a, channels_first(x), value=-float("inf"))
    return channels_last(F.max_pool2d(x, window, (a["stride_h"], a["stride_w"])))


def average_pool(a, x):
    window, stride = (a["kernel_h"], a["kernel_w"]), (a["stride_h"], a["stride_w"])
    sums = F.avg_pool2d(padded(a, channels_first(x)), window, stride, divisor_override=1)
    real = F.avg_pool2d(padded(a, torch.ones_like(channels_first(x[:1]))), window, stride, divisor_override=1)
    return channels_last(sums / (window[0] * window[1] if a["count_include_pad"] else real))


def global_average_pool(a, x):
    return x.mean((1, 2))


POOLINGS = {"max_pool2d": max_pool, "avg_pool2d": average_pool, "global_avg_pool": global_average_pool}


@operation(*POOLINGS)
def pool(a, inputs, _, name):
    if 0 in a["shapes"][0]:
        return [inputs[0].new_zeros(a["shapes"][0])]
    return [POOLINGS[name](a, inputs[0])]


@operation(*(name + "_backward" for name in POOLINGS))
def pool_backward(a, inputs, forward, name):
    x = forward[0] if forward else inputs[0].new_zeros(a["shapes"][0])
    if x.numel() == 0:
        return [x]
    x = torch.where(x == -float("inf"), torch.finfo(x.dtype).min, x)  # so that padding of -inf never wins
    return gradients(lambda x: POOLINGS[name[:-len("_backward")]](a, x), [x], inputs[0])


def pooling_behind(a, v):
    """The pooling of conv2d_pool2d, whose windows have no padding and do not overlap."""
    window = {"kernel_h": a["kernel_h"], "kernel_w": a["kernel_w"], "stride_h": a["kernel_h"], "stride_w": a["kernel_w"],
              "pad_left": 0, "pad_right": 0, "pad_top": 0, "pad_bottom": 0, "count_include_pad": 1}
    return (average_pool if a["average"] else max_pool)(window, v)


def convolution_with_activation(a, x, w, b):
    """The convolution with its bias, and what its activation makes of that."""
    v = convolve(a, x, w) + b
    return v, activate(ACTIVATIONS[a["function"]], v) if a["function"] else v


@operation("conv2d_pool2d")
def conv2d_pool2d(a, inputs, _, name):
    if 0 in a["shapes"][0]:
        return [inputs[0].new_zeros(a["shapes"][0])]
    return [pooling_behind(a, convolution_with_activation(a, *inputs)[1])]


@operation("conv2d_pool2d_backward_weights")
def conv2d_pool2d_backward_weights(a, inputs, forward, name):
    x, dy = inputs
    if dy.numel() == 0:
        return [x.new_zeros(shape) for shape in a["shapes"]]
    v, activated = convolution_with_activation(a, *forward)
    dv = gradients(lambda v: pooling_behind(a, v), [activated], dy)[0]
    if a["function"]:
        function = ACTIVATIONS[a["function"]]
        dv = activate_backward(function, dv, v if function.startswith("gelu") else activated)
    return conv2d_backward_weights(a, [x, dv], None, name)


# --- element by element, reductions


@operation("add", "subtract", "multiply", "divide")
def arithmetic(a, inputs, _, name):
    return [getattr(torch, name)(*inputs).expand(a["shapes"][0])]


@operation("scale")
def scale(a, inputs, _, name):
    return [a["alpha"] * inputs[0] + a["beta"]]


def philox(counter, key):
    """Philox-4x32-10 (Salmon et al., 2011): counter is four arrays of uint64 below 2^32, key two numbers."""
    mask = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        low, high = (counter[0] * np.uint64(0xD2511F53), counter[2] * np.uint64(0xCD9E8D57))
        counter = [(high >> np.uint64(32)) ^ counter[1] ^ np.uint64(key[0]), high & mask,
                   (low >> np.uint64(32)) ^ counter[3] ^ np.uint64(key[1]), low & mask]
        key = ((key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF)
    return counter


@operation("dropout")
def dropout(a, inputs, _, name):
    x, step, base = inputs
    samples, elements = x.shape[0], x[0].numel() if x.shape[0] else 0
    e = np.arange(elements, dtype=np.uint64)
    if a.get("columns", 0):
        columns = np.uint64(a["columns"])
        e = e // columns * np.uint64(a["whole_columns"]) + np.uint64(a["first_column"]) + e % columns
    keep = np.zeros((samples, elements), dtype=bool)
    for n in range(samples):
        parts = [(int(base) + n) & 0xFFFFFFFF, int(step) & 0xFFFFFFFF, a["stream"]]
        counter = [e // np.uint64(4)] + [np.full_like(e, p) for p in parts]
        words = philox(counter, (a["seed"] & 0xFFFFFFFF, a["seed"] >> 32))
        chosen = np.choose((e % np.uint64(4)).astype(np.int64), words) if elements else e
        keep[n] = (chosen >> np.uint64(8)) / 2.0**24 >= a["probability"]
    kept = torch.from_numpy(keep).reshape(x.shape)
    return [torch.where(kept, x / (1 - a["probability"]), torch.zeros_like(x))]


@operation("reduce")
def reduce(a, inputs, _, name):
    x = inputs[0]
    axes = tuple(i for i in range(x.dim()) if a["axes"] >> i & 1)
    if not axes:
        return [x]
    function = {1: torch.sum, 2: torch.mean, 3: torch.amax}[a["function"]]
    return [function(x, axes).reshape(a["shapes"][0])]


@operation("square_sum")
def square_sum(a, inputs, _, name):
    return [inputs[0].square().sum().reshape(1)]


@operation("clip_scale")
def clip_scale(a, inputs, _, name):
    return [torch.clamp(a["max_norm"] / (inputs[0].sqrt() + 1e-6), max=1.0)]


@operation("loss_scale")
def loss_scale(a, inputs, _, name):
    square, (factor, good, skipped) = inputs[0], inputs[1].tolist()
    if not torch.isfinite(square).all():
        return [torch.zeros_like(square), square.new_tensor([max(factor / 2, 2.0**-24), 0, skipped + 1])]
    c = torch.ones_like(square) / factor
    if a.get("max_norm", 0) > 0:
        c = c * torch.clamp(a["max_norm"] / (square.sqrt() / factor + 1e-6), max=1.0)
    good += 1
    if good >= 2000:
        factor, good = min(2 * factor, 2.0**24), 0
    return [c, square.new_tensor([factor, good, skipped])]


# --- softmax and losses


@operation("softmax", "log_softmax")
def softmax(a, inputs, _, name):
    return [getattr(torch, name)(inputs[0], -1)]


@operation("softmax_backward", "log_softmax_backward")
def softmax_backward(a, inputs, _, name):
    dy, y = inputs
    return [getattr(torch.ops.aten, f"_{name}_data")(dy, y, y.dim() - 1, y.dtype)]


def real_rows(logits, labels, weight):
    """The rows with a weight other than 0. Padding rows have weight 0 and do not count, whatever they hold."""
    flat, labels, weight = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1).long(), weight.reshape(-1)
    real = weight != 0
    return flat, labels, weight, real


def cross_entropy_loss(logits, labels, weight):
    flat, labels, weight, real = real_rows(logits, labels, weight)
    return (weight[real] * F.cross_entropy(flat[real], labels[real], reduction="none")).sum().reshape(1)


@operation("cross_entropy")
def cross_entropy(a, inputs, _, name):
    return [cross_entropy_loss(*inputs)]


@operation("cross_entropy_backward")
def cross_entropy_backward(a, inputs, _, name):
    logits, labels, weight, dloss = inputs
    return gradients(lambda x: cross_entropy_loss(x, labels, weight), [logits], dloss)


@operation("correct_count")
def correct_count(a, inputs, _, name):
    flat, labels, weight, _ = real_rows(*inputs)
    right = (flat.argmax(-1) == labels) & (weight > 0)
    return [right.sum().reshape(1).to(flat.dtype)]


@operation("cross_entropy_with_gradient")
def cross_entropy_with_gradient(a, inputs, _, name):
    rows = inputs[:3]
    return [cross_entropy_loss(*rows), *cross_entropy_backward(a, inputs, _, name), *correct_count(a, rows, _, name)]


@operation("cross_entropy_statistics")
def cross_entropy_statistics(a, inputs, _, name):
    logits, labels = inputs
    flat = logits.reshape(-1, logits.shape[-1])
    own = labels.reshape(-1).long() - a["first_class"]
    here = (own >= 0) & (own < flat.shape[-1])
    largest = flat.amax(-1) if flat.numel() else flat.new_zeros(flat.shape[0])
    sums = (flat - largest[:, None]).exp().sum(-1).masked_fill(largest == -float("inf"), 0)
    at_label = flat.gather(1, own.clamp(0, flat.shape[-1] - 1)[:, None])[:, 0]
    label_logit = torch.where(here, at_label, torch.zeros_like(at_label))
    right = (here & (flat.argmax(-1) == own)).to(flat.dtype) if flat.numel() else largest
    return [torch.stack([largest, sums, label_logit, right], -1)[None]]


@operation("cross_entropy_merge")
def cross_entropy_merge(a, inputs, _, name):
    parts, weight = inputs[0], inputs[1].reshape(-1)
    largest, first = parts[:, :, 0].max(0)
    sums = (parts[:, :, 1] * (parts[:, :, 0] - largest).exp()).sum(0).log()
    losses = weight * (sums - (parts[:, :, 2].sum(0) - largest))
    right = (parts[:, :, 3].gather(0, first[None])[0] != 0).to(parts.dtype)
    real = weight != 0
    rows = torch.stack([largest, sums], -1)
    zero = torch.zeros_like(losses)
    return [torch.where(real, losses, zero).sum().reshape(1),
            torch.where(real[:, None], rows, torch.zeros_like(rows)),
            torch.where(weight > 0, right, zero).sum().reshape(1)]


@operation("cross_entropy_backward_apply")
def cross_entropy_backward_apply(a, inputs, _, name):
    logits, labels, weight, dloss, rows = inputs
    flat, labels, weight, real = real_rows(logits, labels, weight)
    own = labels - a["first_class"]
    one_hot = (torch.arange(flat.shape[-1]) == own[:, None]).to(flat.dtype)
    probability = (flat - rows[:, :1] - rows[:, 1:]).exp()
    result = weight[:, None] * dloss * (probability - one_hot)
    return [torch.where(real[:, None], result, torch.zeros_like(result)).reshape(logits.shape)]


def squared_error(y, target, weight):
    real = weight != 0
    rows = (y - target)[real].flatten(1).square().mean(-1)
    return (weight[real] * rows).sum().reshape(1)


@operation("mean_squared_error")
def mean_squared_error(a, inputs, _, name):
    return [squared_error(*inputs)]


@operation("mean_squared_error_backward")
def mean_squared_error_backward(a, inputs, _, name):
    y, target, weight, dloss = inputs
    return gradients(lambda y: squared_error(y, target, weight), [y], dloss)


# --- normalisation, attention


def rows_of(x):
    return x.reshape(-1, x.shape[-1])


def normalised(x, gamma, beta, mean, variance, epsilon):
    return gamma * (x - mean) / (variance + epsilon).sqrt() + beta


def batch_norm_of(a, x, gamma, beta):
    mean = rows_of(x).mean(0)
    variance = (rows_of(x) - mean).square().mean(0)
    return normalised(x, gamma, beta, mean, variance, a["epsilon"])


def running(a, old, new):
    return (1 - a["momentum"]) * old + a["momentum"] * new


@operation("batch_norm")
def batch_norm(a, inputs, _, name):
    x, gamma, beta, mean, variance = inputs
    n = rows_of(x).shape[0]
    new_mean = rows_of(x).mean(0)
    new_variance = (rows_of(x) - new_mean).square().sum(0) / max(n - 1, 1)
    return [batch_norm_of(a, x, gamma, beta), running(a, mean, new_mean), running(a, variance, new_variance)]


@operation("batch_norm_inference")
def batch_norm_inference(a, inputs, _, name):
    return [normalised(*inputs, a["epsilon"])]


@operation("batch_norm_backward")
def batch_norm_backward(a, inputs, forward, name):
    dy, x, gamma = inputs
    return gradients(lambda x, g, b: batch_norm_of(a, x, g, b), [x, gamma, torch.zeros_like(gamma)], dy)


def layer_norm_of(a, x, gamma, beta):
    return F.layer_norm(x, x.shape[-1:], gamma, beta, a["epsilon"])


@operation("layer_norm")
def layer_norm(a, inputs, _, name):
    return [layer_norm_of(a, *inputs)]


@operation("layer_norm_backward")
def layer_norm_backward(a, inputs, forward, name):
    dy, x, gamma = inputs

    def by_formula(x, gamma, beta):  # F.layer_norm rounds x * r - mean * r instead
        mean = x.mean(-1, keepdim=True)
        return normalised(x, gamma, beta, mean, (x - mean).square().mean(-1, keepdim=True), a["epsilon"])

    return gradients(by_formula, [x, gamma, torch.zeros_like(gamma)], dy)


def rms_norm_of(a, x, gamma):
    return x * (x.square().mean(-1, keepdim=True) + a["epsilon"]).rsqrt() * gamma


@operation("rms_norm")
def rms_norm(a, inputs, _, name):
    return [rms_norm_of(a, *inputs)]  # PyTorch has F.rms_norm since 2.4


@operation("rms_norm_backward")
def rms_norm_backward(a, inputs, forward, name):
    dy, x, gamma = inputs
    return gradients(lambda x, gamma: rms_norm_of(a, x, gamma), [x, gamma], dy)


@operation("batch_norm_statistics")
def batch_norm_statistics(a, inputs, _, name):
    x, weight = inputs
    rows = rows_of(x[weight > 0])
    n = x.new_tensor([rows.shape[0]])
    if rows.shape[0] == 0:
        return [x.new_zeros(1, 2 * x.shape[-1] + 1)]
    mean = rows.mean(0)
    return [torch.cat([mean, (rows - mean).square().sum(0), n])[None]]


@operation("batch_norm_merge")
def batch_norm_merge(a, inputs, _, name):
    parts, mean, variance = inputs
    c = mean.shape[0]
    parts = parts[parts[:, -1] != 0]
    if parts.shape[0] == 0:
        return [mean.new_zeros(2 * c + 1), mean, variance]
    n = parts[:, -1:]
    total = n.sum()
    new_mean = (n * parts[:, :c]).sum(0) / total
    squares = (parts[:, c:2 * c] + n * (parts[:, :c] - new_mean).square()).sum(0)
    unbiased = squares / (total - 1) if total > 1 else squares / total
    return [torch.cat([new_mean, squares / total, total.reshape(1)]), running(a, mean, new_mean),
            running(a, variance, unbiased)]


def split_moments(moments):
    c = moments.shape[0] // 2
    return moments[:c], moments[c:2 * c], moments[-1]


@operation("batch_norm_apply")
def batch_norm_apply(a, inputs, _, name):
    x, gamma, beta, moments = inputs
    mean, variance, _ = split_moments(moments)
    return [normalised(x, gamma, beta, mean, variance, a["epsilon"])]


@operation("batch_norm_backward_statistics")
def batch_norm_backward_statistics(a, inputs, _, name):
    dy, x, moments = inputs
    mean, variance, _ = split_moments(moments)
    xhat = (x - mean) / (variance + a["epsilon"]).sqrt()
    return [torch.cat([rows_of(dy).sum(0), rows_of(dy * xhat).sum(0)])[None]]


@operation("batch_norm_backward_apply")
def batch_norm_backward_apply(a, inputs, _, name):
    dy, x, gamma, moments, sums, weight = inputs
    mean, variance, n = split_moments(moments)
    deviation = (variance + a["epsilon"]).sqrt()
    c = gamma.shape[0]
    result = gamma / deviation * (dy - sums[:c] / n - (x - mean) / deviation * sums[c:] / n)
    real = (weight > 0).reshape([-1] + [1] * (x.dim() - 1)) & (n > 0)  # n is a count
    return [torch.where(real, result, torch.zeros_like(result))]


def heads_of(a, x, thirds):
    """[N,T,thirds*H*D] -> thirds x [N,H,T,D]"""
    n, t, c = x.shape
    split = x.reshape(n, t, thirds, a["heads"], c // (thirds * a["heads"]))
    return split.permute(2, 0, 3, 1, 4)


def attention_of(a, qkv):
    q, k, v = heads_of(a, qkv, 3)
    scores = q @ k.mT / q.shape[-1]**0.5
    if a["causal"]:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -float("inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2).reshape(*qkv.shape[:2], qkv.shape[2] // 3)


@operation("attention")
def attention(a, inputs, _, name):
    return [attention_of(a, inputs[0])]


@operation("attention_backward")
def attention_backward(a, inputs, forward, name):
    """The formula, because the operand y need not be the result for this qkv. If it is, autograd must agree."""
    dy, qkv, y = inputs
    q, k, v = heads_of(a, qkv, 3)
    (dy_of_heads,), (y_of_heads,) = heads_of(a, dy, 1), heads_of(a, y, 1)
    scores = q @ k.mT / q.shape[-1]**0.5
    if a["causal"]:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -float("inf"))
    p = scores.softmax(-1)
    ds = p * (dy_of_heads @ v.mT - (dy_of_heads * y_of_heads).sum(-1, keepdim=True)) / q.shape[-1]**0.5
    if a["causal"]:
        ds = ds.masked_fill(later, 0)
    parts = torch.stack([ds @ k, ds.mT @ q, p.mT @ dy_of_heads])
    return [parts.permute(1, 3, 0, 2, 4).reshape(qkv.shape)]


def optional_of(inputs, first):
    """step, base and documents; None for those that are missing"""
    more = list(inputs[first:]) + [None] * 3
    return more[0], more[1], more[2]


def visible(a, n, t, s, documents):
    """Which keys each query sees, by the rules of operations.md: [N,1,T,S]"""
    own = torch.arange(t).reshape(t, 1) + s - t
    keys = torch.arange(s).reshape(1, s)
    seen = torch.ones(n, 1, t, s, dtype=torch.bool)
    if a.get("causal", 0):
        seen = seen & (keys <= own)
    if a.get("window", 0):
        seen = seen & (keys > own - a["window"])
    if documents is not None:
        queries, others = documents[:, :t], documents[:, documents.shape[1] - s:]
        seen = seen & ((queries[:, :, None] == others[:, None, :]) & (queries[:, :, None] >= 0))[:, None]
    return seen


def kept(a, n, h, t, s, step, base):
    """What dropout multiplies the weights by: [N,H,T,S]"""
    probability = a.get("probability", 0)
    if probability == 0:
        return torch.ones(1, 1, 1, 1, dtype=torch.float64)
    seed, step = a["seed"], int(step)
    first = [np.array([part], dtype=np.uint64) for part in (step & 0xFFFFFFFF, step >> 32, a["stream"], 0xFFFFFFFF)]
    words = philox(first, (seed & 0xFFFFFFFF, seed >> 32))
    key = (int(words[0][0]), int(words[1][0]))
    sample, head, row, column = (x.astype(np.uint64) for x in np.indices((n, h, t, s)))
    mask = np.uint64(0xFFFFFFFF)
    counter = [column // np.uint64(4), row, (head + np.uint64(a["first_head"])) & mask,
               (sample + np.uint64(int(base))) & mask]
    words = philox(counter, key)
    chosen = np.choose((column % np.uint64(4)).astype(np.int64), words) if column.size else column
    keep = torch.from_numpy((chosen >> np.uint64(8)) / 2.0**24 >= probability)
    return keep.double() / (1 - probability)


def split_heads(x, heads):
    """[N,T,H*D] -> [N,H,T,D]"""
    n, t, c = x.shape
    return x.reshape(n, t, heads, c // heads).transpose(1, 2)


def joined_heads(x):
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])


def weights_of(a, q, k, seen):
    """The softmax over the keys that are seen; zeros where none is."""
    scores = (q @ k.mT * (a.get("scale", 0) or q.shape[-1]**-0.5)).masked_fill(~seen, -float("inf"))
    return scores.softmax(-1).masked_fill(~seen, 0)


@operation("dot_product_attention")
def dot_product_attention(a, inputs, _, name):
    """PyTorch's function with a mask, where nothing is dropped and it has the function (since 2.0); it differs for queries
    that see no key, and gives 0 where the scores of all keys that a query sees are -infinity (a softmax gives NaN)."""
    heads, shared = a["heads"], a.get("key_heads", 0) or a["heads"]
    q, k, v = split_heads(inputs[0], heads), split_heads(inputs[1], shared), split_heads(inputs[2], shared)
    step, base, documents = optional_of(inputs, 3)
    n, t, s = q.shape[0], q.shape[2], k.shape[2]
    seen = visible(a, n, t, s, documents)
    k, v = (x.repeat_interleave(heads // shared, 1) for x in (k, v))
    if a.get("probability", 0) == 0 and n * t * s > 0 and hasattr(F, "scaled_dot_product_attention"):
        q = q * (a.get("scale", 0) * q.shape[-1]**0.5 or 1)  # it divides scores by the root
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen.expand(n, heads, t, s))
        y = y.masked_fill(((q @ k.mT).isneginf() | ~seen).all(-1, keepdim=True), torch.nan)
        y = y.masked_fill(~seen.any(-1, keepdim=True), 0)
    else:
        y = (weights_of(a, q, k, seen) * kept(a, n, heads, t, s, step, base)).to(q.dtype) @ v
    return [joined_heads(y)]


@operation("dot_product_attention_backward")
def dot_product_attention_backward(a, inputs, forward, name):
    """The formula, because the operand y need not be the result for these q, k and v."""
    heads, shared = a["heads"], a.get("key_heads", 0) or a["heads"]
    dy, q, y = (split_heads(inputs[i], heads) for i in (0, 1, 4))
    k, v = (split_heads(inputs[i], shared) for i in (2, 3))
    step, base, documents = optional_of(inputs, 5)
    n, t, s = q.shape[0], q.shape[2], k.shape[2]
    seen = visible(a, n, t, s, documents)
    factor = kept(a, n, heads, t, s, step, base).to(q.dtype)
    all_k, all_v = (x.repeat_interleave(heads // shared, 1) for x in (k, v))
    p = weights_of(a, q, all_k, seen)
    ds = p * (factor * (dy @ all_v.mT) - (dy * y).sum(-1, keepdim=True)) * (a.get("scale", 0) or q.shape[-1]**-0.5)
    ds = ds.masked_fill(~seen, 0)
    dk, dv = ds.mT @ q, (p * factor).mT @ dy
    dk, dv = (x.reshape(n, shared, heads // shared, s, x.shape[-1]).sum(2) for x in (dk, dv))
    return [joined_heads(x) for x in (ds @ all_k, dk, dv)]


# --- look-up and data movement


def own_rows(a, indices, rows):
    first = max(a.get("first_row", -1), 0)
    own = indices.long() - first
    return own, (own >= 0) & (own < rows)


@operation("embedding")
def embedding(a, inputs, _, name):
    indices, table = inputs
    own, here = own_rows(a, indices, table.shape[0])
    rows = F.embedding(own.clamp(0, table.shape[0] - 1), table)
    return [torch.where(here[..., None], rows, torch.zeros_like(rows))]


@operation("embedding_backward")
def embedding_backward(a, inputs, _, name):
    indices, dy = inputs
    table = dy.new_zeros(a["shapes"][0])
    own, here = own_rows(a, indices, table.shape[0])
    return [table.index_add(0, own[here], dy[here])]


@operation("transpose")
def transpose(a, inputs, _, name):
    return [inputs[0].permute([a["permutation"] >> 4 * i & 15 for i in range(inputs[0].dim())])]


@operation("concat")
def concat(a, inputs, _, name):
    return [torch.cat(inputs, a["axis"])]


@operation("slice")
def narrow(a, inputs, _, name):
    return [inputs[0].narrow(a["axis"], a["start"], a["shapes"][0][a["axis"]])]


@operation("pad")
def pad(a, inputs, _, name):
    y = inputs[0].new_zeros(a["shapes"][0])
    y.narrow(a["axis"], a["start"], inputs[0].shape[a["axis"]]).copy_(inputs[0])
    return [y]


TYPES = {"float32": torch.float32, "float64": torch.float64, "float16": torch.float16,
         "bfloat16": torch.bfloat16, "int32": torch.int32, "int64": torch.int64, "uint8": torch.uint8}


def rounded_to_odd(x):
    """Rounds to float32 such that a second rounding to fewer bits gives x rounded once: inexact results get their last bit
    set."""
    nearest = x.float()
    bits = nearest.view(torch.int32)
    changed = (nearest.double() != x) & x.isfinite() & (bits % 2 == 0)
    toward_zero = nearest.double().abs() > x.abs()
    return torch.where(changed, bits + 1 - 2 * toward_zero.int(), bits).view(torch.float32)


@operation("cast")
def cast(a, inputs, _, name):
    x = inputs[0]
    if x.dtype == torch.float64 and a["types"][0] in ("float16", "bfloat16"):
        x = rounded_to_odd(x)  # PyTorch would round to float32 first, and then again
    return [x.to(TYPES[a["types"][0]])]


@operation("copy")
def copy(a, inputs, _, name):
    return [inputs[0]]


@operation("fill")
def fill(a, inputs, _, name):
    return [torch.full(a["shapes"][0], a["value"], dtype=torch.float64)]


# --- optimizers


@operation("sgd")
def sgd(a, inputs, _, name):
    param, grad, lr, factor = (x.clone() for x in inputs[:4])
    velocity = [x.clone() for x in inputs[4:]]
    if factor == 0:
        return [param] + velocity
    functional_sgd([param], [grad * factor], velocity or [None], weight_decay=a["weight_decay"],
                        momentum=a.get("momentum", 0.0), lr=float(lr), dampening=0.0,
                        nesterov=bool(a.get("nesterov", 0)), maximize=False)
    return [param] + velocity


@operation("adamw")
def adamw(a, inputs, _, name):
    param, grad, lr, factor, m, v, step = (x.clone() for x in inputs)
    if factor == 0:
        return [param, m, v]
    functional_adamw([param], [grad * factor], [m], [v], [], [step.reshape(()).double() - 1],
                            amsgrad=False, beta1=a["beta1"], beta2=a["beta2"], lr=float(lr),
                            weight_decay=a["weight_decay"], eps=a["epsilon"], maximize=False)
    return [param, m, v]
