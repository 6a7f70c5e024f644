"""`lego_mlir.matmul(a, b)`: the product of two arrays on a GPU, by a kernel chosen for their size.

    import torch, lego_mlir
    c = lego_mlir.matmul(a, b)          # PyTorch, CuPy, JAX, or DLPack; f16 or bf16, in rows or in columns

A kernel computes all sizes of its class: of the same types, orders and alignment, with one of few tiles that a model of
the time finds for the order of magnitude of M (`kernels.product_classes`). It is compiled at its first use, into the
cache on disk, from where other processes take it; another batch compiles nothing. Other products have a kernel for
exactly their sizes, and so have those of a machine without the compiler, from a folder of packed kernels (`lego-mlir
pack matmul`). What was found out about two arrays is kept as a plan for the next ones of the same types, shapes and
strides, so that a call costs little more than its launch.

An array in rows or in columns is used in place; another one is copied. Large products whose rows are not multiples of
16 bytes are computed on aligned copies (`aligned_products`); small ones load such rows element by element. Products of
few rows with long sums split K among blocks, and add the parts in a fixed order (`split_choices`).

The result has the type of `a` unless another is requested, and comes from the library of `a`, from CuPy for arrays
known by DLPack alone; CuPy has no bfloat16: there such a result comes as its 16-bit words. The product has no
derivative: tensors that require a gradient are refused, unless gradients are disabled, and so are arrays in the host's
memory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lego_mlir.errors import DependencyError, UsageError
from lego_mlir.kernels import aligned_products
from lego_mlir.kernels.aligned_products import WideProduct
from lego_mlir.runtime import binding, class_backends, packs, product_steps
from lego_mlir.runtime.arrays import ArrayFacts, ArrayLibrary, key_of, library_of
from lego_mlir.runtime.calls import loaded, target_for
from lego_mlir.runtime.manifest import KernelEntry, kernel_from
from lego_mlir.runtime.plans import Backend, Plan

if TYPE_CHECKING:
    from lego_mlir.aliases import AnyArray, Tensor
    from lego_mlir.kernels.fused_epilogues import FusedEpilogue, FusedParts

PIPELINED: Final = "matmul_sm80.mlir"
WARPGROUPS: Final = "matmul_sm90.mlir"
WARPGROUP_TARGET: Final = "sm_90a"
NOT_AHEAD: Final = "matmul_narrow.mlir"  # loads by the threads themselves, an iteration ahead of the products
LEAST: Final = 80  # the compute capability from which cp.async, ldmatrix and mma.sync m16n8k16 are there
ALIGNMENT: Final = 16  # bytes: the widest access of a kernel
INPUTS: Final = {"float16": "f16", "bfloat16": "bf16"}
OTHER_INPUTS: Final = {"float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2", "int8": "i8", "float32": "f32"}
RESULTS: Final = {**INPUTS, "float32": "f32"}
FOLDER: Final = "LEGO_MLIR_KERNELS"  # the environment variable that names a folder of packed kernels
_KEPT: Final = 4096  # products of one process; a caller whose shapes change all the time starts over


@dataclass(frozen=True, slots=True)
class Problem:
    """A product by everything that its kernel depends on; `layouts` is NN, NT, TN or TT, T for columns.

    `multiprocessors` of the device count where the blocks of a kernel are persistent; so do `clusters`, those that the
    driver runs at the same time, where that is known.
    """

    m: int
    n: int
    k: int
    dtype: str
    result: str
    layouts: str
    target: str
    multiprocessors: int
    clusters: int | None = None
    epilogue: FusedEpilogue | None = None
    exact: int = 0
    rounded: bool = False

    @property
    def name(self) -> str:
        """The name of its kernel in a folder of packed ones; the number of multiprocessors only tunes it."""
        return f"matmul_{self.m}x{self.n}x{self.k}_{self.dtype}_{self.result}_{self.layouts}{self.parts}"

    @property
    def parts(self) -> FusedParts:
        """What differs from a plain product."""
        from lego_mlir.kernels.fused_epilogues import FusedParts

        return FusedParts(self.epilogue, self.exact, self.rounded)


@dataclass(frozen=True, slots=True)
class Multiplication:
    """A product bound to types, shapes and strides. Without a plan, operands have to be copied first."""

    plan: Plan | None
    pointers: tuple[Callable[[AnyArray], int], Callable[[AnyArray], int]]
    gradients: tuple[str, ...] = ()


_known: dict[Hashable, Multiplication] = {}


def matmul(
    a: Tensor, b: Tensor, *, result: str | None = None, kernels: str | Path | None = None, fixed: bool = False,
    scale_a: Tensor | None = None, scale_b: Tensor | None = None, bias: Tensor | None = None,
    activation: str | None = None, residual: Tensor | None = None, accumulate: str | None = None,
    tf32: bool | str = False, amax: Tensor | None = None, scale_result: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """a @ b for two matrices on a device; `result` names the type of the result, such as "float32".

    Arrays of f16 or bf16 with leading dimensions, [.., M, K] and [.., K, N], are batches of matrices, broadcast as
    NumPy does, without copies: see `runtime.batched_calls`. What follows is about two matrices, and what is fused also
    about [.., M, K] and [K, N], where `scale_a` and `residual` have the leading dimensions.

    It is computed on their device, on the current stream of their library. `kernels` is a folder of packed kernels to
    take it from, by default that of the environment variable LEGO_MLIR_KERNELS. Products whose rows are multiples of 16
    bytes share kernels by classes of sizes, with few tiles for M's order of magnitude; `fixed` compiles a kernel for
    exactly these sizes.

    The other arguments are fused into the kernel:
    `scale_result * (activation(scale_a * (a @ b) * scale_b + bias) + residual)`. Scales are f32, one number or one for
    each row of a and each column of b, and one number for the result; `bias` has one number for each column;
    `activation` is "relu", "gelu" or "silu"; `residual` is a matrix in rows. `amax`, one f32, becomes the larger of
    itself and the largest absolute value before it is multiplied with `scale_result` and rounded; set it to 0 first. On
    compute capability 9.0, a and b may also be of float8_e4m3fn, float8_e5m2 or int8, and of float32 with `tf32=True`,
    which rounds them to 11 bits as they are copied, or `tf32="cut"`, which cuts off the rest; results of float8
    operands may be of a float8 type, saturated; `accumulate="exact"` promotes the units' sums, see
    `runtime.fused_products`. Raises UsageError for arrays that cannot be multiplied here,
    DependencyError without a device, or without the compiler and a packed kernel.
    """
    given = (scale_a, scale_b, bias, residual, amax, scale_result)
    if tf32 or activation is not None or accumulate is not None or any(array is not None for array in given):
        from lego_mlir.runtime.fused_products import FusedOptions, fused_product

        options = FusedOptions(result, activation, accumulate, tf32, fixed)
        if has_leading(a) or has_leading(b):
            from lego_mlir.runtime.fused_rows import fused_rows

            return fused_rows(partial(fused_product, options=options, kernels=kernels), a, b, given)
        return fused_product(a, b, given, options, kernels)
    key = (key_of((a, b)), result, kernels, fixed)
    known = _known.get(key)
    if known is None:
        if has_leading(a) or has_leading(b):
            from lego_mlir.runtime.batched_calls import batched_matmul

            if kernels is not None or fixed:
                raise UsageError("matmul: kernels= and fixed= are for products of two matrices; leave them out")
            return batched_matmul(a, b, result, keep=partial(_keep, key))
        if is_wide_or_narrow(a):
            from lego_mlir.runtime.fused_products import FusedOptions, fused_product

            return fused_product(a, b, given, FusedOptions(result, fixed=fixed), kernels)
        known = bound(a, b, result, kernels, fixed=fixed)
        _keep(key, known)
    if known.gradients:
        require_no_gradient(known.gradients)
    of_a, of_b = known.pointers
    if known.plan is None or (of_a(a) | of_b(b)) % ALIGNMENT:
        if has_leading(a) or has_leading(b):
            from lego_mlir.runtime.batched_calls import batched_matmul

            return batched_matmul(a, b, result)
        return matmul(_usable("a", a), _usable("b", b), result=result, kernels=kernels, fixed=fixed)
    return known.plan((a, b), None)


def _keep(key: Hashable, known: Multiplication) -> None:
    """Keep what was bound for the next arrays like these."""
    if len(_known) >= _KEPT:
        _known.clear()
    _known[key] = known


def is_misaligned(known: Multiplication, a: Tensor, b: Tensor) -> bool:
    """Whether operands begin where no kernel can read them."""
    of_a, of_b = known.pointers
    return bool((of_a(a) | of_b(b)) % ALIGNMENT)


def bound(
    a: Tensor, b: Tensor, result: str | None, kernels: str | Path | None, *, fixed: bool,
    shape: Sequence[int] | None = None,
) -> Multiplication:  # fmt: skip
    """The product for matrices of these types, shapes and strides; its result may have another shape."""
    (left, first), (right, second) = matrix_facts("a", a), matrix_facts("b", b)
    (m, k), (depth, n) = first.shape, second.shape
    if k != depth or first.dtype != second.dtype:
        raise UsageError(
            f"matmul of {m} x {k} {first.dtype} and {depth} x {n} {second.dtype}: the inner sizes and the types must "
            "agree"
        )
    name = first.dtype if result is None else result
    if name not in RESULTS:
        raise UsageError(f"matmul: the result is one of {', '.join(RESULTS)}, got {name!r}")
    if first.device != second.device:
        raise UsageError(
            f"matmul: a is on device {first.device[1]} and b on device {second.device[1]}; move one of them"
        )
    orders, pointers = [order_of(facts) for facts in (first, second)], (left.pointer, right.pointer)
    if None in orders:
        return Multiplication(None, pointers)
    from lego_mlir.runtime.driver import MULTIPROCESSORS, driver

    device = first.device[1]
    target, count = target_of(driver().capability(device)), driver().attribute(device, MULTIPROCESSORS)
    layouts = "".join(filter(None, orders))
    problem = Problem(m, n, k, INPUTS[first.dtype], RESULTS[name], layouts, target, count)
    gradients = tuple(name for name, facts in (("a", first), ("b", second)) if facts.needs_gradient)
    held = [replace(facts, needs_gradient=False) for facts in (first, second)]
    library = left if left.results is not None else cupy_arrays()
    folder = kernels_folder(kernels)
    if folder is None and not fixed:
        backend = backend_of_class(problem, device)
        if backend is not None:
            plan = backend.plan(_bound(backend.entry, held, shape), [a, b], library)
            return Multiplication(plan, pointers, gradients)
    return Multiplication(_plan(problem, device, folder, held, [a, b], library, shape), pointers, gradients)


def _bound(entry: KernelEntry, held: Sequence[ArrayFacts], shape: Sequence[int] | None) -> binding.Bound:
    """A launch on matrices, whose result has the given shape if there is one."""
    found = binding.bind(entry, [*held, None], {})
    return found if shape is None else binding.with_result_of(found, shape)


def backend_of_class(problem: Problem, device: int) -> Backend | None:
    """The kernel of a product's class; None where it has none, or where there is no compiler to tell."""
    try:
        from lego_mlir.kernels.product_classes import class_for
    except ImportError:
        return None
    p = problem
    found = class_for((p.m, p.n, p.k), p.layouts, p.dtype, p.result, p.target, p.multiprocessors, p.parts)
    return None if found is None else class_backends.backend_of(found, p.target, device)


