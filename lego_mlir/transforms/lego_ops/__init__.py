"""Modules that use the lego dialect, read without its plugin: every operation of it becomes upstream MLIR."""
