"""Conversions between layouts, and gathers along an axis, against shared-memory round trips and Triton's.

    python bench/conversions.py NAME STEP [CASE ..]            the steps of `runner.py`
    python bench/conversions.py conversions static [CASE ..]   shuffles, shared accesses and selects of one conversion,
                                                               ours and Triton's, and the time to plan it; no GPU
    python bench/conversions.py conversions random [COUNT]     instructions of random conversions, ours and Triton's
    python bench/conversions.py gather static [CASE ..]        machine instructions of one gather, ours and Triton's

`conversions`: a block converts its tile to the other layout and back, TURNS times, and adds 1 in between, so that no
conversion can be left out. `ours` is `lego.convert`; `shuffles` and `memory` are its two plans where both exist. The
baselines store the tile to shared memory in its rows, load it in the other layout, and wait by barriers of the warp
where the elements stay in their warp: `unpadded`, `padded` by 16 bytes a row, `swizzled` in groups of 16 bytes.

`gather`: a block of 4 warps holds ROWS x N elements and replaces each row by the elements that a row of indices
selects, TURNS times; `down`, N x ROWS elements and each column. `ours` is `lego.gather`, `shuffles` and `memory` its
two plans where both exist; `unpadded` stores the tile to shared memory in its rows, waits for the block, and loads each
element by its index. For `down`, tiles are loaded and stored along their rows, and converted before the first turn and
after the last, as Triton's compiler does for tl.gather: loads with the lanes along a column would not be coalesced.
"""

import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from time import process_time
from typing import Any

import harness
import mlir_kernels
import numpy as np
import runner

NAME, PAGE, TARGET = "conversions", "results/conversions.md", "sm_90"
TURNS, BLOCKS = 200, 132 * 4
RANDOM = 100
"""Random conversions that are compared."""
DTYPES = {8: "i8", 16: "f16", 32: "f32", 64: "f64"}
WAYS = ("ours", "shuffles", "memory", "unpadded", "padded", "swizzled")
COUNTED = {
    "SHFL": ("SHFL",),
    "LDS": ("LDS", "LDSM"),
    "STS": ("STS", "STSM"),
    "select": ("SEL", "FSEL"),
    "BAR": ("BAR",),
}
CASES = [
    *(f"swap{m}-{bits}" for m in (1, 2, 3) for bits in (8, 16, 32)),
    "swap1-64", "accumulator-operand-8",
    *(f"rows-columns-{bits}" for bits in (8, 16, 32, 64)),
    "rows-operand_a-16", "rows-operand_b-16", "accumulator-rows-16", "accumulator-rows-32", "large-rows-columns-16",
    "warp-rows-columns-32",
]  # fmt: skip