def _plan(
    problem: Problem, device: int, folder: Path | None, held: list[ArrayFacts], given: list[Tensor],
    library: ArrayLibrary, shape: Sequence[int] | None,
) -> Plan:  # fmt: skip
    """The launches of a product: one, or those of its copies and its scratch memory."""
    p = problem
    wide = wide_of(p)
    backend = backend_for(p if wide is None else replace_sizes(p, wide), device, folder)
    if wide is None and not product_steps.has_workspace(backend.entry):
        return backend.plan(_bound(backend.entry, held, shape), given, library)
    entry = product_steps.entry_of(p.name, p.m, p.n, p.k, p.dtype, p.result, p.layouts)
    if wide is None:
        steps = product_steps.with_workspace(backend, (p.m, p.n, p.k))
    else:
        steps = product_steps.on_copies(
            (p.m, p.n, p.k), wide.sizes, wide.copied, wide.cropped, p.layouts, p.dtype, p.result, backend,
            lambda name: copy_backend(name, p.target, device, folder),
        )  # fmt: skip
    return product_steps.StepsPlan(entry, _bound(entry, held, shape), given, library, steps)


def wide_of(problem: Problem) -> WideProduct | None:
    """The product on aligned copies that is computed instead, None where there are none or they do not pay."""
    p = problem
    wide = aligned_products.widened(p.m, p.n, p.k, p.layouts, results=p.target == WARPGROUP_TARGET)
    return wide if wide is not None and aligned_products.pays(p.m, p.n, p.k, wide) else None


