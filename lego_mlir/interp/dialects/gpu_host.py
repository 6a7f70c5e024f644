"""`gpu` on the host: launches, device memory and copies, which run in the order of the program."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lego_mlir.interp import memory, values
from lego_mlir.interp.dialects.memref import copy_all, sizes_of
from lego_mlir.interp.geometry import Dim3
from lego_mlir.interp.machine import Machine
from lego_mlir.interp.memory import Space
from lego_mlir.interp.program import CompiledFunction, Operation, Step, implements, tile_names


def _triples(extents: Sequence[int]) -> list[Dim3]:
    """Extents as grid, block and, if given, cluster."""
    return [(extents[i], extents[i + 1], extents[i + 2]) for i in range(0, len(extents), 3)]


@implements("gpu.launch_func")
def launch_func(op: Operation) -> Step:
    """Run a kernel of the module from host code."""
    function = op.compiler.function(str(op.attribute("kernel")).rsplit("@", 1)[-1])
    groups = op.segments()
    if len(groups) != 13:
        op.fail(f"unexpected operand groups: {len(groups)}")
    sizes = [g[0] for g in groups[1 : 10 if groups[7] else 7]]
    dynamic, arguments = groups[10], groups[11]

    def step(m: Machine) -> None:
        v = m.values
        grid, block, *cluster = _triples([values.only(v[s], "a size of the launch") for s in sizes])
        shared = values.only(v[dynamic[0]], "the dynamic shared memory") if dynamic else 0
        m.run_grid(function, grid, block, [v[s] for s in arguments], shared, None, *cluster)

    return step


@implements("gpu.launch")
def launch(op: Operation) -> Step:
    """An inline kernel: its region uses the host's values."""
    groups = op.segments()
    body = op.body()
    clustered = bool(groups[7])
    sizes = [g[0] for g in groups[1 : 10 if clustered else 7]]
    dynamic = groups[10]
    own = 18 if clustered else 12
    ids, rest = body.arguments[:own], body.arguments[own:]
    types = [a.type for a in list(op.operation.regions[0].blocks[0].arguments)[own:]]
    shared_count = op.integer("workgroup_attributions", 0)
    function = CompiledFunction(
        name="gpu.launch", body=body, argument_types=(), is_kernel=True, known_block=None, known_grid=None,
        workgroup=tuple(zip(rest[:shared_count], types[:shared_count], strict=True)),
        tiles=tile_names(op.operation, shared_count),
        private=tuple(zip(rest[shared_count:], types[shared_count:], strict=True)),
        known_cluster=None, arguments_read=frozenset(), arguments_written=frozenset(),
    )  # fmt: skip

    def step(m: Machine) -> None:
        v = m.values
        grid, block, *cluster = _triples([values.only(v[s], "a size of the launch") for s in sizes])

        def enter(batch: Machine) -> None:
            batch.values[:] = v
            for axis in range(3):
                found = [batch.block_id(axis), batch.thread_id(axis), *map(values.uniform, (grid[axis], block[axis]))]
                if cluster:
                    found += [batch.block_id(axis) // cluster[0][axis], values.uniform(cluster[0][axis])]
                for part, value in enumerate(found):
                    batch.values[ids[3 * part + axis]] = value

        shared = values.only(v[dynamic[0]], "the dynamic shared memory") if dynamic else 0
        m.run_grid(function, grid, block, [], shared, enter, *cluster)

    return step


@implements("gpu.wait", "gpu.dealloc", "gpu.host_register", "gpu.host_unregister")
def host_bookkeeping(op: Operation) -> Step:
    """Host-side ordering has no effect: the interpreter runs everything in order."""
    return lambda m: None


@implements("gpu.alloc")
def alloc(op: Operation) -> Step:
    """Device memory, which is global."""
    type_, result, dynamic = op.result_type(), op.result, op.segments()[1]
    dtype, name = values.element_dtype(type_), f"the buffer of {op.place}"

    def step(m: Machine) -> None:
        m.values[result] = memory.allocate(m, Space.GLOBAL, dtype, sizes_of(type_, m, dynamic), name)

    return step


@implements("gpu.memcpy")
def memcpy(op: Operation) -> Step:
    """Copy all elements between memrefs of the same shape."""
    target, source = op.operands[-2:]
    return copy_all(op, source, target)


@implements("gpu.memset")
def memset(op: Operation) -> Step:
    """Set all elements."""
    target, value = op.operands[-2:]
    writing = op.access("write")

    def step(m: Machine) -> None:
        window = m.values[target]
        sizes = [n if isinstance(n, int) else values.only(n, "a size of gpu.memset") for n in window.sizes]
        grid = np.indices(sizes, dtype=np.int64).reshape(len(sizes), 1, 1, -1)
        touch = memory.address(m, writing, window, list(grid))
        memory.write(m, writing, touch, np.broadcast_to(m.values[value][..., None], touch.elem.shape))

    return step
