"""Run compiled kernels: what the compiler wrote beside the PTX, and the machines that it runs on.

    calls      k(a, b): the plan of a combination of shapes, found or made
    arrays     what a launch must know about an array of any library (`dlpack`: of an unknown one)
    binding    the checks of a launch against the manifest (`derived_sizes`: sizes from shapes)
    plans      launches bound to shapes: on the CPU; `launches`: on a CUDA device, through `driver`
    packs      kernels from a folder

`manifest` reads the JSON that `lego-mlir compile --emit ptx` writes, `cuda` loads and launches one file with CuPy,
`python -m lego_mlir.runtime kernel.ptx` does both and checks the result. None of it needs MLIR, SymPy or Z3.

Sections:

- arrays: `arrays`, `dlpack`, `f8`, `argument_checks`, `value_ranges`, `derived_sizes`
- calls: `calls`, `routed_calls`, `program_calls`, `programs`, `plans`, `binding`, `launches`, `tensor_map_frames`,
  `first_calls`, `kept_traces`, `exact_kernels`, `compile_lock`
- machines: `driver`, `cuda`, `source`, `cpu`, `cpu_kernels`, `image`, `host_reference`, `xla_ffi`
- operations: `products/`, `attention_calls`, `packed_attention_calls`, `paged_attention_calls`,
  `latent_attention_calls`, `attention_plans`, `attention_kernels`, `pair_rule_calls`, `first_derivatives`
- packed kernels: `manifest`, `packs`, `hub`
- checks: `data`, `data_files`, `inputs`, `kernel_input`, `comparing`, `tolerance`
"""
