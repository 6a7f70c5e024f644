"""`lego_mlir.matmul` with a stand-in for the driver: a launch runs the transformed module in the interpreter."""

import ctypes
import sys
import types
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from cuda_stand_in import DeviceArray, OwnArray, own
from product_device import compiled_product

import lego_mlir
from lego_mlir.choices import families, warpgroup_tiles
from lego_mlir.choices.product_device import REFERENCE_DEVICE
from lego_mlir.choices.product_tile import warpgroup_tile
from lego_mlir.errors import DependencyError, UsageError
from lego_mlir.kernels import product_classes
from lego_mlir.runtime import arrays
from lego_mlir.runtime.products import kernels
from lego_mlir.runtime.products.problem import Problem, target_of


def operands(m, n, k, dtype=np.float16):
    draw = np.random.default_rng(0)
    return (draw.integers(-4, 5, shape).astype(dtype) for shape in ((m, k), (k, n)))


def exact(a, b, dtype=np.float16):
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(dtype)


@pytest.mark.parametrize("layouts", ["NN", "NT", "TN", "TT"])
def test_arrays_in_rows_and_columns_are_used_where_they_are(device, layouts):
    a, b = operands(40, 72, 160)
    given = [own(np.asarray(x, order="F" if t == "T" else "C")) for x, t in zip((a, b), layouts, strict=True)]
    for _ in range(2):
        product = lego_mlir.matmul(*given)
        assert type(product) is OwnArray
        np.testing.assert_array_equal(product, exact(a, b))
    assert list(device.compiled) == [Problem(40, 72, 160, "f16", "f16", layouts, "sm_90a", 132, (66, 33, 16))]
    assert len(device.problems) == 2


def test_the_current_stream_and_the_device_of_the_arrays(device):
    device.machine.set(devices=2)
    a, b = operands(32, 32, 32)
    for number in (1, 0, 1):
        device.library.stream = 40
        product = lego_mlir.matmul(own(a, number), own(b, number))
        assert product.number == number
        assert device.machine.launches[-1][-1] == 40 + number
        np.testing.assert_array_equal(product, exact(a, b))
    with pytest.raises(UsageError, match="a is on device 0 and b on device 1; move one of them"):
        lego_mlir.matmul(own(a), own(b, 1))


@pytest.mark.parametrize("k", [1, 8, 24, 64, 65])
def test_depths_of_one_tile_and_a_little_more(device, k):
    a, b = operands(33, 20, k)
    product = lego_mlir.matmul(own(a), own(b), result="float32")
    np.testing.assert_array_equal(product, exact(a, b, np.float32))


def test_each_array_is_read_once(device, monkeypatch):
    """And not at all where arrays like these are known."""
    library, read = arrays._by_type[OwnArray], []
    monkeypatch.setitem(arrays._by_type, OwnArray, replace(library, facts=lambda x: read.append(x) or library.facts(x)))
    a, b = (own(x) for x in operands(32, 32, 32))
    for _ in range(2):
        lego_mlir.matmul(a, b)
        assert [id(x) for x in read] == [id(a), id(b)]


def test_bfloat16(device):
    a, b = operands(32, 32, 32, ml_dtypes.bfloat16)
    product = lego_mlir.matmul(own(a), own(b))
    assert product.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(product, exact(a, b, ml_dtypes.bfloat16))


def test_other_arrays_are_copied(device):
    a, b = operands(64, 64, 64)
    wide = own(np.zeros((64, 130), np.float16))
    wide[:, :128:2] = a
    for given in (wide[:, :128:2], own(a, shift=8)):
        product = lego_mlir.matmul(given, own(b), result="float32")
        np.testing.assert_array_equal(product, exact(a, b, np.float32))


class Known(DeviceArray):
    """An array of a library that is known by a protocol alone."""

    @property
    def dtype(self):
        return self.host.dtype

    @property
    def shape(self):
        return self.host.shape


def test_an_array_of_another_library(device, monkeypatch):
    from lego_mlir.runtime import cuda

    a, b = operands(32, 32, 32)
    monkeypatch.setattr(cuda, "cupy", lambda: types.SimpleNamespace(empty=lambda n: own(np.zeros(n))))
    product = lego_mlir.matmul(Known(a), Known(b))
    assert type(product) is OwnArray
    np.testing.assert_array_equal(product, exact(a, b))
    with pytest.raises(UsageError, match=r"a, of test, is in neither rows nor columns, or not aligned to 16"):
        lego_mlir.matmul(Known(a, shift=2), Known(b))


