"""Kernels: a Python function traced to a small program over logical indices, emitted as one MLIR module.

| module | its one idea |
|---|---|
| `dtypes` | an element type is a row: NumPy's, MLIR's, bits |
| `trace` | the program that a kernel is, as frozen values |
| `tracer` | recording it: scopes, ranges, source lines |
| `scalar`, `functions` | values that a kernel computes with |
| `tensor`, `access` | memory with a layout, and the proofs of one access |
| `divisors` | no divisor is 0 |
| `size_limits` | how large a size can be |
| `control` | ids, loops, branches, registers, barriers |
| `definition` | `@lego.kernel` and what it makes |
| `emit`, `emit_values` | the program as MLIR |

Nothing is imported here: `lego_mlir` loads each name when it is first used.
"""
