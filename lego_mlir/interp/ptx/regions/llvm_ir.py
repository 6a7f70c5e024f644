"""The door to llvmlite for compiled regions: its builder of LLVM IR, and its compiler for this processor."""

from llvmlite import binding, ir

__all__ = ["binding", "ir"]