@pytest.mark.parametrize(
    ("a", "b", "options", "message"),
    [
        (np.zeros((4, 8), "f2"), np.zeros((4, 8), "f2"), {}, "4 x 8 float16 and 4 x 8 float16: the inner sizes"),
        (np.zeros((4, 8), "f4"), np.zeros((8, 4), "f2"), {}, "4 x 8 float32 and 8 x 4 float16: the inner sizes and"),
        (np.zeros((4, 8), "f2"), np.zeros(8, "f2"), {}, r"got b of float16 and shape \(8,\)"),
        (np.zeros((4, 8), "f2"), [[1.0]], {}, "got b of list"),
        (np.zeros((4, 0), "f2"), np.zeros((0, 4), "f2"), {}, r"shape \(4, 0\); no size may be 0"),
        (np.zeros((4, 8), "f2"), np.zeros((8, 4), "f2"), {"result": "int8"}, "one of float16, bfloat16, float32, got"),
    ],
)
def test_what_cannot_be_multiplied(device, a, b, options, message):
    a, b = (own(x) if isinstance(x, np.ndarray) else x for x in (a, b))
    with pytest.raises(UsageError, match=message):
        lego_mlir.matmul(a, b, **options)
    assert not device.problems


class HostArray:
    """An array that speaks DLPack and is in the host's memory."""

    dtype, shape = np.dtype("float16"), (8, 8)

    def __init__(self):
        self.memory = np.zeros((8, 8), np.float16)

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **options):
        return self.memory.__dlpack__(**options)


@pytest.mark.parametrize(
    ("a", "message"),
    [
        (np.zeros((8, 8), "f2"), r"matmul: a, of numpy, is in the host's memory; move it to the GPU: cupy.asarray"),
        (HostArray(), r"matmul: a, of test, is in the host's memory"),
        (types.SimpleNamespace(dtype="float16", shape=(8, 8)), r"a is a SimpleNamespace, which does not speak DLPack"),
    ],
)
def test_arrays_on_the_host_are_refused(device, a, message):
    with pytest.raises(UsageError, match=message):
        lego_mlir.matmul(a, own(np.zeros((8, 8), "f2")))
    assert not device.problems


def test_gradients_are_refused_unless_they_are_disabled(device, monkeypatch):
    a, b = (own(x) for x in operands(32, 32, 32))
    library = arrays._by_type[OwnArray]
    learning = replace(library, facts=lambda array: replace(library.facts(array), needs_gradient=True))
    monkeypatch.setitem(arrays._by_type, OwnArray, learning)
    enabled = True
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(is_grad_enabled=lambda: enabled))
    with pytest.raises(UsageError, match=r"a requires a gradient, and this product has no derivative; pass a.detach"):
        lego_mlir.matmul(a, b)
    enabled = False
    np.testing.assert_array_equal(lego_mlir.matmul(a, b), exact(np.asarray(a), np.asarray(b)))
    enabled = True
    with pytest.raises(UsageError, match="matmul: a requires a gradient"):
        lego_mlir.matmul(a, b)


def test_the_target_is_the_device_or_the_newest_before_it():
    assert [target_of(capability) for capability in ("80", "86", "89", "90", "100", "120", "121", "122")] == [
        "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120", "sm_121", "sm_121",
    ]  # fmt: skip
    with pytest.raises(UsageError, match=r"capability 80 or later, and this one is 75"):
        target_of("75")


def test_warpgroups_compute_large_products_on_hopper(device, monkeypatch):
    monkeypatch.setattr(families, "warpgroups_compute", lambda *_: True)
    a, b = operands(72, 136, 88)
    given = own(a), own(b)
    for product in [lego_mlir.matmul(*given) for _ in range(2)]:  # both results are alive, at two addresses
        np.testing.assert_array_equal(product, exact(a, b))
    counts = [ctypes.c_int.in_dll(device.machine.library, f"stand_in_{n}").value for n in ("encoded", "replaced")]
    assert counts == [3, 1]  # the second launch has the same operands and another result
    ((entry, grid, block, shared, _),) = set(device.machine.launches)
    (compilation,) = device.compiled.values()
    assert compilation.settings.target.name == "sm_90a"
    assert "wgmma.mma_async" in compilation.text
    assert (entry, grid, block) == ("matmul", (3, 1, 1), (384, 1, 1))
    assert shared == compilation.kernels[0].dynamic_shared


