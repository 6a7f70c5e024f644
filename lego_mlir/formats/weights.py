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
from lego_mlir.formats.catalog import storage, woven
from lego_mlir.formats.codings import PlainValues
from lego_mlir.formats.storage_format import StorageFormat
from lego_mlir.formats.stored_fields import BITS, StoredField, stored
from lego_mlir.layout.canonical import Size

_WEIGHT = "r=rows c=columns", "r | c"
_PART = "p=ranks r=rows c=columns"
_EXPERTS = "e=experts r=rows c=columns", "e | r | c"

woven(
    "hf.linear", "a linear layer, row-major", "safetensors format; torch.nn.Linear", *_WEIGHT, "r c", coding=PlainValues
)
woven(
    "conv1d.linear", "a linear layer, transposed", "GPT-2's Conv1D in transformers", *_WEIGHT, "c r", coding=PlainValues
)
woven(
    "megatron.column_parallel", "outputs divided among ranks", "Megatron-LM, ColumnParallelLinear; HF tp_plan colwise",
    _PART, "p r | c", "p r c",
)  # fmt: skip
woven(
    "megatron.row_parallel", "inputs divided among ranks", "Megatron-LM, RowParallelLinear; HF tp_plan rowwise",
    _PART, "r | p c", "p r c",
)  # fmt: skip

woven(
    "vllm.gate_up", "[gate; up]: stacked", "vLLM, MergedColumnParallelLinear; Phi-3 gate_up_proj", *_WEIGHT, "(* r) c",
    "gate up",
)  # fmt: skip
woven(
    "hf.gate_up", "gate and up separate", "safetensors of Llama and Qwen: gate_proj, up_proj", *_WEIGHT, "r c",
    "gate up", buffers="gate_proj up_proj",
)  # fmt: skip
woven(
    "flashinfer.up_gate", "[up; gate]: stacked", "FlashInfer, MoEWeightPack: rows [up, gate]", *_WEIGHT, "(* r) c",
    "up gate",
)  # fmt: skip
woven(
    "gptoss.gate_up", "gate and up rows in turn", "GPT-OSS mlp1 in openai/gpt-oss; vllm#52240", *_WEIGHT, "(r *) c",
    "gate up",
)  # fmt: skip
woven(
    "megatron.gate_up", "[gate; up] of each rank", "Megatron-LM, GLU of tensor-parallel ranks",
    "rank=ranks r=rows c=columns", "rank r | c", "rank (* r) c", "gate up",
)  # fmt: skip

woven("moe.down", "a stack of experts", "vLLM, FusedMoE w2_weight", *_EXPERTS, "e r c")
woven(
    "vllm.moe_w13", "experts of [gate; up]", "vLLM, FusedMoE w13_weight; Qwen3-MoE stacks", *_EXPERTS, "e (* r) c",
    "gate up",
)  # fmt: skip
woven(
    "gptoss.moe_gate_up", "experts of gate and up rows in turn", "transformers, GptOssExperts: gate_up_proj_blocks",
    *_EXPERTS, "e (r *) c", "gate up",
)  # fmt: skip
woven(
    "mixtral.experts", "experts of separate matrices", "Mixtral block_sparse_moe.experts.*.w1, w3", *_EXPERTS, "e r c",
    "gate up", buffers="w1 w3",
)  # fmt: skip
woven(
    "llama4.experts", "experts of transposed [gate | up]", "Llama 4 experts.gate_up_proj (E, hidden, 2 * rows)",
    *_EXPERTS, "e c (* r)", "gate up",
)  # fmt: skip


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


@storage("aiter.16x16", "tiles of 16 rows x 32 bytes", "AITER, shuffle_weight(layout=(16, 16))", rows=16, columns=32)
def tiles_16x16(rows: Size, columns: Size) -> StorageFormat:
    """fp8 weights in the order in which lanes of a matrix instruction of AMD's read them."""
    digits = {"r": rows // 16, "i": 16, "c": columns // 32, "h": 2, "j": 16}
    weight = stored("weight", "e4m3", digits, "r i | c h j", "r c h i j")
    return StorageFormat("aiter.16x16", [weight], {"data": ("e4m3", (rows, columns))}, coding=PlainValues("e4m3"))


@storage(
    "gguf.rope_rows", "pairs of rotary rows side by side", "llama.cpp convert_hf_to_gguf.py, LlamaModel.permute",
    heads=1, depth=2, inputs=1,
)  # fmt: skip
def rotary_rows(heads: Size, depth: Size, inputs: Size, dtype: str = "f16") -> StorageFormat:
    """Query or key rows of a head as (pair, half), where a checkpoint of transformers has (half, pair)."""
    digits = {"h": heads, "half": 2, "pair": depth // 2, "i": inputs}
    weight = stored("weight", dtype, digits, "h half pair | i", "h pair half i")
    return StorageFormat(
        "gguf.rope_rows", [weight], {"data": (dtype, (heads * depth, inputs))}, coding=PlainValues(dtype)
    )
