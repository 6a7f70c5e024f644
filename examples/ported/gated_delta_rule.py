"""flash-linear-attention's `fused_recurrent_gated_delta_rule_fwd_kernel` (Triton, 0.4): a state of K x V, step by step.

    h = exp(g) h;  h += k' beta (v - k h);  o = q h                  q and k of length 1, where `normalised`

A warp has 8 columns of a head's state, which no others need. A first state may be given, and the last one returned.

lego-mlir run examples/ported/gated_delta_rule.py --size B=2 --size T=5
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, bf16, f32

H, K, V, BV = 4, 128, 128, 8  # heads, their state, columns of a block
B, T = lego.size("B", max=1 << 16), lego.size("T", min=1, max=1 << 20)
KEYS, VALUES, GATES = (lego.Tensor(d, Row(B, T, H, *n)) for d, n in ((bf16, (K,)), (bf16, (V,)), (f32, ())))
STATES = lego.Tensor(f32, Row(B, H, K, V))


@lego.kernel(grid=(V // BV, H, B), block=32)
def gated_delta_rule(
    q: KEYS, k: KEYS, v: VALUES, g: GATES, beta: GATES, scale: f32, first: STATES | None, o: VALUES, last: STATES | None
):
    columns, head, batch = lego.block_id[0] * BV, lego.block_id[1], lego.block_id[2]
    h = lego.register(lego.zeros(f32, (K, BV)))
    if first is not None:
        h.set(lego.load(first, (K, BV), at=(batch, head, 0, columns)))

    def step(t):
        loaded = (lego.load(x, (n,), at=(batch, t, head, m)) for x, n, m in ((q, K, 0), (k, K, 0), (v, BV, columns)))
        return (*loaded, g[batch, t, head], beta[batch, t, head])

    ahead = lego.register(step(0))
    for t in lego.range(T):
        query, key, value, gate, share = ahead.value
        ahead.set(step(lego.minimum(t + 1, T - 1)))
        query, key, value = query.to(f32), key.to(f32), value.to(f32)
        query, key = (x * lego.rsqrt((x * x).sum() + 1e-6) for x in (query, key))
        faded = h.get() * lego.exp(gate)
        new = (value - (faded * key[:, None]).sum(axis=0)) * share
        h.set(faded + key[:, None] * new[None, :])
        made = (h.get() * (query * scale)[:, None]).sum(axis=0)
        made.to(bf16).store(o, at=(batch, t, head, columns))
    if last is not None:
        h.get().store(last, at=(batch, head, 0, columns))


@gated_delta_rule.inputs
def inputs(rng, B, T):
    return {"g": -rng.random((B, T, H)), "beta": rng.random((B, T, H)), "scale": K**-0.5}


@gated_delta_rule.reference(rtol=2e-2, atol=1e-3)
def expected(q, k, v, g, beta, scale, first, last):
    h = np.zeros((len(q), H, K, V)) if first is None else first.copy()
    q, k = (x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6) for x in (q, k))
    o = np.empty(v.shape)
    for t in range(q.shape[1]):
        h *= np.exp(g[:, t])[..., None, None]
        new = (v[:, t] - (h * k[:, t, ..., None]).sum(-2)) * beta[:, t, :, None]
        h += k[:, t, ..., None] * new[:, :, None]
        o[:, t] = (h * q[:, t, ..., None]).sum(-2) * scale
    return (o, h) if last is not None else o
