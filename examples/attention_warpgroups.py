"""9. Attention by warpgroups, causal, with two query heads for each head of keys and values.

    lego-mlir run examples/attention_warpgroups.py --on ptx --target sm_90a \
        --size B=1 --size H=1 --size M=300 --size N=300

The text of the kernel is `lego_mlir/kernels/fused_attention.py`: `wgmma` on sm_90a, `mma.sync` elsewhere.
"""

import math

import numpy as np

from lego_mlir.kernels.attention_forms import AttentionForm
from lego_mlir.kernels.fused_attention import build

form = AttentionForm(features=64, causal=True, group=2)
attention = build(form)


@attention.reference(rtol=2**-9, atol=2**-10)
def expected(q, k, v):
    k, v = (np.repeat(x, form.group, axis=1) for x in (k, v))
    seen = np.tri(q.shape[2], k.shape[2])
    scores = np.where(seen, q @ k.mT / math.sqrt(form.features), -np.inf)
    best = scores.max(-1, keepdims=True)
    weights = np.exp(scores - best)
    total = weights.sum(-1, keepdims=True)
    return weights @ v / total, (best + np.log(total))[..., 0] * math.log2(math.e)
