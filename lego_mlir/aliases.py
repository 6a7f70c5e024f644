"""Type aliases for objects of untyped libraries, so that a signature is precise where the type checker sees `Any`.

SymPy, MLIR's bindings, Z3, CuPy and llvmlite have no types that a strict checker can use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Expr: TypeAlias = Any
"""A SymPy integer expression over the nodes of `expr.nodes`."""
Cond: TypeAlias = Any
"""A SymPy Boolean of comparisons of such expressions, or a Python bool."""
Symbol: TypeAlias = Any
"""A SymPy symbol: an index, a size, a variable of a loop."""
IndexLike: TypeAlias = Any
"""What a layout takes as one index: an int, a NumPy integer array, an `Index`, or a SymPy expression."""
Operand: TypeAlias = Any
"""What a kernel computes with: a traced `Scalar`, a number, or an index."""
Z3Expr: TypeAlias = Any
"""A Z3 expression."""
Context: TypeAlias = Any
"""An MLIR context of the bindings."""
Module: TypeAlias = Any
"""An MLIR module of the bindings."""
Op: TypeAlias = Any
"""An MLIR operation."""
Value: TypeAlias = Any
"""An SSA value."""
Type: TypeAlias = Any
"""An MLIR type."""
Location: TypeAlias = Any
"""An MLIR location."""
Attribute: TypeAlias = Any
"""An MLIR attribute."""
AffineExpr: TypeAlias = Any
"""An affine expression of MLIR."""
Block: TypeAlias = Any
"""An MLIR block."""
Region: TypeAlias = Any
"""An MLIR region."""
LlvmModule: TypeAlias = Any
"""A module of llvmlite."""
DeviceArray: TypeAlias = Any
"""A CuPy array."""
Foreign: TypeAlias = Any
"""A module or another object of a library without types, such as PyTorch or JAX."""
Tensor: TypeAlias = Any
"""A tensor of PyTorch."""
AnyArray: TypeAlias = Any
"""An array of NumPy, PyTorch, CuPy, JAX or another library."""
Given: TypeAlias = Any
"""What a kernel is called with: an array of any library, or a number."""
Dtype: TypeAlias = "np.dtype[Any]"
"""An element type of NumPy."""
Returned: TypeAlias = Any
"""What a call of a kernel returns: one array, or a tuple of arrays."""
IslSet: TypeAlias = Any
"""A set, map or value of isl."""
Traced: TypeAlias = Any
"""A kernel, program or parameter of `tracing`, for rooms below it."""
Json: TypeAlias = dict[str, Any]
"""A JSON object."""
Array: TypeAlias = "npt.NDArray[Any]"
"""A NumPy array of any element type."""
IntArray: TypeAlias = "npt.NDArray[np.int64]"
"""A NumPy array of int64."""
Drawing: TypeAlias = Any
"""The module drawsvg, or a drawing or group of it."""
Drawable: TypeAlias = Any
"""What `lego.show` draws: a layout of any algebra, a derivation, the error of a refuted layout."""
