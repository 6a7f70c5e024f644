"""CuTe's layouts, shape:stride with a swizzle, in and out; its algebra, proved or refused."""

from __future__ import annotations

from lego_mlir.cute.algebra import coalesce as coalesce
from lego_mlir.cute.algebra import complement as complement
from lego_mlir.cute.algebra import composition as composition
from lego_mlir.cute.algebra import left_inverse as left_inverse
from lego_mlir.cute.algebra import logical_divide as logical_divide
from lego_mlir.cute.algebra import logical_product as logical_product
from lego_mlir.cute.algebra import right_inverse as right_inverse
from lego_mlir.cute.algebra import zipped_divide as zipped_divide
from lego_mlir.cute.conversion import from_layout as from_layout
from lego_mlir.cute.conversion import to_layout as to_layout
from lego_mlir.cute.layout import CuteLayout as CuteLayout
from lego_mlir.cute.layout import CuteSwizzle as CuteSwizzle