@pytest.mark.parametrize(("fitting", "blocks"), [(66, 8), (3, 6)])
def test_clusters_that_fit_and_early_launches(device, monkeypatch, fitting, blocks):
    monkeypatch.setattr(families, "warpgroups_compute", lambda *_: True)
    tile = warpgroup_tile(64, 64, 2, cluster=(1, 2), dependent=True)
    monkeypatch.setattr(warpgroup_tiles, "choose", lambda *_: tile)
    device.machine.set(clusters=fitting)
    a, b = operands(72, 136, 88)  # 2 x 2 tiles of clusters
    np.testing.assert_array_equal(lego_mlir.matmul(own(a), own(b)), exact(a, b))
    ((problem, _),) = device.compiled.items()  # the driver is asked before a kernel is compiled
    assert problem.clusters == (fitting, fitting // 2, fitting // 4)
    ((entry, grid, block, _, _),) = device.machine.launches
    assert (entry, grid, block) == ("matmul", (blocks, 1, 1), (256, 1, 1))
    assert ctypes.c_int.in_dll(device.machine.library, "stand_in_early").value == 1


@pytest.mark.parametrize(
    ("problem", "by_warpgroups"),
    [
        (Problem(1024, 1024, 1024, "f16", "f16", "NN", "sm_90a", 132), True),
        (Problem(1024, 1024, 1024, "bf16", "f16", "TT", "sm_90a", 132), True),
        (Problem(1024, 1024, 1024, "f16", "f16", "NN", "sm_90", 132), False),
        (Problem(1024, 1024, 1024, "f16", "f32", "NN", "sm_90a", 132), True),
        (Problem(1024, 1028, 1024, "f16", "f16", "NT", "sm_90a", 132), False),
        (Problem(1024, 1024, 1028, "f16", "f16", "NT", "sm_90a", 132), False),
        (Problem(1028, 1024, 1024, "f16", "f16", "TN", "sm_90a", 132), False),
        (Problem(32, 8192, 8192, "f16", "f16", "NN", "sm_90a", 132), True),
        (Problem(32, 8192, 8192, "f16", "f32", "NN", "sm_90a", 132), True),
        (Problem(256, 256, 256, "f16", "f16", "NN", "sm_90a", 132), True),
        (Problem(64, 64, 64, "f16", "f16", "NN", "sm_90a", 132), False),
    ],
)
def test_a_product_goes_to_the_units_that_can(problem, by_warpgroups):
    assert (kernels.kernel_for(problem)[1] != kernels.PIPELINED) == by_warpgroups


def test_without_a_device_the_remedy_is_said(device):
    device.machine.set(devices=0)
    with pytest.raises(DependencyError, match="a GPU and NVIDIA's driver are needed"):
        lego_mlir.matmul(*(own(x) for x in operands(4, 4, 4)))


def test_a_kernel_is_compiled_into_the_cache_once(device):
    problem = Problem(64, 64, 64, "bf16", "f32", "NT", "sm_80", 108)
    text = kernels.compiled(problem).text
    assert "m16n8k16.row.col.f32.bf16.bf16.f32" in text
    again = compiled_product.__wrapped__(problem)  # not what the tests keep
    assert again.text == text
    assert "ptx" in again.cached


def test_a_division_with_parts_of_k_has_one_cluster_for_each_tile(device, monkeypatch):
    tile = warpgroup_tile(64, 64, 4, group=1, parts=2)
    monkeypatch.setattr(warpgroup_tiles, "choose", lambda *sizes: tile)
    monkeypatch.setattr(families, "warpgroups_compute", lambda *_: True)
    a, b = operands(72, 80, 520)
    np.testing.assert_array_equal(lego_mlir.matmul(own(a), own(b)), exact(a, b))
    ((problem, compilation),) = device.compiled.items()
    (entry,) = compilation.manifest["kernels"]
    assert (entry["grid"][0], entry["cluster"]) == (8, 2)
    assert problem.target == "sm_90a"


@pytest.mark.parametrize("bias", [False, True])
def test_a_division_among_clusters_has_a_workspace(device, monkeypatch, bias):
    tile = warpgroup_tile(64, 64, 4, group=1, splits=3)
    monkeypatch.setattr(warpgroup_tiles, "choose", lambda *sizes: tile)
    monkeypatch.setattr(families, "warpgroups_compute", lambda *_: True)
    a, b = operands(72, 80, 520)
    given = {"bias": own(np.arange(80, dtype=np.float32))} if bias else {}
    for _ in range(2):
        found = lego_mlir.matmul(own(a), own(b), result="float32", **given)
        expected = a.astype(np.float64) @ b.astype(np.float64) + (np.arange(80) if bias else 0)
        np.testing.assert_array_equal(found, expected.astype(np.float32))
    ((_, compilation),) = device.compiled.items()
    (entry,) = compilation.manifest["kernels"]
    assert entry["grid"][0] == 2 * 2 * 3
    assert [argument["name"] for argument in entry["arguments"]][-2:] == ["partial", "counters"]


def test_products_of_few_tiles_and_long_sums_divide_k():
    """At 64 x 1024 x 8192 four parts took 0.53 of the time of whole sums on an H200, at 200 x 200 x 8192 0.61.

    Such products have no class; where parts gain less, they are those of the exact kernel after some calls.
    """

    def parts(size, layouts="NT", result="f16"):
        found = product_classes.class_for(size, layouts, "f16", result, "sm_90a")
        chosen = warpgroup_tiles.choose(*size, REFERENCE_DEVICE, layouts, fused=result == "f32")
        assert found or chosen.parts * chosen.splits > 1
        return chosen.parts * chosen.splits, found is None

    assert parts((64, 1024, 8192)) == parts((200, 200, 8192)) == (4, True)
    assert parts((64, 1024, 8192), "NN") == (8, True)
    assert parts((512, 512, 65536)) == (8, True)  # 0.6 of the time of whole sums
    assert parts((512, 512, 65536), result="f32") > (1, True)
    assert parts((16, 4096, 4096)) == parts((144, 4096, 4096)) == (2, False)
    for other in ((64, 5120, 5120, "NT", "f32"), (64, 5120, 5120), (4096, 4096, 4096)):
        assert parts(other[:3], *other[3:]) == (1, False)
