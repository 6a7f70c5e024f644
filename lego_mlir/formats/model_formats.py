"""Formats of whole models: which tensors of a file hold which part of a layer, and in which format.

A part of a model, such as the three projections of attention, is one format whose buffers are named tensors. Two model
formats name the same parts, so a conversion of a model is a conversion of each part; `inner` is the format of the
matrix that a fused part makes, for engines that quantise it.

>>> part = MODELS["hf.llama"].parts["qkv"]
>>> part.match("model.layers.7.self_attn.k_proj.weight"), MODELS["vllm.llama"].parts["qkv"].tensors("7")
(('k_proj', '7'), {'data': 'model.layers.7.self_attn.qkv_proj.weight'})
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lego_mlir.errors import LayoutError, UsageError, did_you_mean


@dataclass(frozen=True, slots=True)
class ModelPart:
    """One part: a format of the catalogue, the tensor of each of its buffers, and the format of the fused matrix.

    Names have `{}` for the number of the layer. With `inner`, `buffers` are those of the inner format.
    """

    format: str
    buffers: Mapping[str, str]
    inner: str | None = None

    def match(self, tensor: str) -> tuple[str, str] | None:
        """The buffer and the layer of a tensor of this part."""
        for buffer, template in self.buffers.items():
            before, _, after = template.partition("{}")
            found = re.fullmatch(re.escape(before) + r"(\d+)" + re.escape(after), tensor)
            if found:
                return buffer, found[1]
        return None

    def tensors(self, layer: str) -> dict[str, str]:
        """The tensor of each buffer in a layer."""
        return {buffer: template.format(layer) for buffer, template in self.buffers.items()}


@dataclass(frozen=True, slots=True)
class ModelFormat:
    """The parts of a model by name, and names of tensors that are copied: (here, as `hf.llama` calls it)."""

    name: str
    parts: Mapping[str, ModelPart]
    source: str
    renamed: Mapping[str, str] = field(default_factory=dict)

    def common_name(self, tensor: str) -> str:
        """The name of a copied tensor as `hf.llama` has it."""
        return _renamed(tensor, [(here, common) for here, common in self.renamed.items()])

    def own_name(self, tensor: str) -> str:
        """The name here of a copied tensor that `hf.llama` calls so."""
        return _renamed(tensor, [(common, here) for here, common in self.renamed.items()])


def _renamed(tensor: str, pairs: list[tuple[str, str]]) -> str:
    for given, wanted in pairs:
        before, _, after = given.partition("{}")
        pattern = re.escape(before) + (r"(\d+)" + re.escape(after) if "{}" in given else "")
        if found := re.fullmatch(pattern, tensor):
            return wanted.format(*found.groups())
    return tensor


_HF: Final = "model.layers.{}."
_MEGATRON: Final = "decoder.layers.{}."


def _linear(name: str, inner: str | None = None) -> ModelPart:
    if inner is None:
        return ModelPart("hf.linear", {"data": f"{name}.weight"})
    return ModelPart("hf.linear", {"qweight": f"{name}.qweight", "scales": f"{name}.scales"}, inner)


def _fused(format_: str, name: str, inner: str | None = None, suffix: str = "weight") -> ModelPart:
    if inner is None:
        return ModelPart(format_, {"data": f"{name}.{suffix}"})
    return ModelPart(format_, {"qweight": f"{name}.qweight", "scales": f"{name}.scales"}, inner)


def _separate(format_: str, name: str, parts: str, suffix: str = "weight") -> ModelPart:
    return ModelPart(format_, {f"{p}_proj": f"{name}.{p}_proj.{suffix}" for p in parts.split()})


def _vllm(inner: str | None) -> dict[str, ModelPart]:
    return {
        "qkv": _fused("vllm.qkv", _HF + "self_attn.qkv_proj", inner),
        "qkv_bias": _fused("vllm.qkv", _HF + "self_attn.qkv_proj", suffix="bias"),
        "gate_up": _fused("vllm.gate_up", _HF + "mlp.gate_up_proj", inner),
        "out": _linear(_HF + "self_attn.o_proj", inner),
        "down": _linear(_HF + "mlp.down_proj", inner),
    }


_ALL: Final = (
    ModelFormat(
        "hf.llama",
        {
            "qkv": _separate("hf.qkv", _HF + "self_attn", "q k v"),
            "qkv_bias": _separate("hf.qkv", _HF + "self_attn", "q k v", "bias"),
            "gate_up": _separate("hf.gate_up", _HF + "mlp", "gate up"),
            "out": _linear(_HF + "self_attn.o_proj"),
            "down": _linear(_HF + "mlp.down_proj"),
        },
        "transformers, LlamaForCausalLM; Qwen2 and Mistral have the same names",
    ),
    ModelFormat("vllm.llama", _vllm(None), "vLLM, LlamaForCausalLM: fused parameters"),
    ModelFormat("vllm.marlin", _vllm("vllm.marlin"), "vLLM, MarlinLinearMethod: fused, 4-bit in groups"),
    ModelFormat(
        "megatron.llama",
        {
            "qkv": _fused("megatron.qkv", _MEGATRON + "self_attention.linear_qkv"),
            "qkv_bias": _fused("megatron.qkv", _MEGATRON + "self_attention.linear_qkv", suffix="bias"),
            "gate_up": _fused("vllm.gate_up", _MEGATRON + "mlp.linear_fc1"),
            "out": _linear(_MEGATRON + "self_attention.linear_proj"),
            "down": _linear(_MEGATRON + "mlp.linear_fc2"),
        },
        "Megatron-LM, GPTModel with transformer engine layers",
        {
            _MEGATRON + "self_attention.linear_qkv.layer_norm_weight": _HF + "input_layernorm.weight",
            _MEGATRON + "mlp.linear_fc1.layer_norm_weight": _HF + "post_attention_layernorm.weight",
            "decoder.final_layernorm.weight": "model.norm.weight",
            "embedding.word_embeddings.weight": "model.embed_tokens.weight",
            "output_layer.weight": "lm_head.weight",
        },
    ),
)
MODELS: Final = {model.name: model for model in _ALL}
"""Model formats by name."""


def model_named(name: str) -> ModelFormat:
    """The model format of a name. Raises UsageError with the closest one."""
    if name not in MODELS:
        close = did_you_mean(name, MODELS) or f"; there are {', '.join(MODELS)}"
        raise UsageError(f"no model format is named {name!r}{close}")
    return MODELS[name]


def sizes_of(part: str, shapes: list[tuple[int, ...]], heads: int | None, groups: int | None) -> dict[str, int]:
    """The sizes of a part from the shapes of its buffers; `heads` and `groups` are query and key heads of the model.

    Raises LayoutError for shapes that are none of the part, or heads that do not divide them.
    """
    columns = {s[1] if len(s) == 2 else 1 for s in shapes}
    rows = [s[0] for s in shapes]
    if len(columns) != 1 or any(len(s) not in (1, 2) for s in shapes):
        raise LayoutError(f"part {part}: tensors of shapes {shapes} have no common columns")
    (inputs,) = columns
    if part in ("out", "down"):
        return {"rows": rows[0], "columns": inputs}
    if part == "gate_up":
        return {"rows": sum(rows) // 2, "columns": inputs}
    if heads is None or groups is None:
        if len(rows) != 3 or rows[0] % rows[1]:
            raise LayoutError(f"part {part} of shapes {shapes} is fused; give the model's --heads and --kv-heads")
        heads, groups = rows[0], rows[1]  # stacked heads need no depth
    depth = sum(rows) // (heads + 2 * groups)
    if heads % groups or depth * (heads + 2 * groups) != sum(rows) or (len(rows) == 3 and rows[1] != groups * depth):
        raise LayoutError(f"part {part}: {heads} heads and {groups} key heads do not divide the rows {rows}")
    return {"groups": groups, "heads": heads // groups, "depth": depth, "inputs": inputs}
