"""Linear layouts over F2: bit matrices, encodings of hardware layouts, conversions between them.

The system of "Linear Layouts: Robust Code Generation of Efficient Tensor Computation Using F2". Pure mathematics: no
printing, no tools.

Sections:

- algebra: `matrix`, `dims`, `linear`, `application`, `bijections`, `mixed`, `boxed`, `notation`, `queries`
- encodings: `encodings/`, `ptx_fragments`, `matrix_descriptors`, `two_of_four`, `axis_bits`
- operations: `shape_ops`, `conversion`, `shuffles`, `fibers`, `gathers`
- shared memory: `swizzle`, `banks`, `matrices`
"""

from __future__ import annotations

from lego_mlir.f2.bijections import from_layout as from_layout
from lego_mlir.f2.bijections import to_layout as to_layout
from lego_mlir.f2.conversion import conversion_plan as conversion_plan
from lego_mlir.f2.encodings import Blocked as Blocked
from lego_mlir.f2.encodings import Mfma as Mfma
from lego_mlir.f2.encodings import MfmaOperand as MfmaOperand
from lego_mlir.f2.encodings import MmaMetadata as MmaMetadata
from lego_mlir.f2.encodings import MmaOperand as MmaOperand
from lego_mlir.f2.encodings import MmaSync as MmaSync
from lego_mlir.f2.encodings import Sliced as Sliced
from lego_mlir.f2.encodings import SwizzledShared as SwizzledShared
from lego_mlir.f2.encodings import TensorCopyShared as TensorCopyShared
from lego_mlir.f2.encodings import Wgmma as Wgmma
from lego_mlir.f2.encodings import Wmma as Wmma
from lego_mlir.f2.encodings import WmmaOperand as WmmaOperand
from lego_mlir.f2.linear import LinearLayout as LinearLayout
from lego_mlir.f2.matrix import BitMatrix as BitMatrix
from lego_mlir.f2.mixed import MixedLayout as MixedLayout
from lego_mlir.f2.ptx_fragments import fragment as fragment
from lego_mlir.f2.two_of_four import two_of_four as two_of_four
