"""What the shipped Triton kernels compute: each is run in Triton's interpreter and compared with NumPy."""

import numpy as np

from lego_mlir.templates.run.triton_interpreter import interpret


def random(*shape, dtype=np.float16, seed=0):
    return (np.random.default_rng(seed).standard_normal(shape) / 2).astype(dtype)


def same(found, expected, atol):
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


def product_in_f32(a, b):
    return a.astype(np.float32) @ b.astype(np.float32)


def batched(kernel):
    a, b, c = random(3, 40, 32), random(3, 32, 64, seed=1), np.zeros((3, 40, 64), np.float16)
    interpret(kernel, "batched_matmul", (4, 3), a, b, c)
    same(c, product_in_f32(a, b), 0.02)


def grouped(kernel):
    sizes = np.array([[32, 64, 32], [16, 32, 48], [64, 16, 16]], np.int32)
    a = [random(m, k, seed=3 * i) for i, (m, _, k) in enumerate(sizes)]
    b = [random(k, n, seed=3 * i + 1) for i, (_, n, k) in enumerate(sizes)]
    c = [np.zeros((m, n), np.float16) for m, n, _ in sizes]
    interpret(kernel, "grouped_gemm", (2,), a, b, c, sizes, 3)
    for left, right, out in zip(a, b, c, strict=True):
        same(out, product_in_f32(left, right), 0.02)


def reversal(kernel):
    source, out = random(40, 24, dtype=np.float32), np.zeros(960, np.float32)
    interpret(kernel, "relayout", (9,), source, out)
    assert np.array_equal(out, source.ravel()[::-1])


def rows_of_softmax(kernel, rows=6, columns=100, at_a_time=4):
    x, y = random(rows, columns, dtype=np.float32) * 8, np.zeros((rows, columns), np.float32)
    interpret(kernel, "softmax", (-(-rows // at_a_time),), x, y)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    same(y, powers / powers.sum(axis=1, keepdims=True), 1e-6)


def norm(kernel, columns=50):
    """Six rows, whose gradients of weight and bias two groups sum."""
    rows, groups = 6, 2
    x, dy = (random(rows, columns, dtype=np.float32, seed=s) for s in (0, 1))
    weight, bias = (random(columns, dtype=np.float32, seed=s) for s in (2, 3))
    y, dx, mean, rstd = np.zeros_like(x), np.zeros_like(x), np.zeros(rows, np.float32), np.zeros(rows, np.float32)
    interpret(kernel, "layer_norm_forward", (rows,), x, weight, bias, y, mean, rstd)
    normal = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    same(y, normal * weight + bias, 1e-5)
    parts = [np.zeros((groups, columns), np.float32) for _ in "wb"]
    interpret(kernel, "layer_norm_backward", (groups,), dy, x, weight, mean, rstd, dx, *parts)
    weighted = dy * weight
    along, shift = (v.mean(axis=1, keepdims=True) for v in (normal * weighted, weighted))
    same(dx, (weighted - normal * along - shift) * rstd[:, None], 1e-5)
    for part, expected in zip(parts, ((dy * normal).sum(axis=0), dy.sum(axis=0)), strict=True):
        total = np.zeros(columns, np.float32)
        interpret(kernel, "sum_groups", (2,), part, total)
        same(total, expected, 1e-4)


def attended(kernel, positions, causal, order="bhsd"):
    def arranged(x):
        return x if order == "bhsd" else np.ascontiguousarray(x.transpose(0, 2, 1, 3))

    q, k, v = (random(1, 2, positions, 16, seed=s) for s in range(3))
    out, lse = np.zeros_like(arranged(q)), np.zeros(q.shape[:3], np.float32)
    interpret(kernel, "attention", (2 * -(-positions // 32),), *map(arranged, (q, k, v)), out, lse)
    scores = np.einsum("bhsd,bhtd->bhst", q, k, dtype=np.float32) / 4
    if causal:
        scores = np.where(np.tri(positions, dtype=bool), scores, -np.inf)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    same(arranged(out), (powers / powers.sum(axis=-1, keepdims=True)) @ v.astype(np.float32), 5e-3)
    same(lse * np.log(2), np.log(np.exp(scores).sum(axis=-1)), 5e-3)
