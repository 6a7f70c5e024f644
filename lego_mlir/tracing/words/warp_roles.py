"""`with lego.warps(first, end):` some warps of a block run the body, others run the next role at the same time.

    with lego.warps(0, 1):                  warp 0 copies
        for k in lego.range(tiles): ...
    with lego.warps(1, 5, registers=232):   warps 1 to 4 compute
        for k in lego.range(tiles): ...

Roles that follow each other directly run concurrently. They pass data to each other through the barriers of
`barrier_rings`, and a `lego.barrier()` after the last role makes them meet. Inside a role, its warps are a small block:
`lego.barrier()` is a barrier of these warps, and the threads that share a copy, a spread value or a reduction are those
of the role, counted from 0, as are `lego.warp_id`s. `lego.thread_id` remains the thread's index in the block. A role of
several `groups` is as many small blocks. `registers` moves registers between roles: it takes whole groups of 4 warps,
and has no effect before sm_90a.

PTX ISA, "bar.sync" with a barrier and a thread count, "setmaxnreg".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import sympy

from lego_mlir.errors import TraceError
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.nodes import Le, Lt
from lego_mlir.hardware.limits import WARP
from lego_mlir.tracing.trace.marks import WarpRole
from lego_mlir.tracing.trace.trace import If, registers_written
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.words.control import Branch
from lego_mlir.tracing.words.warps import thread_of_block, threads

WARPGROUP: Final = 4
"""Warps that set their number of registers together."""
REGISTERS: Final = (24, 240)
"""The least and the greatest number of registers that `setmaxnreg` takes, a multiple of 8."""
ROLE_BARRIERS: Final = 15
"""Barriers of a block besides that of all its threads (PTX ISA, "bar": 16 barriers)."""


def warps(first: int, end: int, *, groups: int = 1, registers: int | None = None) -> Branch:
    """`with lego.warps(first, end):` the warps `first` to `end - 1` of the block run the body.

    With `groups` they are divided evenly, and each group is a small block: its barriers, threads and copies are its
    own, and `lego.group_id` is its number. `registers` is how many registers each thread keeps: a multiple of 8 from 24
    to 240, for whole warpgroups of 4 warps. Raises TraceError where the block has no such warps, in a loop or branch,
    and for a role in a role.
    """
    tracer = current("lego.warps")
    count = _warps_of_block(tracer)
    if not (type(first) is type(end) is int and 0 <= first < end <= count):
        raise tracer.error(
            f"lego.warps takes the first warp and the end, ints with 0 <= first < end <= {count}, the warps of a block "
            f"of {tracer.name}; got {first!r}, {end!r}"
        )
    if tracer.depth or tracer.called is not None:
        raise tracer.error(
            "lego.warps inside a loop, a branch or another role: divide the warps at the kernel's top level, and put "
            "the loops into the roles"
        )
    _require_groups(tracer, first, end, groups)
    _require_registers(tracer, first, end, registers)
    role = WarpRole(first, end, groups, registers, _barrier_of(tracer, first, end, groups))
    return Branch("lego.warps(..)", lambda tracer: _body(tracer, role))


@contextmanager
def _body(tracer: Tracer, role: WarpRole) -> Iterator[None]:
    source, thread = tracer.here(), thread_of_block(tracer)
    holds = sympy.And(Le(role.first * WARP, as_expr(thread)), Lt(as_expr(thread), role.end * WARP))
    condition = tracer.simplified(holds)
    tracer.role, tracer.path_of_role = role, len(tracer.path) + 1
    try:
        with tracer.region(condition) as body:
            yield
    finally:
        tracer.role, tracer.path_of_role = None, 0
    outside = [r for r in registers_written(tuple(body)) if tracer.is_register_open(r)]
    if outside:
        raise TraceError(
            f"{source}: a role changes a register that is defined before it, which other roles share; define it in the "
            "role with lego.register(..)"
        )
    tracer.append(If(condition, tuple(body), (), source, role))


@contextmanager
def groups_of(tracer: Tracer, groups: int) -> Iterator[None]:
    """Within, the warps of the role, or of the block outside of roles, are as many small blocks.

    A barrier is of a group, and its threads share a copy. With one group nothing changes.
    """
    around = tracer.role
    if groups > 1:
        first, end = (0, _warps_of_block(tracer)) if around is None else (around.first, around.end)
        tracer.role = WarpRole(first, end, groups, None, _barrier_of(tracer, first, end, groups))
    try:
        yield
    finally:
        tracer.role = around


def _barrier_of(tracer: Tracer, first: int, end: int, groups: int) -> int:
    """The number of the barrier of the first group; the next ones are those of the other groups."""
    number = tracer.roles.setdefault((first, end, groups), 1 + sum(of for _, _, of in tracer.roles))
    if number + groups - 1 > ROLE_BARRIERS:
        raise tracer.error(f"lego.warps: a kernel has at most {ROLE_BARRIERS} groups of warps in its roles")
    return number


def _warps_of_block(tracer: Tracer) -> int:
    count = threads(tracer)
    if not isinstance(count, int) or count % WARP:
        raise tracer.error(
            f"lego.warps divides whole warps: the block of {tracer.name} must have a multiple of {WARP} threads, an "
            f"int, got {count!r}"
        )
    return count // WARP


def _require_groups(tracer: Tracer, first: int, end: int, groups: int) -> None:
    if type(groups) is not int or groups < 1 or (end - first) % groups:
        raise tracer.error(
            f"lego.warps({first}, {end}, groups={groups!r}): groups divide the {end - first} warps of the role evenly"
        )
    size = (end - first) // groups
    if groups > 1 and (size & (size - 1) or first % size):
        raise tracer.error(
            f"lego.warps({first}, {end}, groups={groups}): a group has {size} warps, which must be a power of two, and "
            "the role begins at a multiple of it"
        )


def _require_registers(tracer: Tracer, first: int, end: int, registers: int | None) -> None:
    if registers is None:
        return
    least, most = REGISTERS
    if type(registers) is not int or not least <= registers <= most or registers % 8:
        raise tracer.error(
            f"lego.warps: registers must be a multiple of 8 from {least} to {most}, got {registers!r}; leave it out to "
            "keep the kernel's number"
        )
    if first % WARPGROUP or end % WARPGROUP:
        raise tracer.error(
            f"lego.warps({first}, {end}, registers={registers}): groups of {WARPGROUP} warps set their registers "
            f"together; begin and end the role at multiples of {WARPGROUP}, or leave out registers="
        )
