"""Products with an epilogue, of 8-bit types and TF32, and with promoted sums, called on arrays.

    scale_result * (activation(scale_a * (a @ b) * scale_b + bias) + residual)
    amax = max(amax, the largest absolute value before scale_result)

    matmul(a8, b8, scale_a=s, scale_b=t, result="bfloat16")    fp8 with a scale for each row and column, or one
    matmul(a8, b8, .., scale_result=r, result="float8_e4m3fn") an activation for the next product
    matmul(x, w, bias=v, activation="gelu")                    a layer
    matmul(x, w, accumulate="exact")                           long sums: as exact as additions in f32

What is fused is part of the problem (`products.Problem`) and of its class, so that each combination is compiled once,
for all sizes of the class. Units read 8-bit types and TF32 with K contiguous only: a in rows and b in columns, from
rows of multiples of 16 bytes; other operands are copied by kernels that are launched before the product
(`operands_along_k`), or with packed kernels by their library.

The units cut off the lower bits of a sum instead of rounding it. `accumulate="exact"` adds their sums to totals of f32
after `STEPS` steps of 128 bytes of K (`transforms.warpgroups.promotion`), which takes narrower tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lego_mlir.errors import UsageError
from lego_mlir.kernels import aligned_products
from lego_mlir.kernels.fused_epilogues import FusedEpilogue
from lego_mlir.runtime import binding, operands_along_k, product_steps, products, wide_operands
from lego_mlir.runtime.arrays import ArrayFacts, ArrayLibrary, key_of, library_of
from lego_mlir.runtime.plans import Backend, Plan

if TYPE_CHECKING:
    from lego_mlir.aliases import AnyArray, Tensor
    from lego_mlir.kernels.aligned_products import WideProduct

ACTIVATIONS: Final = ("relu", "gelu", "silu")
ACCUMULATIONS: Final = (None, "fast", "exact")
TF32: Final = (False, True, "rounded", "cut")
STEPS: Final = {1: 1, 2: 4, 4: 4}
"""Steps after which sums are promoted, by the bytes of an element."""
F8: Final = {"float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2"}
RESULTS: Final = {**products.RESULTS, "int32": "i32", **F8}
_FLOATS: Final = products.RESULTS
_DEFAULT_RESULTS: Final = {"float8_e4m3fn": "bfloat16", "float8_e5m2": "bfloat16", "int8": "int32"}
_BYTES: Final = {"float16": 2, "bfloat16": 2, "float32": 4, "int32": 4, **dict.fromkeys(F8, 1)}
AMAX: Final = 4
"""The place of amax among what is given."""
_KEPT: Final = 4096


@dataclass(frozen=True, slots=True)
class FusedOptions:
    """What a call names: the types and the accumulation."""

    result: str | None = None
    activation: str | None = None
    accumulate: str | None = None
    tf32: bool | str = False
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class FusedMultiplication:
    """A product bound to types, shapes and strides; `copies` make operands usable first."""

    plan: Plan
    copies: tuple[Callable[[AnyArray], AnyArray] | None, ...]


_known: dict[Hashable, FusedMultiplication] = {}


def fused_product(
    a: Tensor, b: Tensor, given: Sequence[Tensor | None], options: FusedOptions, kernels: str | Path | None = None
) -> Tensor:
    """The product with `given` = scale_a, scale_b, bias, residual, amax, scale_result. Raises UsageError."""
    operands = [a, b, *(array for array in given if array is not None)]
    key = (key_of(tuple(operands)), tuple(array is None for array in given), options, kernels)
    known = _known.get(key)
    if known is None:
        known = _bind(operands, given, options, kernels)
        if len(_known) >= _KEPT:
            _known.clear()
        _known[key] = known
    used = [array if copy is None else copy(array) for array, copy in zip(operands, known.copies, strict=True)]
    found = known.plan(tuple(used), None)
    return found if given[AMAX] is None else found[0]  # amax is returned after the product


def _bind(
    operands: list[Tensor], given: Sequence[Tensor | None], options: FusedOptions, kernels: str | Path | None
) -> FusedMultiplication:
    inputs = {**products.INPUTS, **products.OTHER_INPUTS}
    read = [products.matrix_facts(name, array, inputs) for name, array in zip("ab", operands[:2], strict=True)]
    (left, first), (_, second) = read
    (m, k), (depth, n) = first.shape, second.shape
    if k != depth or first.dtype != second.dtype:
        raise UsageError(
            f"matmul of {m} x {k} {first.dtype} and {depth} x {n} {second.dtype}: the inner sizes and the types must "
            "agree"
        )
    name = _result_of(first.dtype, given, options)
    from lego_mlir.runtime.driver import MULTIPROCESSORS, driver

    along_k, folder = first.dtype not in products.INPUTS, products.kernels_folder(kernels)
    used, copies = [], []
    for array, side in zip(operands[:2], ("N", "T"), strict=True):
        copy = _copy_for(array, side if along_k and folder is not None else "")
        copies.append(copy)
        used.append(array if copy is None else copy(array))
    facts = [products.matrix_facts(name, array, inputs)[1] for name, array in zip("ab", used, strict=True)]
    layouts = "NT" if along_k else "".join(products.order_of(found) or "" for found in facts)
    epilogue, more = _epilogue(given, options, (m, n))
    device = first.device[1]
    exact = STEPS[first.itemsize] if options.accumulate == "exact" and first.dtype != "int8" else 0
    columns = operands_along_k.columns_of(facts, _BYTES[name]) if along_k and folder is None else n
    copied = along_k and folder is None and operands_along_k.needs_copies(facts, columns)
    problem = products.Problem(
        m, columns, operands_along_k.depth_of(facts) if copied else k, inputs[first.dtype], RESULTS[name], layouts,
        products.target_of(driver().capability(device)), driver().attribute(device, MULTIPROCESSORS), None, epilogue,
        exact, first.dtype == "float32" and options.tf32 != "cut",
    )  # fmt: skip
    wide = _wide_of(problem) if not along_k and folder is None else None
    inner = problem if wide is None else products.replace_sizes(problem, wide)
    backend = None if options.fixed or folder is not None else products.backend_of_class(inner, device)
    if backend is None:
        backend = products.backend_for(inner, device, folder)
    library = left if left.results is not None else products.cupy_arrays()
    given_ = [*used, *operands[2:]]
    copies_ = copied or wide is not None
    if copies_ or product_steps.has_workspace(backend.entry):
        plan: Plan = _in_steps(problem, wide, backend, copies_, (facts, more), given_, library)
    else:
        plan = backend.plan(binding.bind(backend.entry, [*facts, None, *more], {}), given_, library)
    return FusedMultiplication(plan, (*copies, *[None] * len(more)))


def _wide_of(problem: products.Problem) -> WideProduct | None:
    """The product on aligned copies where they pay, or where units alone promote sums, None for others."""
    p = problem
    if not p.exact:
        return products.wide_of(p)
    return aligned_products.widened(p.m, p.n, p.k, p.layouts)


def _in_steps(
    problem: products.Problem, wide: WideProduct | None, backend: Backend, copied: bool,
    facts: tuple[list[ArrayFacts], list[ArrayFacts]], given: Sequence[Tensor], library: ArrayLibrary,
) -> Plan:  # fmt: skip
    """The launches of a product with scratch memory, on copies along K where they are `copied`, or on the aligned ones
    of 16-bit types that `wide` describes."""
    (factors, more), device, p = facts, facts[0][0].device, problem
    scratch = len(product_steps.workspace_of(backend.entry))
    own = backend.entry.arguments[: len(backend.entry.arguments) - scratch]
    named = list(zip(own[len(factors) + 1 :], more, strict=True))
    entry = operands_along_k.entry_of(p.name, factors, p.dtype, p.result, named)

    def copy_of(name: str) -> Backend:
        return products.copy_backend(name, p.target, device[1], None)

    if scratch and not copied:
        steps = product_steps.with_workspace(backend, (p.m, p.n, p.k))
    elif wide is None:
        steps = operands_along_k.steps_of(factors, backend, named, p.n, p.result, copy_of)
    else:
        steps = wide_operands.steps_of((p.m, p.n, p.k), wide, p.layouts, (p.dtype, p.result), backend, named, copy_of)
    bound = binding.bind(entry, [*factors, None, *more], {})
    return product_steps.StepsPlan(entry, bound, given, library, steps)


def _result_of(dtype: str, given: Sequence[Tensor | None], options: FusedOptions) -> str:
    """The name of the result's type. Raises UsageError for options that do not fit the operands."""
    if dtype == "float32" and not options.tf32:
        raise UsageError("matmul of float32: the units multiply its first 19 bits, TF32; allow that with tf32=True")
    if options.tf32 not in TF32 or (options.tf32 in ("rounded", "cut") and dtype != "float32"):
        raise UsageError(
            f"matmul: tf32 is False, True, 'rounded' or 'cut', of float32 operands; got {options.tf32!r} for {dtype}"
        )
    name = options.result or _DEFAULT_RESULTS.get(dtype, dtype)
    if name not in RESULTS or (name == "int32" and (dtype != "int8" or any(x is not None for x in given))):
        raise UsageError(
            f"matmul: the result is one of {', '.join(RESULTS)}, int32 of plain products of int8, got {name!r}"
        )
    if name in F8 and dtype not in F8:
        raise UsageError(f"matmul: results of {name} are those of {' or '.join(F8)} operands, got {dtype}; convert the "
                         "operands, or the result")  # fmt: skip
    if options.accumulate not in ACCUMULATIONS or options.activation not in (None, *ACTIVATIONS):
        raise UsageError(
            f"matmul: accumulate is 'fast' or 'exact', and activation one of {', '.join(ACTIVATIONS)}; got "
            f"{options.accumulate!r} and {options.activation!r}"
        )
    return name


