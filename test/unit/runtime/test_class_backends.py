"""`lego_mlir.matmul` by classes of sizes, with a stand-in for the driver: what is compiled, and the results."""

import threading
import time
from functools import cache

import numpy as np
import pytest
from cuda_stand_in import Machine, OwnLibrary, own
from product_device import forget, run_launch

import lego_mlir
from lego_mlir.choices import families
from lego_mlir.choices.class_tiles import MOST
from lego_mlir.choices.product_device import device_with
from lego_mlir.kernels.product_classes import PipelinedClass, ProductClass, class_for
from lego_mlir.runtime import driver, first_calls
from lego_mlir.runtime.products import backends, kernels

compiled_class = cache(kernels.compiled_class)
"""The kernels of classes, which the class and the target define: compiled once for all tests."""


class Device:
    """The stand-in: `compiled` lists the classes that were compiled, in order; a launch runs in the interpreter."""

    def __init__(self, monkeypatch):
        self.compiled, self.compilations, self.latest, self.launched = [], {}, None, []
        self.machine = Machine().plug_in(monkeypatch)
        self.machine.kernels["matmul"] = self.launch
        self.library = OwnLibrary(monkeypatch)

        def compiled(found, target):
            self.compiled.append(found)
            self.compilations[found] = compiled_class(found, target)
            return self.compilations[found]

        monkeypatch.setattr(first_calls, "kernel_of", lambda call, make, *_: make())  # what runs is found by compiling
        monkeypatch.setattr(kernels, "compiled_class", compiled)
        of_class = backends.of_class

        def code(found, target):
            made = of_class(found, target)
            self.latest = self.compilations[found]  # every product of these tests has another shape, and is bound
            return made

        monkeypatch.setattr(backends, "of_class", code)

    def launch(self, parameters, grid):
        self.launched.append(self.latest)
        run_launch(self.latest, "matmul", parameters, grid)


@pytest.fixture
def device(monkeypatch):
    forget()
    yield Device(monkeypatch)
    forget()
    driver.driver.cache_clear()


def operands(m, n, k):
    draw = np.random.default_rng(m)
    return [draw.integers(-4, 5, shape).astype(np.float16) for shape in ((m, k), (k, n))]


def multiply(m, n, k, **options):
    a, b = operands(m, n, k)
    product = lego_mlir.matmul(own(a), own(b), **options)
    np.testing.assert_array_equal(product, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))


def test_a_varying_batch_compiles_nothing_anew(device):
    for m in (65, 128, 100, 66):
        multiply(m, 64, 160)
    assert len(device.compiled) == len(set(device.compiled)) <= 3
    assert all(isinstance(found, PipelinedClass) for found in device.compiled)


def test_warpgroups_share_a_kernel_too(device, monkeypatch):
    monkeypatch.setattr(families, "warpgroups_compute", lambda *_: True)
    for m in (136, 72, 200):
        multiply(m, 136, 88)
    known = list(device.compiled)
    assert len(known) == len(set(known)) <= 3
    assert all(isinstance(found, ProductClass) for found in known)
    for m in (135, 73, 199):
        multiply(m, 136, 88)
    assert device.compiled == known


def fused(m, n, k, dtype=np.float16, **options):
    """A fused product against NumPy; b is in columns."""
    draw = np.random.default_rng(m)
    a, b = (draw.integers(-4, 5, shape).astype(dtype) for shape in ((m, k), (k, n)))
    rows, bias = draw.integers(1, 4, m).astype(np.float32), draw.integers(-4, 5, n).astype(np.float16)
    added = draw.integers(-4, 5, (m, n)).astype(np.float16)
    given = {"scale_a": own(rows), "bias": own(bias), "residual": own(added)}
    found = lego_mlir.matmul(own(a), own(np.asfortranarray(b)), activation="relu", result="float32", **given, **options)
    product = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(found, np.maximum(product * rows[:, None] + bias, 0) + added)


@pytest.mark.parametrize("warpgroups", [True, False])
def test_a_varying_batch_compiles_no_fused_product_anew(device, monkeypatch, warpgroups):
    monkeypatch.setattr(families, "warpgroups_compute", lambda *_: warpgroups)
    for m in (136, 72, 200):
        fused(m, 72, 160)
    known = list(device.compiled)
    assert len(known) == len(set(known)) <= 3
    assert {type(found) for found in known} == {ProductClass if warpgroups else PipelinedClass}
    for m in (135, 73):
        fused(m, 72, 160)
    assert device.compiled == known
    assert str(known[0].fused) == "_scaleeach_biasf16_relu_addf16"


