"""Kernels: a Python function traced to a small program over logical indices, emitted as one MLIR module.

| module | its one idea |
|---|---|
| `dtypes` | an element type is a row: NumPy's, MLIR's, bits |
| `trace` | the program that a kernel is, as frozen values |
| `tracer` | recording it: scopes, ranges, source lines |
| `scalar`, `functions` | values that a kernel computes with |
| `tensor`, `access` | memory with a layout, and the proofs of one access |
| `divisors` | no divisor is 0 |
| `limits` | what a launch may be at most |
| `control` | ids, loops, branches, registers, barriers |
| `definition` | `@lego.kernel` and what it makes |
| `emit`, `emit_values` | the program as MLIR |

Nothing is imported here: `lego_mlir` loads each name when it is first used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from lego_mlir.errors import TraceError, did_you_mean

if TYPE_CHECKING:
    from lego_mlir.kernel.definition import Kernel


class _Package(ModuleType):
    """The decorator `lego.kernel` and this package have one name; so the package can be called."""

    def __call__(self, grid: Any = None, block: Any = None, **other: Any) -> Callable[[Callable[..., Any]], Kernel]:
        from lego_mlir.kernel.definition import kernel

        for name in other:
            raise TraceError(
                f"@lego.kernel takes grid and block, not {name}{did_you_mean(name, ['grid', 'block'])}: "
                "write @lego.kernel(grid=.., block=..)"
            )
        if grid is None or block is None:
            raise TraceError("the decorator takes the sizes of the launch: write @lego.kernel(grid=.., block=..)")
        return kernel(grid, block)


sys.modules[__name__].__class__ = _Package
