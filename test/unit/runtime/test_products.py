"""`lego_mlir.matmul`, with CuPy replaced by NumPy and the device by the interpreter."""

import contextlib
import sys
import types

import numpy as np
import pytest

import lego_mlir
from lego_mlir import interp
from lego_mlir.errors import DependencyError, UsageError
from lego_mlir.runtime import cuda, products
from lego_mlir.runtime.products import Problem, kernel_for, target_of
from lego_mlir.toolchain import compile_kernel


class Device(contextlib.nullcontext):
    """A device by its number."""

    compute_capability, attributes = "90", {"MultiProcessorCount": 132}

    def __init__(self, number):
        super().__init__()
        self.id = number


class Array(np.ndarray):
    """A NumPy array that says where it lies as CuPy's arrays do."""

    number = 0

    def __array_finalize__(self, given):
        self.number = getattr(given, "number", 0)

    @property
    def device(self):
        return Device(self.number)

    @property
    def data(self):
        return types.SimpleNamespace(ptr=self.__array_interface__["data"][0])


class Foreign(np.ndarray):
    """An array of another library, on a device."""

    def __dlpack_device__(self):
        return (2, 0)


def array(given, order="C"):
    return np.array(given, order=order).view(Array)


@pytest.fixture
def device(monkeypatch, tmp_path):
    """A device whose launches run the transformed module; the list of the problems that were launched."""
    launched = []

    def launcher(problem, device):
        kernel, script, parameters = kernel_for(problem)

        def launch(a, b, c):
            launched.append(problem)
            text = compile_kernel(
                kernel, transform=script, parameters=parameters, target=problem.target, emit="transformed"
            ).text
            stored = {p.name: p.dtype.numpy for p in kernel.params}
            memories = [np.asarray(x).view(stored[name]) for name, x in zip("abc", (a, b, c), strict=True)]
            assert interp.launch(text, args=memories).clean

        return launch

    module = types.SimpleNamespace(
        ndarray=Array,
        from_dlpack=lambda x: array(np.asarray(x)),
        ascontiguousarray=lambda x: np.asanyarray(x, order="C"),
        empty=lambda shape, dtype: array(np.zeros(shape, dtype)),
    )
    monkeypatch.setattr(cuda, "cupy", lambda: module)
    monkeypatch.setattr(products, "launcher", launcher)
    return launched


def operands(m, n, k):
    draw = np.random.default_rng(0)
    return (draw.integers(-4, 5, shape).astype(np.float16) for shape in ((m, k), (k, n)))


@pytest.mark.parametrize("layouts", ["NN", "NT", "TN", "TT"])
def test_arrays_in_rows_and_columns_are_used_where_they_lie(device, layouts):
    a, b = operands(40, 72, 160)
    given = [array(x, order="F" if letter == "T" else "C") for x, letter in zip((a, b), layouts, strict=True)]
    product = lego_mlir.matmul(*given)
    np.testing.assert_array_equal(product, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))
    (problem,) = device
    assert problem == Problem(40, 72, 160, "f16", "f16", layouts, "sm_90", 132)


def test_operands_on_two_devices_are_refused(device):
    a, b = (array(x) for x in operands(32, 32, 32))
    b.number = 1
    with pytest.raises(UsageError, match="a is on device 0 and b on device 1; move one of them"):
        lego_mlir.matmul(a, b)
    a.number = 1
    assert lego_mlir.matmul(a, b).shape == (32, 32)


@pytest.mark.parametrize("k", [1, 8, 24, 64, 65])
def test_depths_of_one_tile_and_a_little_more(device, k):
    a, b = operands(33, 20, k)
    product = lego_mlir.matmul(array(a), array(b), result="float32")
    np.testing.assert_array_equal(product, a.astype(np.float32) @ b.astype(np.float32))


def test_other_arrays_are_copied(device):
    a, b = operands(64, 64, 64)
    wide = array(np.zeros((64, 130), np.float16))
    wide[:, :128:2] = a
    product = lego_mlir.matmul(wide[:, :128:2], array(b), result="float32")
    assert product.dtype == np.float32
    np.testing.assert_array_equal(product, a.astype(np.float32) @ b.astype(np.float32))


def test_an_array_of_another_library_comes_by_dlpack(device):
    a, b = (x.view(Foreign) for x in operands(32, 32, 32))
    np.testing.assert_array_equal(lego_mlir.matmul(a, b), (a.astype(np.float32) @ b.astype(np.float32)))


