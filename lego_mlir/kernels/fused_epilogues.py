"""Parts that one call fuses into a product, as a value: the epilogue, and how sums and operands are treated.

    scale_result * (activation(scale_a * (a @ b) * scale_b + bias) + residual)
    amax = max(amax, the largest absolute value before scale_result)

It is part of the key of a kernel, so it holds kinds and types only. The epilogue itself is built for sizes, which are
ints, or symbols for a kernel of a class of sizes.

>>> str(FusedEpilogue(scale_a="each", bias="f16", activation="gelu"))
'scaleeach_biasf16_gelu'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lego_mlir.kernels.epilogues import Epilogue
    from lego_mlir.layout.canonical import SizeLike


@dataclass(frozen=True, slots=True)
class FusedEpilogue:
    """What is fused: scales as "one" number or of "each" row or column, and the types of bias and residual; "" none."""

    scale_a: str = ""
    scale_b: str = ""
    bias: str = ""
    activation: str = ""
    residual: str = ""
    amax: bool = False
    scale_result: str = ""

    def __str__(self) -> str:
        named = (("scale", self.scale_a), ("by", self.scale_b), ("bias", self.bias), ("", self.activation),
                 ("add", self.residual), ("", "amax" * self.amax), ("result", self.scale_result))  # fmt: skip
        return "_".join(f"{name}{kind}" for name, kind in named if kind)

    @property
    def operands(self) -> int:
        """The number of tensors that the epilogue takes."""
        tensors = (self.scale_a, self.scale_b, self.bias, self.residual, self.amax, self.scale_result)
        return sum(map(bool, tensors))

    def build(self, m: SizeLike, n: SizeLike) -> Epilogue:
        """The epilogue of an m x n product; its operands are those that are not "", in the order of the fields."""
        from lego_mlir.kernels import epilogues
        from lego_mlir.tracing.trace.dtypes import dtype_named

        parts = [
            epilogues.factors(m if self.scale_a == "each" else 1, "scale_a", rows=True) if self.scale_a else None,
            epilogues.factors(n if self.scale_b == "each" else 1, "scale_b", rows=False) if self.scale_b else None,
            epilogues.bias(n, dtype_named(self.bias)) if self.bias else None,
            getattr(epilogues, self.activation)() if self.activation else None,
            epilogues.residual(m, n, dtype_named(self.residual)) if self.residual else None,
            epilogues.amax() if self.amax else None,
            epilogues.factors(1, "scale_result", rows=True) if self.scale_result else None,
        ]
        first, *others = [part for part in parts if part is not None]
        for other in others:
            first = first.then(other)
        return first


@dataclass(frozen=True, slots=True)
class FusedParts:
    """What differs from a plain product: the epilogue, steps after which sums are promoted, and rounding to TF32."""

    epilogue: FusedEpilogue | None = None
    exact: int = 0
    rounded: bool = False

    def __str__(self) -> str:
        """The end of a kernel's name, empty for a plain product."""
        fused = "" if self.epilogue is None else f"_{self.epilogue}"
        return f"{fused}{f'_exact{self.exact}' * (self.exact > 0)}{'_rounded' * self.rounded}"

    @property
    def operands(self) -> int:
        """The number of tensors that the epilogue takes."""
        return 0 if self.epilogue is None else self.epilogue.operands

    def build(self, m: SizeLike, n: SizeLike) -> Epilogue | None:
        """The epilogue of an m x n product, None without one."""
        return None if self.epilogue is None else self.epilogue.build(m, n)


PLAIN: Final = FusedParts()
