"""Mamba's selective scan: h[t] = exp(d[t] A) h[t - 1] + d[t] B[t] x[t], y[t] = C[t] . h[t], with 16 states a channel.

A block has a channel of a sequence and scans 64 steps at once, times and states spread over its threads; the states
after a tile are those before the next one.

lego-mlir run examples/second_week/selective_scan.py --size L=100 --size C=3
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f32

STATES, TILE = 16, 64
L, C = lego.size("L"), lego.size("C")
BY_TIME, BY_STATE = lego.Tensor(f32, Row(C, L)), lego.Tensor(f32, Row(L, STATES))


@lego.kernel(grid=C, block=128, max_registers=46)
def selective_scan(
    x: BY_TIME, d: BY_TIME, decay: lego.Tensor(f32, Row(C, STATES)), b: BY_STATE, c: BY_STATE, y: BY_TIME
):
    channel, time = lego.block_id[0], lego.arange((TILE,))[:, None]
    rate = lego.load(decay, (STATES,), at=(channel, 0))[None, :]
    h = lego.register(lego.zeros(f32, (STATES,)))
    for first in lego.range(0, L, TILE):
        step = lego.load(d, (TILE,), at=(channel, first))
        drive = (step * lego.load(x, (TILE,), at=(channel, first)))[:, None]
        drive = drive * lego.load(b, (TILE, STATES), at=(first, 0))
        fade = lego.exp(step[:, None] * rate)
        begun = lego.where(time == 0, drive + fade * h[None, :], drive)
        states = lego.scan((fade, begun), 0, lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]))[1]
        (states * lego.load(c, (TILE, STATES), at=(first, 0))).sum(axis=1).store(y, at=(channel, first))
        h.set(lego.where(time == TILE - 1, states, 0.0).sum(axis=0))


@selective_scan.inputs
def inputs(rng, L, C):
    return {"d": rng.random((C, L), np.float32), "decay": -rng.random((C, STATES), np.float32)}


@selective_scan.reference(rtol=1e-4, atol=1e-4)
def expected(x, d, decay, b, c):
    y, h = np.zeros_like(x), np.zeros_like(decay)
    for t in range(x.shape[1]):
        h = np.exp(d[:, t, None] * decay) * h + (d[:, t] * x[:, t])[:, None] * b[t]
        y[:, t] = h @ c[t]
    return y
