"""Sums promoted every few steps: the unit's own sum is short, and the total is added in f32 by the threads.

The units align the products of an instruction and the sum to the largest of them, and cut off what is below; they do
not round. A sum of many positive numbers therefore drifts towards zero, and with operands of 8 bits it keeps fewer
bits than f32. With `exact` steps at once, the unit begins anew after that number, and each of its sums is added to a
total with a rounding to nearest: the drift is that of `exact` steps, however long K is. It takes twice the registers,
and the units are idle during the additions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lego_mlir.transforms.warpgroups import launch_sizes

if TYPE_CHECKING:
    from lego_mlir.transforms.warpgroups.roles import Release, Turn, Warp, WarpgroupKernel


def promoted_steps(
    kernel: WarpgroupKernel, warp: Warp, descriptors: tuple[str, str], release: Release, turn: Turn
) -> tuple[list[str], Turn]:
    """All steps of a tile: the totals, and the place in the ring after them."""
    t, plan, struct = kernel.text, kernel.plan, kernel.accumulators
    totals = [t.value(f"llvm.mlir.zero : {struct}") for _ in range(plan.parts)]
    zero, steps, span = t.i32(0), launch_sizes.step_count(t, plan), t.i32(plan.exact)
    first, carried, after = t.name(), [t.name() for _ in range(plan.parts + 2)], t.name()
    begun = zip(carried, (*totals, turn.stage, turn.parity), strict=True)
    given = ", ".join(f"{name} = {value}" for name, value in begun)
    types = ", ".join([struct] * plan.parts + ["i32"] * 2)
    head = f"scf.for {first} = {zero} to {steps} step {span} iter_args({given}) -> ({types}) : i32 {{"
    with t.block(f"{after}:{len(carried)} = {head}"):

        def count() -> str:
            return t.op("minsi", span, t.op("subi", steps, first))

        inside = carried[: plan.parts]
        sums, later = kernel.sum_steps(
            warp, descriptors, release, replace(turn, stage=carried[-2], parity=carried[-1]), count
        )
        added = [_sum(kernel, total, one) for total, one in zip(inside, sums, strict=True)]
        t.line(f"scf.yield {', '.join(added)}, {later.stage}, {later.parity} : {types}")
    *found, stage, parity = (f"{after}#{number}" for number in range(len(carried)))
    return found, replace(turn, stage=stage, parity=parity)


def _sum(kernel: WarpgroupKernel, total: str, sums: str) -> str:
    """The element-by-element sum of two sets of accumulators."""
    t, struct = kernel.text, kernel.accumulators
    made = t.value(f"llvm.mlir.undef : {struct}")
    for number in range(kernel.plan.columns // 2):
        pair = [t.value(f"llvm.extractvalue {one}[{number}] : {struct}") for one in (total, sums)]
        made = t.value(f"llvm.insertvalue {t.op('addf', *pair, type_='f32')}, {made}[{number}] : {struct}")
    return made