@pytest.mark.parametrize(
    ("a", "b", "options", "message"),
    [
        (np.zeros((4, 8), "f2"), np.zeros((4, 8), "f2"), {}, "4 x 8 float16 and 4 x 8 float16: the inner sizes"),
        (np.zeros((4, 8), "f4"), np.zeros((8, 4), "f2"), {}, "float16 or bfloat16, got a of float32 and shape"),
        (np.zeros((4, 8), "f2"), np.zeros(8, "f2"), {}, r"got b of float16 and shape \(8,\)"),
        (np.zeros((4, 8), "f2"), [[1.0]], {}, "got b of list"),
        (np.zeros((4, 0), "f2"), np.zeros((0, 4), "f2"), {}, r"shape \(4, 0\)"),
        (np.zeros((4, 8), "f2"), np.zeros((8, 4), "f2"), {"result": "int8"}, "one of float16, bfloat16, float32, got"),
    ],
)
def test_what_cannot_be_multiplied(device, a, b, options, message):
    a, b = (array(x) if isinstance(x, np.ndarray) else x for x in (a, b))
    with pytest.raises(UsageError, match=message):
        lego_mlir.matmul(a, b, **options)
    assert not device


class Tensor:
    """What `matmul` sees of a tensor of PyTorch before it is taken for CuPy."""

    def __init__(self, requires_grad=False, device="cuda"):
        self.dtype, self.shape, self.requires_grad = "torch.float16", (8, 8), requires_grad
        self.device = types.SimpleNamespace(type=device, __str__=lambda self: device)


Tensor.__module__ = "torch"


class HostArray:
    """An array that speaks DLPack and is in the host's memory."""

    dtype, shape = np.dtype("float16"), (8, 8)

    def __dlpack_device__(self):
        return (1, 0)


@pytest.mark.parametrize(
    ("a", "message"),
    [
        (
            np.zeros((8, 8), "f2"),
            r"matmul: a, of numpy, is in the host's memory; move it to the GPU: cupy.asarray\(a\)",
        ),
        (HostArray(), r"is in the host's memory"),
        (types.SimpleNamespace(dtype="float16", shape=(8, 8)), r"a is a SimpleNamespace, which does not speak DLPack"),
        (Tensor(device="cpu"), r"matmul: a is on .*; move it to the GPU: a.cuda\(\)"),
        (
            Tensor(requires_grad=True),
            r"matmul: a requires a gradient, and this product has no derivative; pass a.detach",
        ),
    ],
)
def test_arrays_on_the_host_and_gradients_are_refused(device, monkeypatch, a, message):
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(is_grad_enabled=lambda: True))
    with pytest.raises(UsageError, match=message):
        lego_mlir.matmul(a, array(np.zeros((8, 8), "f2")))
    assert not device


def test_without_gradients_a_parameter_is_multiplied(device, monkeypatch):
    a, b = operands(32, 32, 32)

    class Parameter(Foreign):
        requires_grad, detached = True, False

        @property
        def device(self):
            return types.SimpleNamespace(type="cuda")

        def detach(self):
            return self

        def view(self, dtype):
            return np.ndarray.view(self, dtype)

    Parameter.__module__ = "torch"
    torch = types.SimpleNamespace(is_grad_enabled=lambda: False, int16=np.float16, from_dlpack=np.asarray)
    monkeypatch.setitem(sys.modules, "torch", torch)
    product = lego_mlir.matmul(a.view(Parameter), array(b))
    np.testing.assert_array_equal(product, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))


def test_the_target_is_the_device_or_the_newest_before_it():
    assert [target_of(capability) for capability in ("80", "86", "89", "90", "100", "121")] == [
        "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120",
    ]  # fmt: skip
    with pytest.raises(UsageError, match=r"capability 80 or later, and this one is 75"):
        target_of("75")


def test_without_a_device_the_remedy_is_said(monkeypatch):
    def missing():
        raise DependencyError("CuPy is needed to run on a GPU; run: pip install cupy-cuda13x")

    monkeypatch.setattr(cuda, "cupy", missing)
    with pytest.raises(DependencyError, match="pip install"):
        lego_mlir.matmul(np.zeros((4, 4), "f2"), np.zeros((4, 4), "f2"))


def test_a_launcher_compiles_into_the_cache_and_loads_from_there(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    loaded = []
    module = types.SimpleNamespace(kernel=lambda: "the kernel")
    monkeypatch.setattr(cuda, "load", lambda path: loaded.append(path) or module)
    products.launcher.cache_clear()
    problem = Problem(64, 64, 64, "bf16", "f32", "NT", "sm_80", 108)
    assert products.launcher(problem, 0) == products.launcher(problem, 0) == "the kernel"
    (path,) = loaded
    assert path.parent == tmp_path / "lego-mlir" / "matmul"
    assert "m16n8k16.row.col.f32.bf16.bf16.f32" in path.read_text()
    assert '"entry": "matmul"' in path.with_suffix(".json").read_text()
    products.launcher.cache_clear()
