"""Machine code of examples/second_week beside nvcc's of those with a CUDA text: instructions, fused sums, registers.

python bench/second_week.py             a table of both
python bench/second_week.py sm_80

`bench/rivals/second_week.cu` has the CUDA texts. Needs ptxas, nvcc and nvdisasm, and no GPU.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Final

import machine_code

from lego_mlir import spec
from lego_mlir.hardware.targets import target_named
from lego_mlir.templates.run import nvcc
from lego_mlir.toolchain import compile_kernel, ptxas

BENCH: Final = Path(__file__).parent
EXAMPLES: Final = BENCH.parent / "examples" / "second_week"
CUDA: Final = BENCH / "rivals" / "second_week.cu"


def measured(name: str, target: str) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Instructions, FFMA and registers of an example and of its CUDA text."""
    (kernel,) = spec.load(EXAMPLES / f"{name}.py").kernels.values()
    text = compile_kernel((kernel,), target=target).text
    cubin, (ours,) = ptxas.assemble(text, target_named(target))
    rival = nvcc.compile_text(alone(name), target=target, name=name)
    (theirs,) = rival.resources
    mine, other = machine_code.opcodes(cubin), machine_code.opcodes(rival.cubin)
    return (mine.total(), mine["FFMA"], ours.registers), (other.total(), other["FFMA"], theirs.registers)


def alone(name: str) -> str:
    """The CUDA text with one of its kernels: a cubin is then of this one."""
    head, *kernels = CUDA.read_text().split('extern "C" ')
    return head + "".join(f'extern "C" {text}' for text in kernels if f" {name}(" in text)


def main() -> int:
    target = sys.argv[1] if len(sys.argv) > 1 else "sm_90a"
    names = [name for path in sorted(EXAMPLES.glob("*.py")) if f" {(name := path.stem)}(" in CUDA.read_text()]
    rows = {name: measured(name, target) for name in names}
    print("| kernel | instructions | nvcc | ratio | FFMA | nvcc | registers | nvcc | ratio |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name, ((a, fused, r), (b, others, s)) in rows.items():
        print(f"| `{name}` | {a} | {b} | {a / b:.2f} | {fused} | {others} | {r} | {s} | {r / s:.2f} |")
    means = [math.exp(sum(math.log(x[k] / y[k]) for x, y in rows.values()) / len(rows)) for k in (0, 2)]
    print(f"| geometric mean | | | {means[0]:.2f} | | | | | {means[1]:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
