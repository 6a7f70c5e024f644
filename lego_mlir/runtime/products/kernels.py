"""The kernel of a problem: which one is compiled, by which script, and how it is named in a folder of packed ones.

    one product, aligned     a kernel for all sizes of its class (`kernels.product_classes`)
    one product              a kernel for exactly its sizes
    a batch, or groups       a kernel for all sizes of its types, orders and tile (`role_kernels`)
    a copy                   into or out of aligned rows, or along K

On sm_90a warpgroups compute what they can, `mma.sync` everything else; a model of the time chooses the tile.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from lego_mlir.errors import DependencyError, UsageError
from lego_mlir.runtime.products import copies
from lego_mlir.runtime.products.problem import FOLDER, INPUTS, WARPGROUP_TARGET, Problem
from lego_mlir.tracing.trace.dtypes import dtype_named

if TYPE_CHECKING:
    from lego_mlir.kernels.product_classes import PipelinedClass, ProductClass
    from lego_mlir.toolchain.compile import Compilation
    from lego_mlir.tracing.definition.kernel import Kernel

PIPELINED: Final = "matmul_sm80.mlir"
NOT_AHEAD: Final = "matmul_narrow.mlir"  # loads by the threads themselves, an iteration ahead of the products
Scripted = tuple["Kernel", str | None, dict[str, int]]
"""A kernel, its script, and the script's parameters; without one, a kernel that is scheduled for warpgroups."""


def kernel_for(problem: Problem) -> Scripted:
    """The kernel for exactly the sizes of a problem. Raises UsageError for one that no unit of the target computes."""
    from lego_mlir.choices import families
    from lego_mlir.layout import Col, Row

    p = problem
    shapes = zip(p.layouts, ((p.m, p.k), (p.k, p.n)), strict=True)
    a, b = ((Col if letter == "T" else Row)(*dims) for letter, dims in shapes)
    types = {"dtype": dtype_named(p.dtype), "result": dtype_named(p.result), "a": a, "b": b}
    epilogue = p.parts.build(p.m, p.n)
    if p.target == WARPGROUP_TARGET and families.warpgroups_compute(
        p.size, p.layouts, p.dtype, p.result, p.place, p.exact > 0, epilogue is not None, p.parts.operands
    ):
        return _by_warpgroups(p, {**types, "epilogue": epilogue})
    if p.dtype not in INPUTS.values() or p.exact:
        sums = "promoted sums" if p.exact else p.dtype
        raise UsageError(
            f"matmul of {p.m} x {p.k} and {p.k} x {p.n} with {sums} for {p.target}: warpgroups of {WARPGROUP_TARGET} "
            "compute it, where the rows of a, the columns of b and the rows of the result are multiples of 16 bytes; "
            "convert or pad the operands"
        )
    return _by_warps(p, {**types, "epilogue": epilogue})


def _by_warpgroups(p: Problem, types: dict[str, Any]) -> Scripted:
    from lego_mlir.choices import warpgroup_tiles
    from lego_mlir.choices.product_tile import BYTES
    from lego_mlir.kernels.scheduled_products import ScheduledProduct

    fused = p.epilogue is not None or types["result"].bytes != BYTES
    tile = warpgroup_tiles.choose(*p.size, p.place, p.layouts, types["dtype"].bytes, p.exact, fused, p.parts.operands)
    found = ScheduledProduct(tile, p.layouts, p.dtype, p.result, p.parts)
    return found.kernel(p.size, tile.clusters(p.multiprocessors, p.clusters)), None, {}


