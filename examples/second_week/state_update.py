"""The update of a selective state space model for one token: h = exp(dt * A) * h + dt * x * B, y = h . C + D * x.

A warp updates 4 channels; 8 lanes share a channel, with 2 states each.

lego-mlir run examples/second_week/state_update.py --size B=3
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f32

CHANNELS, STATES, T = 64, 16, 128
LANES, V = 8, 2  # lanes of a row, states of a lane
B = lego.size("B")


@lego.kernel(grid=(CHANNELS * LANES // T, B), block=T, max_registers=27)
def state_update(
    state: lego.Tensor(f32, Row(B, CHANNELS, STATES)),
    x: lego.Tensor(f32, Row(B, CHANNELS)),
    dt: lego.Tensor(f32, Row(B, CHANNELS)),
    A: lego.Tensor(f32, Row(CHANNELS, STATES)),
    inputs: lego.Tensor(f32, Row(B, STATES)),
    outputs: lego.Tensor(f32, Row(B, STATES)),
    D: lego.Tensor(f32, Row(CHANNELS)),
    y: lego.Tensor(f32, Row(B, CHANNELS)),
):
    t, b = lego.thread_id[0], lego.block_id[1]
    channel, part = lego.block_id[0] * (T // LANES) + t // LANES, t % LANES * V
    raw, value, rate = dt[b, channel], x[b, channel], A.load(channel, part, width=V)  # all loads before their uses
    old, entering, leaving = (
        of.load(*at, part, width=V) for of, at in ((state, (b, channel)), (inputs, (b,)), (outputs, (b,)))
    )
    skipped = D[channel]
    step = lego.where(raw <= 20.0, lego.log1p(lego.exp(raw)), raw)  # softplus
    kept = lego.exp(rate * step) * old + entering * (step * value)
    state.store(kept, b, channel, part)
    found = kept * leaving
    total = lego.warp_reduce(found[0] + found[1], "add", LANES)
    with lego.when(part == 0):
        y[b, channel] = total + skipped * value


@state_update.reference(rtol=1e-4, atol=1e-4)
def expected(state, x, dt, A, inputs, outputs, D):
    step = np.where(dt <= 20, np.log1p(np.exp(dt)), dt)
    kept = np.exp(step[:, :, None] * A) * state + inputs[:, None] * (step * x)[:, :, None]
    return kept, (kept * outputs[:, None]).sum(2) + D * x
