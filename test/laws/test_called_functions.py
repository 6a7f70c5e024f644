"""Law: a function that is called computes what it computes where it is inlined, values and indices alike."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import lego_mlir as lego
from lego_mlir import Row, f32, i32, interp

VALUES = [lambda v, w: v + w, lambda v, w: v * w, lambda v, w: v - w, lego.maximum, lego.minimum]
INDICES = [lambda i, j: (i + j) % 64, lambda i, j: (i * 3 + j) % 64, lambda i, j: lego.minimum(i, 63 - j % 64)]


def build(steps, inline):
    @lego.function(inline=inline)
    def body(x, i, value, by):
        for is_value, number in steps:
            if is_value:
                value = VALUES[number % len(VALUES)](value, x[i])
            else:
                i = INDICES[number % len(INDICES)](i, by)
        return value, i, i < by

    @lego.kernel(grid=1, block=32)
    def kernel(x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(32)), z: lego.Tensor(i32, Row(32))):
        t = lego.thread_id[0]
        value, place, low = body(x, t, x[t], 5)
        again, _, _ = body(x, place, value, 7)
        y[t] = again
        z[t] = lego.where(low, i32(place), -i32(place))

    return kernel


@settings(max_examples=12)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=5))
def test_a_called_function_computes_what_the_inlined_one_does(steps):
    x = np.random.default_rng(0).integers(-3, 4, 64).astype(np.float32)
    results = []
    for inline in (True, False):
        y, z = np.zeros(32, np.float32), np.zeros(32, np.int32)
        assert interp.run_kernel(build(steps, inline), {"x": x, "y": y, "z": z}).clean
        results.append((y, z))
    assert (results[0][0] == results[1][0]).all()
    assert (results[0][1] == results[1][1]).all()
