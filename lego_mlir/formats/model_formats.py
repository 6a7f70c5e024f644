"""Formats of whole models: which tensors of a file hold which part of a layer, and in which format.

A part of a model, such as the three projections of attention, is one format whose buffers are named tensors. Two model
formats name the same parts, so a conversion of a model is a conversion of each part; `inner` is the format of the
matrix that a fused part makes, for engines that quantise it. A buffer that is a stack of experts may be a tensor for
each expert.

>>> part = MODELS["hf.llama"].parts["qkv"]
>>> part.match("model.layers.7.self_attn.k_proj.weight"), MODELS["vllm.llama"].parts["qkv"].tensors("7")
(('k_proj', '7'), {'data': ('model.layers.7.self_attn.qkv_proj.weight',)})
>>> MODELS["hf.mixtral"].parts["experts_down_weight"].tensors("0", experts=2)["data"][1]
'model.layers.0.block_sparse_moe.experts.1.w2.weight'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Final

from lego_mlir.errors import LayoutError, UsageError, did_you_mean

EXPERT: Final = "{expert}"
"""The number of the expert in the name of a tensor."""


@cache
def _pattern(template: str) -> re.Pattern[str]:
    """The names of all layers and experts."""
    return re.compile(re.escape(template).replace(re.escape("{}"), r"(\d+)").replace(re.escape(EXPERT), r"\d+"))


@dataclass(frozen=True, slots=True)
class ModelPart:
    """One part: a format of the catalogue, the tensor of each of its buffers, and the format of the fused matrix.

    Names have `{}` for the number of the layer, and `{expert}` where each expert has a tensor. `last` is the size of an
    axis that the file adds to the columns. With `inner`, `buffers` are those of the inner format.
    """

    format: str
    buffers: Mapping[str, str]
    inner: str | None = None
    last: int = 0

    def match(self, tensor: str) -> tuple[str, str] | None:
        """The buffer and the layer of a tensor of this part."""
        for buffer, template in self.buffers.items():
            if found := _pattern(template).fullmatch(tensor):
                return buffer, found[1]
        return None

    def tensors(self, layer: str, experts: int = 1) -> dict[str, tuple[str, ...]]:
        """The tensor of each buffer in a layer, or those of its experts."""
        return {
            buffer: tuple(template.format(layer, expert=e) for e in range(experts if EXPERT in template else 1))
            for buffer, template in self.buffers.items()
        }

    def is_apart(self, buffer: str) -> bool:
        """Whether each expert has its own tensor."""
        return EXPERT in self.buffers[buffer]


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


def _experts(format_: str, last: int = 0, **buffers: str) -> ModelPart:
    """A stack of experts; names are those after the layer."""
    return ModelPart(format_, {buffer: _HF + name for buffer, name in buffers.items()}, last=last)


def _separate_experts(name: str, gate: str, up: str, down: str, suffixes: tuple[str, ...]) -> dict[str, ModelPart]:
    """Three tensors for each expert, and again for each suffix."""
    at, found = f"{name}.{EXPERT}", dict[str, ModelPart]()
    for suffix in suffixes:
        w1, w3, w2 = (f"{at}.{projection}.{suffix}" for projection in (gate, up, down))
        found[f"experts_{suffix}"] = _experts("mixtral.experts", w1=w1, w3=w3)
        found[f"experts_down_{suffix}"] = _experts("moe.down", data=w2)
    return found


def _stacked_experts(name: str, suffixes: Mapping[str, str]) -> dict[str, ModelPart]:
    """`w13_weight` and `w2_weight`; `suffixes` are those of Hugging Face's files with those of vLLM's."""
    found = dict[str, ModelPart]()
    for suffix, own in suffixes.items():
        found[f"experts_{suffix}"] = _experts("vllm.moe_w13", data=f"{name}.w13_{own}")
        found[f"experts_down_{suffix}"] = _experts("moe.down", data=f"{name}.w2_{own}")
    return found


_SCALED: Final = ("weight", "weight_scale_inv")
"""The tensors of a linear layer in fp8: its values, and the scales of their tiles."""


def _attention(parts: Mapping[str, ModelPart]) -> dict[str, ModelPart]:
    return {name: part for name, part in parts.items() if name in ("qkv", "qkv_bias", "out")}


def _deepseek(is_fused: bool) -> dict[str, ModelPart]:
    """Latent attention, dense layers and shared experts, once for values and once for their scales."""
    found = dict[str, ModelPart]()
    for suffix in _SCALED:
        attention, dense, shared = (_HF + name for name in ("self_attn", "mlp", "mlp.shared_experts"))
        if is_fused:
            found[f"latent_in_{suffix}"] = _fused("vllm.latent_in", f"{attention}.fused_qkv_a_proj", suffix=suffix)
            found[f"gate_up_{suffix}"] = _fused("vllm.gate_up", f"{dense}.gate_up_proj", suffix=suffix)
            found[f"shared_{suffix}"] = _fused("vllm.gate_up", f"{shared}.gate_up_proj", suffix=suffix)
            continue
        latent = {"q_a_proj": f"{attention}.q_a_proj.{suffix}", "kv_a_proj": f"{attention}.kv_a_proj_with_mqa.{suffix}"}
        found[f"latent_in_{suffix}"] = ModelPart("hf.latent_in", latent)
        found[f"gate_up_{suffix}"] = _separate("hf.gate_up", dense, "gate up", suffix)
        found[f"shared_{suffix}"] = _separate("hf.gate_up", shared, "gate up", suffix)
    return found


def _gpt_oss(is_stacked: bool) -> dict[str, ModelPart]:
    """MXFP4 codes as bytes, their scales, and biases of the experts."""
    found, gate_up = dict[str, ModelPart](), "vllm.moe_w13" if is_stacked else "gptoss.moe_gate_up"
    for suffix, own in (("blocks", "weight"), ("scales", "weight_scale"), ("bias", "bias")):
        names = (f"w13_{own}", f"w2_{own}") if is_stacked else (f"gate_up_proj_{suffix}", f"down_proj_{suffix}")
        last = 16 if suffix == "blocks" and not is_stacked else 0
        found[f"experts_{suffix}"] = _experts(gate_up, last, data=f"mlp.experts.{names[0]}")
        found[f"experts_down_{suffix}"] = _experts("moe.down", last, data=f"mlp.experts.{names[1]}")
    return found


_LLAMA: Final = {
    "qkv": _separate("hf.qkv", _HF + "self_attn", "q k v"),
    "qkv_bias": _separate("hf.qkv", _HF + "self_attn", "q k v", "bias"),
    "gate_up": _separate("hf.gate_up", _HF + "mlp", "gate up"),
    "out": _linear(_HF + "self_attn.o_proj"),
    "down": _linear(_HF + "mlp.down_proj"),
}
_ALL: Final = (
    ModelFormat("hf.llama", _LLAMA, "transformers, LlamaForCausalLM; Qwen2 and Mistral have the same names"),
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
    ModelFormat(
        "hf.mixtral",
        _attention(_LLAMA) | _separate_experts("block_sparse_moe.experts", "w1", "w3", "w2", ("weight",)),
        "transformers, MixtralForCausalLM: w1, w2 and w3 of each expert",
    ),
    ModelFormat(
        "vllm.mixtral",
        _attention(_vllm(None)) | _stacked_experts("block_sparse_moe.experts", {"weight": "weight"}),
        "vLLM, MixtralForCausalLM: FusedMoE's w13_weight and w2_weight",
    ),
    ModelFormat(
        "hf.qwen3_moe",
        _attention(_LLAMA) | _separate_experts("mlp.experts", "gate_proj", "up_proj", "down_proj", ("weight",)),
        "transformers, Qwen3MoeForCausalLM",
    ),
    ModelFormat(
        "vllm.qwen3_moe",
        _attention(_vllm(None)) | _stacked_experts("mlp.experts", {"weight": "weight"}),
        "vLLM, Qwen3MoeForCausalLM",
    ),
    ModelFormat(
        "hf.deepseek",
        _deepseek(is_fused=False) | _separate_experts("mlp.experts", "gate_proj", "up_proj", "down_proj", _SCALED),
        "transformers, DeepseekV3ForCausalLM, bf16 or fp8 with weight_scale_inv",
    ),
    ModelFormat(
        "vllm.deepseek",
        _deepseek(is_fused=True) | _stacked_experts("mlp.experts", {suffix: suffix for suffix in _SCALED}),
        "vLLM, deepseek_v2.py: fused_qkv_a_proj, gate_up_proj, FusedMoE",
    ),
    ModelFormat(
        "hf.gpt_oss",
        _attention(_LLAMA) | _gpt_oss(is_stacked=False),
        "transformers, GptOssForCausalLM: gate and up rows in turn, *_blocks and *_scales",
    ),
    ModelFormat(
        "vllm.gpt_oss",
        _attention(_vllm(None)) | _gpt_oss(is_stacked=True),
        "vLLM, FusedMoE of backends that read [gate; up] (vllm#52240)",
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


def sizes_of(
    format_: str, shapes: list[tuple[int, ...]], heads: int | None = None, groups: int | None = None
) -> dict[str, int]:
    """The sizes of a part's format from the shapes of its buffers, stacks of experts with their number in front.

    `heads` and `groups` are query and key heads of the model. Raises LayoutError for shapes that are none of the
    format, or heads that do not divide them.
    """
    if "moe" in format_ or format_ == "mixtral.experts":
        return _sizes_of_experts(format_, shapes)
    columns, rows = {s[1] if len(s) == 2 else 1 for s in shapes}, [s[0] for s in shapes]
    if len(columns) != 1 or any(len(s) not in (1, 2) for s in shapes):
        raise LayoutError(f"{format_}: tensors of shapes {shapes} have no common columns")
    (inputs,) = columns
    if format_ == "hf.linear":
        return {"rows": rows[0], "columns": inputs}
    if format_.endswith("gate_up"):
        return {"rows": sum(rows) // 2, "columns": inputs}
    if format_.endswith("latent_in"):
        if len(rows) != 2:
            raise LayoutError(f"{format_} of the shape {shapes[0]} does not tell where its second matrix begins")
        return {"q_rows": rows[0], "kv_rows": rows[1], "inputs": inputs}
    if heads is None or groups is None:
        if len(rows) != 3 or rows[0] % rows[1]:
            raise LayoutError(f"{format_} of shapes {shapes} is fused; give the model's --heads and --kv-heads")
        heads, groups = rows[0], rows[1]  # stacked heads need no depth
    depth = sum(rows) // (heads + 2 * groups)
    if heads % groups or depth * (heads + 2 * groups) != sum(rows) or (len(rows) == 3 and rows[1] != groups * depth):
        raise LayoutError(f"{format_}: {heads} heads and {groups} key heads do not divide the rows {rows}")
    return {"groups": groups, "heads": heads // groups, "depth": depth, "inputs": inputs}


def _sizes_of_experts(format_: str, shapes: list[tuple[int, ...]]) -> dict[str, int]:
    experts, rows = shapes[0][:2] if len(shapes[0]) > 1 else (0, 0)
    halves = 1 if len(shapes) == 2 or format_ == "moe.down" else 2
    if len(set(shapes)) != 1 or not experts or rows % halves:
        raise LayoutError(f"{format_}: tensors of shapes {shapes} are no stacks of {halves} matrices an expert")
    return {"experts": experts, "rows": rows // halves, "columns": prod(shapes[0][2:])}
