"""A fast Fourier transform of 1024 complex numbers for each block: five passes of radix 4, exchanged in shared memory.

Stockham's order: a pass reads elements that are 256 apart and writes them `span` apart, so that the result is in order
without a reversal of bits. The roots of unity are a table. Swizzles of pairs, and of four pairs, avoid bank conflicts.

lego-mlir run examples/second_week/fft.py --size B=3
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f32, gallery

N, T = 1024, 256
B = lego.size("B")
SIGNALS = lego.Tensor(f32, Row(B, N, 2))


@lego.kernel(grid=B, block=T)
def fft(x: SIGNALS, roots: lego.Tensor(f32, Row(N, 2)), y: SIGNALS):
    b, t = lego.block_id[0], lego.thread_id[0]
    tiles = [lego.shared(f32, gallery.xor_swizzle(N // 16, 32, group), name=f"by{group}") for group in (2, 8)]
    v = [x.load(b, t + T * r, 0, width=2) for r in range(4)]
    for step in range(5):
        span = 4**step
        k = t % span
        for r in range(1, 4):
            w = roots.load(r * k * (N // (4 * span)), 0, width=2)
            v[r] = product(v[r], w) if step else v[r]
        v = transformed(v)
        first = t // span * span * 4 + k
        for r in range(4):
            if step == 4:
                y.store(v[r], b, first + r * span, 0)
            else:
                tiles[step % 2].store(v[r], (first + r * span) // 16, (first + r * span) % 16 * 2)
        if step < 4:
            lego.barrier()
            v = [tiles[step % 2].load(t // 16 + T // 16 * r, t % 16 * 2, width=2) for r in range(4)]


def product(a, b):
    """Of two complex numbers."""
    return lego.vector(a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0])


def transformed(v):
    """The transform of four numbers."""
    even, odd, sums, differences = v[0] + v[2], v[0] - v[2], v[1] + v[3], v[1] - v[3]
    turned = lego.vector(differences[1], -differences[0])
    return [even + sums, odd + turned, even - sums, odd - turned]


@fft.reference(rtol=1e-4, atol=1e-3)
def expected(x):
    found = np.fft.fft(x[..., 0] + 1j * x[..., 1])
    return np.stack([found.real, found.imag], axis=-1)


@fft.inputs
def inputs(rng, B):
    angles = -2 * np.pi * np.arange(N) / N
    return {"x": rng.standard_normal((B, N, 2)), "roots": np.stack([np.cos(angles), np.sin(angles)], axis=-1)}
