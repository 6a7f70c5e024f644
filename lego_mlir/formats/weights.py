"""Weights of language models as checkpoints and engines store them: fused, interleaved, stacked, divided among ranks.

Logical arrays are (rows, columns) = (outputs, inputs), as `torch.nn.Linear` has them. The same three projections,
stored in blocks and by group of heads:

>>> from lego_mlir.formats.catalog import FORMATS
>>> sizes = {"groups": 2, "heads": 2, "depth": 4, "inputs": 8}
>>> FORMATS["vllm.qkv"](**sizes).agrees(FORMATS["megatron.qkv"](**sizes)).explanation
'q[8, 0] is at data[64] in vllm.qkv and at data[128] in megatron.qkv'
"""

from __future__ import annotations

from lego_mlir.aliases import IndexLike
from lego_mlir.formats.catalog import storage
from lego_mlir.formats.codings import PlainValues
from lego_mlir.formats.storage_format import StorageFormat
from lego_mlir.formats.stored_fields import BITS, StoredField, stored
from lego_mlir.layout.canonical import Size


@storage("hf.linear", "a linear layer, row-major", "safetensors format; torch.nn.Linear", rows=1, columns=1)
def linear(rows: Size, columns: Size, dtype: str = "f16") -> StorageFormat:
    """One row-major weight of any model."""
    weight = stored("weight", dtype, {"r": rows, "c": columns}, "r | c", "r c")
    return StorageFormat("hf.linear", [weight], {"data": (dtype, (rows, columns))}, coding=PlainValues(dtype))


@storage("conv1d.linear", "a linear layer, transposed", "GPT-2's Conv1D in transformers", rows=1, columns=1)
def transposed(rows: Size, columns: Size, dtype: str = "f16") -> StorageFormat:
    """One weight as (inputs, outputs)."""
    weight = stored("weight", dtype, {"r": rows, "c": columns}, "r | c", "c r")
    return StorageFormat("conv1d.linear", [weight], {"data": (dtype, (columns, rows))}, coding=PlainValues(dtype))


def _halves(name: str, first: str, second: str, rows: Size, columns: Size, dtype: str) -> StorageFormat:
    """Two weights one above the other."""
    half = BITS[dtype] * rows * columns
    digits = {"r": rows, "c": columns}
    fields = [stored(what, dtype, digits, "r | c", "r c", at) for what, at in ((first, 0), (second, half))]
    return StorageFormat(name, fields, {"data": (dtype, (2 * rows, columns))})


@storage(
    "vllm.gate_up", "[gate; up]: stacked", "vLLM, MergedColumnParallelLinear; Phi-3 gate_up_proj", rows=1, columns=1
)
def gate_up(rows: Size, columns: Size, dtype: str = "f16") -> StorageFormat:
    """The gate above the up projection, [w1; w3]."""
    return _halves("vllm.gate_up", "gate", "up", rows, columns, dtype)


@storage("hf.gate_up", "gate and up separate", "safetensors of Llama and Qwen: gate_proj, up_proj", rows=1, columns=1)
def gate_up_separate(rows: Size, columns: Size, dtype: str = "f16") -> StorageFormat:
    """Two buffers."""
    digits, shape = {"r": rows, "c": columns}, (rows, columns)
    fields = [stored(what, dtype, digits, "r | c", "r c", buffer=f"{what}_proj") for what in ("gate", "up")]
    return StorageFormat("hf.gate_up", fields, {f"{what}_proj": (dtype, shape) for what in ("gate", "up")})


@storage("flashinfer.up_gate", "[up; gate]: stacked", "FlashInfer, MoEWeightPack: rows [up, gate]", rows=1, columns=1)
def up_gate(rows: Size, columns: Size, dtype: str = "f16") -> StorageFormat:
    """The up projection above the gate, [w3; w1]."""
    return _halves("flashinfer.up_gate", "up", "gate", rows, columns, dtype)


@storage("gptoss.gate_up", "gate and up rows in turn", "GPT-OSS mlp1 in openai/gpt-oss; vllm#52240", rows=1, columns=1)
def gate_up_in_turn(rows: Size, columns: Size, dtype: str = "f16") -> StorageFormat:
    """Rows g0, u0, g1, u1, .."""
    row, digits = BITS[dtype] * columns, {"r": rows, "c": columns}
    fields = [
        stored(what, dtype, digits, "r | c", "r c", at, {"r": 2 * row}) for what, at in (("gate", 0), ("up", row))
    ]
    return StorageFormat("gptoss.gate_up", fields, {"data": (dtype, (2 * rows, columns))})


