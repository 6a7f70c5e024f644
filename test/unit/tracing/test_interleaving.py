"""`lego.interleave`: merged statements give the same results in an even order, and dependent ones are refused."""

import numpy as np
import pytest
from launching import launch

import lego_mlir as lego
from lego_mlir import Row, f32
from lego_mlir.errors import TraceError
from lego_mlir.tracing.trace.trace import Compute

TENSOR = lego.Tensor(f32, Row(32))


def operations(kernel):
    return [s.operation for s in kernel.trace().body if isinstance(s, Compute)]


def test_statements_are_merged_evenly_in_their_order():
    @lego.kernel(grid=1, block=32)
    def k(a: TENSOR, b: TENSOR):
        t = lego.thread_id[0]
        x = a[t]

        def sums():
            y = x
            for _ in range(6):
                y = y + x
            return y

        y, z, w = lego.interleave(sums, lambda: abs(-x), lambda: lego.sqrt(x))
        b[t] = y + z + w

    assert operations(k)[:9] == ["add", "neg", "sqrt", "add", "add", "add", "abs", "add", "add"]
    a = np.arange(32, dtype=np.float32)
    np.testing.assert_allclose(launch(k, a, np.zeros(32))[1], 8 * a + np.sqrt(a), rtol=1e-6)


def dependent(kind):
    @lego.kernel(grid=1, block=32)
    def k(a: TENSOR, b: TENSOR):
        t = lego.thread_id[0]
        total, kept = lego.register(f32, 0.0), []

        def first():
            kept.append(a[t] + 1.0)
            if kind == "store":
                b[t] = kept[0]
            if kind == "register":
                total.set(kept[0])
            if kind == "branch":
                with lego.when(t < 3):
                    total.set(kept[0])
            return kept[0]

        def second():
            return {"value": lambda: kept[0] * 2.0, "register": lambda: total * 2.0}.get(kind, lambda: a[t] * 2.0)()

        x, y = lego.interleave(first, second)
        b[t] = x + y

    return k


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("store", "function 0 has a statement Store .*whose order matters"),
        ("branch", "function 0 has a statement If .*whose order matters"),
        ("value", "function 1 uses a value of another one"),
        ("register", "function 1 uses a register that another one writes"),
    ],
)
def test_dependent_functions_are_refused(kind, said):
    with pytest.raises(TraceError, match=said):
        dependent(kind).trace()


def test_one_function_is_refused():
    @lego.kernel(grid=1, block=32)
    def k(b: TENSOR):
        lego.interleave(lambda: 0)

    with pytest.raises(TraceError, match="at least two functions"):
        k.trace()


def test_independent_functions_may_read_what_was_there():
    a = np.arange(32, dtype=np.float32)
    np.testing.assert_array_equal(launch(dependent("none"), a, np.zeros(32))[1], 3 * a + 1)
