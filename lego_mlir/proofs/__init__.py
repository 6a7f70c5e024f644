"""Proofs about whole kernels, for every launch and size: no race, barriers reached, results written, tiles initialised.

Sections:

- accesses: `footprints`, `unrolled`, `mixed_radix`, `images`, `models`, `kernel_model`
- questions: `phases`, `overlap`, `collisions`, `copies_in_flight`
- claims: `claims`, `races`, `barriers`, `covering`, `initialised`, `explained`, `confirm`, `rings/`
- modules of MLIR: `module_reader`, `module_claims`, `module_kernel`, `module_control`, `module_ids`, `module_memory`,
  `module_values`
- rendered templates: `program_stores`, `single_writer`
"""