@storage(
    "megatron.gate_up",
    "[gate; up] of each rank",
    "Megatron-LM, GLU of tensor-parallel ranks",
    ranks=1,
    rows=1,
    columns=1,
)
def gate_up_of_ranks(ranks: Size, rows: Size, columns: Size, dtype: str = "f16") -> StorageFormat:
    """Each rank has its rows of the gate above its rows of the up projection."""
    part, digits = BITS[dtype] * rows * columns, {"rank": ranks, "r": rows, "c": columns}
    fields = [
        stored(what, dtype, digits, "rank r | c", "rank r c", at, {"rank": 2 * part})
        for what, at in (("gate", 0), ("up", part))
    ]
    return StorageFormat("megatron.gate_up", fields, {"data": (dtype, (ranks, 2 * rows, columns))})


@storage(
    "vllm.moe_w13", "experts of [gate; up]", "vLLM, FusedMoE w13_weight; Qwen3-MoE stacks", experts=1, rows=1, columns=1
)
def expert_gate_up(experts: Size, rows: Size, columns: Size, dtype: str = "f16") -> StorageFormat:
    """A stack of experts, in each the gate above the up projection."""
    half, digits = BITS[dtype] * rows * columns, {"e": experts, "r": rows, "c": columns}
    fields = [
        stored(what, dtype, digits, "e | r | c", "e r c", at, {"e": 2 * half})
        for what, at in (("gate", 0), ("up", half))
    ]
    return StorageFormat("vllm.moe_w13", fields, {"data": (dtype, (experts, 2 * rows, columns))})


@storage(
    "gptoss.moe_gate_up", "experts of gate and up rows in turn", "transformers, GptOssExperts: gate_up_proj_blocks",
    experts=1, rows=1, columns=1,
)  # fmt: skip
def expert_rows_in_turn(experts: Size, rows: Size, columns: Size, dtype: str = "f16") -> StorageFormat:
    """A stack of experts, in each rows g0, u0, g1, u1, .."""
    row, digits = BITS[dtype] * columns, {"e": experts, "r": rows, "c": columns}
    strides = {"e": 2 * row * rows, "r": 2 * row}
    fields = [stored(what, dtype, digits, "e | r | c", "e r c", at, strides) for what, at in (("gate", 0), ("up", row))]
    return StorageFormat("gptoss.moe_gate_up", fields, {"data": (dtype, (experts, 2 * rows, columns))})


@storage("moe.down", "a stack of experts", "vLLM, FusedMoE w2_weight", experts=1, rows=1, columns=1)
def expert_stack(experts: Size, rows: Size, columns: Size, dtype: str = "f16") -> StorageFormat:
    """One matrix of each expert."""
    weight = stored("weight", dtype, {"e": experts, "r": rows, "c": columns}, "e | r | c", "e r c")
    return StorageFormat("moe.down", [weight], {"data": (dtype, (experts, rows, columns))})


def _latent_in(name: str, q_rows: Size, kv_rows: Size, inputs: Size, dtype: str, is_fused: bool) -> StorageFormat:
    """The first projections of latent attention, in one buffer or in two."""
    sizes, second = {"q_a": q_rows, "kv_a": kv_rows}, BITS[dtype] * q_rows * inputs
    fields = [
        stored(what, dtype, {"r": rows, "i": inputs}, "r | i", "r i", at if is_fused else 0,
               buffer="data" if is_fused else f"{what}_proj")
        for (what, rows), at in zip(sizes.items(), (0, second), strict=True)
    ]  # fmt: skip
    if is_fused:
        return StorageFormat(name, fields, {"data": (dtype, (q_rows + kv_rows, inputs))})
    return StorageFormat(name, fields, {f"{what}_proj": (dtype, (rows, inputs)) for what, rows in sizes.items()})


