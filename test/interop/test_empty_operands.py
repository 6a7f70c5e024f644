"""Empty operands at every door: what PyTorch gives on the CPU, values, shapes, types and gradients."""

from itertools import product

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, f16, f32
from lego_mlir.kernels import copy, transpose

torch = pytest.importorskip("torch", reason="PyTorch is not installed; `python test/run.py interop` installs it")
from torch.nn.functional import gelu, scaled_dot_product_attention, silu  # noqa: E402

SIZES = [size for size in product((0, 3), (0, 5), (0, 4)) if 0 in size]
ACTIVATIONS = {None: lambda x: x, "relu": torch.relu, "gelu": lambda x: gelu(x, approximate="tanh"), "silu": silu}
F8 = torch.float8_e4m3fn, torch.float8_e5m2
pytestmark = pytest.mark.filterwarnings("ignore::lego_mlir.errors.ReferenceWarning")


def drawn(*shape, dtype=torch.float16, learns=False):
    return torch.randn(shape).to(dtype).requires_grad_(learns)


def same(found, wanted):
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    torch.testing.assert_close(found.float(), wanted.float(), rtol=2e-3, atol=2e-3)


def with_gradients(function, *leaves):
    """The result and the gradients of its sum."""
    for leaf in leaves:
        leaf.grad = None
    found = function(*leaves)
    found.sum().backward()
    return [found.detach(), *(leaf.grad for leaf in leaves)]


@pytest.mark.parametrize("size", SIZES)
def test_matrices(size):
    m, n, k = size
    a, b = drawn(m, k), drawn(k, n)
    same(lego.matmul(a, b), a @ b)
    same(lego.matmul(a.T.contiguous().T, b.T.contiguous().T, result="float32"), a.float() @ b.float())
    x, y = drawn(m, k, dtype=torch.float32), drawn(k, n, dtype=torch.float32)
    same(lego.matmul(x, y, tf32=True), x @ y)
    for dtype in (*F8, torch.int8):
        x, y = drawn(m, k, dtype=dtype), drawn(k, n, dtype=dtype)
        same(lego.matmul(x, y, result="float32"), x.float() @ y.float())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_what_is_fused(size, activation):
    torch.manual_seed(0)
    m, n, k = size
    bias, added, rows, columns = drawn(n), drawn(m, n), torch.rand(m) + 1, torch.rand(n) + 1
    for dtype in (torch.float16, *F8):
        a, b, largest = drawn(m, k, dtype=dtype), drawn(k, n, dtype=dtype), torch.zeros(1)
        found = lego.matmul(
            a, b, scale_a=rows, scale_b=columns, bias=bias, residual=added, activation=activation, amax=largest,
            result="float32",
        )  # fmt: skip
        product = rows[:, None] * (a.float() @ b.float()) * columns + bias
        wanted = ACTIVATIONS[activation](product) + added
        same(found, wanted)
        same(largest, wanted.abs().amax()[None] if wanted.numel() else torch.zeros(1))


@pytest.mark.parametrize("size", [*SIZES, (3, 5, 4)])
@pytest.mark.parametrize("lead", [(0,), (2, 0), (0, 2), (2,)])
def test_batches(size, lead):
    m, n, k = size
    if 0 not in (*size, *lead):
        return
    a, b, one, bias = drawn(*lead, m, k), drawn(*lead, k, n), drawn(k, n), drawn(n)
    same(lego.matmul(a, b), a @ b)
    same(lego.matmul(a, one), a @ one)
    same(lego.matmul(a, one, bias=bias), (a.float() @ one.float() + bias).half())
    same(lego.matmul(drawn(1, m, k) * 0, b), torch.zeros(*lead, m, n).half())