def _copy_for(array: Tensor, wanted: str) -> Callable[[AnyArray], AnyArray] | None:
    """What makes an array usable: in rows or columns, in those that are `wanted` if any, and aligned; None if it is."""
    library = library_of(array)
    assert library is not None  # its facts have been read
    facts = library.facts(array)
    order = products.order_of(facts)
    both = 1 in facts.shape
    if order is not None and facts.pointer % products.ALIGNMENT == 0 and (order == wanted or not wanted or both):
        return None
    if library.name == "torch":
        if wanted == "T":
            return lambda given: given.detach().t().clone(memory_format=_contiguous()).t()
        return lambda given: given.detach().clone(memory_format=_contiguous())
    if not hasattr(array, "copy"):
        raise UsageError(
            f"matmul: an array of {facts.library} must be aligned to {products.ALIGNMENT} bytes, a in rows and b in "
            "columns for types of other than 16 bits; pass such a copy"
        )
    return lambda given: given.T.copy().T if wanted == "T" else given.copy()


def _contiguous() -> object:
    import torch

    return torch.contiguous_format


def _epilogue(
    given: Sequence[Tensor | None], options: FusedOptions, shape: tuple[int, int]
) -> tuple[FusedEpilogue | None, list[ArrayFacts]]:
    """What is fused, and the facts of its operands. Raises UsageError for one that does not fit."""
    m, n = shape
    facts: list[ArrayFacts] = []
    kinds: list[str] = []
    wanted = (("scale_a", (m,), ("float32",)), ("scale_b", (n,), ("float32",)), ("bias", (n,), tuple(_FLOATS)),
              ("residual", (m, n), tuple(_FLOATS)), ("amax", (1,), ("float32",)),
              ("scale_result", (1,), ("float32",)))  # fmt: skip
    for array, (name, dims, dtypes) in zip(given, wanted, strict=True):
        if array is None:
            kinds.append("")
            continue
        found = _facts(name, array)
        one = name.startswith(("scale", "amax")) and found.shape in ((), (1,))
        rows = found.strides == (1,) or one or (len(dims) == 2 and products.order_of(found) == "N")
        if found.dtype not in dtypes or not (one or found.shape == dims) or not rows:
            raise UsageError(
                f"matmul: {name} is {found.dtype} of shape {found.shape} and strides {found.strides}; it must be "
                f"{' or '.join(dtypes)} of shape {dims}, contiguous"
            )
        facts.append(replace(found, shape=(1,), strides=(1,)) if one else found)
        kinds.append(("one" if one else "each") if name.startswith("scale") else _FLOATS[found.dtype])
    fused = FusedEpilogue(kinds[0], kinds[1], kinds[2], options.activation or "", kinds[3], bool(kinds[4]), kinds[5])
    return (fused if str(fused) else None), facts


def _facts(name: str, array: Tensor) -> ArrayFacts:
    library: ArrayLibrary | None = library_of(array)
    if library is None:
        raise UsageError(f"matmul: {name} is a {type(array).__name__}; pass an array of the library of a")
    found = library.facts(array)
    if found.device[0] != "cuda":
        raise UsageError(f"matmul: {name} is in the host's memory; move it to the GPU")
    return found