def replace_sizes(problem: Problem, wide: WideProduct) -> Problem:
    """The same product on aligned copies."""
    m, n, k = wide.sizes
    return replace(problem, m=m, n=n, k=k)


def has_leading(array: Tensor) -> bool:
    """Whether an array is of more than two dimensions, so that products are batched."""
    return len(getattr(array, "shape", ())) > 2


def is_wide_or_narrow(array: Tensor) -> bool:
    """Whether an array's elements are of other than 16 bits, and of a type that some device multiplies."""
    dtype = str(getattr(array, "dtype", "")).rpartition(".")[2]
    return dtype in OTHER_INPUTS


def matrix_facts(name: str, array: Tensor, known: Mapping[str, str] = INPUTS) -> tuple[ArrayLibrary, ArrayFacts]:
    """How a matrix on a device is read. Raises UsageError for anything else."""
    dtype = str(getattr(array, "dtype", "")).rpartition(".")[2]
    shape = tuple(getattr(array, "shape", ()))
    if dtype not in known or len(shape) != 2 or 0 in shape:
        raise UsageError(
            f"matmul takes matrices of {' or '.join(known)}, got {name} of {dtype or type(array).__name__} and shape "
            f"{shape}{'; no size may be 0' if 0 in shape else ''}"
        )
    library = library_of(array)
    if library is None:
        raise UsageError(f"matmul: {name} is a {type(array).__name__}, which does not speak DLPack; pass a CuPy array")
    facts = library.facts(array)
    if facts.needs_gradient:
        require_no_gradient((name,))
    if facts.device[0] != "cuda":
        remedy = f"{name}.cuda()" if library.name == "torch" else f"cupy.asarray({name})"
        raise UsageError(f"matmul: {name}, of {facts.library}, is in the host's memory; move it to the GPU: {remedy}")
    return library, facts


