"""`where(condition, 1, 0)` of Python numbers is data where it is stored or kept, of any type; registers of vectors."""

import numpy as np
import pytest
from launching import launch, launch_emulated

import lego_mlir as lego
from lego_mlir import Row, bf16, f16, f32, i8, i32, u8
from lego_mlir.errors import TraceError

N = 64
X = np.arange(-32, 32, dtype=np.int32)


def choosing(dtype, body):
    @lego.kernel(grid=1, block=N)
    def kernel(x: lego.Tensor(i32, Row(N)), y: lego.Tensor(dtype, Row(N))):
        t = lego.thread_id[0]
        body(x, y, t)

    return kernel


def stored(x, y, t):
    y[t] = lego.where(x[t] > 3, 7, -5 if y.dtype.name != "u8" else 5)


def through_a_register(x, y, t):
    held = lego.register(y.dtype, 0)
    held.set(lego.where(t % 3 == 0, 2, lego.where(x[t] > 3, 1, 0)))
    y[t] = held


def summed(x, y, t):
    y[t] = lego.where(x[t] > 3, 1, 0) + lego.where(t % 3 == 0, 2, 0)


THIRD = np.arange(N) % 3 == 0
WANTED = {
    stored: lambda dtype: np.where(X > 3, 7, 5 if dtype is u8 else -5),
    through_a_register: lambda dtype: np.where(THIRD, 2, X > 3),
    summed: lambda dtype: (X > 3) + 2 * THIRD,
}


@pytest.mark.parametrize("body", WANTED, ids=lambda body: body.__name__)
@pytest.mark.parametrize("dtype", [i8, u8, i32, f16, bf16, f32], ids=str)
def test_a_choice_of_numbers_is_data(body, dtype):
    kernel = choosing(dtype, body)
    for run in (launch, launch_emulated):
        _, found = run(kernel, X, np.zeros(N))
        np.testing.assert_array_equal(found.astype(np.int64), WANTED[body](dtype))


def refused(x, y, t):
    y[t] = lego.where(x[t] > 3, t, 0)


def too_large(x, y, t):
    y[t] = lego.where(x[t] > 3, 300, 0)


def sum_too_large(x, y, t):
    y[t] = lego.where(x[t] > 3, 100, 0) + lego.where(t > 3, 100, 0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (refused, "is not data; convert it, for example lego.i8"),
        (too_large, "300 does not fit i8, which holds -128..127"),
        (sum_too_large, "200 does not fit i8"),
    ],
)
def test_indices_and_numbers_that_do_not_fit_are_refused(body, message):
    with pytest.raises(TraceError, match=message):
        choosing(i8, body).trace()


def test_a_register_takes_the_type_and_width_of_data():
    def body(x, y, t):
        with lego.when(t < N // 4):
            held = lego.register(x.load(4 * t, width=4))
            for _ in lego.range(3):
                held += held
            y.store(held.get(), 4 * t)

    for run in (launch, launch_emulated):
        np.testing.assert_array_equal(run(choosing(i32, body), X, np.zeros(N))[1], 8 * X)
