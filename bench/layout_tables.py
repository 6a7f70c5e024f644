"""Tables 2 and 3 of the Linear Layouts paper with a column of ours: the page docs/results/linear-layouts-tables.md.

    python bench/layout_tables.py                          write the page
    python bench/layout_tables.py --check                  fail where the page is out of date
    python bench/layout_tables.py reductions [FAMILY ..]   table 3's kernels by this project and by Triton: their counts
    python bench/layout_tables.py mixed                    run the cases of table 4 in the interpreter

Table 2 takes the width of the loads that a kernel is traced with. Table 3 reduces a tile along an axis by each family
of layouts: the interpreter compares the result with NumPy's, and the loads and stores of shared memory in the kernel
are counted. `reductions` compiles the same for sm_90, and in Gluon, Triton's language with layouts, with the same
registers, lanes and warps, by Triton's own reduction; counted are machine instructions (ptxas of each), and wavefronts
of shared memory in the emulator of PTX, which runs both and compares them with NumPy. A pair of table 4 stands for all
types of its kinds: f8 for e4m3 and e5m2, f16 for f16 and bf16; its cases are not listed in the paper.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

import mlir_kernels
import numpy as np
import runner
from conversions import described, gluon_layout

import lego_mlir as lego
from lego_mlir import LegoError, Row, bf16, f2, f8e4m3fn, f8e5m2, f16, f32, i8, i16, i32, i64, interp
from lego_mlir.tracing.trace.trace import Load, Store

PAGE = Path(__file__).parent.parent / "docs" / "results/linear-layouts-tables.md"
WIDEST = 16
TABLE_2 = {
    (1, f8e4m3fn): (32, 32), (2, f8e4m3fn): (16, 128), (4, f8e4m3fn): (32, 128), (8, f8e4m3fn): (64, 128),
    (16, f8e4m3fn): (128, 128), (1, f16): (64, 64), (2, f16): (32, 128), (4, f16): (64, 128), (8, f16): (128, 128),
    (16, f16): (128, 128),
}  # fmt: skip
"""Columns and type of [512, columns] -> bits of a load in the paper: Triton, Triton-Linear."""
TABLE_3 = {
    "Blocked": ("20/20", "20/20", "5888", "1388"),
    "MMA": ("20/20", "20/20", "5914", "3517"),
    "MMA Input": ("0/10", "10/10", "", "5884"),
    "Sliced<Blocked>": ("20/20", "20/20", "6703", "4687"),
    "Sliced<MMA>": ("0/10", "10/10", "", "320"),
    "Sliced<MMA Input>": ("0/10", "10/10", "", "545"),
    "Custom": ("0/10", "10/10", "", "913"),
}
"""Family -> cases that pass and shared memory instructions in the paper: Triton, Triton-Linear."""
SHAPES = ((16, 16), (32, 32), (64, 64), (32, 128), (128, 128))
WARPS = (4, 8)
KINDS = ("instructions", "exchanges", "shared", "wavefronts", "barriers")
"""Counts of `reductions`."""
TABLE_4 = {
    "i16/f16": ("32/64", "64/64"), "i16/f32": ("32/32", "32/32"), "i16/f64": ("32/32", "32/32"),
    "i16/f8": ("36/96", "96/96"), "i32/f16": ("32/32", "32/32"), "i32/f64": ("16/32", "32/32"),
    "i32/f8": ("18/48", "48/48"), "i64/f16": ("32/32", "32/32"), "i64/f32": ("16/32", "32/32"),
    "i64/f8": ("18/48", "48/48"), "i8/f16": ("36/96", "96/96"), "i8/f32": ("18/48", "48/48"),
    "i8/f64": ("18/48", "48/48"), "i8/f8": ("30/144", "144/144"),
}  # fmt: skip
"""Types -> cases that pass in the paper: Triton, Triton-Linear."""
MIXED = Path(__file__).parent / "results" / "static" / "mixed-products.json"
REDUCTIONS = Path(__file__).parent / "results" / "static" / "reductions-sm_90.json"


# -- table 2


def load_bits(columns: int, dtype: Any, warps: int) -> int:
    """The bits of a load of [512, columns] by a layout that gives each thread consecutive elements."""
    held = min(WIDEST // dtype.bytes, max(1, 512 * columns // (32 * warps)))
    across = min(columns, held)
    lanes = columns // across
    layout = f2.Blocked((held // across, across), (32 // lanes, lanes), (warps, 1), (1, 0)).layout((512, columns))

    @lego.kernel(grid=1, block=32 * warps)
    def copied(x: lego.Tensor(dtype, Row(512, columns)), y: lego.Tensor(dtype, Row(512, columns))):
        lego.load(x, layout).store(y)

    widths = {s.access.width * dtype.bits for s in copied.trace().statements() if isinstance(s, Load)}
    return min(widths)


def instruction(bits: int) -> str:
    """The paper's name of a load."""
    return f"v1.b{bits}" if bits <= 32 else f"v{bits // 32}.b32"


