"""Kernels on CPU arrays of PyTorch and JAX, where these are installed, and of anything with DLPack."""

import ml_dtypes
import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Col, Row, bf16, f32
from lego_mlir.errors import UsageError
from lego_mlir.runtime import dlpack
from lego_mlir.runtime.arrays import ArrayFacts, key_of, library_of, likeness

M, N = lego.size("M"), lego.size("N")
NUMBERS = np.arange(12, dtype=np.float32).reshape(3, 4)


def kernel(dtype=f32, layout=Row):
    @lego.kernel(grid=lego.cdiv(M * N, 32), block=32)
    def double(x: lego.Tensor(dtype, layout(M, N)), y: lego.Tensor(dtype, Row(M, N))):
        i = lego.block_id.x * 32 + lego.thread_id.x
        with lego.when(i < M * N):
            y[i // N, i % N] = x[i // N, i % N] * 2

    return double


class Exchanged:
    """An array that is known by DLPack alone, of version 1 or before."""

    def __init__(self, array, versioned=True):
        self.array, self.versioned = array, versioned

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        if not self.versioned and "max_version" in options:
            raise TypeError("an older array")
        return self.array.__dlpack__(**options)


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")


@pytest.fixture
def jax():
    return pytest.importorskip("jax", reason="JAX is not installed: pip install jax")


@pytest.mark.parametrize("check", [False, True])
def test_torch_in_torch_out(torch, check):
    x = torch.from_numpy(NUMBERS.copy())
    double = kernel()
    made = double(x, check=check)
    assert isinstance(made, torch.Tensor)
    assert torch.equal(made, x * 2)
    given = torch.zeros(3, 4)
    assert double(x, given, check=check) is given
    assert torch.equal(given, x * 2)
    assert torch.equal(kernel(layout=Col)(x.T.contiguous().T, check=check), x * 2)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_torch_tensors_that_do_not_fit(torch):
    double, x = kernel(), torch.zeros(3, 4)
    double(x)  # a plan that none of the following may take
    for given, message in (
        (x.double(), "x holds f32, and the torch array holds float64"),
        (
            x.t().contiguous().t(),
            r"x has the layout Row\(M, N\), whose strides are \(4, 1\), .*; pass array.contiguous\(\)",
        ),
        (x.to_sparse(), "a torch.Tensor of layout torch.sparse_coo has no memory in the order of its elements"),
        (torch._neg_view(x), "has no memory in the order of its elements; pass .* tensor.resolve_neg"),
        (x.to("meta"), "a torch.Tensor is on the device meta; move it to the CPU or a CUDA device"),
        (torch.zeros(3, 4, requires_grad=True), r"no derivative, and a tensor requires a gradient; pass tensor.detach"),
    ):
        with pytest.raises(UsageError, match=message):
            double(given)
    with pytest.raises(UsageError, match=r"a torch.Tensor of layout torch.sparse_csr has no memory in the order"):
        kernel()(x.to_sparse_csr())
    for transformed in (torch.func.vmap(double, -1), torch.func.grad(lambda x: double(x[..., 0]).sum())):
        with pytest.raises(
            UsageError, match=r"inside a transform of torch.func, .*; call this outside of the transform"
        ):
            transformed(torch.ones(3, 4, 5))
    with torch.no_grad():
        assert torch.equal(double(torch.ones(3, 4, requires_grad=True)), torch.full((3, 4), 2.0))


def test_torch_s_bfloat16(torch):
    x = torch.arange(12, dtype=torch.bfloat16).reshape(3, 4)
    made = kernel(bf16)(x)
    assert made.dtype == torch.bfloat16
    assert torch.equal(made, x * 2)


def test_plans_of_torch_and_numpy_are_apart(torch):
    double = kernel()
    for _ in range(2):
        assert type(double(NUMBERS)) is np.ndarray
        assert isinstance(double(torch.from_numpy(NUMBERS)), torch.Tensor)
    assert key_of([NUMBERS]) != key_of([torch.from_numpy(NUMBERS)])


def test_tensors_that_are_alike_have_one_key(torch):
    x = torch.zeros(4, 6)
    others = [
        torch.ones(4, 6), torch.zeros(6, 4), torch.zeros(6, 4).T, torch.zeros(4, 6).double(), torch.zeros(8, 6)[::2],
        torch.zeros(4, 6, requires_grad=True), torch.zeros(4, 6, device="meta"), np.zeros((4, 6), "f4"), 1.0, x,
    ]  # fmt: skip
    for given in ((x, torch.zeros(4)), (x, 2.0), (x, x)):
        alike = likeness(given)
        assert alike(*given)
        for other in others:
            values = (other, given[1])
            assert not alike(*values) or key_of(values) == key_of(given)
            values = (given[0], other)
            assert not alike(*values) or key_of(values) == key_of(given)
    assert likeness((x, torch.zeros(4)))(torch.ones(4, 6), torch.ones(4))


@pytest.mark.parametrize("check", [False, True])
def test_jax_in_jax_out(jax, check):
    x = jax.numpy.asarray(NUMBERS)
    made = kernel()(x, check=check)
    assert isinstance(made, jax.Array)
    np.testing.assert_array_equal(made, NUMBERS * 2)
    np.testing.assert_array_equal(x, NUMBERS)
    words = kernel(bf16)(x.astype("bfloat16"), check=check)
    assert words.dtype == ml_dtypes.bfloat16


def test_jax_arrays_that_do_not_fit(jax):
    double, x = kernel(), jax.numpy.asarray(NUMBERS)
    with pytest.raises(UsageError, match="JAX arrays never change: leave the result out, and it is returned"):
        double(x, x + 1)
    with pytest.raises(UsageError, match=r"a traced JAX value has no memory: call the kernel outside jax.jit"):
        jax.jit(double)(x)


@pytest.mark.parametrize("versioned", [True, False])
def test_arrays_by_dlpack(versioned):
    double = kernel()
    x, y = NUMBERS.copy(), np.zeros((3, 4), np.float32)
    double(Exchanged(x, versioned), Exchanged(y, versioned))
    np.testing.assert_array_equal(y, x * 2)
    with pytest.raises(UsageError, match=r"pass an array for the result y: results are allocated as arrays of NumPy"):
        double(Exchanged(x, versioned))
    with pytest.raises(UsageError, match=r"x is a tensor of f32; pass an array of NumPy, PyTorch, .* not 3"):
        double(3, Exchanged(y))


def test_the_facts_in_a_capsule():
    x = np.zeros((4, 6), np.int16)
    for versioned in (True, False):
        facts = dlpack.facts(Exchanged(x[:, ::2], versioned))
        assert (facts.dtype, facts.shape, facts.strides) == ("int16", (4, 3), (6, 2))
        assert (facts.pointer, facts.device, facts.itemsize) == (x.ctypes.data, ("cpu", 0), 2)
        assert facts.writable
    x.flags.writeable = False
    assert not dlpack.facts(Exchanged(x)).writable
    assert dlpack.facts(Exchanged(np.zeros(2, bool))).dtype == "bool"
    assert dlpack.facts(Exchanged(np.zeros((), np.float64))).shape == ()


def test_capsules_that_cannot_be_used():
    class Elsewhere(Exchanged):
        def __dlpack__(self, **options):
            raise BufferError("on a remote machine")

    with pytest.raises(UsageError, match="refuses to be read by DLPack: on a remote machine"):
        dlpack.facts(Elsewhere(NUMBERS))
    x = np.zeros(2, np.complex64)
    with pytest.raises(UsageError, match=r"x holds f32, and the test.* array holds complex64"):
        kernel()(Exchanged(x), Exchanged(x))


def test_what_is_no_array():
    for value in (3, 2.5, "x", None, [1.0], np.float32(1), object()):
        assert library_of(value) is None
    assert library_of(NUMBERS).name == "numpy"
    assert key_of([NUMBERS, 1]) == key_of([NUMBERS, 2])
    assert key_of([NUMBERS, 1]) != key_of([NUMBERS, 1.0])
    assert key_of([NUMBERS]) != key_of([NUMBERS.T])
    read_only = NUMBERS.copy()
    read_only.flags.writeable = False
    assert key_of([NUMBERS]) != key_of([read_only])


def test_the_memory_of_an_array():
    facts = ArrayFacts("numpy", "float32", (3, 4), (8, 1), 0, ("cpu", 0), 4)
    assert (facts.size, facts.bytes) == (12, 4 * 20)
    assert ArrayFacts("numpy", "float32", (0, 4), (8, 1), 0, ("cpu", 0), 4).bytes == 0
