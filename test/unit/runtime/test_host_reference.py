"""Shipped operations on arrays of the host, and calls without elements."""

import numpy as np
import pytest
from cuda_stand_in import own
from ml_dtypes import float8_e4m3fn

import lego_mlir as lego
from lego_mlir import Row, f32
from lego_mlir.errors import ReferenceWarning, UsageError
from lego_mlir.runtime import host_reference

M, N = lego.size("M"), lego.size("N")


@lego.kernel(grid=(lego.cdiv(M, 128),), block=128)
def doubled(x: lego.Tensor(f32, Row(M)), y: lego.Tensor(f32, Row(M))):
    i = lego.block_id.x * 128 + lego.thread_id.x
    with lego.when(i < M):
        y[i] = x[i] * 2.0


@lego.kernel(grid=(M,), block=32)
def first_of_rows(x: lego.Tensor(f32, Row(M, N)), y: lego.Tensor(f32, Row(M))):
    with lego.when(lego.thread_id.x < 1):
        y[lego.block_id.x] = x[lego.block_id.x, 0]


@lego.program
def twice(x: lego.Tensor(f32, Row(M)), y: lego.Tensor(f32, Row(M))):
    t = lego.empty(f32, Row(M))
    doubled(x, t)
    doubled(t, y)


@pytest.fixture(autouse=True)
def _no_notes(monkeypatch):
    monkeypatch.setattr(host_reference, "_noted", set())


@pytest.mark.parametrize("run", [doubled, twice], ids=["kernel", "program"])
@pytest.mark.parametrize("check", [False, True])
def test_a_call_without_elements_returns_its_result(run, check):
    x = np.zeros(0, np.float32)
    assert run(x, check=check).shape == (0,)
    y = np.zeros(0, np.float32)
    assert run(x, y, check=check) is y
    assert run.prepare(x)().shape == (0,)


def test_an_empty_input_of_a_result_with_elements_is_refused():
    assert first_of_rows(np.zeros((0, 4), np.float32)).shape == (0,)
    with pytest.raises(UsageError, match="size N = 0: the kernel was compiled for at least 1"):
        first_of_rows(np.zeros((3, 0), np.float32))


def test_types_and_sizes_of_an_empty_call_are_checked_all_the_same():
    with pytest.raises(UsageError, match="x holds f32, and the numpy array holds float64"):
        doubled(np.zeros(0))
    with pytest.raises(UsageError, match="size M = 0: the kernel was compiled for at least 1"):
        doubled(np.zeros(0, np.float32), np.zeros(3, np.float32))


def test_one_note_says_that_no_kernel_runs():
    a = np.arange(12, dtype=np.float16).reshape(3, 4)
    with pytest.warns(ReferenceWarning, match="matmul: these arrays are in the host's memory, so that NumPy") as notes:
        found = lego.matmul(a, a.T)
    assert notes[0].filename == __file__
    assert np.array_equal(found, a @ a.T) and found.dtype == np.float16
    assert np.array_equal(lego.matmul(a, a.T, result="float32"), a.astype("f4") @ a.T.astype("f4"))
    with pytest.warns(ReferenceWarning, match="attention: "):
        lego.attention(*(np.zeros((1, 3, 64), np.float16) for _ in "qkv"))


def test_what_is_refused_on_a_gpu_is_refused_here():
    a = np.zeros((3, 4), np.float32)
    with pytest.warns(ReferenceWarning), pytest.raises(UsageError, match="allow that with tf32=True"):
        lego.matmul(a, a.T)
    with pytest.raises(UsageError, match="the inner sizes and the types must agree"):
        lego.matmul(a, a)
    with pytest.raises(UsageError, match=r"bias is float32 of shape \(3,\)"):
        lego.matmul(a, a.T[:, :2], tf32=True, bias=np.zeros(3, np.float32))


@pytest.mark.parametrize(("m", "k", "n"), [(0, 4, 3), (3, 0, 5), (3, 4, 0), (0, 0, 0)])
def test_empty_products_are_numpys_without_a_note(m, k, n):
    a, b = np.ones((m, k), np.float16), np.ones((k, n), np.float16)
    found = lego.matmul(a, b)
    assert found.shape == (m, n) and not found.any()
    batch = np.ones((2, m, k), np.float16)
    assert lego.matmul(batch, np.ones((2, k, n), np.float16)).shape == (2, m, n)


def test_a_query_without_keys_is_zero_and_a_window_is_one():
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((2, 5, 64)).astype(np.float16) for _ in "qkv")
    host_reference._noted.add("attention")
    found = lego.attention(q, k, v, causal=True, window=1)
    assert np.array_equal(found, v)
    assert not host_reference.attention(q, k, v, lego_form(causal=True), shift=-5).any()


def lego_form(**options):
    from lego_mlir.kernels.attention_forms import AttentionForm

    return AttentionForm(64, **options)


@pytest.mark.filterwarnings("ignore::lego_mlir.errors.ReferenceWarning")
def test_what_has_no_keys_or_no_group_is_zero_whatever_it_holds():
    q = np.full((3, 2, 64), np.inf, np.float16)
    found = lego.attention_varlen(q, q[:1], q[:1], np.array([0, 2], np.int32), np.zeros(2, np.int32))
    assert not found.any()
    a, b = np.full((3, 64), np.nan, np.float16), np.ones((1, 64, 8), np.float16)
    assert not lego.grouped_matmul(a, b, np.zeros(1, np.int32)).any()
    narrow = q.astype(float8_e4m3fn)
    assert not lego.attention(
        narrow.swapaxes(0, 1), *[narrow[:0].swapaxes(0, 1)] * 2, scales=np.ones((3, 1), np.float32)
    ).any()


class Exchanged:
    """An array that is known by DLPack alone."""

    def __init__(self, values):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


HEADS, PACKED = np.zeros((1, 2, 8, 64), np.float16), np.zeros((8, 2, 64), np.float16)
STARTS = np.array([0, 8], np.int32)
CALLS = {
    "attention: q": lambda x: lego.attention(x(HEADS), HEADS, HEADS),
    "attention: v": lambda x: lego.attention(HEADS, HEADS, x(HEADS)),
    "attention: bias": lambda x: lego.attention(
        HEADS, HEADS, HEADS, score=lambda s, b, h, i, j, bias: s + bias[j], reads={"bias": x(np.zeros(8, np.float32))}
    ),
    "attention_varlen: k": lambda x: lego.attention_varlen(PACKED, x(PACKED), PACKED, STARTS),
    "attention_varlen: cu_seqlens_q": lambda x: lego.attention_varlen(PACKED, PACKED, PACKED, x(STARTS)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_arrays_of_two_libraries_are_named(name):
    operation, _, which = name.partition(": ")
    library = __name__.partition(".")[0]
    shown = (
        rf"^{operation}: .*\b(q is an array|{which} one) of {library}\b.*convert {which}, .*numpy.asarray\({which}\)"
    )
    with pytest.raises(UsageError, match=shown):
        CALLS[name](Exchanged)


def test_arrays_of_one_library_that_computes_nothing_are_named():
    library = __name__.partition(".")[0]
    with pytest.raises(UsageError, match=rf"^attention: q is an array of {library} in the host's memory.*asarray"):
        lego.attention(*[Exchanged(HEADS)] * 3)


def test_arrays_of_the_host_and_of_a_gpu_are_named(device):
    with pytest.raises(UsageError, match=r"^attention: q is in the memory of GPU 0, and v of the host; move one"):
        lego.attention(own(HEADS), own(HEADS), HEADS)
