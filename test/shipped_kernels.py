"""The kernels that are shipped, by name: those of `lego_mlir.kernels` as their builders make them, and of examples."""

import re
from functools import partial
from pathlib import Path

import lego_mlir as lego
from lego_mlir import f16, f32, spec
from lego_mlir.kernels import (
    added_gradients,
    aligned_copies,
    batched_products,
    box_stencil,
    copy,
    dot_products,
    fused_attention,
    grouped_depths,
    grouped_products,
    latent_attention,
    matmul,
    packed_attention,
    packed_gradients,
    paged_attention,
    rows_along_k,
    transpose,
)
from lego_mlir.kernels.attention_forms import AttentionForm

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
M, N, K = (lego.size(name) for name in "MNK")
TRANSPOSES = ("naive", "shared", "padded", "swizzled")


BUILT = {
    "copy": lambda: copy.build(M, N, f32),
    **{f"transpose {variant}": partial(transpose.build, variant, M, N, f32) for variant in TRANSPOSES},
    "matmul": lambda: matmul.build(M, N, K, f16),
    "dot products": lambda: dot_products.build(M, N, K, f32),
    "stencil": lambda: box_stencil.build(M, N, f32),
    "stencil shared": lambda: box_stencil.build_shared(M, N, f32),
    "stencil strips": lambda: box_stencil.build_strips(M, N, f32),
    "pad": lambda: aligned_copies.pad(f16),
    "pad transposed": lambda: aligned_copies.pad(f16, transposed=True),
    "crop": lambda: aligned_copies.crop(f16),
    "rows along k": lambda: rows_along_k.along_k(4, 4),
    "batched products": batched_products.build,
    "grouped products": grouped_products.build,
    "grouped depths": grouped_depths.build,
    "added gradients": lambda: added_gradients.build().main,
    "packed gradients": lambda: packed_gradients.build().main,
    "attention": fused_attention.build,
    "windowed attention": lambda: fused_attention.build(AttentionForm(causal=True, window=128)),
    "persistent attention": lambda: fused_attention.build(blocks=132),
    "causal persistent attention": lambda: fused_attention.build(AttentionForm(causal=True), blocks=132),
    "packed attention": packed_attention.build,
    "paged attention": paged_attention.build,
    "latent attention": lambda: latent_attention.build()[0],
    "parts of latent attention": lambda: latent_attention.build()[1],
}


def examples():
    """The files of examples with kernels."""
    return sorted(
        path for path in EXAMPLES.rglob("*.py") if re.search(r"lego\.(kernel|generic)| = build\(", path.read_text())
    )


def example(name):
    """The kernels of an example by their names."""
    return dict(spec.load(str(EXAMPLES / name)).kernels)