def test_other_types_share_kernels_too(device):
    for m in (72, 80, 68):
        fused(m, 72, 80, np.int8)
    assert {(found.dtype, found.result) for found in device.compiled} == {("i8", "f32")}
    assert len(device.compiled) <= 2
    known = list(device.compiled)
    for m in (36, 40):
        a, b = (np.ones(shape, np.float32, order) for shape, order in (((m, 20), "C"), ((20, 72), "F")))
        np.testing.assert_array_equal(lego_mlir.matmul(own(a), own(b), tf32="rounded"), a @ b)
    assert [found.fused.rounded for found in device.compiled[len(known) :]] == [True]


def test_fixed_sizes_are_asked_for(device, monkeypatch):
    seen = []
    monkeypatch.setattr(backends, "of_problem", lambda problem, *others: seen.append(problem) or pytest.skip("seen"))
    with pytest.raises(pytest.skip.Exception):
        multiply(65, 64, 160, fixed=True)
    assert (seen[0].m, device.compiled) == (65, [])


@pytest.mark.parametrize("at_once", [66, 60])
def test_a_clustered_class_is_compiled_once_for_what_the_device_runs(device, at_once):
    """The driver tells how many clusters run at once of loaded code only, and is asked before the class is chosen."""
    device.machine.set(clusters=at_once)
    device.machine.kernels["matmul"] = lambda parameters, grid: None  # too large for the interpreter
    a, b = (own(np.zeros(shape, np.float16)) for shape in ((384, 2024), (2024, 1600)))
    lego_mlir.matmul(a, b)
    (found,) = device.compiled
    assert found.tile.cluster == (1, 2) and found.clusters == at_once


def test_threads_compile_a_class_once(device, monkeypatch):
    compiled = kernels.compiled_class

    def slow(found, target):
        time.sleep(0.05)
        return compiled(found, target)

    monkeypatch.setattr(kernels, "compiled_class", slow)
    found = class_for((100, 64, 160), "NN", "f16", "f16", "sm_90a")
    got = []
    threads = [threading.Thread(target=lambda: got.append(backends.of_class(found, "sm_90a")))
               for _ in range(4)]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert device.compiled == [found]
    assert len(set(map(id, got))) == 1
    assert len(got) == 4


@pytest.mark.parametrize(
    ("size", "layouts", "target", "kind"),
    [
        ((4096, 4096, 4096), "NN", "sm_90a", ProductClass), ((4096, 4096, 4096), "NN", "sm_80", PipelinedClass),
        ((4095, 4096, 4096), "TN", "sm_90a", type(None)), ((4096, 4100, 4096), "NT", "sm_90a", type(None)),
        ((16, 4096, 4096), "NN", "sm_90a", ProductClass), ((2**21, 128, 128), "NN", "sm_90a", type(None)),
        ((40000, 128, 128), "NN", "sm_80", type(None)), ((100, 64, 160), "NT", "sm_90a", PipelinedClass),
    ],
)  # fmt: skip
def test_which_products_have_a_class(size, layouts, target, kind):
    assert type(class_for(size, layouts, "f16", "f16", target)) is kind


@pytest.mark.parametrize(
    ("size", "dtype", "result", "layouts", "kind"),
    [
        ((100, 512, 256), "f8e4m3fn", "bf16", "NT", ProductClass), ((100, 512, 264), "f8e4m3fn", "bf16", "NT", None),
        ((100, 512, 256), "i8", "i32", "NN", None), ((3, 12, 20), "f32", "f32", "NT", ProductClass),
        ((640, 4096, 4096), "f16", "f32", "NT", ProductClass), ((63, 512, 256), "f8e4m3fn", "bf16", "NT", ProductClass),
    ],
)  # fmt: skip
def test_which_other_types_have_a_class(size, dtype, result, layouts, kind):
    found = class_for(size, layouts, dtype, result, "sm_90a")
    assert type(found) is (kind or type(None))
    if kind:
        assert found.tile.n >= 32 or result == "bf16"  # narrower tiles store 16 bits
    assert class_for(size, layouts, dtype, result, "sm_80", device_with(108)) is None or dtype == "f16"


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
def test_a_batch_has_few_classes(target):
    found = {class_for((m, 1024, 768), "NN", "f16", "f16", target) for m in range(65, 2049, 31)}
    assert len(found - {None}) <= 5 * MOST  # of five octaves
