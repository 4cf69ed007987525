"""What rounding may do inside of a network: operations of PyTorch whose results and gradients are moved by random shares.

A share is about `noise` large: of a number that is stored, of itself; of a sum, of the magnitudes of its terms. Gradients are
written in the closed forms that kernels compute, so that where they cancel as much is left as kernels leave.
"""
import torch


class Noise(torch.autograd.Function):
    """What rounding may make of numbers and of their gradients: each is moved by a random share of itself, about `size` large."""

    @staticmethod
    def forward(context, x, size):
        context.size = size
        return x * (1 + size * torch.randn_like(x))

    @staticmethod
    def backward(context, gradient):
        return gradient * (1 + context.size * torch.randn_like(gradient)), None


def moved_sum(terms, dims, noise):
    """Their sum, as far away as rounding may put it: by a random share of the sum of magnitudes. One number is its own sum."""
    total = terms.sum(dims, keepdim=True)
    if terms.numel() == total.numel():
        return total
    return total + noise * torch.randn_like(total) * terms.abs().sum(dims, keepdim=True)


def moved_product(a, b, noise):
    total = a @ b
    return total + noise * torch.randn_like(total) * (a.abs() @ b.abs())


class NoisyProduct(torch.autograd.Function):
    """A product of matrices, whose sums and whose gradients' sums are moved by noise."""

    @staticmethod
    def forward(context, a, b, noise):
        context.save_for_backward(a, b)
        context.noise = noise
        return moved_product(a, b, noise)

    @staticmethod
    def backward(context, gradient):
        a, b = context.saved_tensors
        return (moved_product(gradient, b.transpose(-1, -2), context.noise),
                moved_product(a.transpose(-1, -2), gradient, context.noise), None)


class NoisySoftmax(torch.autograd.Function):
    """The closed form of the gradient, in which a difference may leave nothing but rounding."""

    @staticmethod
    def forward(context, x, dim, noise):
        y = torch.softmax(x, dim)
        context.save_for_backward(y)
        context.dim, context.noise = dim, noise
        return y

    @staticmethod
    def backward(context, gradient):
        y, = context.saved_tensors
        return y * (gradient - moved_sum(gradient * y, context.dim, context.noise)), None, None


class NoisyMean(torch.autograd.Function):
    """softmax(scores) v, the end of an attention; its gradient by dO O, which cancels where a normalisation follows."""

    @staticmethod
    def forward(context, scores, v, noise):
        p = torch.softmax(scores, -1)
        y = moved_product(p, v, noise)
        context.save_for_backward(p, v, y)
        context.noise = noise
        return y

    @staticmethod
    def backward(context, gradient):
        p, v, y = context.saved_tensors
        each = moved_product(gradient, v.transpose(-1, -2), context.noise)
        dscores = p * (each - moved_sum(gradient * y, -1, context.noise))
        return dscores, moved_product(p.transpose(-1, -2), gradient, context.noise), None


class NoisyNormalisation(torch.autograd.Function):
    """(x - mean) / sqrt(variance + eps) by the closed form of plugins/operations.md, whose sums are moved by noise."""

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
