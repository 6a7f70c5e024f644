"""Gathers along an axis against tl.gather and shared-memory round trips.

    python bench/gather.py static [CASE ..]   machine instructions of one gather, ours and Triton's; no GPU

A block of 4 warps holds ROWS x N elements and replaces each row by the elements that a row of indices selects, TURNS
times; `down`, N x ROWS elements and each column. `ours` is `lego.gather`, `shuffles` and `memory` its two plans where
both exist; `unpadded` stores the tile to shared memory in its rows, waits for the block, and loads each element by its
index. For `down`, tiles are loaded and stored along their rows, and converted before the first turn and after the last,
as Triton's compiler does for tl.gather: loads with the lanes along a column would not be coalesced.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import conversions
import harness
import mlir_kernels
import runner

NAME, PAGE, TARGET = "gather", "results/conversions.md", "sm_90"
TURNS, BLOCKS, WARPS, ROWS = 200, 132 * 4, 4, 64
WAYS = ("ours", "shuffles", "memory", "unpadded")
CASES = [f"{n}-{bits}" for n in (4, 8, 16, 32, 64, 128) for bits in (8, 16, 32, 64)]
CASES += [f"{n}-{bits}-down" for n in (16, 32, 64) for bits in (16, 32)]


def parts(case: str) -> tuple[int, int, int]:
    """The elements along the axis, the bits of an element, and the axis: 0 for `down`."""
    n, bits, *down = case.split("-")
    return int(n), int(bits), 0 if down else 1


def shape(case: str) -> tuple[int, int]:
    """The tile of a block."""
    n, _, axis = parts(case)
    return (n, ROWS) if axis == 0 else (ROWS, n)


def layout(case: str) -> Any:
    """The axis along as many lanes as it has elements, up to 32: each lane is read at once."""
    from lego_mlir import f2

    n, _, axis = parts(case)
    lanes = min(32, n)
    boxes = ((1, n // lanes), (32 // lanes, lanes), (WARPS, 1))
    turned = [box[::-1] if axis == 0 else box for box in boxes]
    made = f2.Blocked(*turned, order=(axis, 1 - axis)).layout(shape(case))
    return made.sublayout(["register", "lane", "warp"], list(made.out_sizes))


def memory_layout(case: str, bits: int) -> Any:
    """The layout in which tiles of elements of some bits are loaded and stored: for `down`, rows by 16-byte vectors."""
    from lego_mlir import f2

    if parts(case)[2] == 1:
        return layout(case)
    vector = 128 // bits
    across = ROWS // vector
    made = f2.Blocked((1, vector), (32 // across, across), (WARPS, 1), order=(1, 0)).layout(shape(case))
    return made.sublayout(["register", "lane", "warp"], list(made.out_sizes))


def gatherer(way: str, case: str) -> Callable[[], Any] | None:
    """What gathers a tile, called in the kernel before the first gather; None where there is none."""
    import lego_mlir as lego
    from lego_mlir import Row
    from lego_mlir.f2.gathers import gather_plan
    from lego_mlir.tracing.dtypes import dtype_named
    from lego_mlir.tracing.spread.gather import by_plan

    n, bits, axis = parts(case)
    if way == "ours":
        return lambda: lambda x, i: lego.gather(x, i, axis=axis)
    if way != "unpadded":
        plan = gather_plan(layout(case), layout(case), f"dim{axis}", bits)
        if not plan.local:
            return None
        forced = dataclasses.replace(plan, by_shuffles=way == "shuffles")
        return lambda: lambda x, i: by_plan(x, i, forced, f"dim{axis}")

    def make() -> Any:
        tile = lego.shared(dtype_named(conversions.DTYPES[bits]), Row(*shape(case)))

        def move(x: Any, i: Any) -> Any:
            lego.barrier()
            x.store(tile)
            lego.barrier()
            found = []
            for other, chosen in zip(lego.arange(i.layout, 1 - axis).registers, i.registers, strict=True):
                place = [other, lego.index(chosen, range=(0, n))]
                found.append(tile[tuple(place if axis else place[::-1])])
            return lego.Spread(i.layout, x.dtype, found)

        return move

    return make


def kernel(case: str, way: str, turns: int) -> Any:
    """The kernel of a case; for 0 turns it gathers once."""
    import lego_mlir as lego
    from lego_mlir import Row, i32
    from lego_mlir.tracing.dtypes import dtype_named

    make, placed = gatherer(way, case), layout(case)
    if make is None:
        return None
    n, bits, _ = parts(case)
    stored = memory_layout(case, bits)
    dtype, blocks, (rows, columns) = dtype_named(conversions.DTYPES[bits]), BLOCKS if turns else 1, shape(case)
    tensor = lego.Tensor(dtype, Row(blocks * rows, columns))
    indices = lego.Tensor(i32, Row(blocks * rows, columns), range=(0, n))

    @lego.kernel(grid=blocks, block=32 * WARPS)
    def gathered(x: tensor, i: indices, y: tensor):
        move = make()
        at = (lego.block_id[0] * rows, 0)
        value, index = lego.load(x, stored, at=at), lego.load(i, memory_layout(case, 32), at=at)
        if stored != placed:
            value, index = lego.convert(value, placed), lego.convert(index, placed)
        if not turns:
            lego.convert(move(value, index), stored).store(y, at=at)
            return
        value = lego.register(value)
        for _ in lego.range(turns):
            value.set(move(value.get(), index))
        lego.convert(value.get(), stored).store(y, at=at)

    return gathered


def static(words: Sequence[str]) -> None:
    """One gather of each case: instructions and spilled bytes, ours and Triton's."""
    rows = []
    for (case,) in BENCHMARK.chosen(words):
        ours = conversions.machine_code(kernel(case, "ours", 0))
        spilled = ours.resources.spill_stores + ours.resources.spill_loads
        counts = {"ours": conversions.counted(ours.code), "Triton": conversions.counted(triton_code(case))}
        rows.append({"case": case, "spill_bytes": spilled, **counts})
        print(f"{case:10} {spilled} bytes spilled, {counts}", flush=True)
    conversions.write_rows(NAME, rows)


