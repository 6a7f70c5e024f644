"""`lego_mlir.matmul(a, b)`: the product of two arrays on a GPU, by a kernel chosen for their size.

    import torch, lego_mlir
    c = lego_mlir.matmul(a, b)          # PyTorch, CuPy, JAX, or DLPack; f16 or bf16, in rows or in columns

    arrays ──key──► bound? ──yes──────────────────────────────► launched
                      └─no──► operands ► problem ► kernel, and the copies around it ► bound, kept

A kernel computes all sizes of its class: of the same types, orders and alignment, with one of few tiles that a model of
the time finds for the order of magnitude of M (`kernels.product_classes`). It is compiled at its first use, into the
cache on disk, from where other processes take it; another batch compiles nothing. Other products have a kernel for
exactly their sizes, and so have those of a machine without the compiler, from a folder of packed kernels (`lego-mlir
pack matmul`). What was found out about arrays is kept for the next ones of the same types, shapes and strides, so that
a call costs little more than its launch.

An array in rows or in columns is used in place; another one is copied. Large products whose rows are not multiples of
16 bytes are computed on aligned copies (`aligned_products`); small ones load such rows element by element. Products of
few rows with long sums split K among blocks, and add the parts in a fixed order (`choices.warp_tiles`).

The result has the type of `a` unless another is requested, and comes from the library of `a`, from CuPy for arrays
known by DLPack alone; CuPy has no bfloat16: there such a result comes as its 16-bit words. The product has no
derivative: tensors that require a gradient are refused, unless gradients are disabled. Arrays of NumPy, and PyTorch's
on the CPU, are computed by their library, with one note (`runtime.host_reference`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lego_mlir.aliases import Returned, Tensor
from lego_mlir.errors import UsageError
from lego_mlir.runtime import binding, exact_kernels, host_reference
from lego_mlir.runtime.arrays import ArrayFacts, ArrayLibrary, key_of, library_of
from lego_mlir.runtime.exact_kernels import ExactKernel, ExactProblem
from lego_mlir.runtime.products import backends, copies
from lego_mlir.runtime.products.batches import batched_product, broadcast
from lego_mlir.runtime.products.fused import ALL_RESULTS, Given, ProductOptions, epilogue_of, has_blocks, rows_of
from lego_mlir.runtime.products.known import Multiplication, gradients_of, keep, known
from lego_mlir.runtime.products.operands import (
    ArrayOperand,
    MatrixFactor,
    factor_of,
    read,
    require_alike,
    require_device,
)
from lego_mlir.runtime.products.problem import (
    INPUTS,
    OTHER_INPUTS,
    Problem,
    clusters_of,
    kernels_folder,
    numbers_of,
    place_of,
)
from lego_mlir.runtime.products.scaled import scaled_product
from lego_mlir.runtime.products.steps import StepsPlan, workspace_of

if TYPE_CHECKING:
    from lego_mlir.kernels.fused_epilogues import FusedEpilogue
    from lego_mlir.runtime.plans import Backend, Plan

Named: TypeAlias = tuple[Any, ...]
"""The fields of the options of a call, in their order: a key."""
ALL_INPUTS: Final = {**INPUTS, **OTHER_INPUTS}


def matmul(
    a: Tensor, b: Tensor, *, result: str | None = None, kernels: str | Path | None = None, fixed: bool = False,
    scale_a: Tensor | None = None, scale_b: Tensor | None = None, bias: Tensor | None = None,
    activation: str | None = None, residual: Tensor | None = None, accumulate: str | None = None,
    tf32: bool | str = False, amax: Tensor | None = None, scale_result: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """a @ b for two matrices on a device; `result` names the type of the result, such as "float32".

    Arrays of f16 or bf16 with leading dimensions, [.., M, K] and [.., K, N], are batches of matrices, broadcast as
    NumPy does, without copies: see `runtime.products.batches`. What follows is about two matrices, and what is fused
    also about [.., M, K] and [K, N], where `scale_a` and `residual` have the leading dimensions.

    It is computed on their device, on the current stream of their library. `kernels` is a folder of packed kernels to
    take it from, by default that of the environment variable LEGO_MLIR_KERNELS. Products whose rows are multiples of 16
    bytes share kernels by classes of sizes, with few tiles for M's order of magnitude; `fixed` compiles a kernel for
    exactly these sizes.

    The other arguments are fused into the kernel:
    `scale_result * (activation(scale_a * (a @ b) * scale_b + bias) + residual)`. Scales are f32, one number or one for
    each row of a and each column of b, and one number for the result; of float8_e4m3fn also matrices, one for each 128
    elements of a row of a and 128 x 128 of b (`runtime.products.scaled`). `bias` has one number for each column;
    `activation` is "relu", "gelu" or "silu"; `residual` is a matrix in rows. `amax`, one f32, becomes the larger of
    itself and the largest absolute value before it is multiplied with `scale_result` and rounded; set it to 0 first. On
    compute capability 9.0, a and b may also be of float8_e4m3fn, float8_e5m2 or int8, and of float32 with `tf32=True`,
    which rounds them to 11 bits as they are copied, or `tf32="cut"`, which cuts off the rest; results of float8
    operands may be of a float8 type, saturated; `accumulate="exact"` promotes the units' sums, see
    `runtime.products.fused`. Raises UsageError for arrays that cannot be multiplied here, DependencyError without a
    device, or without the compiler and a packed kernel.
    """
    arrays = (a, b, scale_a, scale_b, bias, residual, amax, scale_result)
    return _product(arrays, (result, kernels, fixed, activation, accumulate, tf32))


def _product(arrays: Sequence[Tensor | None], named: Named) -> Tensor:
    """The product of a and b with the arrays of its epilogue; `named` are the fields of its `ProductOptions`."""
    key = (key_of(arrays), named)
    bound = known.get(key)
    if bound is None:
        first, second = (_read(name, array) for name, array in zip("ab", arrays[:2], strict=True))
        given, options = arrays[2:], ProductOptions(*named)
        if len(first.facts.shape) > 2 or len(second.facts.shape) > 2:
            return _with_leading(first, second, given, named, key)
        if has_blocks(first, second, given):
            return scaled_product(first, second, given, options, key=key)
        if is_computed_by_its_library("matmul", first, second):
            return _by_library(first, second, given, options)
        bound = keep(key, _matrices(first, second, given, options))
    found = bound([array for array in arrays if array is not None])
    return found[0] if type(found) is tuple else found  # amax is returned after the product


def _read(name: str, array: Tensor) -> ArrayOperand:
    """An operand. Raises UsageError for one that no product takes."""
    dtype, shape = str(getattr(array, "dtype", "")).rpartition(".")[2], tuple(getattr(array, "shape", ()))
    found = read(name, array) if dtype in ALL_INPUTS and len(shape) > 1 else None
    if found is None or (0 in shape and found.library.name not in host_reference.EMPTY):
        raise UsageError(
            f"matmul takes arrays of [.., rows, columns], {', '.join(ALL_INPUTS)}, got {name} of "
            f"{dtype or type(array).__name__} and shape {shape}{'; no size may be 0' if 0 in shape else ''}"
        )
    return found


def _with_leading(first: ArrayOperand, second: ArrayOperand, given: Given, named: Named, key: Hashable) -> Tensor:
    """The product of arrays with leading dimensions: of all rows and one matrix, or a batch."""
    (*lead, _), (*of_b, _, _), options = first.facts.shape, second.facts.shape, ProductOptions(*named)
    is_fused = options.fuses(given) or first.facts.dtype not in INPUTS
    if prod(of_b) == 1 and 1 < len(lead) > len(of_b) and (is_fused or first.has_one_stride(len(lead))):
        on_host = is_computed_by_its_library("matmul", first, second)
        return _rows(first, second, given, named, None if is_fused or on_host else key)
    if is_fused:
        raise UsageError(
            f"matmul of {list(first.facts.shape)} and {list(second.facts.shape)} with a scale, bias, activation, "
            "residual or amax, or another precision: these are for one matrix b; compute each product, or apply them "
            "to the result"
        )
    if options.kernels is not None or options.fixed:
        raise UsageError("matmul: kernels= and fixed= are for products of two matrices; leave them out")
    if is_computed_by_its_library("matmul", first, second):
        return _by_library(first, second, given, options)
    for operand in (first, second):
        require_device(operand)
    return batched_product(first, second, options.result, key=key)


def is_computed_by_its_library(operation: str, *operands: ArrayOperand) -> bool:
    """Whether no kernel computes this: empty operands, and NumPy's or PyTorch's of the host, noted at the first."""
    return host_reference.computes(operation, *(operand.facts for operand in operands))


def _by_library(first: ArrayOperand, second: ArrayOperand, given: Given, options: ProductOptions) -> Tensor:
    """The product by the library of its operands, with the checks of a kernel's."""
    require_alike(first, second)
    name, (*lead, m, _), n = options.result_of(first.facts.dtype, given), first.facts.shape, second.facts.shape[-1]
    if lead or len(second.facts.shape) > 2:
        broadcast(first, second)
    gradients_of((first, second))
    epilogue, _ = epilogue_of(given, options, (m, n), first.facts.device)
    arrays = [array for array in given if array is not None]
    return host_reference.matrix_product(first.array, second.array, name, epilogue, arrays)


