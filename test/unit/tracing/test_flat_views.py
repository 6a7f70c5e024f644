"""`view.flat()`: memory in memory order, by position, whatever the layout; proofs compare it with other views."""

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Col, Row, f32, gallery
from lego_mlir.errors import LayoutError
from lego_mlir.expr.verdict import Proved, Refuted
from lego_mlir.interp.traced_kernels import run_kernel
from lego_mlir.proofs.claims import kernel_claims


def copy_by_position(layout, size):
    @lego.kernel(grid=1, block=size // 2)
    def copied(x: lego.Tensor(f32, layout), y: lego.Tensor(f32, layout)):
        t = lego.thread_id.x
        y.flat().store(x.flat().load(2 * t, width=2), 2 * t)

    return copied


@pytest.mark.parametrize("layout", [Row(6, 7), Col(6, 7), Row(6, 7).tile_by([3, 7], [2, 1]), gallery.padded(6, 6)])
def test_a_flat_view_is_memory_in_memory_order(layout):
    size = layout.physical_size()
    given, found = np.arange(size, dtype=np.float32), np.zeros(size, np.float32)
    run_kernel(copy_by_position(layout, size), {"x": given, "y": found})
    np.testing.assert_array_equal(found, given)


def test_vectors_of_a_flat_view_cross_rows():
    (store,) = [access for s, access in copy_by_position(Row(6, 7), 42).trace().accesses() if access.buffer.name == "y"]
    assert store.width == 2


def test_a_position_past_the_end_is_refused():
    @lego.kernel(grid=1, block=32)
    def past(y: lego.Tensor(f32, Row(3, 7))):
        y.flat()[lego.thread_id.x] = 1.0

    with pytest.raises(LayoutError, match=r"y\[tx\].*21"):
        past.trace()


def test_proofs_compare_positions_with_indices():
    @lego.kernel(grid=1, block=21)
    def twice(y: lego.Tensor(f32, Row(3, 7))):
        t = lego.thread_id.x
        y.flat()[t] = 1.0
        y[2 - t // 7, t % 7] = 2.0

    verdicts = dict(kernel_claims(twice))
    assert any(isinstance(v, Refuted) for v in verdicts.values())
    assert all(isinstance(v, Proved) for v in dict(kernel_claims(copy_by_position(Row(6, 7), 42))).values())
