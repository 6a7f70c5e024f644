"""Values of the stored fields of a format: its cast, in both directions.

A coding decodes fields (codes, scales, zero points) to f32 values and encodes values by rounding to the nearest. Two
formats of the same `codes` exchange them without rounding anything again: `common` and `uncommon` are the codes in a
form that all formats of a family share.

>>> import numpy as np
>>> coding = Int8Blocks()
>>> fields = coding.encode(np.array([[0.0, 127.0, -64.0, 1.0] * 8], np.float32))
>>> fields["q"][0, :4].tolist(), coding.decode(fields)[0, :4].tolist()
([0, 127, -64, 1], [0.0, 127.0, -64.0, 1.0])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.errors import LayoutError
from lego_mlir.layout.gallery.tables import table

Fields = Mapping[str, Array]
"""Logical arrays by field name: codes below a byte as uint8, floating-point fields in their own types."""
BLOCK: Final = 32
"""Elements that share a scale in GGUF's legacy blocks and in OCP's microscaling formats."""


@dataclass(frozen=True, slots=True)
class Coding:
    """The cast between fields and values. `codes` names the family whose codes can be exchanged."""

    @property
    def codes(self) -> str:
        """The family: formats of one family have the same codes."""
        return type(self).__name__

    def decode(self, fields: Fields) -> Array:
        """The values, in f32."""
        raise NotImplementedError  # every subclass defines it

    def encode(self, values: Array) -> dict[str, Array]:
        """Fields whose values are nearest to these. Raises LayoutError where a coding has no encoder."""
        raise LayoutError(f"{type(self).__name__} decodes only: no rounding of values is published for it")

    def common(self, fields: Fields) -> dict[str, Array]:
        """The fields as all formats of the family name them."""
        return dict(fields)

    def uncommon(self, fields: Fields) -> dict[str, Array]:
        """The fields of this format. Raises LayoutError, with the index, for codes that it cannot hold."""
        return dict(fields)


def _blocks(values: Array, size: int = BLOCK) -> Array:
    return values.reshape(*values.shape[:-1], values.shape[-1] // size, size)


def _spread(scales: Array, size: int) -> Array:
    """A scale for each element, in f32."""
    return np.repeat(scales.astype(np.float32), size, axis=-1)


@dataclass(frozen=True, slots=True)
class PlainValues(Coding):
    """Values stored as they are, in a floating-point type."""

    dtype: str

    @property
    def codes(self) -> str:
        return f"values of {self.dtype}"

    def decode(self, fields: Fields) -> Array:
        return fields["weight"].astype(np.float32)

    def encode(self, values: Array) -> dict[str, Array]:
        return {"weight": values.astype(numpy_type(self.dtype))}


@dataclass(frozen=True, slots=True)
class Int8Blocks(Coding):
    """Q8_0: 8-bit codes, one f16 scale for 32 of them, the largest magnitude / 127."""

    def decode(self, fields: Fields) -> Array:
        return fields["q"].astype(np.float32) * _spread(fields["scale"], BLOCK)

    def encode(self, values: Array) -> dict[str, Array]:
        blocks = _blocks(values)
        scale = np.abs(blocks).max(-1, keepdims=True) / np.float32(127)
        inverse = _inverse(scale)
        scaled = blocks * inverse
        whole = np.floor(np.abs(scaled))  # halves away from zero, as C's roundf
        rounded = np.sign(scaled) * (whole + np.floor(2 * (np.abs(scaled) - whole)))
        return {"q": rounded.astype(np.int8).reshape(values.shape), "scale": scale[..., 0].astype(np.float16)}


@dataclass(frozen=True, slots=True)
class Int4Blocks(Coding):
    """Q4_0: codes 0..15 of value (q - 8) * scale; the element of largest magnitude has code 0."""

    def decode(self, fields: Fields) -> Array:
        return (fields["q"].astype(np.float32) - 8) * _spread(fields["scale"], BLOCK)

    def encode(self, values: Array) -> dict[str, Array]:
        codes, scale = _centred(values, 8)
        return {"q": codes, "scale": scale}


@dataclass(frozen=True, slots=True)
class Int4RangeBlocks(Coding):
    """Q4_1: codes 0..15 of value q * scale + least."""

    def decode(self, fields: Fields) -> Array:
        return fields["q"].astype(np.float32) * _spread(fields["scale"], BLOCK) + _spread(fields["least"], BLOCK)

    def encode(self, values: Array) -> dict[str, Array]:
        blocks = _blocks(values)
        least, most = blocks.min(-1, keepdims=True), blocks.max(-1, keepdims=True)
        scale = (most - least) / np.float32(15)
        codes = np.trunc((blocks - least) * _inverse(scale) + np.float32(0.5)).clip(0, 15)
        return {
            "q": codes.astype(np.uint8).reshape(values.shape),
            "scale": scale[..., 0].astype(np.float16),
            "least": least[..., 0].astype(np.float16),
        }


@dataclass(frozen=True, slots=True)
class Int5Blocks(Coding):
    """Q5_0: codes of 4 low bits and 1 high bit, of value (q - 16) * scale."""

    def decode(self, fields: Fields) -> Array:
        codes = fields["low"].astype(np.float32) + 16 * fields["high"].astype(np.float32)
        return (codes - 16) * _spread(fields["scale"], BLOCK)

    def encode(self, values: Array) -> dict[str, Array]:
        codes, scale = _centred(values, 16)
        return {"low": codes & 15, "high": codes >> 4, "scale": scale}


@dataclass(frozen=True, slots=True)
class Int6SuperBlocks(Coding):
    """Q6_K: 6-bit codes in two parts, an 8-bit scale for 16 of them and an f16 scale for 256."""

    def decode(self, fields: Fields) -> Array:
        codes = fields["low"].astype(np.int16) + 16 * fields["high"].astype(np.int16) - 32
        scales = fields["scale"].astype(np.float32) * _spread(fields["super_scale"], 16)
        return codes.astype(np.float32) * _spread(scales, 16)


@dataclass(frozen=True, slots=True)
class Microscaled(Coding):
    """MXFP4: e2m1 codes, a power of two (e8m0) for 32 of them (OCP Microscaling Formats, v1.0)."""

    def decode(self, fields: Fields) -> Array:
        powers = np.ldexp(np.float32(1), fields["scale"].astype(np.int32) - 127)
        return four_bit_values()[fields["q"]] * _spread(powers, BLOCK)

    def encode(self, values: Array) -> dict[str, Array]:
        blocks = _blocks(values)
        largest = np.abs(blocks).max(-1)
        with np.errstate(divide="ignore"):
            exponent = np.where(largest > 0, np.floor(np.log2(largest)) - 2 + 127, 0).clip(0, 254).astype(np.uint8)
        power = np.ldexp(np.float32(1), exponent.astype(np.int32) - 127)[..., None]
        codes = np.zeros(blocks.shape, np.uint8)
        best = np.full(blocks.shape, np.inf, np.float32)
        for code, value in enumerate(four_bit_values()):
            error = np.abs(power * value - blocks)
            closer = error < best
            codes[closer], best[closer] = code, error[closer]
        return {"q": codes.reshape(values.shape), "scale": exponent}


@dataclass(frozen=True, slots=True)
class NvidiaBlocks(Coding):
    """NVFP4: e2m1 codes, an e4m3 scale for 16 of them."""

    def decode(self, fields: Fields) -> Array:
        return four_bit_values()[fields["q"]] * _spread(fields["scale"], 16)


@dataclass(frozen=True, slots=True)
class AffineGroups(Coding):
    """4-bit codes of value (q - zero) * scale along groups of the last axis: GPTQ, AWQ and Marlin.

    `zero` is the field of zero points: "zero", "zero_minus_1" as GPTQ stores it, or None for the constant 8.
    """

    group: int
    zero: str | None
    scale: str = "f16"

    @property
    def codes(self) -> str:
        return f"4-bit codes in groups of {self.group}"

    def decode(self, fields: Fields) -> Array:
        one = self.common(fields)
        return (one["q"].astype(np.float32) - _spread(one["zero"], self.group)) * _spread(one["scale"], self.group)

    def encode(self, values: Array) -> dict[str, Array]:
        groups = _blocks(values, self.group)
        scale = (2 * np.abs(groups).max(-1, keepdims=True) / np.float32(15)).astype(numpy_type(self.scale))
        codes = (np.rint(groups * _inverse(scale.astype(np.float32))) + 8).clip(0, 15)
        shape = groups.shape[:-1]
        return self.uncommon(
            {
                "q": codes.astype(np.uint8).reshape(values.shape),
                "scale": scale[..., 0],
                "zero": np.full(shape, 8, np.uint8),
            }
        )

    def common(self, fields: Fields) -> dict[str, Array]:
        if self.zero is None:
            return {**fields, "zero": np.full(fields["scale"].shape, 8, np.uint8)}
        zero = fields[self.zero]
        return {"q": fields["q"], "scale": fields["scale"], "zero": zero + (self.zero == "zero_minus_1")}

    def uncommon(self, fields: Fields) -> dict[str, Array]:
        zero = fields["zero"]
        found = {"q": fields["q"], "scale": fields["scale"]}
        wanted, low = (8, 8) if self.zero is None else (16, 1) if self.zero == "zero_minus_1" else (15, 0)
        wrong = (zero < low) | (zero > wanted)
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise LayoutError(
                f"the zero point of group {list(at)} is {int(zero[at])}, and the format holds {low}..{wanted}"
            )
        return found if self.zero is None else {**found, self.zero: zero - (self.zero == "zero_minus_1")}


@dataclass(frozen=True, slots=True)
class ActOrderedGroups(Coding):
    """AffineGroups whose inputs have their groups in an array, `group`: GPTQ with `desc_act`.

    Where `order` is stored too, inputs are sorted by group, and `order` has the original input of each: the permutation
    of the activations that the engine applies.
    """

    plain: AffineGroups
    is_sorted: bool

    @property
    def codes(self) -> str:
        return f"{self.plain.codes}, ordered by activation"

    def decode(self, fields: Fields) -> Array:
        one = self.common(fields)
        zero, scale = (one[name][:, one["group"]].astype(np.float32) for name in ("zero", "scale"))
        return (one["q"].astype(np.float32) - zero) * scale

    def encode(self, values: Array) -> dict[str, Array]:
        found = AffineGroups(self.plain.group, "zero", self.plain.scale).encode(values)
        return self.uncommon({**found, "group": np.arange(values.shape[1]) // self.plain.group})

    def common(self, fields: Fields) -> dict[str, Array]:
        q, group = fields["q"], fields["group"]
        if self.is_sorted:
            order = table([q.shape[1]], fields["order"]).apply(np.arange(q.shape[1]))
            q, group = np.empty_like(q), np.empty_like(group)
            q[:, order], group[order] = fields["q"], fields["group"]
        return {**self.plain.common({**fields, "q": q}), "group": group}

    def uncommon(self, fields: Fields) -> dict[str, Array]:
        group, groups = np.asarray(fields["group"], np.int32), fields["scale"].shape[1]
        outside = (group < 0) | (group >= groups)
        if outside.any():
            k = int(outside.argmax())
            raise LayoutError(f"the group of input {k} is {int(group[k])}, and there are the groups 0..{groups - 1}")
        found = self.plain.uncommon(fields)
        if not self.is_sorted:
            return {**found, "group": group}
        order = np.argsort(group, kind="stable").astype(np.int32)
        return {**found, "q": fields["q"][:, order], "group": group[order], "order": order}


@dataclass(frozen=True, slots=True)
class ScaledTiles(Coding):
    """e4m3 values with an f32 scale for each tile of `tile` elements: DeepSeek's weights and MLA caches."""

    tile: tuple[int, int]

    @property
    def codes(self) -> str:
        return f"e4m3 in tiles of {self.tile}"

    def decode(self, fields: Fields) -> Array:
        scale = fields["scale"]
        rows, columns = fields["q"].shape
        spread = np.repeat(np.repeat(scale, self.tile[0], 0), self.tile[1], 1)[:rows, :columns]
        return fields["q"].astype(np.float32) * spread

    def encode(self, values: Array) -> dict[str, Array]:
        rows, columns = values.shape
        tall, wide = self.tile
        padded = np.zeros((-(-rows // tall) * tall, -(-columns // wide) * wide), np.float32)
        padded[:rows, :columns] = np.abs(values)
        largest = padded.reshape(padded.shape[0] // tall, tall, padded.shape[1] // wide, wide).max((1, 3))
        scale = np.where(largest > 0, largest / np.float32(448), 1).astype(np.float32)
        spread = np.repeat(np.repeat(scale, tall, 0), wide, 1)[:rows, :columns]
        return {"q": (values / spread).astype(numpy_type("e4m3")), "scale": scale}


def _centred(values: Array, middle: int) -> tuple[Array, Array]:
    """Codes of value (code - middle) * scale and the scales; the element of largest magnitude has code 0."""
    blocks = _blocks(values)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(-1, keepdims=True), -1)
    scale = largest / np.float32(-middle)
    codes = np.trunc(blocks * _inverse(scale) + np.float32(middle + 0.5)).clip(0, 2 * middle - 1).astype(np.uint8)
    return codes.reshape(values.shape), scale[..., 0].astype(np.float16)


def _inverse(scale: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.where(scale == 0, np.float32(0), np.float32(1) / scale)


@cache
def four_bit_values() -> Array:
    """The 16 values of e2m1, by code."""
    positive = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    return np.array(positive + [-v for v in positive], np.float32)


def numpy_type(dtype: str) -> str | type:
    """NumPy's type of a stored element; codes below a byte and scales e8m0 are uint8."""
    import ml_dtypes

    names = {"f64": "float64", "f32": "float32", "f16": "float16", "i32": "int32", "i16": "int16", "i8": "int8"}
    if dtype in names:
        return names[dtype]
    types = {"bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
    return types.get(dtype, "uint8")
