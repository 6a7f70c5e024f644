"""Weights of few bits: words of 4-bit codes as GPTQ, AWQ, Marlin and Machete pack them, microscaled blocks, scaled fp8.

The codes of a weight (outputs, inputs) are the field `q`, its scales and zero points are along groups of inputs.
Packing is only an order of digits: AWQ's words hold columns 0 2 4 6 1 3 5 7.
"""

from __future__ import annotations

from lego_mlir.expr.index import cdiv
from lego_mlir.formats.catalog import storage
from lego_mlir.formats.codings import ActOrderedGroups, AffineGroups, Microscaled, ScaledTiles
from lego_mlir.formats.storage_format import StorageFormat
from lego_mlir.formats.stored_fields import stored
from lego_mlir.layout.canonical import Size


@storage(
    "gptq", "4-bit words along the inputs", "AutoGPTQ, QuantLinear.pack (v1: zero points less 1)", rows=8, columns=128
)
def gptq(rows: Size, columns: Size, group: int = 128) -> StorageFormat:
    """qweight (inputs / 8, outputs), qzeros (groups, outputs / 8), scales (groups, outputs)."""
    groups = columns // group
    q = {"n": rows, "k": columns // 8, "w": 8}
    z = {"g": groups, "n": rows // 8, "w": 8}
    fields = [
        stored("q", "u4", q, "n | k w", "k n w", buffer="qweight"),
        stored("scale", "f16", {"n": rows, "g": groups}, "n | g", "g n", buffer="scales"),
        stored("zero_minus_1", "u4", z, "n w | g", "g n w", buffer="qzeros"),
    ]
    buffers = {
        "qweight": ("i32", (columns // 8, rows)),
        "scales": ("f16", (groups, rows)),
        "qzeros": ("i32", (groups, rows // 8)),
    }
    return StorageFormat("gptq", fields, buffers, coding=AffineGroups(group, "zero_minus_1"))


def _act_ordered(plain: StorageFormat, name: str, columns: Size, *arrays: tuple[str, str]) -> StorageFormat:
    """A packed format beside arrays of an integer for each input: (field, buffer)."""
    fields = [stored(field, "i32", {"k": columns}, "k", "k", buffer=buffer) for field, buffer in arrays]
    assert isinstance(plain.coding, AffineGroups), "packed 4-bit formats have groups"
    return StorageFormat(
        name,
        [*plain.fields, *fields],
        {**plain.buffers, **{buffer: ("i32", (columns,)) for _, buffer in arrays}},
        coding=ActOrderedGroups(plain.coding, is_sorted=len(arrays) > 1),
    )


@storage(
    "gptq.act_order", "gptq, and the group of each input", "AutoGPTQ, QuantLinear with desc_act: g_idx", rows=8,
    columns=128,
)  # fmt: skip
def gptq_act_order(rows: Size, columns: Size, group: int = 128) -> StorageFormat:
    """Inputs in their own order; `g_idx` is known when a file is read."""
    return _act_ordered(gptq(rows, columns, group), "gptq.act_order", columns, ("group", "g_idx"))


@storage("awq", "4-bit words along the outputs, 0 2 4 6 1 3 5 7", "AutoAWQ, WQLinear_GEMM", rows=8, columns=128)
def awq(rows: Size, columns: Size, group: int = 128) -> StorageFormat:
    """qweight (inputs, outputs / 8), qzeros (groups, outputs / 8), scales (groups, outputs)."""
    groups = columns // group
    words = {"n": rows // 8, "pair": 4, "odd": 2}
    fields = [
        stored("q", "u4", {"k": columns} | words, "n pair odd | k", "k n odd pair", buffer="qweight"),
        stored("scale", "f16", {"n": rows, "g": groups}, "n | g", "g n", buffer="scales"),
        stored("zero", "u4", {"g": groups} | words, "n pair odd | g", "g n odd pair", buffer="qzeros"),
    ]
    buffers = {
        "qweight": ("i32", (columns, rows // 8)),
        "scales": ("f16", (groups, rows)),
        "qzeros": ("i32", (groups, rows // 8)),
    }
    return StorageFormat("awq", fields, buffers, coding=AffineGroups(group, "zero"))


@storage(
    "vllm.marlin", "4-bit tiles for mma.m16n8k16", "vLLM, marlin_utils_test.get_weight_perm(4)", rows=64, columns=128
)
def marlin(rows: Size, columns: Size, group: int = 128) -> StorageFormat:
    """Words in the order in which a warp's lanes hold the operand B of `mma`; zero points are the constant 8."""
    digits = {
        "k": columns // 16, "half": 2, "lane": 4, "pair": 2,
        "n": rows // 64, "tile": 4, "block": 2, "col": 8,
    }  # fmt: skip
    scales = {"n": rows // 64, "j": 8, "i": 8, "g": columns // group}
    fields = [
        stored(
            "q",
            "u4",
            digits,
            "n tile block col | k half lane pair",
            "k n col lane tile pair block half",
            buffer="qweight",
        ),
        stored("scale", "f16", scales, "n j i | g", "g n i j", buffer="scales"),
    ]
    buffers = {"qweight": ("i32", (columns // 16, 2 * rows)), "scales": ("f16", (columns // group, rows))}
    return StorageFormat("vllm.marlin", fields, buffers, coding=AffineGroups(group, None))


@storage(
    "vllm.marlin_act_order", "Marlin, inputs sorted by group", "vLLM, gptq_marlin: g_idx and g_idx_sort_indices",
    rows=64, columns=128,
)  # fmt: skip
def marlin_act_order(rows: Size, columns: Size, group: int = 128) -> StorageFormat:
    """Marlin's words of the sorted inputs, their groups, and the permutation of activations that sorts them."""
    arrays = ("group", "g_idx"), ("order", "g_idx_sort_indices")
    return _act_ordered(marlin(rows, columns, group), "vllm.marlin_act_order", columns, *arrays)


@storage(
    "vllm.machete", "4-bit fragments of wgmma, blocks of 128 x 64",
    "vLLM, csrc/quantization/machete/machete_prepacked_layout.cuh (cooperative, 16-bit activations)", rows=128,
    columns=128,
)  # fmt: skip
def machete(rows: Size, columns: Size, group: int = 128) -> StorageFormat:
    """Blocks in the order in which two groups of warps hold the operand A of `wgmma.m64k16` in registers.

    A thread's 32 codes of a block are 16 bytes; those of a word are interleaved, so that two neighbours of a row are 16
    bits apart. Zero points are the constant 8.
    """
    digits = {
        "block_n": rows // 128, "group": 2, "warp": 4, "half_n": 2, "row": 8,
        "block_k": columns // 64, "step": 4, "half_k": 2, "pair": 4, "odd": 2,
    }  # fmt: skip
    axes = "block_n group warp half_n row | block_k step half_k pair odd"
    order = "block_k block_n group warp row pair step odd half_k half_n"
    groups = columns // group
    fields = [
        stored("q", "u4", digits, axes, order, buffer="qweight"),
        stored("scale", "f16", {"n": rows, "g": groups}, "n | g", "g n", buffer="scales"),
    ]
    buffers = {"qweight": ("i32", (columns // 8, rows)), "scales": ("f16", (groups, rows))}
    return StorageFormat("vllm.machete", fields, buffers, coding=AffineGroups(group, None))


@storage(
    "vllm.marlin_int8",
    "8-bit tiles for mma.m16n8k16",
    "vLLM, marlin_utils_test.get_weight_perm(8)",
    rows=64,
    columns=16,
)
def marlin_int8(rows: Size, columns: Size) -> StorageFormat:
    """Marlin's tiles of bytes, four to a word."""
    digits = {
        "k": columns // 16, "half": 2, "lane": 4, "pair": 2,
        "n": rows // 64, "tile": 4, "block": 2, "col": 8,
    }  # fmt: skip
    order = "k n col lane tile block pair half"
    weight = stored("q", "u8", digits, "n tile block col | k half lane pair", order)
    return StorageFormat("vllm.marlin_int8", [weight], {"data": ("i32", (columns // 16, 4 * rows))})


@storage(
    "gptoss.mxfp4",
    "e2m1 pairs, scales beside",
    "GPT-OSS *_blocks and *_scales, openai/gpt-oss weights.py",
    rows=1,
    columns=32,
)
def mxfp4(rows: Size, columns: Size) -> StorageFormat:
    """Blocks of 32 codes, the even ones in the low nibbles; scales are exponents in a second tensor."""
    groups = columns // 32
    fields = [
        stored("q", "e2m1", {"r": rows, "b": groups, "i": 32}, "r | b i", "r b i", buffer="blocks"),
        stored("scale", "e8m0", {"r": rows, "b": groups}, "r | b", "r b", buffer="scales"),
    ]
    buffers = {"blocks": ("u8", (rows, groups, 16)), "scales": ("u8", (rows, groups))}
    return StorageFormat("gptoss.mxfp4", fields, buffers, coding=Microscaled())


@storage("deepseek.fp8", "e4m3, scales of 128 x 128 tiles", "DeepSeek-V3, weight_scale_inv", rows=128, columns=128)
def block_scaled(rows: Size, columns: Size) -> StorageFormat:
    """Row-major e4m3 values and an f32 factor for each tile."""
    tiles = (rows // 128, columns // 128)
    fields = [
        stored("q", "e4m3", {"r": rows, "c": columns}, "r | c", "r c", buffer="weight"),
        stored("scale", "f32", {"r": tiles[0], "c": tiles[1]}, "r | c", "r c", buffer="weight_scale_inv"),
    ]
    buffers = {"weight": ("e4m3", (rows, columns)), "weight_scale_inv": ("f32", tiles)}
    return StorageFormat("deepseek.fp8", fields, buffers, coding=ScaledTiles((128, 128)))


@storage(
    "deepgemm.scales",
    "scales by columns, padded to 16 bytes",
    "DeepGEMM, get_mn_major_tma_aligned_tensor",
    rows=1,
    groups=1,
)
def aligned_scales(rows: Size, groups: Size) -> StorageFormat:
    """f32 scales of rows x groups, the rows of a group contiguous, its pitch a multiple of 4 rows."""
    pitch = 4 * cdiv(rows, 4)
    scale = stored("scale", "f32", {"g": groups, "r": rows}, "r | g", "g r", strides={"g": 32 * pitch})
    padding = {"data": 32 * groups * (pitch - rows)}
    return StorageFormat("deepgemm.scales", [scale], {"data": ("f32", (groups, pitch))}, padding)


@storage(
    "cutlass.scales_128x4",
    "scales in tiles of 128 x 4",
    "CUTLASS, Sm1xxBlockScaledConfig; tcgen05.mma block scales",
    rows=128,
    groups=4,
)
def scales_128x4(rows: Size, groups: Size) -> StorageFormat:
    """Scale bytes of 128 rows x 4 groups in 512 bytes, as 32 rows of 4 x 4."""
    digits = {"m": rows // 128, "a": 4, "b": 32, "k": groups // 4, "j": 4}
    scale = stored("scale", "e8m0", digits, "m a b | k j", "m k b a j")
    return StorageFormat("cutlass.scales_128x4", [scale], {"data": ("u8", (rows, groups))})


@storage("hf.scales", "scales, row-major", "compressed-tensors weight_scale", rows=1, groups=1)
def plain_scales(rows: Size, groups: Size) -> StorageFormat:
    """Scale bytes of rows x groups."""
    scale = stored("scale", "e8m0", {"r": rows, "g": groups}, "r | g", "r g")
    return StorageFormat("hf.scales", [scale], {"data": ("u8", (rows, groups))})


@storage(
    "bitsandbytes.nf4", "4-bit codes, the first in the high nibble", "bitsandbytes, quantize_4bit", rows=1, columns=2
)
def high_first(rows: Size, columns: Size) -> StorageFormat:
    """Codes of a row-major weight in pairs, the first of a pair in the high nibble."""
    first = stored("even", "u4", {"r": rows, "c": columns // 2}, "r | c", "r c", at=4, strides={"c": 8})
    second = stored("odd", "u4", {"r": rows, "c": columns // 2}, "r | c", "r c", strides={"c": 8})
    return StorageFormat("bitsandbytes.nf4", [first, second], {"data": ("u8", (rows, columns // 2))})