@storage(
    "hf.latent_in", "first projections of latent attention", "DeepSeek-V3: q_a_proj, kv_a_proj_with_mqa", q_rows=1,
    kv_rows=1, inputs=1,
)  # fmt: skip
def latent_in_separate(q_rows: Size, kv_rows: Size, inputs: Size, dtype: str = "f16") -> StorageFormat:
    """Two buffers."""
    return _latent_in("hf.latent_in", q_rows, kv_rows, inputs, dtype, is_fused=False)


@storage("vllm.latent_in", "[q_a; kv_a]: stacked", "vLLM, DeepSeek's fused_qkv_a_proj", q_rows=1, kv_rows=1, inputs=1)
def latent_in_fused(q_rows: Size, kv_rows: Size, inputs: Size, dtype: str = "f16") -> StorageFormat:
    """The queries' projection above that of keys and values."""
    return _latent_in("vllm.latent_in", q_rows, kv_rows, inputs, dtype, is_fused=True)


@storage(
    "mixtral.experts",
    "experts of separate matrices",
    "Mixtral block_sparse_moe.experts.*.w1, w3",
    experts=1,
    rows=1,
    columns=1,
)
def expert_matrices(experts: Size, rows: Size, columns: Size, dtype: str = "f16") -> StorageFormat:
    """All gates of the experts, and all up projections, each a stack."""
    digits, shape = {"e": experts, "r": rows, "c": columns}, (experts, rows, columns)
    fields = [
        stored(what, dtype, digits, "e | r | c", "e r c", buffer=name) for what, name in (("gate", "w1"), ("up", "w3"))
    ]
    return StorageFormat("mixtral.experts", fields, {"w1": (dtype, shape), "w3": (dtype, shape)})


@storage(
    "llama4.experts",
    "experts of transposed [gate | up]",
    "Llama 4 experts.gate_up_proj (E, hidden, 2 * rows)",
    experts=1,
    rows=1,
    columns=1,
)
def expert_columns(experts: Size, rows: Size, columns: Size, dtype: str = "f16") -> StorageFormat:
    """A stack of experts (inputs, outputs), the columns of the gate before those of the up projection."""
    digits = {"e": experts, "r": rows, "c": columns}
    line = 2 * BITS[dtype] * rows
    fields = [
        stored(what, dtype, digits, "e | r | c", "e c r", at, {"c": line})
        for what, at in (("gate", 0), ("up", BITS[dtype] * rows))
    ]
    return StorageFormat("llama4.experts", fields, {"data": (dtype, (experts, columns, 2 * rows))})


def _projections(
    name: str, groups: Size, heads: Size, depth: Size, inputs: Size, dtype: str, at: list[IndexLike],
    shape: tuple[Size, ...], outer: tuple[IndexLike, IndexLike],
) -> StorageFormat:  # fmt: skip
    """Query heads (group, head in group), key and value heads (group), each of `depth` rows, at these bits."""
    q = {"g": groups, "h": heads, "d": depth, "i": inputs}
    kv = {"g": groups, "d": depth, "i": inputs}
    fields: list[StoredField] = [stored("q", dtype, q, "g h d | i", "g h d i", at[0], {"g": outer[0]})]
    fields += [
        stored(what, dtype, kv, "g d | i", "g d i", start, {"g": outer[1]})
        for what, start in (("k", at[1]), ("v", at[2]))
    ]
    return StorageFormat(name, fields, {"data": (dtype, shape)})


@storage(
    "vllm.qkv", "[Q; K; V]: stacked", "vLLM, QKVParallelLinear; Phi-3 qkv_proj", groups=1, heads=1, depth=1, inputs=1
)
def qkv_stacked(groups: Size, heads: Size, depth: Size, inputs: Size, dtype: str = "f16") -> StorageFormat:
    """All query heads, then all key heads, then all value heads."""
    head = BITS[dtype] * depth * inputs
    at = [0, groups * heads * head, groups * (heads + 1) * head]
    shape = (groups * (heads + 2) * depth, inputs)
    return _projections("vllm.qkv", groups, heads, depth, inputs, dtype, at, shape, (heads * head, head))


