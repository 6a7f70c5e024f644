"""Tracing: a Python function becomes a small program over logical indices, emitted as one MLIR module.

| module | contents |
|---|---|
| `dtypes` | an element type is a row: NumPy's, MLIR's, bits |
| `trace` | the traced program, as frozen values |
| `tracer` | records it: scopes, ranges, source lines |
| `scalar`, `functions` | values that a kernel computes with |
| `tensor`, `access` | memory with a layout, and the proofs of one access |
| `data_ranges` | ranges of data used as indices |
| `divisors`, `claims` | no divisor is 0, every access stays in bounds |
| `size_limits` | upper bounds of sizes |
| `control` | ids, loops, branches, registers, barriers |
| `tiles`, `mma`, `shared_lines` | tiles of a block and a warp in shared memory |
| `definition` | `@lego.kernel` and what it makes |
| `emit`, `emit_values`, `emit_tiles` | the program as MLIR |
| `roundings` | error bounds from the program |

Nothing is imported here: `lego_mlir` loads each name on first use.
"""
