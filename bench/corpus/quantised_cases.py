"""GemLite 0.6 and SageAttention 1.0: products and attention of quantised numbers. Packages `gemlite`, `sageattention`.

A row of activations takes the kernels for vectors, several the kernels for matrices.
"""

import torch
import torch.nn.functional as F
from cases import add, case
from gemlite import helper
from sageattention import attn_qk_int8_per_block, attn_qk_int8_per_block_causal
from sageattention.quant_per_block import per_block_int8

TOLERANCE = 3e-2


def quantised(name, processor, rows, exact):
    """A linear layer with its weights quantised, against the layer itself, or for its run alone."""

    def call():
        layer = torch.nn.Linear(128, 64, bias=False).half()
        x, weight = torch.randn(rows, 128).half() / 10, layer.weight.data.clone()
        found = processor(device="cuda:0", dtype=torch.float16).from_linear(layer)(x)
        return (found.float(), x.float() @ weight.float().T) if exact else None

    add(name, call)


for rows in (1, 4, 40):
    quantised(f"weights_of_8_bits_{rows}", helper.A16W8_INT8, rows, exact=True)
    quantised(f"weights_of_fp8_{rows}", helper.A16W8_FP8, rows, exact=True)
    quantised(f"both_of_8_bits_{rows}", helper.A8W8_int8_dynamic, rows, exact=True)
    quantised(f"both_of_fp8_{rows}", helper.A8W8_fp8_dynamic, rows, exact=True)


def attended(name, module, causal):
    def call():
        q, k, v = (torch.randn(1, 2, 128, 64).half() for _ in range(3))
        q8, qs, k8, ks = per_block_int8(q, k)
        found = module.forward(q8, k8, v, qs, ks, output_dtype=torch.float16)
        found = found[0] if isinstance(found, tuple) else found
        return found.float(), F.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=causal)

    add(name, call)


attended("attention", attn_qk_int8_per_block, causal=False)
attended("attention_causal", attn_qk_int8_per_block_causal, causal=True)


@case
def cross_entropy_of_a_product():
    from cut_cross_entropy import linear_cross_entropy

    e, c = torch.randn(40, 64).bfloat16(), torch.randn(100, 64).bfloat16()
    targets = torch.arange(40)
    found = linear_cross_entropy(e, c, targets, impl="cce")
    return found.float(), F.cross_entropy(e.float() @ c.float().T, targets)