@storage(
    "megatron.qkv",
    "[q .. q k v] for each group",
    "Megatron-LM linear_qkv of grouped-query attention; Falcon, InternLM2",
    groups=1,
    heads=1,
    depth=1,
    inputs=1,
)
def qkv_by_group(groups: Size, heads: Size, depth: Size, inputs: Size, dtype: str = "f16") -> StorageFormat:
    """For each group of query heads: the query heads, their key head and their value head."""
    head = BITS[dtype] * depth * inputs
    group = (heads + 2) * head
    at = [0, heads * head, (heads + 1) * head]
    shape = (groups * (heads + 2) * depth, inputs)
    return _projections("megatron.qkv", groups, heads, depth, inputs, dtype, at, shape, (group, group))


@storage(
    "hf.qkv",
    "q, k and v separate",
    "safetensors of Llama and Qwen: q_proj, k_proj, v_proj",
    groups=1,
    heads=1,
    depth=1,
    inputs=1,
)
def qkv_separate(groups: Size, heads: Size, depth: Size, inputs: Size, dtype: str = "f16") -> StorageFormat:
    """Three buffers."""
    q = {"g": groups, "h": heads, "d": depth, "i": inputs}
    fields = [stored("q", dtype, q, "g h d | i", "g h d i", buffer="q_proj")]
    kv = {"g": groups, "d": depth, "i": inputs}
    fields += [stored(what, dtype, kv, "g d | i", "g d i", buffer=f"{what}_proj") for what in ("k", "v")]
    rows = groups * depth
    buffers = {
        "q_proj": (dtype, (heads * rows, inputs)),
        "k_proj": (dtype, (rows, inputs)),
        "v_proj": (dtype, (rows, inputs)),
    }
    return StorageFormat("hf.qkv", fields, buffers)


@storage(
    "gguf.rope_rows",
    "pairs of rotary rows side by side",
    "llama.cpp convert_hf_to_gguf.py, LlamaModel.permute",
    heads=1,
    depth=2,
    inputs=1,
)
def rotary_rows(heads: Size, depth: Size, inputs: Size, dtype: str = "f16") -> StorageFormat:
    """Query or key rows of a head as (pair, half), where a checkpoint of transformers has (half, pair)."""
    digits = {"h": heads, "half": 2, "pair": depth // 2, "i": inputs}
    weight = stored("weight", dtype, digits, "h half pair | i", "h pair half i")
    return StorageFormat(
        "gguf.rope_rows", [weight], {"data": (dtype, (heads * depth, inputs))}, coding=PlainValues(dtype)
    )


@storage(
    "megatron.column_parallel",
    "outputs divided among ranks",
    "Megatron-LM, ColumnParallelLinear; HF tp_plan colwise",
    ranks=1,
    rows=1,
    columns=1,
)
def column_parallel(ranks: Size, rows: Size, columns: Size, dtype: str = "f16") -> StorageFormat:
    """Each rank has a contiguous part of the rows of a weight."""
    weight = stored("weight", dtype, {"p": ranks, "r": rows, "c": columns}, "p r | c", "p r c")
    return StorageFormat("megatron.column_parallel", [weight], {"data": (dtype, (ranks, rows, columns))})


@storage(
    "megatron.row_parallel",
    "inputs divided among ranks",
    "Megatron-LM, RowParallelLinear; HF tp_plan rowwise",
    ranks=1,
    rows=1,
    columns=1,
)
def row_parallel(ranks: Size, rows: Size, columns: Size, dtype: str = "f16") -> StorageFormat:
    """Each rank has a part of the columns of a weight, as a row-major matrix."""
    weight = stored("weight", dtype, {"p": ranks, "r": rows, "c": columns}, "r | p c", "p r c")
    return StorageFormat("megatron.row_parallel", [weight], {"data": (dtype, (ranks, rows, columns))})


@storage("aiter.16x16", "tiles of 16 rows x 32 bytes", "AITER, shuffle_weight(layout=(16, 16))", rows=16, columns=32)
def tiles_16x16(rows: Size, columns: Size) -> StorageFormat:
    """fp8 weights in the order in which lanes of a matrix instruction of AMD's read them."""
    digits = {"r": rows // 16, "i": 16, "c": columns // 32, "h": 2, "j": 16}
    weight = stored("weight", "e4m3", digits, "r i | c h j", "r c h i j")
    return StorageFormat("aiter.16x16", [weight], {"data": ("e4m3", (rows, columns))}, coding=PlainValues("e4m3"))
