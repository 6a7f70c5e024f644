"""The reductions of the Linear Layouts paper's table 3, compiled by this project and by Triton for the same layouts.

    python bench/reductions.py [FAMILY ..]     compile both for sm_90, and keep the counts; no GPU is needed

Each case is one kernel of `layout_tables`: a tile of i32 is loaded in a layout, summed along an axis, and stored. The
other one is in Gluon, Triton's language with layouts, with the same registers, lanes and warps, by Triton's own
reduction. Counted are machine instructions (ptxas of each), and wavefronts of shared memory in the emulator of PTX,
which runs both and compares them with NumPy. `layout_tables` makes the table of docs/results from the counts.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import layout_tables
import numpy as np
from conversions import described

sys.path.insert(0, str(Path(__file__).parent / "rivals"))
TARGET = "sm_90"
KEPT = Path(__file__).parent / "results" / "static" / f"reductions-{TARGET}.json"
COUNTED = {"shared": ("STS", "LDS", "STSM", "LDSM"), "exchanges": ("SHFL", "REDUX", "CREDUX"), "barriers": ("BAR",)}
"""Kinds of instructions, by the first part of their names."""
IDLE = ("NOP", "BRA")
"""Instructions that pad the code or end it."""


class Compiled(NamedTuple):
    """A kernel as PTX and machine code; `shared` is the number of bytes that the launch gives it."""

    ptx: str
    cubin: bytes
    shared: int


def ours(layout: Any, axis: int) -> Compiled:
    """This project's kernel."""
    from lego_mlir.toolchain import compile_kernel

    made = compile_kernel(layout_tables.reduced(layout, axis), target=TARGET, emit="cubin")
    return Compiled(str(made.stage("ptx")), made.bytes, 0)


def tritons(layout: Any, axis: int) -> Compiled:
    """The kernel in Gluon, compiled by Triton."""
    import gluon_layouts
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon._runtime import GluonASTSource

    facts = described(layout)
    source = gl.DistributedLinearLayout(facts["register"], facts["lane"], facts["warp"], [], facts["shape"])
    several = len(facts["shape"]) > 1
    function = gluon_layouts.reduce_once if several else gluon_layouts.reduce_all
    values = [source, axis, *facts["shape"]] if several else [source, *facts["shape"]]
    signature = {"x_ptr": "*i32", "y_ptr": "*i32", **dict.fromkeys(function.arg_names[2:], "constexpr")}
    aligned = {(k,): [["tt.divisibility", 16]] for k in range(2)}
    text = GluonASTSource(function, signature, {(2 + k,): v for k, v in enumerate(values)}, aligned)
    made = triton.compile(text, target=GPUTarget("cuda", 90, 32), options={"num_warps": layout.in_sizes["warp"]})
    return Compiled(made.asm["ptx"], made.asm["cubin"], made.metadata.shared)


def counts(made: Compiled, layout: Any, axis: int) -> Counter[str]:
    """Instructions of all kinds, and wavefronts of shared memory of the block. Raises ValueError for wrong sums."""
    from lego_mlir.interp.ptx.checks import Checks
    from lego_mlir.interp.ptx.ptx_launch import EmulatorOptions, emulate
    from lego_mlir.toolchain import sass

    names = [i.name.partition(".")[0] for i in sass.disassemble(made.cubin)]
    found = Counter({kind: sum(names.count(name) for name in among) for kind, among in COUNTED.items()})
    found["instructions"] = sum(name not in IDLE for name in names)
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


def family(name: str) -> dict[str, dict[str, int]]:
    """The counts of a family of layouts, all cases together."""
    totals = {who: Counter[str]() for who in ("ours", "Triton")}
    for layout, axis in layout_tables.family_layouts(name):
        for who, compiled in (("ours", ours), ("Triton", tritons)):
            totals[who].update(counts(compiled(layout, axis), layout, axis))
    return {who: dict(sorted(total.items())) for who, total in totals.items()}


def main() -> None:
    """Count the families that are named, or all."""
    kept = json.loads(KEPT.read_text()) if KEPT.is_file() else {}
    for name in sys.argv[1:] or layout_tables.TABLE_3:
        kept[name] = family(name)
        print(name, kept[name], flush=True)
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
