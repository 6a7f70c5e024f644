"""Caches of keys and values: orders of layers, blocks, heads, tokens and content, and the records of latent attention.

vLLM names an order by its axes, outermost first: L layers, B blocks, H heads, N tokens of a block, C content (a key and
a value). NHD and HND are the last three of a single layer. Handing a cache of one to an engine that reads the other is

>>> from lego_mlir.formats.catalog import FORMATS
>>> sizes = {"layers": 1, "blocks": 2, "heads": 8, "tokens": 16, "depth": 4}
>>> FORMATS["kv.lbnhc"](**sizes).agrees(FORMATS["kv.lbhnc"](**sizes)).explanation
'k[0, 0, 0, 1, 0] is at data[64] in kv.lbnhc and at data[8] in kv.lbhnc'
"""

from __future__ import annotations

from typing import Final

from lego_mlir.formats.catalog import storage, woven
from lego_mlir.formats.storage_format import StorageFormat
from lego_mlir.formats.stored_fields import BITS, stored
from lego_mlir.layout.canonical import Size

ORDERS: Final = ("lbnhc", "lbhnc", "lhbnc", "blhnc", "blnhc", "bhlnc")
"""vLLM's KVCacheLayout: LBNHC is NHD of each layer, LBHNC is HND."""


_BLOCKS: Final = "b=blocks h=heads n=tokens c=depth", "b | h | n | c"

for _order in ORDERS:
    woven(
        f"kv.{_order}", f"orders {_order.upper()}, keys beside values", "vLLM, KVCacheLayout (vllm#42082)",
        "l=layers b=blocks h=heads n=tokens c=depth", "l | b | h | n | c", f"{' '.join(_order[:-1])} (* c)", "k v",
    )  # fmt: skip
woven(
    "kv.nhd", "keys, then values: (2, blocks, tokens, heads, depth)", "vLLM FlashAttention; FlashInfer NHD", *_BLOCKS,
    "* b n h c", "k v",
)  # fmt: skip
woven(
    "kv.hnd", "keys, then values: (2, blocks, heads, tokens, depth)", "vLLM FlashInfer, HND", *_BLOCKS, "* b h n c",
    "k v",
)  # fmt: skip
woven(
    "kv.paged", "pages of keys and values: (blocks, 2, tokens, heads, depth)", "FlashInfer, paged KV table NHD",
    *_BLOCKS, "b * n h c", "k v",
)  # fmt: skip


@storage(
    "kv.paged_x",
    "PagedAttention: keys in 16-byte parts, values transposed",
    "vLLM, csrc/cache_kernels.cu reshape_and_cache",
    blocks=1,
    heads=1,
    tokens=1,
    depth=8,
)
def paged_in_parts(blocks: Size, heads: Size, tokens: Size, depth: Size, dtype: str = "f16") -> StorageFormat:
    """Keys (blocks, heads, depth / x, tokens, x) of x * bytes = 16, values (blocks, heads, depth, tokens)."""
    x = 128 // BITS[dtype]
    key = {"b": blocks, "h": heads, "n": tokens, "c": depth // x, "x": x}
    value = {"b": blocks, "h": heads, "n": tokens, "c": depth}
    fields = [
        stored("k", dtype, key, "b | h | n | c x", "b h c n x", buffer="key_cache"),
        stored("v", dtype, value, "b | h | n | c", "b h c n", buffer="value_cache"),
    ]
    buffers = {
        "key_cache": (dtype, (blocks, heads, depth // x, tokens, x)),
        "value_cache": (dtype, (blocks, heads, depth, tokens)),
    }
    return StorageFormat("kv.paged_x", fields, buffers)


@storage(
    "kv.mla", "656-byte tokens: 512 e4m3, 4 f32 scales, 64 bf16", "FlashMLA, FP8 KV cache; vLLM fp8_ds_mla", tokens=1
)
def latent(tokens: Size) -> StorageFormat:
    """The latent of each token in e4m3, a scale for 128 of its elements, and its rotary part in bf16."""
    strides = {"t": 656 * 8}
    fields = [
        stored("latent", "e4m3", {"t": tokens, "i": 512}, "t | i", "t i", 0, strides),
        stored("scale", "f32", {"t": tokens, "i": 4}, "t | i", "t i", 512 * 8, strides),
        stored("rope", "bf16", {"t": tokens, "i": 64}, "t | i", "t i", 528 * 8, strides),
    ]
    return StorageFormat("kv.mla", fields, {"data": ("u8", (tokens, 656))})


@storage(
    "kv.mla_separate",
    "latents, scales and rotary parts apart",
    "DeepSeek-V3.2 sparse attention before packing",
    tokens=1,
)
def latent_separate(tokens: Size) -> StorageFormat:
    """The three parts of all tokens as three arrays."""
    parts = (("latent", "e4m3", 512), ("scale", "f32", 4), ("rope", "bf16", 64))
    fields = [stored(name, dtype, {"t": tokens, "i": n}, "t | i", "t i", buffer=name) for name, dtype, n in parts]
    return StorageFormat("kv.mla_separate", fields, {name: (dtype, (tokens, n)) for name, dtype, n in parts})


@storage("kv.mla_nvfp4", "352-byte tokens: 512 e2m1, 64 e4m3, 32 scales", "FlashMLA, nvfp4.fp8rope", tokens=1)
def latent_four_bits(tokens: Size) -> StorageFormat:
    """The latent of each token in e2m1 pairs, its rotary part in e4m3, and an e4m3 scale for 16 elements."""
    strides = {"t": 352 * 8}
    fields = [
        stored("latent", "e2m1", {"t": tokens, "i": 512}, "t | i", "t i", 0, strides),
        stored("rope", "e4m3", {"t": tokens, "i": 64}, "t | i", "t i", 256 * 8, strides),
        stored("scale", "e4m3", {"t": tokens, "i": 32}, "t | i", "t i", 320 * 8, strides),
    ]
    return StorageFormat("kv.mla_nvfp4", fields, {"data": ("u8", (tokens, 352))})
