"""`lego_mlir.grouped_matmul(a, b, offsets)`: each group of rows of a times a matrix of its own, on a GPU.

    c = lego_mlir.grouped_matmul(tokens, experts, ends)      # [T, K], [G, K, N], [G] of int32 -> [T, N]
    d = lego_mlir.grouped_matmul(tokens.mT, gradients, ends)  # [K, T], [T, N] -> [G, K, N]

The host does not read the offsets: one launch of persistent blocks finds its tiles on the device (`grouped_products`,
`grouped_depths`). A kernel takes all T, G, K and N of its tile, types and orders. With `check=True` the interpreter
runs it, on the host. Each form is the gradient of another, so PyTorch's tensors have gradients.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import Tensor
from lego_mlir.errors import UsageError, brief
from lego_mlir.runtime import host_reference
from lego_mlir.runtime.arrays import key_of, library_of
from lego_mlir.runtime.products import known
from lego_mlir.runtime.products.operands import ALIGNED, ArrayOperand, read
from lego_mlir.runtime.products.problem import INPUTS, RESULTS, Problem, has_whole_lines, numbers_of, place_of
from lego_mlir.runtime.products.role_kernels import kernel_for
from lego_mlir.runtime.products.scaled import grouped_scaled_product

if TYPE_CHECKING:
    from lego_mlir.runtime.calls import Calls

NAME: Final = "grouped_matmul"


def grouped_matmul(
    a: Tensor, b: Tensor, offsets: Tensor, *, result: str | None = None, check: bool = False,
    scale_a: Tensor | None = None, scale_b: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The products of groups, each of which ends at one of `offsets`, [G] of int32, where the next begins.

    | a | b | result | |
    |---|---|---|---|
    | [T, K] | [G, K, N] | [T, N] | c[begin:end] = a[begin:end] @ b[g]; rows after the last group are undefined |
    | [G, M, K] | [K, T] | [M, T] | c[:, begin:end] = a[g] @ b[:, begin:end], the transpose of the first form |
    | [M, T] | [T, N] | [G, M, N] | c[g] = a[:, begin:end] @ b[begin:end], zeros for an empty group |

    The offsets do not decrease, and are on the device of a and b. These are f16 or bf16; the result has the type of a,
    or of `result`: "float16", "bfloat16" or "float32". In place are, in this order of forms, a in rows and b in rows or
    the transpose of [G, N, K], and a the transpose of [T, M] with b in rows; other orders are copied, and so are rows
    that are not multiples of 8. PyTorch's tensors have gradients. Raises UsageError for other arrays.

    In the first form a and b may also be float8_e4m3fn with scales of blocks, `scale_a` [T, K / 128] and `scale_b`
    [G, K / 128, N / 128] of float32, on compute capability 9.0, into bfloat16 if `result` names no other.
    """
    if scale_a is not None or scale_b is not None:
        return _scaled((a, b, scale_a, scale_b, offsets), result, check)
    key = (key_of((a, b, offsets)), result, check)
    bound = known.known.get(key)
    if bound is None:
        return _product(_read(a, b, offsets), result, check, key)
    if check:
        _require_offsets(a, b, offsets)
    return bound((a, b, offsets))


def _scaled(arrays: Sequence[Tensor | None], result: str | None, check: bool) -> Tensor:
    """The products of groups with scales of blocks."""
    key = (key_of(arrays), result, check)
    if (bound := known.known.get(key)) is not None:
        found: Tensor = bound(arrays)
        return found
    if arrays[2] is None or arrays[3] is None:
        raise UsageError(f"{NAME} takes both scale_a and scale_b, with scales of blocks, or neither; give the other")
    names = "a", "b", "scale_a", "scale_b", "offsets"
    operands = [read(name, given, NAME) for name, given in zip(names, arrays, strict=True)]
    _require_offsets(*(arrays[n] for n in (0, 1, 4)))
    return grouped_scaled_product(operands, result, check=check, key=key)


def _product(operands: Sequence[ArrayOperand], result: str | None, check: bool, key: Hashable = None) -> Tensor:
    """The product of a, b and offsets, kept by the `key`, if there is one, where they are used in place."""
    first, second, offsets = operands
    if check:
        _require_offsets(*(operand.array for operand in operands))
    name = first.facts.dtype if result is None else result
    if name not in RESULTS:
        raise UsageError(f"grouped_matmul: the result is one of {', '.join(RESULTS)}, got {name!r}")
    if not check and host_reference.computes(NAME, *(operand.facts for operand in operands)):
        _require_offsets(*(operand.array for operand in operands))
        return host_reference.grouped_product(first.array, second.array, offsets.array, name)
    needs_gradient = first.facts.needs_gradient or second.facts.needs_gradient
    if needs_gradient and gradients_enabled():
        from lego_mlir.runtime.products.gradients import differentiable

        return differentiable(grouped_matmul, first.array, second.array, offsets.array, name, check)
    key = None if needs_gradient else key  # whether gradients are enabled is asked at each call
    match (len(first.facts.shape), len(second.facts.shape)):
        case 2, 2:
            return _along_k(operands, name, check, key)
        case 3, 2:
            return _product((second.turned(), first.turned(), offsets), name, check).swapaxes(0, 1)
    (rows, depth), (groups, _, columns) = first.facts.shape, second.facts.shape
    turned = second.facts.strides[1] == 1 and second.facts.strides[2] != 1
    weights = second.turned() if turned else second
    views = first.in_rows((1,)), weights.in_rows((2,) if turned else (1, 2)), offsets
    calls = _calls(views, name, "NT" if turned else "NN", (rows, columns, depth), groups, check)
    named = {} if turned or columns % ALIGNED == 0 else {"N": columns}
    return known.called(calls, operands, views, named, (rows, columns), _again(name, check), key, check=check)


