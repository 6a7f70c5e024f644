"""`lego_mlir.matmul` of f8e4m3 with a scale for each 128 elements of a row of a, and for each 128 x 128 of b.

    c = lego_mlir.matmul(x, w.mT, scale_a=of_x, scale_b=of_w.mT)    # w [N, K] and of_w [N / 128, K / 128] of a layer

Two-dimensional scales mean this product: they have the shapes of a and b in blocks, [M, K / 128] and
[K / 128, N / 128], rounded up for N. `grouped_matmul` has the same for groups of rows. A kernel takes all sizes of its
tile (`kernels.scaled_products`). Used in place are a in rows, b in columns, and scales of a whose rows are neighbours,
16 bytes a multiple of the distance from block to block: `torch.empty(K // 128, M).T` for M a multiple of 4. Others are
copied.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import Tensor
from lego_mlir.choices import scaled_tiles
from lego_mlir.choices.role_tiles import Rows
from lego_mlir.choices.scaled_tiles import BLOCK, SCALES
from lego_mlir.errors import UsageError
from lego_mlir.hardware.tensor_maps import CHUNK
from lego_mlir.runtime import host_reference
from lego_mlir.runtime.products import known
from lego_mlir.runtime.products.operands import ALIGNED, ArrayOperand, read, require_alike
from lego_mlir.runtime.products.problem import RESULTS, WARPGROUP_TARGET, Problem, numbers_of, place_of
from lego_mlir.runtime.products.role_kernels import SCALED, RoleKernel, calls_of, multiple_of

if TYPE_CHECKING:
    from lego_mlir.runtime.calls import Calls
    from lego_mlir.runtime.products.fused import Given, ProductOptions

F8: Final = "float8_e4m3fn"
CHECKED: Final = scaled_tiles.scaled_tile(64, 128, 2)
"""The tile in the interpreter."""


def scaled_product(
    first: ArrayOperand, second: ArrayOperand, given: Given, options: ProductOptions, *, check: bool = False,
    key: Hashable = None,
) -> Tensor:  # fmt: skip
    """The product of a, b and their scales, kept by the `key`, if there is one, where they are used in place.

    With `check` the interpreter runs it, on the host. Raises UsageError for other arrays and options.
    """
    scales = _scales(first, second, given, options)
    name, (m, k), n = options.result or "bfloat16", first.facts.shape, second.facts.shape[1]
    if not check and host_reference.computes("matmul", first.facts, second.facts):
        of_a, of_b = (x.array for x in scales)
        return host_reference.scaled_product(first.array, second.array, of_a, of_b, name)
    operands = [first, second, *scales]
    gradients = known.gradients_of(operands)
    calls = _calls("dense", (m, 1, n, k), name, first, check)

    def otherwise(arrays: Sequence[Tensor]) -> Tensor:
        a, b = (read(*pair) for pair in zip("ab", arrays, strict=False))
        return scaled_product(a, b, [*arrays[2:], *[None] * (len(given) - 2)], options)

    return _called(calls, operands, otherwise, (m, n), (check, key, gradients))


def grouped_scaled_product(
    operands: Sequence[ArrayOperand], result: str | None, *, check: bool = False, key: Hashable = None
) -> Tensor:
    """The products of groups of rows: a [T, K], b [G, K, N], their scales, and offsets [G].

    Scales are [T, K / 128] and [G, K / 128, N / 128]. Raises UsageError for other arrays.
    """
    first, second, *scales, offsets = operands
    name, (rows, k), shape = result or "bfloat16", first.facts.shape, second.facts.shape
    groups, n = shape[0], shape[-1]
    fits = len(shape) == 3 and shape[1] == k and offsets.facts.shape == (groups,) and offsets.facts.dtype == "int32"
    if not fits or {x.facts.dtype for x in operands[:2]} != {F8} or k % BLOCK or name not in RESULTS:
        shown = ", ".join(f"{x.name} {list(x.facts.shape)} {x.facts.dtype}" for x in operands)
        raise UsageError(
            f"grouped_matmul with scales of {shown} into {name}: a is [T, K] and b [G, K, N] of {F8}, K a multiple of "
            f"{BLOCK}, and offsets are [G] of int32; the result is one of {', '.join(RESULTS)}"
        )
    _require_shapes(scales, ((rows, k // BLOCK), (groups, k // BLOCK, -(-n // BLOCK))), first)
    if not check and host_reference.computes("grouped_matmul", *(x.facts for x in operands)):
        of_a, of_b = (x.array for x in scales)
        return host_reference.grouped_scaled_product(first.array, second.array, of_a, of_b, offsets.array, name)
    gradients = known.gradients_of(operands)
    calls = _calls("grouped", (rows, groups, n, k), name, first, check)

    def otherwise(arrays: Sequence[Tensor]) -> Tensor:
        return grouped_scaled_product([read(x.name, y) for x, y in zip(operands, arrays, strict=True)], result)

    return _called(calls, operands, otherwise, (rows, n), (check, key, gradients))


def _called(
    calls: Calls, operands: Sequence[ArrayOperand], otherwise: Callable[[Sequence[Tensor]], Tensor],
    shape: tuple[int, int], asked: tuple[bool, Hashable, tuple[str, ...]],
) -> Tensor:  # fmt: skip
    """The product of a, b, their scales and what else there is, kept by the key where all are used in place."""
    (first, second, of_a, of_b, *rest), (check, key, gradients) = operands, asked
    views = [first.in_rows(), second.turned().in_rows(), _in_lines(of_a.turned()), of_b.turned().in_rows(), *rest]
    key = None if check else key
    return known.called(calls, operands, views, {}, shape, otherwise, key, check=check, gradients=gradients)


def _in_lines(scales: ArrayOperand) -> ArrayOperand:
    """Scales of a, [K / 128, M], as the copy unit reads them: blocks whole 16 bytes apart; else a copy."""
    *apart, along = scales.facts.strides
    if along == 1 and not scales.facts.pointer % CHUNK and not any(stride % SCALES for stride in apart):
        return scales
    whole = scales.in_rows([len(apart)], copied=True).array
    return scales.of(whole[..., : scales.facts.shape[-1]])


def _calls(form: str, size: Rows, result: str, first: ArrayOperand, check: bool) -> Calls:
    """The kernel of all rows, groups, N and K for a device, in the tile of the choice, or for the interpreter."""
    rows, _, n, k = size
    wanted = RoleKernel(f"{form}_{SCALED}", "f8e4m3fn", RESULTS[result], "NT", multiple_of(n), CHECKED)
    if check:
        return calls_of(wanted)
    (target, blocks), numbers = place_of(first.facts.device), numbers_of(first.facts.device)
    if target != WARPGROUP_TARGET:
        raise UsageError(f"products with scales of blocks are for {WARPGROUP_TARGET}, and this device takes {target}")
    place = Problem(rows, n, k, wanted.dtype, wanted.result, wanted.layouts, target, blocks, numbers=numbers).place
    tile = scaled_tiles.choose(form, size, place, whole=form == "dense" and wanted.multiple % ALIGNED == 0)
    return calls_of(replace(wanted, tile=tile, blocks=blocks))


def _scales(first: ArrayOperand, second: ArrayOperand, given: Given, options: ProductOptions) -> list[ArrayOperand]:
    """The two scales. Raises UsageError for what does not fit."""
    require_alike(first, second)
    (m, k), n = first.facts.shape, second.facts.shape[1]
    if first.facts.dtype != F8 or any(x is None for x in given[:2]):
        raise UsageError(
            f"matmul with scales of blocks takes a and b of {F8} and both scale_a and scale_b, got "
            f"{first.facts.dtype}; quantise the operands, or give scales of rows and columns"
        )
    named = options.activation, options.accumulate, options.tf32, options.kernels, options.fixed
    if any(x is not None for x in given[2:]) or any(named):
        raise UsageError(
            "matmul with scales of blocks fuses nothing else: leave out bias, activation, residual, amax, scale_result "
            "and accumulate, which is exact here, and kernels= and fixed=; apply them to the result"
        )
    if (options.result or "bfloat16") not in RESULTS:
        raise UsageError(f"matmul: the result is one of {', '.join(RESULTS)}, got {options.result!r}")
    if k % BLOCK:
        raise UsageError(
            f"matmul with scales of blocks: K is a multiple of {BLOCK}, got {k}; pad a and b with zeros along K"
        )
    found = [read(name, x) for name, x in zip(("scale_a", "scale_b"), given, strict=False)]
    _require_shapes(found, ((m, k // BLOCK), (k // BLOCK, -(-n // BLOCK))), first)
    return found


def _require_shapes(scales: Sequence[ArrayOperand], shapes: Sequence[tuple[int, ...]], first: ArrayOperand) -> None:
    for scale, shape in zip(scales, shapes, strict=True):
        if scale.facts.shape != shape or scale.facts.dtype != "float32" or scale.facts.device != first.facts.device:
            raise UsageError(
                f"{scale.name} is {scale.facts.dtype} of shape {scale.facts.shape}; with blocks it is float32 "
                f"of {shape}, on the device of a: one for each 128 of a row of a, and 128 x 128 of b"
            )
