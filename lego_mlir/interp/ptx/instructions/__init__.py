"""One module per family of PTX instructions; importing this package registers them all with the decoder.

Sections:

- arithmetic: `integer_arithmetic`, `float_arithmetic`, `bit_operations`, `ptx_comparisons`, `ptx_conversions`, `moves`
- control: `branches`, `stack_calls`, `system_calls`, `register_allocation`, `dependent_launches`
- memory: `loads_and_stores`, `ptx_atomics`, `texture_accesses`, `ptx_fences`
- copies: `cp_async`, `bulk_copies`, `async_stores`, `tensor_map_edits`
- synchronisation: `block_barriers`, `cluster_barriers`, `mbarriers`, `warp_votes`
- products: `matrix_loads`, `tensor_core`, `warp_matrices`, `wgmma`
- tensor memory: `tensor_allocations`, `tensor_accesses`, `tensor_pipe`, `tensor_products`
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