def _by_warps(p: Problem, types: dict[str, Any]) -> Scripted:
    from lego_mlir.choices import warp_tiles
    from lego_mlir.choices.product_counts import ProductSize
    from lego_mlir.hardware.targets import target_named
    from lego_mlir.kernels import aligned_products, matmul
    from lego_mlir.kernels.split_k import SplitK

    room, split = target_named(p.target).shared_per_block, None
    size = ProductSize(*p.size, p.layouts, types["result"].bytes)
    if warp_tiles.is_parted(p.m, p.k) and p.epilogue is None:
        found = warp_tiles.choose_parts(replace(size, layouts="NT"), p.place)
        split = SplitK(found.parts, found.blocks(p.multiprocessors)) if found.parts > 1 else None
        one = replace(found, parts=1, resident=0)
        tile = warp_tiles.fitting(one, -(-p.k // found.parts), room, size.element)
    else:
        tile = warp_tiles.choose(size, room, p.place)
    narrow = aligned_products.is_narrow(*p.size, p.layouts)
    if narrow:
        tile = warp_tiles.choose_narrow(p.m, p.n, p.multiprocessors)
    blocks = tile.blocks(p.multiprocessors)
    built = matmul.build(*p.size, tiling=tile, order=tile.order, blocks=blocks, split=split, **types)
    return (built, NOT_AHEAD, {}) if narrow else (built, PIPELINED, {"stages": tile.stages})


def compiled(problem: Problem, emit: str = "ptx") -> Compilation:
    """The compilation of a problem's kernel, through the cache. Raises DependencyError without the compiler."""
    try:
        return _compiled(kernel_for(problem), problem.target, emit)
    except ImportError as error:
        if error.name is None:
            raise
        raise DependencyError(
            f"{problem.name} has to be compiled, and {error.name} is not installed; install lego-mlir with its "
            "dependencies, or pack the kernel where they are: lego-mlir pack matmul --sizes "
            f"{problem.m}x{problem.n}x{problem.k} --target {problem.target} -o kernels, and set {FOLDER}=kernels"
        ) from error


def class_of(problem: Problem) -> ProductClass | PipelinedClass | None:
    """The class of a product; None where it has none, or where there is no compiler to tell."""
    try:
        from lego_mlir.kernels.product_classes import class_for
    except ImportError:
        return None
    p = problem
    return class_for(p.size, p.layouts, p.dtype, p.result, p.target, p.place, p.parts, p.clusters)


def compiled_class(found: ProductClass | PipelinedClass, target: str) -> Compilation:
    """The compilation of a class's kernel, through the cache."""
    return _compiled((found.kernel(), found.script, found.parameters), target, "ptx")


def _compiled(scripted: Scripted, target: str, emit: str) -> Compilation:
    from lego_mlir.toolchain import Cache, compile_kernel, default_folder

    kernel, script, parameters = scripted
    return compile_kernel(
        kernel, transform=script, parameters=parameters, target=target.rstrip("a") if script else target, emit=emit,
        cache=Cache(default_folder()),
    )  # fmt: skip


def compiled_copy(name: str, target: str, emit: str = "ptx") -> Compilation:
    """The compilation of a copy, such as `pad_f16_N`, `crop_f16` or `along_k_8bit_by_16`, through the cache."""
    from lego_mlir.kernels import aligned_copies
    from lego_mlir.toolchain import Cache, compile_kernel, default_folder

    kind, dtype, *letter = name.split("_")
    if kind == "along":
        from lego_mlir.kernels import rows_along_k

        kernel = rows_along_k.named(name)
    else:
        type_ = dtype_named(dtype)
        kernel = aligned_copies.crop(type_) if kind == "crop" else aligned_copies.pad(type_, letter == ["T"])
    return compile_kernel(kernel, target=target.rstrip("a"), emit=emit, cache=Cache(default_folder()))


def compilations(problem: Problem, emit: str = "ptx") -> dict[str, Compilation]:
    """Every kernel that a problem launches, by its name in a folder of packed ones."""
    wide = problem.wide()
    if wide is None:
        return {problem.name: compiled(problem, emit)}
    inner, names = problem.of_size(*wide.sizes), copies.names_of(problem, wide)
    return {**{name: compiled_copy(name, problem.target, emit) for name in names}, inner.name: compiled(inner, emit)}
