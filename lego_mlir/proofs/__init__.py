"""Proofs about whole kernels, for every launch and size: no race, barriers reached, results written, tiles initialised.

| module | content |
|---|---|
| `footprints` | each access as a map from (block, thread, round) to a logical index; `unrolled`: copies as one access |
| `phases` | which accesses no barrier separates; `copies_in_flight`: which happen before a copy's wait |
| `mixed_radix` | ids and rounds split into the digits that indices use |
| `overlap` | two accesses meet in one element only if they are of one thread; `collisions`: by enumeration |
| `kernel_model` | the accesses of a kernel over digits, and the questions that pairs of them raise |
| `races`, `barriers` | the claims about memory and about barriers; `divergence`: which values differ between threads |
| `covering`, `initialised` | the claims about results and about shared tiles |
| `confirm` | counter-examples from runs of the interpreter |
| `claims` | all of these, as `lego-mlir check` lists them; `explained`: how they were proved |
| `images`, `models` | indices through maps of layouts, by bijectivity; a kernel with and without formulas |
| `program_stores`, `single_writer` | rendered templates: no two programs write one element |
| `module_reader`, `module_values`, `module_claims` | kernels of MLIR modules, before and after transform scripts |
| `redundant_barriers` | barriers that no proof needs |
"""
