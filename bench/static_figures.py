"""What a kernel costs before it runs: registers, spills, shared memory, and the instructions of its main loop.

ptxas says the first two, the manifest the third, and cuobjdump lists the machine code, in which the main loop is the
smallest loop around the instruction that does the work. No GPU is asked; times stay empty.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lego_mlir.toolchain import compile_kernel, ptxas, sass, target_named

FOLDER = Path(__file__).parent / "results" / "static"
SHOWN = ("HMMA", "LDSM", "LDGSTS", "LDG", "STG", "LDS", "STS", "BAR")


def of_ptx(ptx: str, target: str, work: str) -> dict[str, Any]:
    """The figures of the one kernel in a PTX text; `work` is part of the name of the main loop's instruction."""
    cubin, (resources,) = ptxas.assemble(ptx, target_named(target))
    code = sass.disassemble(cubin)
    loop = sass.main_loop(code, work)
    mix = sass.mix(loop or code)
    return {
        "registers": resources.registers,
        "spilled_bytes": resources.spill_stores + resources.spill_loads,
        "loop" if loop else "kernel": {"instructions": sum(mix.values()), **{n: mix[n] for n in SHOWN if n in mix}},
    }


def of_kernel(kernel: Any, target: str, work: str, **options: Any) -> tuple[dict[str, Any], Any]:
    """The figures of a kernel object, and its compilation to PTX; `options` go to `compile_kernel`."""
    compilation = compile_kernel(kernel, target=target, emit="ptx", **options)
    facts = compilation.kernels[0]
    shared = {"static_shared_bytes": facts.static_shared, "dynamic_shared_bytes": facts.dynamic_shared}
    return {**of_ptx(compilation.text, target, work), **shared}, compilation


def write(name: str, target: str, rows: list[dict[str, Any]]) -> Path:
    """The rows with their circumstances; `milliseconds` is null in each, for nothing was timed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.json"
    head = {"kind": "static", "target": target, "assembler": ptxas.version(), "timed_on": None}
    lines = ",\n  ".join(json.dumps({**row, "milliseconds": None}) for row in rows)
    path.write_text(f'{json.dumps(head)[:-1]}, "rows": [\n  {lines}\n]}}\n')
    return path


def resident_blocks(figures: dict[str, Any], threads: int, shared_per_sm: int) -> int:
    """How many blocks fit an SM at once, by registers, shared memory and threads (1 KiB of shared memory a block is
    the system's; registers are given out 8 a thread at a time. CUDA C++ Programming Guide)."""
    registers = -(-figures["registers"] // 8) * 8 * threads
    shared = figures["static_shared_bytes"] + figures["dynamic_shared_bytes"] + 1024
    return max(1, min(64 * 1024 // registers, shared_per_sm // shared, 2048 // threads, 32))
