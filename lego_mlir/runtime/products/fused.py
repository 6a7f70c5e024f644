"""Fusion into the product of a call of `matmul`: the options it names, and the operands of the epilogue.

    scale_result * (activation(scale_a * (a @ b) * scale_b + bias) + residual)
    amax = max(amax, the largest absolute value before scale_result)

What is fused is part of the problem and of its class, so that each combination is compiled once, for all sizes of the
class. The units cut off the lower bits of a sum instead of rounding it: `accumulate="exact"` adds their sums to totals
of f32 after `STEPS` steps of 128 bytes of K, which takes narrower tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lego_mlir.aliases import Tensor
from lego_mlir.errors import UsageError
from lego_mlir.kernels.fused_epilogues import FusedEpilogue
from lego_mlir.runtime.arrays import ArrayFacts, Device
from lego_mlir.runtime.binding import device_name
from lego_mlir.runtime.products.operands import ArrayOperand, order_of, read
from lego_mlir.runtime.products.problem import F8, RESULTS

ACTIVATIONS: Final = ("relu", "gelu", "silu")
ACCUMULATIONS: Final = (None, "fast", "exact")
TF32: Final = (False, True, "rounded", "cut")
STEPS: Final = {1: 1, 2: 4, 4: 4}
"""Steps after which sums are promoted, by the bytes of an element."""
ALL_RESULTS: Final = {**RESULTS, "int32": "i32", **F8}
_DEFAULTS: Final = {**dict.fromkeys(F8, "bfloat16"), "int8": "int32"}
NAMES: Final = ("scale_a", "scale_b", "bias", "residual", "amax", "scale_result")
Given = Sequence["Tensor | None"]
"""The arrays of an epilogue, in the order of `NAMES`."""


@dataclass(frozen=True, slots=True)
class ProductOptions:
    """What a call names: the type of the result, the precision, and where kernels come from."""

    result: str | None = None
    kernels: str | Path | None = None
    fixed: bool = False
    activation: str | None = None
    accumulate: str | None = None
    tf32: bool | str = False

    def fuses(self, given: Given) -> bool:
        """Whether more than a plain product is computed."""
        named = bool(self.tf32) or self.activation is not None or self.accumulate is not None
        return named or any(array is not None for array in given)

    def result_of(self, dtype: str, given: Given) -> str:
        """The name of the result's type for operands of a type. Raises UsageError for options that do not fit them."""
        if self.tf32 not in TF32 or (self.tf32 in ("rounded", "cut") and dtype != "float32"):
            raise UsageError(
                f"matmul: tf32 is False, True, 'rounded' or 'cut', of float32 operands; got {self.tf32!r} for {dtype}"
            )
        if dtype == "float32" and not self.tf32:
            raise UsageError("matmul of float32: the units multiply its first 19 bits, TF32; allow that with tf32=True")
        name = self.result or _DEFAULTS.get(dtype, dtype)
        if name in F8 and dtype not in F8:
            raise UsageError(
                f"matmul: results of {name} are those of {' or '.join(F8)} operands, got {dtype}; convert the "
                "operands, or the result"
            )
        is_plain_int8 = dtype == "int8" and all(array is None for array in given)
        allowed = [*RESULTS, *(F8 if dtype in F8 else {}), *(["int32"] if is_plain_int8 else [])]
        if name not in allowed:
            only = ", int32 of plain products of int8" if name == "int32" else ""
            raise UsageError(f"matmul: the result is one of {', '.join(allowed)}{only}, got {name!r}")
        if self.accumulate not in ACCUMULATIONS or self.activation not in (None, *ACTIVATIONS):
            raise UsageError(
                f"matmul: accumulate is 'fast' or 'exact', and activation one of {', '.join(ACTIVATIONS)}; got "
                f"{self.accumulate!r} and {self.activation!r}"
            )
        return name

    def exact_steps(self, facts: ArrayFacts) -> int:
        """Steps after which sums are promoted; 0 for units' sums, and for integers, whose sums are exact."""
        return STEPS[facts.itemsize] if self.accumulate == "exact" and facts.dtype != "int8" else 0


def has_blocks(first: ArrayOperand, second: ArrayOperand, given: Given) -> bool:
    """Whether a product of matrices has scales of blocks: one that is a matrix."""
    matrices = len(first.facts.shape) == len(second.facts.shape) == 2
    return matrices and any(len(getattr(scale, "shape", ())) == 2 for scale in given[:2])


def epilogue_of(
    given: Given, options: ProductOptions, shape: tuple[int, int], device: Device
) -> tuple[FusedEpilogue | None, list[ArrayFacts]]:
    """What is fused into an m x n product on a device, and the facts of its arrays.

    Raises UsageError for an array that does not fit.
    """
    m, n = shape
    dims = {"scale_a": (m,), "scale_b": (n,), "bias": (n,), "residual": (m, n), "amax": (1,), "scale_result": (1,)}
    facts: list[ArrayFacts] = []
    kinds: dict[str, str] = {}
    for name, array in zip(NAMES, given, strict=True):
        if array is None:
            continue
        is_factor, found = name.startswith("scale"), _facts(read(name, array), device)
        one = (is_factor or name == "amax") and found.shape in ((), (1,))
        typed = ("float32",) if is_factor or name == "amax" else tuple(RESULTS)
        fits = found.shape == dims[name] and (
            0 in found.shape or (found.strides == (1,) if len(found.shape) == 1 else order_of(found) == "N")
        )
        if found.dtype not in typed or not (one or fits):
            raise UsageError(
                f"matmul: {name} is {found.dtype} of shape {found.shape} and strides {found.strides}; it must be "
                f"{' or '.join(typed)} of shape {dims[name]}, contiguous"
            )
        facts.append(replace(found, shape=(1,), strides=(1,)) if one else found)
        kinds[name] = ("one" if one else "each") if is_factor else RESULTS[found.dtype]
    has_amax = kinds.pop("amax", "") != ""
    fused = FusedEpilogue(**kinds, activation=options.activation or "", amax=has_amax)
    return (fused if str(fused) else None), facts


def _facts(operand: ArrayOperand, device: Device) -> ArrayFacts:
    if operand.facts.device != device:
        there, here = device_name(operand.facts.device), device_name(device)
        raise UsageError(f"matmul: {operand.name} is on {there}, and a and b are on {here}; move it to theirs")
    return operand.facts


def rows_of(given: Given, lead: Sequence[int], columns: int) -> list[Tensor | None]:
    """The arrays for a product of all rows: a scale [.., M] and a residual [.., M, N] have the leading dimensions."""
    found = dict(zip(NAMES, given, strict=True))
    for name, dims in (("scale_a", [*lead]), ("residual", [*lead, columns])):
        x = found[name]
        if x is None or (name == "scale_a" and list(x.shape) in ([], [1])):
            continue
        if list(x.shape) != dims:
            raise UsageError(f"matmul: {name} is {list(x.shape)}, and the rows of the product need {dims}")
        found[name] = x.reshape(-1) if name == "scale_a" else x.reshape(-1, columns)
    return list(found.values())