def _rows(first: ArrayOperand, second: ArrayOperand, given: Given, named: Named, key: Hashable) -> Tensor:
    """[.., M, K] @ [K, N]: the product of all rows, bound and kept for arrays like these where they are in place."""
    (*lead, k), n = first.facts.shape, second.facts.shape[-1]
    x, y = first.of(first.array.reshape(prod(lead), k)), second.of(second.array.reshape(second.facts.shape[-2:]))
    if key is not None:
        bound = _matrices(x, y, given, ProductOptions(*named), shape=(*lead, n))
        if bound.in_place:
            found: Tensor = keep(key, bound)([first.array, second.array])
            return found
    return _product((x.array, y.array, *rows_of(given, lead, n)), named).reshape(*lead, n)


def _matrices(
    first: ArrayOperand, second: ArrayOperand, given: Given, options: ProductOptions, shape: Sequence[int] | None = None
) -> Multiplication:
    """The product of two matrices with what is fused, bound; a plain result may have another shape."""
    for operand in (first, second):
        require_device(operand)
    require_alike(first, second)
    name = options.result_of(first.facts.dtype, given)
    gradients = gradients_of((first, second))
    folder, is_along_k = kernels_folder(options.kernels), first.facts.dtype not in INPUTS
    wanted = copies.ALONG_K if is_along_k and folder is not None else ("", "")
    factors = [factor_of(operand, order) for operand, order in zip((first, second), wanted, strict=True)]
    (m, _), (_, n) = (factor.facts.shape for factor in factors)
    epilogue, more = epilogue_of(given, options, (m, n), first.facts.device)
    problem = _problem(factors, epilogue, options, name)
    arrays = [first.array, second.array, *[array for array in given if array is not None]]
    library = first.library if first.library.results is not None else _cupy()
    plan, computed = _plan(problem, factors, more, (arrays, library, shape), folder, shared=not options.fixed)

    def on_copies(arrays: Sequence[Tensor]) -> Returned:
        return plan([*[f.usable(x) for f, x in zip(factors, arrays, strict=False)], *arrays[2:]], None)

    in_place = all(factor.in_place for factor in factors)
    pointers, exact = (factors[0].pointer, factors[1].pointer), _exact(computed, factors[0].facts.device[1])
    return Multiplication(plan, pointers, on_copies, in_place, gradients, exact)