def layouts(case: str) -> tuple[Any, Any, int]:
    """The two layouts of a case and the bits of an element."""
    from lego_mlir import f2

    if case.startswith("random"):
        return random_layouts(int(case.removeprefix("random-")))
    *names, bits = case.split("-")
    size, width = int(bits), 128 // int(bits)
    if names[0].startswith("swap"):
        return *_swapped(int(names[0][-1])), size
    shape, warps = ((128, 128), 8) if names[0] == "large" else ((32, 32), 1) if names[0] == "warp" else ((64, 64), 4)
    threads = (32 * width // shape[1], shape[1] // width)
    known = {
        "rows": f2.Blocked((1, width), threads, (warps, 1), (1, 0)),
        "columns": f2.Blocked((width, 1), threads[::-1], (1, warps), (0, 1)),
        "accumulator": f2.MmaSync((warps, 1)),
        "operand": f2.MmaOperand(0, f2.MmaSync((warps, 1)), max(1, 32 // size)),
        "operand_a": f2.MmaOperand(0, f2.MmaSync((warps, 1)), max(1, 32 // size)),
        "operand_b": f2.MmaOperand(1, f2.MmaSync((1, warps)), max(1, 32 // size)),
    }
    return *(_of_one_block(known[name].layout(shape)) for name in names[-2:]), size


def random_layouts(number: int) -> tuple[Any, Any, int]:
    """Two layouts of a tile of 256 to 4,096 elements in 1 to 8 warps: any bit of an index in any place of each."""
    from lego_mlir import f2

    random = np.random.default_rng(number)
    bits, warps = int(random.choice([8, 16, 32])), int(random.integers(0, 4))
    registers = int(random.integers(3, 6))
    total = registers + 5 + warps
    rows = int(random.integers(3, total - 2))
    units = [(1 << k, 0) for k in range(rows)] + [(0, 1 << k) for k in range(total - rows)]

    def drawn() -> Any:
        order = [units[k] for k in random.permutation(total)]
        cuts = {"register": order[:registers], "lane": order[registers : registers + 5], "warp": order[registers + 5 :]}
        return f2.LinearLayout(cuts, {"dim0": 1 << rows, "dim1": 1 << (total - rows)})

    return drawn(), drawn(), bits


def _of_one_block(layout: Any) -> Any:
    return layout.sublayout(["register", "lane", "warp"], list(layout.out_sizes))


def _swapped(count: int) -> tuple[Any, Any]:
    """32 x 32 elements over 4 warps, and the same with the lowest register and lane bits exchanged."""
    from lego_mlir import f2

    source = _of_one_block(f2.Blocked((1, 8), (8, 4), (4, 1), (1, 0)).layout((32, 32)))
    bases = source.bases
    registers, lanes = bases["register"], bases["lane"]
    swapped = {
        **bases,
        "register": [*lanes[:count], *registers[count:]],
        "lane": [*registers[:count], *lanes[count:]],
    }
    return source, f2.LinearLayout(swapped, source.out_sizes)


def mover(way: str, source: Any, target: Any, bits: int) -> Callable[[Any, Any], Any] | None:
    """What converts a tile to a layout, called in the kernel before the first conversion; None where there is none."""
    import lego_mlir as lego
    from lego_mlir.f2 import conversion, shuffles
    from lego_mlir.tracing.spread.conversion import by_plan

    if way == "ours":
        return lambda: lambda value, to: lego.convert(value, to=to)
    pairs = {id(target): (source, target), id(source): (target, source)}
    if way in ("shuffles", "memory"):
        make = shuffles.shuffle_plan if way == "shuffles" else conversion.memory_plan
        plans = {key: make(*pair, bits) for key, pair in pairs.items()}
        if None in plans.values():
            return None
        return lambda: lambda value, to: by_plan(value, to, plans[id(to)])
    local = shuffles.within_warps(target.invert_and_compose(source))
    wait = lego.warp_sync if local else lego.barrier
    return lambda: _round_trip(way, source, bits, wait)


def _round_trip(way: str, layout: Any, bits: int, wait: Callable[[], None]) -> Callable[[Any, Any], Any]:
    import lego_mlir as lego
    from lego_mlir import Row, gallery
    from lego_mlir.tracing.trace.dtypes import dtype_named

    rows, columns = layout.out_sizes.values()
    group = 128 // bits
    tiles = {
        "unpadded": Row(rows, columns),
        "padded": gallery.padded(rows, columns, group),
        "swizzled": gallery.xor_swizzle(rows, columns, vec=group),
    }
    tile = lego.shared(dtype_named(DTYPES[bits]), tiles[way])

    def move(value: Any, to: Any) -> Any:
        wait()
        value.store(tile)
        wait()
        return lego.load(tile, to)

    return move


def kernel(case: str, way: str, turns: int) -> Any:
    """The kernel of a case; for 0 turns it converts once, and stores in the other layout."""
    import lego_mlir as lego
    from lego_mlir import Row
    from lego_mlir.tracing.trace.dtypes import dtype_named

    source, target, bits = layouts(case)
    make = mover(way, source, target, bits)
    if make is None:
        return None
    dtype, (rows, columns) = dtype_named(DTYPES[bits]), source.out_sizes.values()
    blocks = BLOCKS if turns else 1
    tensor = lego.Tensor(dtype, Row(blocks * rows, columns))

    @lego.kernel(grid=blocks, block=32 * source.in_sizes["warp"])
    def converted(x: tensor, y: tensor):
        move = make()
        at = (lego.block_id[0] * rows, 0)
        value = lego.load(x, source, at=at)
        if not turns:
            move(value, target).store(y, at=at)
            return
        value = lego.register(value)
        for _ in lego.range(turns):
            value.set(move(move(value.get(), target) + 1, source))
        value.store(y, at=at)

    return converted


def described(layout: Any) -> dict[str, Any]:
    """The bases and sizes of a layout, as Gluon's DistributedLinearLayout takes them."""
    bases = {name: [list(b) for b in layout.bases[name]] for name in ("register", "lane", "warp")}
    return {**bases, "shape": list(layout.out_sizes.values())}


def facts_of(case: str, ways: Sequence[str]) -> dict[str, Any]:
    """What the GPU machine needs of a case."""
    source, target, bits = layouts(case)
    return {"bits": bits, "source": described(source), "target": described(target), "ways": ways}


# -- what both have


def render_with(
    kernel_of: Callable[[str, str, int], Any], ways: Sequence[str], facts: Callable[[str, Sequence[str]], Any]
) -> Callable[[Path, Sequence[harness.Case]], None]:
    """The step that keeps the kernels of all ways that a case has, and its facts."""

    def render(folder: Path, cases: Sequence[harness.Case]) -> None:
        kept = folder / "cases.json"
        found = json.loads(kept.read_text()) if kept.is_file() else {}
        for (case,) in cases:
            made = {way: kernel for way in ways if (kernel := kernel_of(case, way, TURNS)) is not None}
            for way, kernel in made.items():
                mlir_kernels.keep(folder, f"{case}-{way}", mlir_kernels.compiled(kernel, TARGET, "ptx"))
            found[case] = facts(case, list(made))
            print(case, *made, flush=True)
        kept.write_text(json.dumps(found, indent=1) + "\n")

    return render


def counted(code: Sequence[Any]) -> dict[str, int]:
    return mlir_kernels.counted(code, COUNTED)


def machine_code(kernel: Any) -> Any:
    made = mlir_kernels.compiled(kernel, TARGET, "ptx")
    return mlir_kernels.assembled(made.text, TARGET, mlir_kernels.shared_bytes(made))


POINTERS = {8: "*i8", 16: "*fp16", 32: "*fp32", 64: "*fp64"}


def torch_type(bits: int) -> Any:
    import torch

    return {8: torch.int8, 16: torch.float16, 32: torch.float32, 64: torch.float64}[bits]


def all_right(
    folder: Path, case: str, ways: Sequence[str], tensors: Sequence[Any], expected: Any, baseline: tuple[str, Any],
    **facts: Any,
) -> list[harness.Contender]:  # fmt: skip
    """Ours and the baseline, each of which must write exactly what is expected into the last tensor."""
    import cupy as cp

    memory = [cp.from_dlpack(t).reshape(-1) for t in tensors]
    runs = {way: partial(mlir_kernels.launcher(folder, f"{case}-{way}"), *memory) for way in ways}
    runs |= dict([baseline])
    return [harness.exact(run, tensors[-1], expected, kernel=way, **facts) for way, run in runs.items()]


# -- static counts


def static(words: Sequence[str]) -> None:
    """One conversion of each case: planned instructions in the machine code, ours and Triton's, and the planning."""
    from lego_mlir.f2.conversion import conversion_plan

    rows = []
    for (case,) in BENCHMARK.chosen(words):
        source, target, bits = layouts(case)
        plan = conversion_plan(source, target, bits)
        milliseconds = best_ms(lambda given=(source, target, bits): conversion_plan(*given))
        facts = {"case": case, "plan": type(plan).__name__, "plan_ms": round(milliseconds, 2)}
        ours, theirs = machine_code(kernel(case, "ours", 0)).code, gluon_code(source, target, bits)
        rows.append({**facts, **{who: counted(code) for who, code in (("ours", ours), ("Triton", theirs))}})
        print(*rows[-1].values(), flush=True)
    mlir_kernels.update_static(NAME, TARGET, rows)
    layout = layouts("rows-columns-16")[0].flatten_ins("place")
    places = np.random.default_rng(0).integers(0, layout.in_sizes["place"], 2**20)
    print(f"apply of 2^20 indices: {best_ms(lambda: layout.apply(places)):.1f} ms")
    worse = [r["case"] for r in rows if any(r["ours"][n] > r["Triton"][n] for n in ("SHFL", "LDS", "STS", "select"))]
    print(f"more than Triton in some count: {worse or 'none'}")


def random(counts: Sequence[str]) -> None:
    """Random conversions: all instructions of a kernel that loads a tile, converts and stores it."""
    count = int(counts[0]) if len(counts) == 1 else RANDOM
    rows = []
    for number in range(count):
        case = f"random-{number}"
        source, target, bits = layouts(case)
        codes = machine_code(kernel(case, "ours", 0)).code, gluon_code(source, target, bits)
        ours, theirs = map(mlir_kernels.instructions, codes)
        rows.append(
            {"case": case, "bits": bits, "registers": source.in_sizes["register"], "ours": ours, "Triton": theirs}
        )
        print(f"{case} {bits} bits: {ours} to {theirs}{' BEHIND' if ours > theirs else ''}", flush=True)
    mlir_kernels.update_static(f"{NAME}-random", TARGET, rows)
    random_table()


def random_table() -> None:
    """Write the kept counts of random conversions into the page."""
    rows = mlir_kernels.static_results(f"{NAME}-random", TARGET)
    ratios = [row["ours"] / row["Triton"] for row in rows]
    more = [f"`{row['case']}` ({row['ours']} to {row['Triton']})" for row in rows if row["ours"] > row["Triton"]]
    text = (
        f"{len(rows)} conversions: {geometric_mean(ratios):.2f} of Triton's instructions in geometric mean, "
        f"{min(ratios):.2f} to {max(ratios):.2f}; more in {len(more)} of them{': ' if more else ''}{', '.join(more)}.\n"
    )
    mlir_kernels.put_into(PAGE, "random-conversions", "", text)


def best_ms(run: Callable[[], Any]) -> float:
    """The least of some times of the processor."""
    times = []
    for _ in range(9):
        start = process_time()
        run()
        times.append(1000 * (process_time() - start))
    return min(times)


def gluon_layout(given: dict[str, Any]) -> Any:
    from triton.experimental.gluon import language as gl

    return gl.DistributedLinearLayout(given["register"], given["lane"], given["warp"], [], given["shape"])


def gluon_code(source: Any, target: Any, bits: int) -> Any:
    """The machine code of Gluon's conversion."""
    from rivals.gluon_layouts import convert_once

    from lego_mlir.toolchain import sass

    sides = [described(layout) for layout in (source, target)]
    constants, warps = [*map(gluon_layout, sides), *sides[0]["shape"]], source.in_sizes["warp"]
    made = mlir_kernels.by_triton(convert_once, [POINTERS[bits]] * 2, constants, warps, gluon=True)
    return sass.disassemble(made.asm["cubin"])


# -- times


def timed(folder: Path, case: str) -> list[harness.Contender]:
    import torch
    from rivals.gluon_layouts import convert

    facts = json.loads(harness.rendered(folder / "cases.json").read_text())[case]
    rows, columns = facts["source"]["shape"]
    x = torch.randint(-8, 9, (BLOCKS * rows, columns), device="cuda").to(torch_type(facts["bits"]))
    y, expected = torch.empty_like(x), (x.to(torch.int64) + TURNS).to(x.dtype)
    sides = [gluon_layout(facts[side]) for side in ("source", "target")]
    gluon = partial(convert[(BLOCKS,)], x, y, *sides, rows, columns, TURNS, num_warps=1 << len(facts["source"]["warp"]))
    return all_right(folder, case, facts["ways"], (x, y), expected, ("Gluon", gluon), bits=facts["bits"])


def table() -> None:
    """The newest times: ours, and the others relative to ours."""
    mlir_kernels.put_into(PAGE, "conversions", *mlir_kernels.relative_table(NAME, [*WAYS[1:], "Gluon"], 2 * TURNS))


# -- gathers

GATHER, WARPS, ROWS = "gather", 4, 64
GATHER_WAYS = ("ours", "shuffles", "memory", "unpadded")
GATHERS = [f"{n}-{bits}" for n in (4, 8, 16, 32, 64, 128) for bits in (8, 16, 32, 64)]
GATHERS += [f"{n}-{bits}-down" for n in (16, 32, 64) for bits in (16, 32)]


def parts(case: str) -> tuple[int, int, int]:
    """The elements along the axis, the bits of an element, and the axis: 0 for `down`."""
    n, bits, *down = case.split("-")
    return int(n), int(bits), 0 if down else 1


def shape_of(case: str) -> tuple[int, int]:
    """The tile of a block."""
    n, _, axis = parts(case)
    return (n, ROWS) if axis == 0 else (ROWS, n)


def gather_layout(case: str) -> Any:
    """The axis along as many lanes as it has elements, up to 32: each lane is read at once."""
    from lego_mlir import f2

    n, _, axis = parts(case)
    lanes = min(32, n)
    boxes = ((1, n // lanes), (32 // lanes, lanes), (WARPS, 1))
    turned = [box[::-1] if axis == 0 else box for box in boxes]
    made = f2.Blocked(*turned, order=(axis, 1 - axis)).layout(shape_of(case))
    return made.sublayout(["register", "lane", "warp"], list(made.out_sizes))


def memory_layout(case: str, bits: int) -> Any:
    """The layout in which tiles of elements of some bits are loaded and stored: for `down`, rows by 16-byte vectors."""
    from lego_mlir import f2

    if parts(case)[2] == 1:
        return gather_layout(case)
    vector = 128 // bits
    across = ROWS // vector
    made = f2.Blocked((1, vector), (32 // across, across), (WARPS, 1), order=(1, 0)).layout(shape_of(case))
    return made.sublayout(["register", "lane", "warp"], list(made.out_sizes))


def gatherer(way: str, case: str) -> Callable[[], Any] | None:
    """What gathers a tile, called in the kernel before the first gather; None where there is none."""
    import lego_mlir as lego
    from lego_mlir import Row
    from lego_mlir.f2.gathers import gather_plan
    from lego_mlir.tracing.spread.gather import by_plan
    from lego_mlir.tracing.trace.dtypes import dtype_named

    n, bits, axis = parts(case)
    if way == "ours":
        return lambda: lambda x, i: lego.gather(x, i, axis=axis)
    if way != "unpadded":
        plan = gather_plan(gather_layout(case), gather_layout(case), f"dim{axis}", bits)
        if not plan.local:
            return None
        forced = dataclasses.replace(plan, by_shuffles=way == "shuffles")
        return lambda: lambda x, i: by_plan(x, i, forced, f"dim{axis}")

    def make() -> Any:
        tile = lego.shared(dtype_named(DTYPES[bits]), Row(*shape_of(case)))

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


def gather_kernel(case: str, way: str, turns: int) -> Any:
    """The kernel of a case; for 0 turns it gathers once."""
    import lego_mlir as lego
    from lego_mlir import Row, i32
    from lego_mlir.tracing.trace.dtypes import dtype_named

    make, placed = gatherer(way, case), gather_layout(case)
    if make is None:
        return None
    n, bits, _ = parts(case)
    stored = memory_layout(case, bits)
    dtype, blocks, (rows, columns) = dtype_named(DTYPES[bits]), BLOCKS if turns else 1, shape_of(case)
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


def gather_static(words: Sequence[str]) -> None:
    """One gather of each case: instructions and spilled bytes, ours and Triton's."""
    rows = []
    for (case,) in GATHER_BENCHMARK.chosen(words):
        ours = machine_code(gather_kernel(case, "ours", 0))
        spilled = ours.resources.spill_stores + ours.resources.spill_loads
        counts = {"ours": counted(ours.code), "Triton": counted(gather_by_triton(case))}
        rows.append({"case": case, "spill_bytes": spilled, **counts})
        print(f"{case:10} {spilled} bytes spilled, {counts}", flush=True)
    mlir_kernels.update_static(GATHER, TARGET, rows)


def gather_by_triton(case: str) -> Any:
    """The machine code of tl.gather."""
    from rivals.gluon_layouts import gather

    from lego_mlir.toolchain import sass

    _, bits, axis = parts(case)
    pointers = [POINTERS[bits], "*i32", POINTERS[bits]]
    return sass.disassemble(mlir_kernels.by_triton(gather, pointers, [*shape_of(case), 1, axis], WARPS).asm["cubin"])


def timed_gather(folder: Path, case: str) -> list[harness.Contender]:
    import torch
    from rivals.gluon_layouts import gather

    ways = json.loads(harness.rendered(folder / "cases.json").read_text())[case]
    n, bits, axis = parts(case)
    rows, columns = shape_of(case)
    x = torch.randint(-8, 9, (BLOCKS, rows, columns), device="cuda").to(torch_type(bits))
    i = torch.rand((BLOCKS, rows, columns), device="cuda").argsort(dim=1 + axis).to(torch.int32)
    y, expected = torch.empty_like(x), x
    for _ in range(TURNS):
        expected = expected.gather(1 + axis, i.long())
    baseline = partial(gather[(BLOCKS,)], x, i, y, rows, columns, TURNS, axis, num_warps=WARPS)
    return all_right(folder, case, ways, (x, i, y), expected, ("tl.gather", baseline), bits=bits, n=n)


def gather_table() -> None:
    """The newest times: ours, and the others relative to ours."""
    mlir_kernels.put_into(PAGE, "gathers", *mlir_kernels.relative_table(GATHER, [*GATHER_WAYS[1:], "tl.gather"], TURNS))


BENCHMARK = runner.Benchmark(
    NAME, [(case,) for case in CASES], timed, table, render_with(kernel, WAYS, facts_of),
    steps={"static": static, "random": random}, together=True,
)  # fmt: skip
GATHER_BENCHMARK = runner.Benchmark(
    GATHER, [(case,) for case in GATHERS], timed_gather, gather_table,
    render_with(gather_kernel, GATHER_WAYS, lambda case, ways: ways), steps={"static": gather_static}, together=True,
)  # fmt: skip
BENCHMARKS = {one.name: one for one in (BENCHMARK, GATHER_BENCHMARK)}

if __name__ == "__main__":
    sys.exit(runner.main_of(BENCHMARKS, __doc__))
