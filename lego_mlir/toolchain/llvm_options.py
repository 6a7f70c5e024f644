"""Options of LLVM's code generator that differ from its defaults, each chosen by measurement over all examples.

`python bench/llvm_options.py compare` of commit 6acfe75e compared sets of them. With LLVM 22.1 and ptxas 13.0 for
sm_90a, of the 45 kernels of the examples, instructions and registers against those without (geometric means; no kernel
spills):

| option | instructions | registers | largest changes of registers |
|---|---|---|---|
| `-disable-machine-sink` | 0.998 | 0.983 | depthwise convolution 226 to 128, layer norm 44 to 36, sums 13 to 16 |
| `-instcombine-code-sinking=0` | 1.001 | 1.000 | |
| both | 1.001 | 0.977 | depthwise convolution 226 to 96, with 107 instructions more than the first alone |

None of the two is taken: without machine sinking the added gradients of attention spill, and the address of another
block's memory is computed for threads that do not use it.
"""

from __future__ import annotations

from typing import Final

CHOSEN: Final[tuple[str, ...]] = (
    # Addresses of shared, constant and local memory are 32 bits wide, as in CUDA's compilers with -short-pointers.
    "--nvptx-short-ptr",
)
