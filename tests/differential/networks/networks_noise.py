"""PyTorch operations whose results and gradients are disturbed by random noise, as a model of rounding inside a network.

The noise is about `noise` times a number, for a stored number, and about `noise` times the sum of the magnitudes of the terms,
for a sum. Gradients are written in the closed forms that kernels compute, so that cancellation leaves as few digits as in
kernels.
"""
import torch
import torch.nn.functional as F
from torch.nn.grad import conv2d_input, conv2d_weight


class Noise(torch.autograd.Function):
    """A model of rounding for numbers and their gradients: each is changed by a random fraction of itself, about `size`
    large. `forward`: 1, or 0 if only gradients are to be changed; also in the classes below."""

    @staticmethod
    def forward(context, x, size, forward):
        context.size = size
        return x * (1 + forward * size * torch.randn_like(x))

    @staticmethod
    def backward(context, gradient):
        return gradient * (1 + context.size * torch.randn_like(gradient)), None, None


def moved_sum(terms, dims, noise):
    """The sum of `terms` plus a random fraction of the sum of their magnitudes, as rounding may add. A sum of one term is
    unchanged."""
    total = terms.sum(dims, keepdim=True)
    if terms.numel() == total.numel():
        return total
    return total + noise * torch.randn_like(total) * terms.abs().sum(dims, keepdim=True)


def moved_product(a, b, noise):
    total = a @ b
    return total + noise * torch.randn_like(total) * (a.abs() @ b.abs())


class NoisyProduct(torch.autograd.Function):
    """A product of matrices; noise disturbs its sums and the sums in its gradients."""

    @staticmethod
    def forward(context, a, b, noise, forward):
        context.save_for_backward(a, b)
        context.noise = noise
        return moved_product(a, b, forward * noise)

    @staticmethod
    def backward(context, gradient):
        a, b = context.saved_tensors
        return (moved_product(gradient, b.transpose(-1, -2), context.noise),
                moved_product(a.transpose(-1, -2), gradient, context.noise), None, None)


def moved_by_norm(x, noise):
    """x plus random numbers of about `noise` times the root of its mean square, whatever the size of the single number."""
    return x + noise * torch.randn_like(x) * x.square().mean().sqrt()


class NoisyConvolution(torch.autograd.Function):
    """A convolution that Winograd's algorithm may compute (stride 1). Its results are sums of transformed numbers, so that
    they are exact in relation to the largest of them only: what is exactly 0, for example the gradient of a weight that
    meets nothing but padding, becomes as small a number as the rounding of the others."""

    @staticmethod
    def forward(context, x, w, padding, groups, noise, forward):
        context.save_for_backward(x, w)
        context.padding, context.groups, context.noise = padding, groups, noise
        return moved_by_norm(F.conv2d(x, w, padding=padding, groups=groups), forward * noise)

    @staticmethod
    def backward(context, gradient):
        x, w = context.saved_tensors
        options = {"padding": context.padding, "groups": context.groups}
        dx = conv2d_input(x.shape, w, gradient, **options)
        dw = conv2d_weight(x, w.shape, gradient, **options)
        return moved_by_norm(dx, context.noise), moved_by_norm(dw, context.noise), None, None, None, None


class StoredActivation(torch.autograd.Function):
    """tanh or sigmoid, whose gradient reads the result as it is stored: store(y). Where the function is flat, little else than
    the rounding of y remains in its derivative."""

    @staticmethod
    def forward(context, x, name, store):
        y = store(getattr(torch, name)(x))
        context.save_for_backward(y)
        context.name = name
        return y

    @staticmethod
    def backward(context, gradient):
        y, = context.saved_tensors
        return gradient * (1 - y * y if context.name == "tanh" else y * (1 - y)), None, None


class NoisySoftmax(torch.autograd.Function):
    """Softmax with the closed form of its gradient, whose difference may cancel and leave rounding errors only. The gradient
    reads the result as it is stored: store(y)."""

    @staticmethod
    def forward(context, x, dim, noise, store):
        y = store(torch.softmax(x, dim))
        context.save_for_backward(y)
        context.dim, context.noise = dim, noise
        return y

    @staticmethod
    def backward(context, gradient):
        y, = context.saved_tensors
        return y * (gradient - moved_sum(gradient * y, context.dim, context.noise)), None, None, None


class NoisyMean(torch.autograd.Function):
    """softmax(scores) v, the end of an attention. Its gradient uses dO O, with the stored result O = store(y): the difference
    cancels where a normalisation follows, and only its rounding remains in the gradient of a bias of the keys."""

    @staticmethod
    def forward(context, scores, v, noise, forward, store):
        p = torch.softmax(scores, -1)
        y = store(moved_product(p, v, forward * noise))
        context.save_for_backward(p, v, y)
        context.noise = noise
        return y

    @staticmethod
    def backward(context, gradient):
        p, v, y = context.saved_tensors
        each = moved_product(gradient, v.transpose(-1, -2), context.noise)
        dscores = p * (each - moved_sum(gradient * y, -1, context.noise))
        return dscores, moved_product(p.transpose(-1, -2), gradient, context.noise), None, None, None


class NoisyNormalisation(torch.autograd.Function):
    """(x - mean) / sqrt(variance + eps) by the closed form of plugins/operations.md; noise disturbs its sums."""

    @staticmethod
    def forward(context, x, mean, variance, eps, dims, noise):
        inverse = 1 / torch.sqrt(variance + eps)
        y = (x - mean) * inverse
        context.save_for_backward(y, inverse)
        context.dims, context.noise = dims, noise
        return y

    @staticmethod
    def backward(context, gradient):
        y, inverse = context.saved_tensors
        count = y.numel() // inverse.numel()
        plain = moved_sum(gradient, context.dims, context.noise) / count
        weighted = moved_sum(gradient * y, context.dims, context.noise) / count
        return inverse * (gradient - plain - y * weighted), None, None, None, None, None