def triton_code(case: str) -> Any:
    """The machine code of tl.gather."""
    from rivals.gluon_layouts import gather
    from triton.compiler import ASTSource

    _, bits, axis = parts(case)
    signature = {"x_ptr": conversions.POINTERS[bits], "i_ptr": "*i32", "y_ptr": conversions.POINTERS[bits]}
    signature |= dict.fromkeys(gather.arg_names[3:], "constexpr")
    constants = {(3,): shape(case)[0], (4,): shape(case)[1], (5,): 1, (6,): axis}
    aligned = {(k,): [["tt.divisibility", 16]] for k in range(3)}
    return conversions.triton_code(ASTSource(gather, signature, constants, aligned), WARPS)


def timed(folder: Path, case: str) -> list[harness.Contender]:
    import torch
    from rivals.gluon_layouts import gather

    ways = json.loads(harness.rendered(folder / "cases.json").read_text())[case]
    n, bits, axis = parts(case)
    rows, columns = shape(case)
    x = torch.randint(-8, 9, (BLOCKS, rows, columns), device="cuda").to(conversions.torch_type(bits))
    i = torch.rand((BLOCKS, rows, columns), device="cuda").argsort(dim=1 + axis).to(torch.int32)
    y, expected = torch.empty_like(x), x
    for _ in range(TURNS):
        expected = expected.gather(1 + axis, i.long())
    baseline = partial(gather[(BLOCKS,)], x, i, y, rows, columns, TURNS, axis, num_warps=WARPS)
    return conversions.all_right(folder, case, ways, (x, i, y), expected, ("tl.gather", baseline), bits=bits, n=n)


def table() -> None:
    """The newest times: ours, and the others relative to ours."""
    mlir_kernels.put_into(PAGE, "gathers", *mlir_kernels.relative_table(NAME, [*WAYS[1:], "tl.gather"], TURNS))


BENCHMARK = runner.Benchmark(
    NAME, [(case,) for case in CASES], timed, table, conversions.render_with(kernel, WAYS, lambda case, ways: ways),
    steps={"static": static},
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
