"""Encodings of hardware layouts: from a few parameters to the linear layout of a tensor of any shape.

Equal to Triton's, basis by basis.
"""

from __future__ import annotations

from lego_mlir.f2.encodings.amd import Mfma as Mfma
from lego_mlir.f2.encodings.amd import MfmaOperand as MfmaOperand
from lego_mlir.f2.encodings.amd import Wmma as Wmma
from lego_mlir.f2.encodings.amd import WmmaOperand as WmmaOperand
from lego_mlir.f2.encodings.blocked import Blocked as Blocked
from lego_mlir.f2.encodings.blocked import Encoding as Encoding
from lego_mlir.f2.encodings.blocked import Sliced as Sliced
from lego_mlir.f2.encodings.mma import MmaMetadata as MmaMetadata
from lego_mlir.f2.encodings.mma import MmaOperand as MmaOperand
from lego_mlir.f2.encodings.mma import MmaSync as MmaSync
from lego_mlir.f2.encodings.mma import Wgmma as Wgmma
from lego_mlir.f2.encodings.shared import SwizzledShared as SwizzledShared
from lego_mlir.f2.encodings.shared import TensorCopyShared as TensorCopyShared