def require_no_gradient(names: tuple[str, ...]) -> None:
    """Refuse tensors whose gradient the product would lose."""
    if sys.modules["torch"].is_grad_enabled():
        raise UsageError(
            f"matmul: {names[0]} requires a gradient, and this product has no derivative; pass {names[0]}.detach(), or "
            "call it under torch.no_grad()"
        )


def order_of(facts: ArrayFacts) -> str | None:
    """N for a matrix in rows, T for one in columns, None for one that has to be copied."""
    (rows, columns), (down, along) = facts.shape, facts.strides
    if (columns == 1 or along == 1) and (rows == 1 or down == columns):
        return "N"
    return "T" if (rows == 1 or down == 1) and (columns == 1 or along == rows) else None


def _usable(name: str, array: Tensor) -> Tensor:
    """The array, or a copy of it in rows where it is in neither order, or not aligned."""
    library = library_of(array)
    assert library is not None  # its facts have been read
    facts = library.facts(array)
    if order_of(facts) is not None and facts.pointer % ALIGNMENT == 0:
        return array
    if library.name == "torch":
        return array.detach().clone(memory_format=sys.modules["torch"].contiguous_format)
    if not hasattr(array, "copy"):
        raise UsageError(
            f"matmul: {name}, of {facts.library}, is in neither rows nor columns, or not aligned to {ALIGNMENT} bytes; "
            "pass a copy in rows"
        )
    return array.copy()


def cupy_arrays() -> ArrayLibrary:
    """CuPy's arrays, for results of arrays that are known by a protocol alone."""
    from lego_mlir.runtime.cuda import cupy

    library = library_of(cupy().empty(0))
    assert library is not None
    return library


def kernels_folder(given: str | Path | None) -> Path | None:
    """The folder of packed kernels, None where none is named."""
    named = os.environ.get(FOLDER) if given is None else given
    return Path(named) if named else None