def _exact(problem: Problem, device: int) -> ExactKernel | None:
    """The kernel for exactly a problem's sizes, which is to replace that of its class; None where it has no class."""
    if not backends.is_of_class(problem, device) or not exact_kernels.is_on():
        return None

    def replace() -> None:
        backends.drop(problem, device)
        for key in [key for key, bound in list(known.items()) if bound.exact is found]:
            known.pop(key, None)

    found = ExactKernel(ExactProblem(backends.compile_exact, problem), replace)
    return found


def _problem(
    factors: Sequence[MatrixFactor], epilogue: FusedEpilogue | None, options: ProductOptions, result: str
) -> Problem:
    """The product of two factors on their device."""
    left, right = (factor.facts for factor in factors)
    target, multiprocessors = place_of(left.device)
    orders = "".join(factor.order for factor in factors) if left.dtype in INPUTS else "NT"
    return Problem(
        left.shape[0], right.shape[1], left.shape[1], ALL_INPUTS[left.dtype], ALL_RESULTS[result], orders, target,
        multiprocessors, clusters_of(left.device), epilogue, exact=options.exact_steps(left),
        rounded=left.dtype == "float32" and options.tf32 != "cut", numbers=numbers_of(left.device),
    )  # fmt: skip


Call = tuple[Sequence["Tensor"], ArrayLibrary, Sequence[int] | None]
"""The arrays of a call, the library of its result, and the shape of the result where it is not M x N."""


def _plan(
    problem: Problem, factors: Sequence[MatrixFactor], more: Sequence[ArrayFacts], call: Call, folder: Path | None, *,
    shared: bool,
) -> tuple[Plan, Problem]:  # fmt: skip
    """The launches of a product: its kernel, `shared` by a class where there is one, and the copies around it.

    Also the problem of that kernel, on copies where there are some.
    """
    facts, (arrays, library, shape) = [factor.facts for factor in factors], call
    device = facts[0].device[1]
    around = copies.around(problem, facts, packed=folder is not None)
    backend = backends.of_product(around.inner, device, folder, shared=shared and around.shared)
    entry, scratch = backend.entry, workspace_of(backend.entry)
    if around.prepare is None and not scratch:
        bound = binding.bind(entry, [*facts, None, *more], {})
        return backend.plan(_in_shape(bound, shape), arrays, library), around.inner
    named = list(zip(entry.arguments[3 : len(entry.arguments) - len(scratch)], more, strict=True))

    def copy_of(name: str) -> Backend:
        return backends.of_copy(name, problem.target, device, folder)

    steps = copies.steps_of(problem, around, backend, named, copy_of)
    whole = copies.entry_of(problem, facts, named)
    bound = binding.bind(whole, [*facts, None, *more], {})
    return StepsPlan(whole, _in_shape(bound, shape), arrays, library, steps), around.inner


def _in_shape(bound: binding.Bound, shape: Sequence[int] | None) -> binding.Bound:
    """The launch with its result as rows of another shape."""
    return bound if shape is None else binding.with_results_of(bound, binding.DenseShape.rows(*shape))


def _cupy() -> ArrayLibrary:
    """CuPy's arrays, for results of arrays that are known by a protocol alone."""
    from lego_mlir.runtime.cuda import cupy

    library = library_of(cupy().empty(0))
    assert library is not None
    return library
