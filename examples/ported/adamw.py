"""llm.c's `adamw_kernel3` (CUDA): a step of AdamW on bf16 weights with f32 masters and moments, rounded stochastically.

Random bits decide whether a weight is rounded up: they are added below the last bit that stays. The CUDA text hashes
with Squirrel noise; so does this one, with products modulo 2^32 of u32.

lego-mlir run examples/ported/adamw.py --size N=1000
"""

import ml_dtypes
import numpy as np

import lego_mlir as lego
from lego_mlir import Row, bf16, f32, u32

T = 256
N = lego.size("N", max=1 << 30)
RATE, BETA1, BETA2, EPSILON, DECAY = 1e-3, 0.9, 0.95, 1e-8, 0.1
FIRST, SECOND, SEED = 1 - BETA1**10, 1 - BETA2**10, 1337  # the corrections of step 10


@lego.kernel(grid=lego.cdiv(N, T), block=T)
def adamw(
    weights: lego.Tensor(bf16, Row(N)),
    masters: lego.Tensor(f32, Row(N)),
    gradients: lego.Tensor(bf16, Row(N)),
    m: lego.Tensor(f32, Row(N)),
    v: lego.Tensor(f32, Row(N)),
):
    i = lego.block_id[0] * T + lego.thread_id[0]
    with lego.when(i < N):
        gradient = gradients[i].to(f32)
        m[i] = first = m[i] + (1 - BETA1) * (gradient - m[i])
        v[i] = second = v[i] + (1 - BETA2) * (gradient * gradient - v[i])
        change = first * (1 / FIRST) / (lego.sqrt(second * (1 / SECOND)) + EPSILON)
        masters[i] = weight = masters[i] - RATE * (change + DECAY * masters[i])
        noise = squirrel(u32(i)) & 0xFFFF
        weights[i] = lego.bitcast((lego.bitcast(weight, u32) + noise) & 0xFFFF0000, f32).to(bf16)


def squirrel(position):
    """Squirrel Eiserloh's noise of a position and SEED."""
    x = position * 0xB5297A4D + SEED
    x = (x ^ x >> 8) + 0x68E31DA4
    x = (x ^ x << 8) * 0x1B56C4E9
    return x ^ x >> 8


@adamw.reference(rtol=1e-2, atol=1e-6)
def expected(weights, masters, gradients, m, v):
    gradient = gradients.astype(np.float64)
    m = m + (1 - BETA1) * (gradient - m)
    v = v + (1 - BETA2) * (gradient**2 - v)
    masters = masters - RATE * (m / FIRST / (np.sqrt(v / SECOND) + EPSILON) + DECAY * masters)
    with np.errstate(over="ignore"):
        noise = squirrel(np.arange(len(m), dtype=np.uint32)) & np.uint32(0xFFFF)
        bits = masters.astype(np.float32).view(np.uint32) + noise
    return (bits >> 16).astype(np.uint16).view(ml_dtypes.bfloat16), masters, m, v


@adamw.inputs
def inputs(rng, N):
    normal = rng.standard_normal((4, N)).astype(np.float32)
    return {
        "weights": normal[0].astype(ml_dtypes.bfloat16),
        "masters": normal[0],
        "gradients": normal[1],
        "m": normal[2] / 8,
        "v": normal[3] ** 2,
    }