def table_2() -> Iterator[str]:
    yield "| tensor | Triton | Triton-Linear | ours, 128 threads | ours, 64 threads |"
    yield "|---|---|---|---|---|"
    for (columns, dtype), theirs in TABLE_2.items():
        name = "f8" if dtype.is_f8 else str(dtype)
        widths = [*theirs, *(load_bits(columns, dtype, warps) for warps in (4, 2))]
        cells = [f"{instruction(bits)}, {bits}" for bits in widths]
        yield f"| [512, {columns}] x {name} | {' | '.join(cells)} |"


# -- table 3


def family_layouts(family: str) -> Iterator[tuple[Any, int]]:
    """The layouts of a family, each with the axis of the reduction."""
    sliced = family.startswith("Sliced")
    inner = family.removeprefix("Sliced<").removesuffix(">")
    axes = (0, 1) if TABLE_3[family][1] == "20/20" else (1,)
    for number, (axis, shape, warps) in enumerate(product(axes, SHAPES, WARPS)):
        if family == "Custom":
            yield custom(number, shape, warps), axis
            continue
        encoding = {
            "Blocked": f2.Blocked((1, 4), (4, 8), (warps // 2, 2), (1, 0)),
            "MMA": f2.MmaSync((warps // 2, 2)),
            "MMA Input": f2.MmaOperand(0, f2.MmaSync((warps // 2, 2)), 2),
        }[inner]
        made = f2.Sliced(axis, encoding).layout(shape[1 - axis : 2 - axis]) if sliced else encoding.layout(shape)
        yield made.sublayout(["register", "lane", "warp"], list(made.out_sizes)), 0 if sliced else axis


def custom(seed: int, shape: Sequence[int], warps: int) -> Any:
    """The bits of a tile in a random order: in registers, lanes and warps, with copies where places remain."""
    outs = tuple((f"dim{k}", n.bit_length() - 1) for k, n in enumerate(shape))
    total, warp_bits = sum(bits for _, bits in outs), warps.bit_length() - 1
    registers = max(0, total - 5 - warp_bits)
    columns = [1 << k for k in range(total)] + [0] * (registers + 5 + warp_bits - total)
    np.random.default_rng(seed).shuffle(columns)
    ins = (("register", registers), ("lane", 5), ("warp", warp_bits))
    return f2.LinearLayout.of(ins, outs, [int(c) for c in columns])


def reduced(layout: Any, axis: int) -> Any:
    """The kernel that sums a tile along an axis."""
    shape = tuple(layout.out_sizes.values())
    rest = tuple(n for k, n in enumerate(shape) if k != axis) or (1,)

    @lego.kernel(grid=1, block=32 * layout.in_sizes["warp"])
    def total(x: lego.Tensor(i32, Row(*shape)), y: lego.Tensor(i32, Row(*rest))):
        found = lego.load(x, layout).sum(axis)
        if isinstance(found, lego.Spread):
            found.store(y)
            return
        with lego.when(lego.thread_id[0] < 1):
            y[0] = found

    return total


def measured(layout: Any, axis: int) -> tuple[bool, int]:
    """Whether the interpreter finds NumPy's sums and no fault, and the accesses to shared memory in the kernel."""
    kernel, shape = reduced(layout, axis), tuple(layout.out_sizes.values())
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.int32)
    expected = x.sum(axis)
    y = np.zeros(max(1, expected.size), np.int32)
    report = interp.launch(kernel.mlir(), grid=[1], block=kernel.block, args=[x.reshape(-1), y])
    right = report.clean and np.array_equal(y, expected.reshape(-1))
    shared = [s for s in kernel.trace().statements() if isinstance(s, (Load, Store))]
    return right, sum(s.access.buffer.space == "workgroup" for s in shared)


def table_3(families: Sequence[str] = tuple(TABLE_3)) -> Iterator[str]:
    yield "| layout | Triton | Triton-Linear | ours | Triton, shared | Triton-Linear, shared | ours, shared |"
    yield "|---|---|---|---|---|---|---|"
    for family in families:
        yield row_3(family)


def row_3(family: str) -> str:
    """One row of table 3."""
    results = [measured(layout, axis) for layout, axis in family_layouts(family)]
    passed, linear, instructions, fewer = TABLE_3[family]
    right = f"{sum(r for r, _ in results)}/{len(results)}"
    cells = [family, passed, linear, right, instructions, fewer, str(sum(n for _, n in results))]
    return f"| {' | '.join(cells)} |"


# -- table 3 and Triton


def kept_counts() -> dict[str, dict[str, dict[str, int]]]:
    """The counts of `reductions`, by family: ours and Triton's."""
    found: dict[str, dict[str, dict[str, int]]] = json.loads(REDUCTIONS.read_text())
    return found


def beside_triton() -> Iterator[str]:
    """The table of ours and Triton's counts, of the same cases."""
    yield "| layout | " + " | ".join(f"{kind}: ours, Triton" for kind in KINDS) + " |"
    yield "|---" * (len(KINDS) + 1) + "|"
    for family, found in kept_counts().items():
        cells = [f"{found['ours'][kind]}, {found['Triton'][kind]}" for kind in KINDS]
        yield f"| {family} | {' | '.join(cells)} |"


# -- table 4


def table_4() -> Iterator[str]:
    """The cases of `mixed` that are right, next to the paper's."""
    found = json.loads(MIXED.read_text())
    yield "| types | Triton | Triton-Linear | ours |"
    yield "|---|---|---|---|"
    for pair, (triton, linear) in TABLE_4.items():
        yield f"| {pair} | {triton} | {linear} | {found[pair]['right']}/{found[pair]['cases']} |"


# -- what `reductions` and `mixed` count

TARGET = "sm_90"
COUNTED = {"shared": ("STS", "LDS", "STSM", "LDSM"), "exchanges": ("SHFL", "REDUX", "CREDUX"), "barriers": ("BAR",)}
"""Kinds of instructions, by the first part of their names."""


class Compiled(NamedTuple):
    """A kernel as PTX and machine code; `shared` is the number of bytes that the launch gives it."""

    ptx: str
    cubin: bytes
    shared: int


def by_ours(layout: Any, axis: int) -> Compiled:
    """This project's kernel."""
    from lego_mlir.toolchain import compile_kernel

    made = compile_kernel(reduced(layout, axis), target=TARGET, emit="cubin")
    return Compiled(str(made.stage("ptx")), made.bytes, 0)


def by_triton(layout: Any, axis: int) -> Compiled:
    """The kernel in Gluon, compiled by Triton."""
    from rivals import gluon_layouts

    facts = described(layout)
    source = gluon_layout(facts)
    several = len(facts["shape"]) > 1
    function = gluon_layouts.reduce_once if several else gluon_layouts.reduce_all
    values = [source, axis, *facts["shape"]] if several else [source, *facts["shape"]]
    made = mlir_kernels.by_triton(function, ["*i32"] * 2, values, layout.in_sizes["warp"], gluon=True)
    return Compiled(made.asm["ptx"], made.asm["cubin"], made.metadata.shared)


def code_counts(cubin: bytes) -> dict[str, int]:
    """Instructions of the kinds in COUNTED, and all."""
    from lego_mlir.toolchain import sass

    code = sass.disassemble(cubin)
    return {**mlir_kernels.counted(code, COUNTED), "instructions": mlir_kernels.instructions(code)}


def counts_of(made: Compiled, layout: Any, axis: int) -> Counter[str]:
    """Instructions of all kinds, and wavefronts of shared memory of the block. Raises ValueError for wrong sums."""
    from lego_mlir.interp.ptx.checks import Checks
    from lego_mlir.interp.ptx.ptx_launch import EmulatorOptions, emulate

    found = Counter(code_counts(made.cubin))
    shape = tuple(layout.out_sizes.values())
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.int32)
    expected = x.sum(axis).reshape(-1)
    y = np.zeros(max(1, expected.size), np.int32)
    threads = 32 * layout.in_sizes["warp"]
    unused = [np.zeros(1, np.int8)] * (made.ptx.count(".param .u64") - 2)  # Triton's kernels have two more pointers
    options = EmulatorOptions(checks=Checks(counts=True, fenced_barriers=False, replicated=True))
    args = [x.reshape(-1), y, *unused]
    report = emulate(made.ptx, args=args, block=threads, dynamic_shared=made.shared, options=options)
    if not np.array_equal(y, expected):
        raise ValueError(f"{layout!r}, axis {axis}: wrong sums")
    found["wavefronts"] = sum(site.wavefronts for site in report.sites if site.space == "shared")
    return found


def counted_family(name: str) -> dict[str, dict[str, int]]:
    """The counts of a family of layouts, all cases together."""
    totals = {who: Counter[str]() for who in ("ours", "Triton")}
    for layout, axis in family_layouts(name):
        for who, compiled in (("ours", by_ours), ("Triton", by_triton)):
            totals[who].update(counts_of(compiled(layout, axis), layout, axis))
    return {who: dict(sorted(total.items())) for who, total in totals.items()}


def reductions(families: Sequence[str]) -> int:
    """Count the families that are named, or all."""
    kept = json.loads(REDUCTIONS.read_text()) if REDUCTIONS.is_file() else {}
    for name in families or TABLE_3:
        kept[name] = counted_family(name)
        print(name, kept[name], flush=True)
        REDUCTIONS.write_text(json.dumps(kept, indent=1) + "\n")
    return 0


TYPES: Final = {
    "i8": (i8,), "i16": (i16,), "i32": (i32,), "i64": (i64,), "f8": (f8e4m3fn, f8e5m2), "f16": (f16, bf16),
    "f32": (f32,), "f64": (lego.f64,),
}  # fmt: skip
MIXED_SHAPES: Final = (*product((16, 64), (16, 64), (32, 64)), (48, 80, 32), (80, 48, 64), (96, 16, 32), (112, 32, 64))
"""M, N and K."""


def multiplying(a_type: Any, b_type: Any, m: int, n: int, k: int) -> Any:
    """The kernel c = a b^T of two types, in f32, of f64 in f64."""
    result = lego.f64 if lego.f64 in (a_type, b_type) else f32

    @lego.kernel(grid=1, block=128)
    def mixed(
        a: lego.Tensor(a_type, Row(m, k)), b: lego.Tensor(b_type, Row(n, k)), c: lego.Tensor(result, Row(m, n))
    ):  # fmt: skip
        lego.mma(lego.load(a, (m, k)), lego.load(b, (n, k)).T, lego.zeros(result, (m, n))).store(c)

    return mixed


def is_right(a_type: Any, b_type: Any, m: int, n: int, k: int) -> bool:
    """Whether the interpreter finds NumPy's product and no fault; the numbers are exact in all types."""
    random = np.random.default_rng(m + n + k)
    a, b = (random.integers(-4, 5, (rows, k)) for rows in (m, n))
    c = np.zeros(m * n, np.float64 if lego.f64 in (a_type, b_type) else np.float32)
    arrays = [a.astype(a_type.numpy).ravel(), b.astype(b_type.numpy).ravel(), c]
    report = interp.launch(multiplying(a_type, b_type, m, n, k).mlir(), grid=1, block=128, args=arrays)
    return bool(report.clean and np.array_equal(c.reshape(m, n), a @ b.T))


def types_of(pair: str) -> Iterator[tuple[Any, Any]]:
    """The types of a pair, either of them on the left."""
    first, second = (TYPES[kind] for kind in pair.split("/"))
    for number, (x, y) in enumerate(product(first, second)):
        yield (y, x) if number % 2 else (x, y)


def mixed(pairs: Sequence[str]) -> int:
    """How many cases are right of each pair of types that is named, or of all."""
    found = json.loads(MIXED.read_text()) if MIXED.is_file() else {}
    for pair in pairs or TABLE_4:
        right = total = 0
        refused = ""
        for (x, y), shape in product(types_of(pair), MIXED_SHAPES):
            total += 1
            try:
                right += is_right(x, y, *shape)
            except LegoError as error:
                refused = refused or str(error)
        found[pair] = {"right": right, "cases": total}
        print(pair, found[pair], refused[:200], flush=True)
    MIXED.write_text(json.dumps(found, indent=1) + "\n")
    return 0


# -- the page

HEAD = """# Tables of the Linear Layouts paper

Made by `python bench/layout_tables.py`. The columns of Triton and Triton-Linear are the paper's (arXiv 2505.23819);
its cases are not listed there, so that counts of the same row are sums over similar, not equal, cases.

## Table 2: contiguous elements across dimensions

The load of a tensor, and its bits. A thread of ours holds consecutive elements, as many as the threads leave, at most
16 bytes. The paper has 128 bits for [512, 2] x f8, whose 1024 bytes are 8 for each of 128 threads.
"""
MIDDLE = """
## Table 3: reductions in every layout

Cases with the right result, and shared memory instructions of all cases together. Ours: sums along an axis of tiles
from 16 x 16 to 128 x 128 on 4 and 8 warps, along both axes where the paper has 20 cases; slices are reduced to one
number. The sums go through registers, shuffles, and shared memory only where warps share an axis.
"""


BESIDE = """
## The same reductions by Triton

The same 100 tiles in the same registers, lanes and warps, compiled for sm_90 by this project and, as Gluon kernels, by
Triton 3.9; ptxas makes machine code of both. Sums over the cases of a row: all instructions, exchanges in a warp
(`SHFL`, `REDUX`), loads and stores of shared memory, wavefronts that these take, counted by the emulator of PTX, which
also compares both results with NumPy's, and barriers. Made by
`python bench/layout_tables.py reductions`.
"""

MIXED_PRODUCTS = """
## Table 4: products of two types

Products by one `lego.mma` of tiles without a layout, whose layouts the engine chooses, run in the interpreter and
compared with NumPy's: for all types of a pair (f16 and bf16; e4m3 and e5m2) 12 shapes, four of them no powers of two.
Integers of 16 bits and more are rounded to the float's type. Made by
`python bench/layout_tables.py mixed`.
"""


def page() -> str:
    """The text of the page."""
    tables = [HEAD, *table_2(), MIDDLE, *table_3(), BESIDE, *beside_triton(), MIXED_PRODUCTS, *table_4()]
    return "\n".join(tables) + "\n"


def main() -> int:
    step, words = (sys.argv[1], sys.argv[2:]) if sys.argv[1:2] in (["reductions"], ["mixed"]) else ("", [])
    if step:
        return {"reductions": reductions, "mixed": mixed}[step](words)
    text = page()
    print(text)
    return runner.document({PAGE: text})


if __name__ == "__main__":
    sys.exit(main())
