"""The copies around a product, as steps: operands into rows that the kernel reads, and its result out of wider rows.

    a: odd rows    ── pad ─────► wide_a    ┐
    b: in rows     ── along_k ─► wide_b    ┤
    bias: n        ── pad ─────► wide_bias ┴► product with its epilogue ──► wide_c ── crop ──► c

Rows of 16-bit types are padded to multiples of 16 bytes where that pays. Units read other types with K contiguous only:
an operand in the other order is transposed, with zeros where K has none. A result whose rows are not multiples of 16
bytes is computed into wider ones. Its epilogue then loads numbers of columns that C does not have: vectors and matrices
are padded with zeros, and rows and columns of zeros stay zeros, so that a maximum over all of them is that of C.
All launches are on one stream, and the host waits for none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from lego_mlir.hardware.tensor_maps import CHUNK
from lego_mlir.kernels import depth_copies
from lego_mlir.kernels.aligned_products import WideProduct, stored
from lego_mlir.runtime.arrays import ArrayFacts
from lego_mlir.runtime.manifest import Argument, KernelEntry
from lego_mlir.runtime.products.operands import ALIGNED, order_of
from lego_mlir.runtime.products.problem import INPUTS, Problem
from lego_mlir.runtime.products.steps import ProductStep, workspace_of

if TYPE_CHECKING:
    from lego_mlir.runtime.plans import Backend

ALONG_K: Final = ("N", "T")
"""The orders of a and b with K contiguous."""
BackendOf = Callable[[str], "Backend"]
"""The backend of a copy by its name, such as `pad_f16_N`."""
Named = Sequence[tuple[Argument, ArrayFacts]]
"""The arguments of a kernel after a, b and c, and the arrays that are passed for them."""
Prepared = tuple[list[ProductStep], list[str]]
"""The copies of operands, and the names of the tensors that the product reads."""
_DIMS: Final = {"scale_a": "m", "scale_b": "n", "bias": "n", "residual": "mn"}
"""Along which of C's dimensions an operand has an element for each."""


def copy_name(kind: str, dtype: str, letter: str = "N") -> str:
    """The name of a copy's kernel in a folder of packed ones."""
    return f"{kind}_{dtype}" if kind == "crop" else f"{kind}_{dtype}_{letter}"


@dataclass(frozen=True, slots=True)
class ProductCopies:
    """The product that is computed, and how its operands are prepared for it; None where they are used in place.

    `shared` tells whether a kernel of a class may compute it.
    """

    inner: Problem
    prepare: Callable[[Named, BackendOf], Prepared] | None = None
    shared: bool = True


def around(problem: Problem, facts: Sequence[ArrayFacts], *, packed: bool) -> ProductCopies:
    """The copies of a product of two matrices; from a folder there are none along K."""
    if problem.dtype in INPUTS.values():
        wide = problem.wide()
        if wide is None:
            return ProductCopies(problem)
        is_fused = str(problem.parts) != ""
        return ProductCopies(problem.of_size(*wide.sizes), partial(_padded, problem, wide), shared=is_fused)
    if packed:
        return ProductCopies(problem)
    columns, depth = _columns_of(problem), depth_copies.pitch(problem.k, facts[0].itemsize)
    if not any(map(_is_turned, facts, ALONG_K)) and (columns, depth) == (problem.n, problem.k):
        return ProductCopies(problem)
    return ProductCopies(problem.of_size(problem.m, columns, depth), partial(_along_k, facts, (columns, depth)))


