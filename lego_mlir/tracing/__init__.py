"""Tracing: a Python function becomes a small program over logical indices, emitted as one MLIR module.

Imports go one way, down this list (`pyproject.toml` holds it):

| room | contents |
|---|---|
| `schedules` | a kernel to a kernel: rings, roles, clusters, persistent blocks |
| `definition` | `@lego.kernel`, `@lego.program`, `@lego.function`, and calls of what they make |
| `emit` | the traced program as MLIR |
| `spread` | values spread over threads: layouts, conversions, products, reductions |
| `words` | what a kernel says: tensors, scalars, loops, barriers, copies, tiles |
| `checks` | accesses in bounds, roundings, and ranges of data that was stored |
| `trace` | element types, the program as frozen values, and the recorder |

Nothing is imported here: `lego_mlir` loads each name on first use.
"""