def _along_k(operands: Sequence[ArrayOperand], result: str, check: bool, key: Hashable) -> Tensor:
    """c[g] = a[:, begin:end] @ b[begin:end], by a kernel that reads the transpose of a."""
    first, second, offsets = operands
    (rows, depth), columns, groups = first.facts.shape, second.facts.shape[1], offsets.facts.shape[0]
    views = first.turned().in_rows((1,)), second.in_rows((1,)), offsets
    calls = _calls(views, result, "TN", (rows * groups, columns, max(1, depth // groups)), groups, check)
    named, shape = {"M": rows, "N": columns}, (groups, rows, columns)
    return known.called(calls, operands, views, named, shape, _again(result, check), key, check=check)


def _again(result: str, check: bool) -> Callable[[Sequence[Tensor]], Tensor]:
    """The product of other arrays, where they are not used in place."""
    return lambda given: _product(_read(*given), result, check)


def _calls(
    views: Sequence[ArrayOperand], result: str, layouts: str, size: tuple[int, int, int], groups: int, check: bool
) -> Calls:
    """The kernel for arrays on a device, or on the host for the interpreter."""
    left, right = (view.facts for view in views[:2])
    target, multiprocessors = place_of(left.device)
    problem = Problem(
        *size, INPUTS[left.dtype], RESULTS[result], layouts, target, multiprocessors, groups=groups,
        whole_lines=has_whole_lines(left.shape[-1], right.shape[-1]), numbers=numbers_of(left.device),
    )  # fmt: skip
    return kernel_for(problem, left.device, check)


def _read(a: Tensor, b: Tensor, offsets: Tensor) -> list[ArrayOperand]:
    """The operands. Raises UsageError for arrays that do not fit each other."""
    operands = [read(name, given, NAME) for name, given in (("a", a), ("b", b), ("offsets", offsets))]
    first, second, ends = (operand.facts for operand in operands)
    ranks, groups = (len(first.shape), len(second.shape)), [f.shape[0] for f in (first, second) if len(f.shape) == 3]
    fits = ranks in ((2, 3), (3, 2), (2, 2)) and first.shape[-1] == second.shape[-2]
    fits = fits and len(ends.shape) == 1 and (ends.shape[0] in groups or ranks == (2, 2))
    may_be_empty = first.library in host_reference.EMPTY
    fits = fits and (may_be_empty or 0 not in (*first.shape, *second.shape, *ends.shape))
    types = first.dtype in INPUTS and first.dtype == second.dtype and ends.dtype == "int32"
    if not fits or not types:
        shown = ", ".join(f"{operand.name} {list(operand.facts.shape)} {operand.facts.dtype}" for operand in operands)
        raise UsageError(
            f"grouped_matmul of {shown}: a is [T, K] and b is [G, K, N], or [G, M, K] and [K, T], or [M, T] and "
            "[T, N], both float16 or both bfloat16, and offsets are [G] of int32"
        )
    if len({operand.facts.device for operand in operands}) > 1:
        raise UsageError("grouped_matmul: a, b and offsets must be on one device; move them to that of a")
    return operands


def _require_offsets(a: Tensor, b: Tensor, offsets: Tensor) -> None:
    """Raise UsageError for offsets that decrease or exceed the rows, or columns, that they divide."""
    size = b.shape[1] if len(a.shape) == 3 else a.shape[1] if len(b.shape) == 2 else a.shape[0]
    require_rising("grouped_matmul: offsets", offsets, size, "sort the rows by group, and add up their numbers")


def require_rising(name: str, given: Tensor, rows: int, remedy: str) -> None:
    """Raise UsageError for ends of groups that decrease or exceed the rows. It reads arrays of the host only."""
    library = library_of(given)
    if library is None or library.facts(given).device[0] == "cuda":
        return
    ends = [int(n) for n in given]
    if not ends:
        return
    if ends != sorted(ends) or ends[0] < 0 or ends[-1] > rows:
        raise UsageError(
            f"{name} = {brief(str(ends))}: the numbers do not decrease, from 0 on to at most the {rows} rows; {remedy}"
        )


def gradients_enabled() -> bool:
    """Whether PyTorch records what is computed."""
    return bool(sys.modules["torch"].is_grad_enabled())
