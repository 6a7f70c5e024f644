"""Products in tiles of 192 rows: three groups of warps, the fourth of the padded layout is not there."""

import re

import numpy as np
import pytest
from assembling import needs_ptxas
from tiled_products import emulated, interpreted
from warpgroup_products import built, operands, run

from lego_mlir import Row, bf16, f16
from lego_mlir.choices.product_tile import ProductTile, warpgroup_tile
from lego_mlir.choices.warpgroup_tiles import OUT_BUFFER, STEP, ring_of
from lego_mlir.errors import ScheduleError
from lego_mlir.kernels import matmul
from lego_mlir.kernels.fused_epilogues import FusedEpilogue, FusedParts
from lego_mlir.kernels.scheduled_products import ScheduledProduct
from lego_mlir.toolchain import compile_kernel, ptxas, sass, target_named

BUSY = 37
"""Instructions of a step beside wgmma, of which there are as many with two groups."""


def tile(rows, columns, **more):
    return warpgroup_tile(rows, columns, 3, **{"group": 2, **more})


PRODUCTS = [
    ((300, 200, 136), "NT", tile(192, 176)),  # 384 threads do not divide 176 x 64
    ((129, 72, 200), "NN", tile(192, 72)),
    ((93, 400, 136), "NT", tile(80, 192, transposed=True)),
    ((296, 200, 136), "TN", tile(192, 96)),
    ((400, 184, 136), "NT", tile(192, 88, cluster=(2, 1), lockstep=1)),
    ((300, 360, 136), "NN", tile(192, 72, cluster=(1, 2))),
    ((208, 400, 136), "NN", tile(80, 192, transposed=True, cluster=(2, 1))),
    ((150, 128, 1024), "NT", tile(192, 64, parts=2)),
    ((150, 128, 1024), "NN", tile(192, 64, splits=3)),
    ((300, 200, 520), "NT", tile(192, 96, exact=2)),
]


@pytest.mark.parametrize(
    ("number", "machine"),
    [pytest.param(number, machine, marks=() if number in few else pytest.mark.long)
     for machine, few in ((interpreted, (1,)), (emulated, (0, 2))) for number in range(len(PRODUCTS))],
)  # fmt: skip
def test_values(number, machine):
    size, layouts, tile = PRODUCTS[number]
    kernel = built(size, tile, layouts, result="f16", clusters=2)
    a, b = operands(*size, f16)
    np.testing.assert_array_equal(run(kernel, machine, a, b), a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.parametrize("machine", [interpreted, emulated])
def test_an_epilogue_in_registers(machine):
    size, fused = (200, 88, 136), FusedParts(FusedEpilogue(bias="f16", activation="relu", amax=True))
    kernel = built(size, tile(192, 64), "NT", "bf16", "bf16", fused)
    a, b = operands(*size, bf16)
    bias = np.arange(88, dtype=np.float16) - 40
    c, largest = run(kernel, machine, a, b, bias, np.zeros(1, np.float32))
    expected = np.maximum(a.astype(np.float32) @ b.astype(np.float32) + bias.astype(np.float32), 0)
    np.testing.assert_array_equal(c, expected.astype(c.dtype))
    assert largest == expected.max()


def test_each_group_has_buffers_of_its_own():
    assert ring_of(tile(192, 64), 192, 64, "NT").buffer_bytes == 3 * OUT_BUFFER
    kernel = built((300, 64, 128), tile(192, 64))
    (through,) = (b for b in kernel.trace().shared if b.name == "copied_out")
    assert through.layout.dims()[0] % (3 * STEP) == 0


@needs_ptxas
@pytest.mark.parametrize(("layouts", "cluster"), [("NN", (1, 1)), ("NT", (2, 1))])
def test_its_main_loop_is_that_of_two_groups(layouts, cluster):
    product = ScheduledProduct(tile(192, 176, cluster=cluster), layouts)
    text = compile_kernel(product.kernel((5928, 5928, 5928), 66), target="sm_90a").text
    cubin, (resources,) = ptxas.assemble(text, target_named("sm_90a"))
    assert resources.spill_stores == resources.spill_loads == 0
    copying, multiplying = (int(n) for n in re.findall(r"setmaxnreg\S+\s+(\d+)", text))
    assert 128 * (3 * multiplying + copying) <= 65536
    assert multiplying >= 152
    step = [i.name.split(".")[0] for i in sass.main_loop(sass.disassemble(cubin), "HGMMA")]
    assert step.count("HGMMA") == 4
    assert len(step) - 4 <= BUSY


def test_rows_of_which_each_group_has_more_than_64_are_refused():
    tiling = ProductTile(m=384, n=64, k=64, warps=(12, 1))
    kernel = matmul.build(384, 64, 128, f16, b=Row(128, 64), tiling=tiling)
    with pytest.raises(ScheduleError, match=r"a product of 384 x 64 by 12 warps: .* use 192 rows, fewer warps"):
        kernel.schedule("warpgroups")
