"""The shipped kernels, each with its NumPy reference.

A module has a `build` function that takes sizes, an element type and a variant, and returns a `Kernel`. They
use only the public API, so each is also an example.

Sections:

- copies: `copy`, `transpose`, `realigned`, `word_pairs`, `aligned_copies`, `rows_along_k`, `depth_copies`,
  `box_stencil`, `visiting`
- products: `matmul`, `scheduled_products`, `product_classes`, `aligned_products`, `dot_products`, `batched_products`,
  `scaled_products`, `grouped_products`, `grouped_depths`, `role_products`, `built_products`
- parts of K: `split_k`, `cluster_k`, `added_parts`
- epilogues: `epilogues`, `fused_epilogues`
- attention: `attention_forms`, `attention_tiles`, `fused_attention`, `packed_attention`, `attention_gradients`,
  `added_gradients`, `packed_gradients`; pages: `paged_attention`, `latent_attention`, `key_parts`; masks and scores of
  users: `pair_rules`, `rule_spans`, `rule_tiles`, `score_gradients`
"""