def _columns_of(problem: Problem) -> int:
    """N of the product on copies: rows of C of multiples of 16 bytes."""
    n, element = problem.n, problem.result_bytes
    unit = max(ALIGNED, CHUNK // element)
    return n if n * element % CHUNK == 0 else -(-n // unit) * unit


def steps_of(
    problem: Problem, around: ProductCopies, product: Backend, more: Named, copy_of: BackendOf
) -> list[ProductStep]:
    """The launches of a problem: copies of operands, the product, which may take scratch memory, and the crop."""
    copies, operands = ([], ["a", "b"]) if around.prepare is None else around.prepare(more, copy_of)
    (m, n, _), wide = problem.size, around.inner.size
    pads, names = _widened(more, (m, n), wide[:2], copy_of)
    is_whole = (m, n) == wide[:2]
    tensors = (*operands, "c" if is_whole else "wide_c", *names, *workspace_of(product.entry))
    launch = ProductStep(product, tensors, dict(zip("MNK", wide, strict=True)))
    if is_whole:
        return [*copies, *pads, launch]
    sizes = {"M": m, "N": n, "Q": wide[0], "P": wide[1]}
    crop = ProductStep(copy_of(copy_name("crop", problem.result)), ("wide_c", "c"), sizes)
    return [*copies, *pads, launch, crop]


def names_of(problem: Problem, wide: WideProduct) -> set[str]:
    """The names of the copies around a product of 16-bit types."""
    p, epilogue = problem, problem.epilogue
    names = {copy_name("pad", p.dtype, letter) for letter, copied in zip(p.layouts, wide.copied, strict=True) if copied}
    if wide.cropped:
        names.add(copy_name("crop", p.result))
    if wide.cropped and epilogue is not None:
        factors = ["f32"] if "each" in (epilogue.scale_a, epilogue.scale_b) else []
        names |= {copy_name("pad", dtype) for dtype in (*factors, epilogue.bias, epilogue.residual) if dtype}
    return names


def _padded(problem: Problem, wide: WideProduct, more: Named, copy_of: BackendOf) -> Prepared:
    """Operands of 16 bits in rows, or columns, of whole 16 bytes."""
    steps, operands = [], []
    shapes = zip(stored(*problem.size, problem.layouts), stored(*wide.sizes, problem.layouts), strict=True)
    for name, letter, needed, ((rows, columns), (more_rows, pitch)) in zip(
        "ab", problem.layouts, wide.copied, shapes, strict=True
    ):
        if needed:
            sizes = {"M": rows, "N": columns, "Q": more_rows, "P": pitch}
            backend = copy_of(copy_name("pad", problem.dtype, letter))
            steps.append(ProductStep(backend, (name, f"wide_{name}"), sizes))
        operands.append(f"wide_{name}" if needed else name)
    return steps, operands


def _is_turned(facts: ArrayFacts, wanted: str) -> bool:
    """Whether the other dimension than K is contiguous; with one element along a dimension, both are."""
    return order_of(facts) != wanted and 1 not in facts.shape


def _along_k(facts: Sequence[ArrayFacts], sizes: tuple[int, int], more: Named, copy_of: BackendOf) -> Prepared:
    """Operands in rows of K, of whole 16 bytes; `sizes` are the columns and K of the product.

    A transposing copy leaves rows past those of its operand as they were in memory; columns of C that are cropped come
    of them. For a maximum over all columns they are zeros.
    """
    (m, k), (_, n), (columns, depth) = facts[0].shape, facts[1].shape, sizes
    steps, operands = [], []
    counted = any(argument.name == "amax" for argument, _ in more)
    for name, found, wanted, rows, wide_rows in zip("ab", facts, ALONG_K, (m, n), (m, columns), strict=True):
        element, wide = found.itemsize, f"wide_{name}"
        turned, source, width = _is_turned(found, wanted), name, k
        apart = turned and counted and wide_rows != rows
        if turned:
            called = depth_copies.name_of(element, depth_copies.width_for(k, rows, element))
            source, width = f"turned_{name}" if apart else wide, depth
            steps.append(ProductStep(copy_of(called), (name, source), {"K": k, "R": rows, "P": depth}))
        if apart or (not turned and (rows, k) != (wide_rows, depth)):
            called = copy_name("pad", depth_copies.TYPES[element].name)
            extents = {"M": rows, "N": width, "Q": wide_rows, "P": depth}
            steps.append(ProductStep(copy_of(called), (source, wide), extents))
            source = wide
        operands.append(source)
    return steps, operands


def _widened(more: Named, size: tuple[int, int], wide: tuple[int, int], copy_of: BackendOf) -> Prepared:
    """The operands of an m x n epilogue for a wider product."""
    steps, names = [], []
    shape, wider = (dict(zip("mn", dims, strict=True)) for dims in (size, wide))
    for argument, facts in more:
        along, name = _DIMS.get(argument.name, ""), argument.name
        one = name.startswith("scale") and facts.shape == (1,)
        if one or all(shape[d] == wider[d] for d in along):
            names.append(name)
            continue
        rows, more_rows = (dims["m"] if along == "mn" else 1 for dims in (shape, wider))
        sizes = {"M": rows, "N": shape[along[-1]], "Q": more_rows, "P": wider[along[-1]]}
        backend = copy_of(copy_name("pad", argument.dtype))
        steps.append(ProductStep(backend, (name, f"wide_{name}"), sizes))
        names.append(f"wide_{name}")
    return steps, names


def entry_of(problem: Problem, facts: Sequence[ArrayFacts], more: Named) -> KernelEntry:
    """All launches as one kernel with the arguments a, b, c and `more`, so that arrays are bound to it as to one."""
    (m, k), (_, n) = facts[0].shape, facts[1].shape
    orders = [order_of(found) or wanted for found, wanted in zip(facts, ALONG_K, strict=True)]

    def tensor(name: str, dtype: str, rows: int, columns: int, letter: str) -> Argument:
        strides, written = (columns, 1) if letter == "N" else (1, rows), name == "c"
        shape = f"{'Row' if letter == 'N' else 'Col'}({rows}, {columns})"
        return Argument(
            name, "tensor", dtype, (rows, columns), rows * columns, shape, not written, written, strides=strides
        )

    p = problem
    others = [
        Argument(a.name, "tensor", a.dtype, f.shape, f.size, None, a.read, a.written, a.alignment, f.strides)
        for a, f in more
    ]
    factors = tensor("a", p.dtype, m, k, orders[0]), tensor("b", p.dtype, k, n, orders[1])
    return KernelEntry(p.name, (1,), (1,), 0, 0, (), (*factors, tensor("c", p.result, m, n, "N"), *others))