@pytest.mark.parametrize(("rows", "depth", "columns"), SIZES)
def test_groups(rows, depth, columns):
    ends = torch.tensor([0, rows], dtype=torch.int32)
    a, b = drawn(rows, depth, learns=True), drawn(2, depth, columns, learns=True)
    found = with_gradients(lambda a, b: lego.grouped_matmul(a, b, ends), a, b)
    for each, wanted in zip(found, with_gradients(lambda a, b: a @ b[1], a, b), strict=True):
        same(each, wanted)
    a, b = drawn(2, columns, depth), drawn(depth, rows)
    same(lego.grouped_matmul(a, b, ends), a[1] @ b)
    a, b = drawn(depth, rows), drawn(rows, columns)
    same(lego.grouped_matmul(a, b, ends), torch.stack([a[:, :0] @ b[:0], a @ b]))


def test_no_groups():
    ends = torch.zeros(0, dtype=torch.int32)
    same(lego.grouped_matmul(drawn(4, 8), drawn(0, 8, 16), ends), torch.zeros(4, 16).half())
    same(lego.grouped_matmul(drawn(4, 8), drawn(8, 16), ends), torch.zeros(0, 4, 16).half())
    same(lego.grouped_matmul(drawn(0, 4, 8), drawn(8, 16), ends), torch.zeros(4, 16).half())


@pytest.mark.parametrize("lead", [(), (2,), (0,)])
@pytest.mark.parametrize(("heads", "queries", "keys"), [*product((0, 2), (0, 3), (0, 5))])
@pytest.mark.parametrize("causal", [False, True])
def test_attention(lead, heads, queries, keys, causal):
    if 0 not in (*lead, heads, queries, keys):
        return
    q, k, v = (drawn(*lead, heads, n, 64, learns=True) for n in (queries, keys, keys))

    def exact(q, k, v):
        if keys == 0:  # without a key PyTorch's result is 0, and on some devices not a number
            return 0 * q + 0 * (k.sum() + v.sum())
        return scaled_dot_product_attention(q, k, v, is_causal=causal)

    found = with_gradients(lambda q, k, v: lego.attention(q, k, v, causal=causal), q, k, v)
    for each, wanted in zip(found, with_gradients(exact, q, k, v), strict=True):
        same(each, wanted)
    same(lego.attention(*(x.detach() for x in (q, k, v)), causal=causal), found[0])


@pytest.mark.parametrize(("rows", "heads"), [(0, 2), (3, 0), (0, 0)])
def test_packed_attention(rows, heads):
    q, starts = drawn(rows, heads, 64, learns=True), torch.tensor([0, rows], dtype=torch.int32)
    found = with_gradients(lambda q: lego.attention_varlen(q, q, q, starts), q)
    for each, wanted in zip(found, with_gradients(lambda q: 0 * q, q), strict=True):
        same(each, wanted)


N = lego.size("N", max=2**20)
WIDTH = 128


@lego.kernel(grid=N, block=32)
def normed(x: lego.Tensor(f32, Row(N, WIDTH)), y: lego.Tensor(f16, Row(N, WIDTH))):
    row = lego.block_id[0]
    values = x.load(row, 4 * lego.thread_id[0], width=4)
    total = lego.warp_reduce(sum(values[i] * values[i] for i in range(4)), "add")
    y.store((values * lego.rsqrt(total / WIDTH)).to(f16), row, 4 * lego.thread_id[0], width=4)


def test_kernels_on_no_rows():
    M, K = lego.size("M", max=2**15), lego.size("K", max=2**15)
    turned, copied = transpose.build("padded", M, K, f32), copy.build(M, K, f32)
    for shape in ((0, 4), (4, 0), (0, 0)):
        x = torch.randn(shape)
        same(turned(x), x.T.contiguous())
        same(copied(x), x)
    for of_rows in (normed, lego.torch.op(normed)):
        same(of_rows(torch.randn(0, WIDTH)), torch.zeros(0, WIDTH).half())
    rows = np.ones((2, WIDTH), np.float32)
    np.testing.assert_allclose(normed(rows), rows, atol=1e-3)
