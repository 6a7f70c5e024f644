"""A traced kernel as MLIR: `emit_module` writes it, `emit_wgmma` for warpgroups; others emit a kind of word each."""
