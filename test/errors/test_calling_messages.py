"""What `k(a, b)` says of arguments that do not fit: one message each, before anything runs."""

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Col, Row, f32
from lego_mlir.errors import UsageError

M, N = lego.size("M", min=2, max=64), lego.size("N", multiple_of=2)
LD = lego.size("LD", min=6)


@lego.kernel(grid=lego.cdiv(M * N, 64), block=64)
def add(alpha: f32, x: lego.Tensor(f32, Row(M, N)), y: lego.Tensor(f32, Col(M, N)), z: lego.Tensor(f32, Row(M, N))):
    i = lego.block_id.x * 64 + lego.thread_id.x
    with lego.when(i < M * N):
        r, c = i // N, i % N
        z[r, c] = alpha * x[r, c] + y[r, c]


X = np.zeros((4, 6), np.float32)
Y = np.asfortranarray(X)
Z = np.zeros((4, 6), np.float32)


def read_only():
    made = Z.copy()
    made.flags.writeable = False
    return made


def misaligned():
    return np.zeros(4 * 24 + 1, np.uint8)[1:].view(np.float32).reshape(4, 6)


@pytest.mark.parametrize(
    ("arguments", "named", "message"),
    [
        ((2, X), {}, r"takes alpha, x, y, z, or without z, which is then allocated; got 2 arguments"),
        ((2, X), {"z": Z}, r"takes alpha, x, y beside those given by name; got 2 arguments"),
        ((2, X, Y), {"Q": 3}, r"has no parameter or size Q; it has: alpha, x, y, z, M, N"),
        ((2, X, Y), {"alpah": 4}, r"has no parameter or size alpah; did you mean alpha\?"),
        ((2, X, Y), {"M": 4.0}, r"size M of kernel add must be an int, got 4.0"),
        ((2, X, Y), {"M": 5}, r"M = 5 was given, and the shapes of the arrays give M = 4 \(x \(4, 6\), y \(4, 6\)\)"),
        ((2, X.reshape(-1), Y.T.reshape(-1)), {}, r"M does not follow from the shapes .*x \(24,\).*; pass it: M=\.\."),
        ((2, 3.5, Y), {}, r"x is a tensor of f32; pass an array of NumPy, PyTorch, .* not 3.5"),
        ((X, X, Y), {}, r"alpha is one number of f32, and an array was given; pass array.item\(\)"),
        (("two", X, Y), {}, r"alpha is one number of f32, and 'two' is none of that type"),
        ((2, X.astype(np.float64), Y), {}, r"x holds f32, and the numpy array holds float64; convert it to float32"),
        ((2, X.astype(">f4"), Y), {}, r"x holds f32, and the numpy array holds >f4"),
        ((2, X, Y[:2]), {}, r"y has the shape \(4, 6\) or 24 elements in memory order for M = 4, N = 6, and the numpy"),
        ((2, X, X.copy()), {}, r"y has the layout Col\(M, N\), whose strides are \(1, 4\), .*numpy.asfortranarray"),
        ((2, Y, Y), {}, r"x has the layout Row\(M, N\), whose strides are \(6, 1\), .*pass numpy.ascontiguousarray"),
        ((2, X, Y, read_only()), {}, r"kernel add writes z, and the numpy array is read-only; pass a copy"),
        ((2, X, Y, X), {}, r"z, which it writes, shares 96 bytes of memory with x; threads run in no order"),
        ((2, misaligned(), Y), {}, r"x begins \d bytes after a multiple of 4, which the kernel's accesses need"),
        ((2, X[:1], Y[:1]), {}, r"size M = 1: the kernel was compiled for at least 2, at most 64, a multiple of 1"),
        ((2, X[:, :5].copy(), Y[:, :5]), {}, r"size N = 5: .*a multiple of 2"),
    ],
)
def test_arguments_that_do_not_fit(arguments, named, message):
    with pytest.raises(UsageError, match=message):
        add(*arguments, **named)


@lego.kernel(grid=1, block=32)
def strided(x: lego.Tensor(f32, lego.Strided([4, 6], [LD, 1])), y: lego.Tensor(f32, Row(4, 6))):
    i = lego.thread_id.x
    with lego.when(i < 24):
        y[i // 6, i % 6] = x[i // 6, i % 6]


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (X[::-1], r"strides of the numpy array are \(-6, 1\) elements, not all positive; pass a copy of it"),
        (X[:, ::-1], r"strides of the numpy array are \(6, -1\) elements"),
        (np.broadcast_to(X[:1], (4, 6)), r"strides of the numpy array are \(0, 1\) elements"),
        (np.ma.array(X, mask=X > 1), r"a masked array has no elements where its mask is set; pass array.filled"),
        (np.ma.array(X), r"a masked array has no elements"),
        (X.astype(">f4"), "the numpy array holds >f4"),
        (X.astype(object), "the numpy array holds object"),
        (np.zeros((4, 6), [("a", "f4")]), "the numpy array holds void32"),
        (np.zeros((4, 6), [("a", "f4"), ("b", "i1")])["a"], r"strides of \(30, 5\) bytes, not all multiples of its"),
    ],
)
def test_arrays_that_no_kernel_addresses(x, message):
    with pytest.raises(UsageError, match=message):
        strided(x)


def test_other_arrays_of_numpy_are_their_elements():
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    read_only = x.copy()
    read_only.flags.writeable = False
    for given in (
        x,
        x.view(np.matrix),
        read_only,
        np.pad(x, ((0, 0), (0, 2)))[:, :6],
        x.view(type("Own", (np.ndarray,), {})),
    ):
        assert (np.asarray(strided(given)) == x).all()


def test_arrays_of_one_call_may_share_what_is_only_read():
    @lego.kernel(grid=1, block=8)
    def plus(x: lego.Tensor(f32, Row(8)), y: lego.Tensor(f32, Row(8)), z: lego.Tensor(f32, Row(8))):
        z[lego.thread_id.x] = x[lego.thread_id.x] + y[lego.thread_id.x]

    x = np.ones(8, np.float32)
    assert (plus(x, x) == 2).all()
