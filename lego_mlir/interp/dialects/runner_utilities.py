"""Functions that host programs declare and MLIR's runner libraries define: printing of memrefs and numbers.

`mlir-runner` links `printMemrefF32` and the like from its runner libraries. What they print is collected in the report,
as with `gpu.printf`; the address of a memref is omitted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from lego_mlir.interp import memory, values
from lego_mlir.interp.machine import Machine
from lego_mlir.interp.memory import MemRef
from lego_mlir.interp.program import Operation, Step
from lego_mlir.interp.values import Array

TEXTS: Final = {"printNewline": "\n", "printComma": ", ", "printOpen": "( ", "printClose": " )"}
SCALARS: Final[dict[str, Callable[[Any], str]]] = {
    "printI64": str,
    "printU64": lambda n: str(n % 2**64),
    **{f"print{type_}": lambda x: f"{x:g}" for type_ in ("F32", "F64")},
}
MEMREF: Final = re.compile(r"printMemref(I8|I16|I32|I64|Ind|F16|BF16|F32|F64)")


def call(op: Operation, name: str) -> Step:
    """The call of a function that is declared and not defined."""
    if name in TEXTS:
        return lambda m: _print(m, TEXTS[name])
    if name in SCALARS:
        (value,) = op.operands
        return lambda m: _print(m, SCALARS[name](m.values[value].flat[0].item()))
    if not MEMREF.fullmatch(name):
        op.fail(f"@{name} is declared, but has no body to run; known are printMemref*, {', '.join([*SCALARS, *TEXTS])}")
    (ref,) = op.operands
    access = op.access("read")

    def step(m: Machine) -> None:
        window: MemRef = m.values[ref]
        sizes = [values.only(np.asarray(n), f"a size of the memref that @{name} prints") for n in window.sizes]
        grid = np.indices(sizes, dtype=np.int64).reshape(len(sizes), 1, 1, -1)
        touch = memory.address(m, access, window, list(grid))
        _print(m, shown(memory.gather(m, touch, window.dtype).reshape(sizes)))

    return step


def shown(array: Array) -> str:
    """The lines of a memref, as the runner library prints it.

    >>> print(shown(np.arange(4.0).reshape(2, 2)), end="")
    Memref rank = 2 sizes = [2, 2] data =
    [[0, 1],
     [2, 3]]
    """
    numbers = array.astype(np.float64) if values.is_float(array.dtype) else array
    formatter: Any = {"float_kind": lambda x: f"{x:g}", "int_kind": str}
    options: Any = {"threshold": numbers.size + 1, "max_line_width": 10**9}
    text = np.array2string(numbers, separator=", ", formatter=formatter, **options)
    return f"Memref rank = {array.ndim} sizes = {list(array.shape)} data =\n{text}\n"


def _print(m: Machine, text: str) -> None:
    m.printed.add(text)