def target_of(capability: str) -> str:
    """The target to compile for on a device of this compute capability: its own, or the newest one before it."""
    if capability == WARPGROUP_TARGET.removeprefix("sm_").rstrip("a"):
        return WARPGROUP_TARGET
    if int(capability) < LEAST:
        raise UsageError(f"matmul needs a device of compute capability {LEAST} or later, and this one is {capability}")
    return target_for(capability)


def kernel_for(problem: Problem) -> tuple[Any, str, dict[str, int]]:
    """The kernel for a problem, its script, and the script's parameters.

    On sm_90a warpgroups compute what they can, `mma.sync` everything else; a model of the time chooses the tile.
    """
    from lego_mlir.hardware.targets import target_named
    from lego_mlir.kernels import (
        choices,
        family_choices,
        matmul,
        narrow_tiles,
        split_choices,
        warpgroup_choices,
        warpgroup_splits,
    )
    from lego_mlir.kernels.product_counts import BYTES
    from lego_mlir.layout import Col, Row
    from lego_mlir.tracing.dtypes import dtype_named

    p = problem
    result = dtype_named(p.result)
    a, b = (
        (Col if letter == "T" else Row)(*dims) for letter, dims in zip(p.layouts, ((p.m, p.k), (p.k, p.n)), strict=True)
    )
    types: dict[str, Any] = {"dtype": dtype_named(p.dtype), "result": result, "a": a, "b": b}
    epilogue = p.parts.build(p.m, p.n)
    if p.target == WARPGROUP_TARGET and family_choices.warpgroups_compute(
        (p.m, p.n, p.k), p.layouts, p.dtype, p.result, p.multiprocessors, p.exact > 0, epilogue is not None,
        p.parts.operands,
    ):  # fmt: skip
        tile = warpgroup_choices.choose(
            p.m,
            p.n,
            p.k,
            p.multiprocessors,
            p.layouts,
            types["dtype"].bytes,
            p.exact,
            epilogue is not None or result.bytes != BYTES,
            p.parts.operands,
        )
        clusters = tile.persistent(p.multiprocessors)
        clusters = p.clusters if p.clusters and clusters else clusters
        built = warpgroup_splits.in_tile(p.m, p.n, p.k, tile=tile, blocks=clusters, epilogue=epilogue, **types)
        return built, WARPGROUPS, {**tile.parameters, **({"rounded": 1} if p.rounded else {})}
    _require_mma_sync(p)
    room = target_named(p.target).shared_per_block
    if split_choices.applies(p.m, p.k) and epilogue is None:
        found = split_choices.choose(p.m, p.n, p.k, p.multiprocessors)
        chosen, split = choices.fitting(found.choice, -(-p.k // found.parts), room, result.bytes), found.split
    else:
        chosen = choices.choose(p.m, p.n, p.k, p.layouts, room, result.bytes, p.multiprocessors)
        split = None
    narrow = narrow_tiles.is_narrow(p.m, p.n, p.k, p.layouts)
    if narrow:
        chosen = narrow_tiles.choose(p.m, p.n, p.multiprocessors)
    built = matmul.build(
        p.m, p.n, p.k, **types, tiling=chosen.tiling, order=chosen.order, blocks=chosen.blocks(p.multiprocessors),
        split=split, epilogue=epilogue,
    )  # fmt: skip
    return (built, NOT_AHEAD, {}) if narrow else (built, PIPELINED, {"stages": chosen.stages})


def _require_mma_sync(p: Problem) -> None:
    """Raise UsageError for a product that mma.sync does not compute here."""
    if p.dtype in INPUTS.values() and not p.exact:
        return
    sums = "promoted sums" if p.exact else p.dtype
    raise UsageError(
        f"matmul of {p.m} x {p.k} and {p.k} x {p.n} with {sums} for {p.target}: warpgroups of {WARPGROUP_TARGET} "
        "compute it, where the rows of a, the columns of b and the rows of the result are multiples of 16 bytes; "
        "convert or pad the operands"
    )


@cache
def backend_for(problem: Problem, device: int, folder: Path | None) -> Backend:
    """The kernel of a problem on a device, from a folder of packed kernels or compiled; kept for the process."""
    if folder is not None:
        packed = packs.find(folder, problem.name)
        if packed is None:
            known = ", ".join(file.stem for file in packs.code_files(folder))
            raise UsageError(
                f"{folder} has no kernel {problem.name}; it has: {known}; add it with lego-mlir pack matmul --sizes "
                f"{problem.m}x{problem.n}x{problem.k} --dtype {problem.dtype} --result {problem.result} --layouts "
                f"{problem.layouts} --target {problem.target} -o {folder}"
            )
        return packed.backend(device)
    compilation = compiled(problem)
    (entry,) = (kernel_from(described) for described in compilation.manifest["kernels"])
    backend = loaded(entry, compilation.bytes, device, f"{problem.name} for {problem.target}")
    fitting = backend.clusters_at_once()
    if fitting and problem.clusters is None and entry.grid and int(entry.grid[0]) > fitting * entry.cluster:
        return backend_for(replace(problem, clusters=fitting), device, folder)
    return backend


@cache
def copy_backend(name: str, target: str, device: int, folder: Path | None) -> Backend:
    """A copy into or out of aligned rows on a device, packed or compiled; kept for the process."""
    if folder is not None:
        packed = packs.find(folder, name)
        if packed is None:
            raise UsageError(
                f"{folder} has no kernel {name}, which products of odd sizes need; pack them again with lego-mlir pack "
                f"matmul --target {target} -o {folder}"
            )
        return packed.backend(device)
    compilation = compiled_copy(name, target)
    (entry,) = (kernel_from(described) for described in compilation.manifest["kernels"])
    return loaded(entry, compilation.bytes, device, f"{name} for {target}")


def compiled_copy(name: str, target: str, emit: str = "ptx") -> Any:
    """The compilation of a copy, such as `pad_f16_N`, `crop_f16` or `along_k_8bit_by_16`, through the cache."""
    from lego_mlir.kernels import aligned_copies
    from lego_mlir.toolchain import Cache, compile_kernel, default_folder
    from lego_mlir.tracing.dtypes import dtype_named

    kind, dtype, *letter = name.split("_")
    if kind == "along":
        from lego_mlir.kernels import rows_along_k

        kernel = rows_along_k.named(name)
    else:
        type_ = dtype_named(dtype)
        kernel = aligned_copies.crop(type_) if kind == "crop" else aligned_copies.pad(type_, letter == ["T"])
    return compile_kernel(kernel, target=target.rstrip("a"), emit=emit, cache=Cache(default_folder()))


def compilations(problem: Problem, emit: str = "ptx") -> dict[str, Any]:
    """Every kernel that a problem launches, by its name in a folder of packed ones."""
    wide = wide_of(problem)
    if wide is None:
        return {problem.name: compiled(problem, emit)}
    inner = replace_sizes(problem, wide)
    names = [product_steps.copy_name("pad", problem.dtype, letter)
             for letter, copied in zip(problem.layouts, wide.copied, strict=True) if copied]  # fmt: skip
    names += [product_steps.copy_name("crop", problem.result)] if wide.cropped else []
    return {**{name: compiled_copy(name, problem.target, emit) for name in names}, inner.name: compiled(inner, emit)}


def compiled(problem: Problem, emit: str = "ptx") -> Any:
    """The compilation of a problem's kernel, through the cache. Raises DependencyError without the compiler."""
    from lego_mlir.toolchain import Cache, compile_kernel, default_folder

    try:
        kernel, script, parameters = kernel_for(problem)
    except ImportError as error:
        if error.name is None:
            raise
        raise DependencyError(
            f"{problem.name} has to be compiled, and {error.name} is not installed; install lego-mlir with its "
            "dependencies, or pack the kernel where they are: lego-mlir pack matmul --sizes "
            f"{problem.m}x{problem.n}x{problem.k} --target {problem.target} -o kernels, and set {FOLDER}=kernels"
        ) from error
    target = problem.target if script == WARPGROUPS else problem.target.rstrip("a")
    return compile_kernel(
        kernel, transform=script, parameters=parameters, target=target, emit=emit,
        cache=Cache(default_folder()),
    )  # fmt: skip
