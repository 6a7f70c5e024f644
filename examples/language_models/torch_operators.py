"""The kernels of this folder as functions on PyTorch's tensors, with gradients, in `torch.compile` and CUDA graphs.

Each function here takes an element type and the length of a row, and returns a function on tensors whose rows are along
the last axis. Make it before a graph is compiled: it registers operators, by `lego.torch.op(kernel, backward=..)`.

    norm = torch_operators.rms_norm(torch.bfloat16, 4096)
    y = torch.compile(lambda x: norm(x, weight))(x)
"""

from functools import cache

import cross_entropy as losses
import norm_gradients
import norms
import rope as rotations
import softmax as softmaxes
import swiglu as gates

import lego_mlir as lego
from lego_mlir import bf16, f16, f32

TYPES = {"torch.bfloat16": bf16, "torch.float16": f16, "torch.float32": f32}


@cache
def softmax(dtype, columns):
    """x -> softmax(x)."""
    kind = TYPES[str(dtype)], columns
    gradient = lego.torch.op(softmaxes.softmax_gradient[kind])

    def backward(gradients, inputs, results):
        return gradient(rows(gradients[0]), results[0])

    operator = lego.torch.op(softmaxes.softmax[kind], backward=backward)
    return lambda x: operator(rows(x)).view(x.shape)


@cache
def rms_norm(dtype, columns):
    """x, weight -> the norm."""
    operator = _norm(TYPES[str(dtype)], columns, False, False)
    return lambda x, weight: operator(rows(x), weight)[0].view(x.shape)


@cache
def added_rms_norm(dtype, columns):
    """x, residual, weight -> the norm of x + residual, and x + residual."""
    operator = _norm(TYPES[str(dtype)], columns, False, True)

    def norm(x, residual, weight):
        y, sums, _ = operator(rows(x), rows(residual), weight)
        return y.view(x.shape), sums.view(x.shape)

    return norm


@cache
def layer_norm(dtype, columns):
    """x, weight, bias -> the norm."""
    operator = _norm(TYPES[str(dtype)], columns, True, False)
    return lambda x, weight, bias: operator(rows(x), weight, bias)[0].view(x.shape)


def _norm(T, N, centred, added):
    of_centred, of_sums = (() if centred else ("bias", "mean")), (() if added else ("residual", "sums"))
    left = (() if centred else ("mean", "of_bias")) + (() if added else ("onward",))
    kind = T, N
    if fused := N <= norm_gradients.FUSED:
        gradient = lego.torch.op(norm_gradients.fused_gradient[kind].without(*left))
    else:
        gradient = lego.torch.op(norm_gradients.row_gradient[kind].without(*(set(left) - {"of_bias"})))
        of_weights = lego.torch.op(norm_gradients.weight_gradient[kind].without(*(set(left) - {"onward"})))
    column_sums = lego.torch.op(norm_gradients.column_sums[T])

    def backward(gradients, inputs, results):
        x, weight, statistics = inputs[0], inputs[1 + added], results[1 + added :]
        onward = []
        if added:
            x, onward = results[1], [rows(gradients[1])]
        given, groups = rows(gradients[0]), norm_gradients.groups_for(x.shape[0], N)
        if fused:
            of_x, *parts = gradient(given, *onward, x, weight, *statistics, G=groups)
        else:
            of_x, parts = gradient(given, *onward, x, weight, *statistics), of_weights(given, x, *statistics, G=groups)
            parts = parts if isinstance(parts, tuple) else (parts,)
        return of_x, *((of_x,) * added), *map(column_sums, parts)

    return lego.torch.op(
        norms.norm[T, N, centred, added, T].without("scales", *of_centred, *of_sums), backward=backward
    )


@cache
def cross_entropy(dtype, columns):
    """Logits M x N and labels of int64 -> the loss of each row, 0 for a negative label."""
    kind = TYPES[str(dtype)], columns
    gradient = lego.torch.op(losses.cross_entropy_gradient[kind])

    def backward(gradients, inputs, results):
        logits, labels = inputs
        return gradient(gradients[0].contiguous(), logits, labels, results[1]), None

    operator = lego.torch.op(losses.cross_entropy[(*kind, False)], backward=backward)
    return lambda logits, labels: operator(logits, labels)[0]


@cache
def rope(dtype, heads, size, neighbours=False):
    """Heads S x heads x size, cosines and sines P x size / 2 of float32, positions of int32 -> the heads turned."""
    kernel = rotations.rope[TYPES[str(dtype)], heads, size, neighbours]
    turned = lego.torch.op(kernel)

    def backward(gradients, inputs, results):
        _, cosines, sines, positions, turn = inputs
        return turned(gradients[0].contiguous(), cosines, sines, positions, -turn), None, None, None, None

    operator = lego.torch.op(kernel, backward=backward)
    return lambda x, cosines, sines, positions: operator(x.contiguous(), cosines, sines, positions, 1.0)


@cache
def swiglu(dtype, columns):
    """gate, up -> silu(gate) * up."""
    kind = TYPES[str(dtype)], columns
    gradient = lego.torch.op(gates.swiglu_gradient[kind])

    def backward(gradients, inputs, results):
        return gradient(rows(gradients[0]), *inputs)

    operator = lego.torch.op(gates.swiglu[kind], backward=backward)
    return lambda gate, up: operator(rows(gate), rows(up)).view(gate.shape)


def rows(x):
    """A matrix of the rows along the last axis."""
    return x.reshape(-1, x.shape[-1]).contiguous()
