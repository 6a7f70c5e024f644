"""Products of several launches, and with scratch memory, on a stand-in for the driver that runs what is launched."""

import ctypes
import threading
import time
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from counted import package_calls
from cuda_stand_in import Machine, OwnLibrary, own
from product_device import compiled_copy, forget, run_launch

import lego_mlir
from lego_mlir.choices import families, warp_tiles
from lego_mlir.errors import UsageError
from lego_mlir.kernels import aligned_products
from lego_mlir.runtime import driver, first_calls
from lego_mlir.runtime.products import kernels, steps
from lego_mlir.runtime.products.problem import Problem


class StepsDevice:
    """The stand-in's device; a launch runs the compilation of its kernel, found by its entry."""

    def __init__(self, monkeypatch):
        self.machine, self.compiled = Machine().plug_in(monkeypatch), {}
        self.library = OwnLibrary(monkeypatch)
        monkeypatch.setattr(first_calls, "kernel_of", lambda call, make, *_: make())  # what runs is found by compiling
        for name, compile_ in (("compiled", kernels.compiled), ("compiled_copy", compiled_copy)):
            monkeypatch.setattr(kernels, name, self.recording(compile_))
        for kernel in ("matmul", "pad_rows", "pad_columns", "crop"):
            self.machine.kernels[kernel] = lambda parameters, grid, kernel=kernel: self.launch(kernel, parameters, grid)

    def recording(self, compile_):
        def recorded(what, *given):
            found = compile_(what, *given)
            self.compiled[what if isinstance(what, str) else what.name] = found
            return found

        return recorded

    def launch(self, entry, parameters, grid):
        compilation = next(made for made in self.compiled.values() if made.sources[0].name == entry)
        run_launch(compilation, entry, parameters, grid)

    def entries(self):
        return [launch[0] for launch in self.machine.launches]

    def value(self, name):
        return ctypes.c_int.in_dll(self.machine.library, f"stand_in_{name}").value


@pytest.fixture
def device(monkeypatch):
    forget()
    yield StepsDevice(monkeypatch)
    forget()
    driver.driver.cache_clear()


@pytest.fixture
def always(monkeypatch):
    """Copies for every odd product, however small."""
    monkeypatch.setattr(aligned_products, "LEAST_WORK", 1)
    monkeypatch.setattr(aligned_products, "LEAST_INTENSITY", 1)


def operands(m, n, k, dtype=np.float16):
    draw = np.random.default_rng(0)
    return (draw.integers(-4, 5, shape).astype(dtype) for shape in ((m, k), (k, n)))


def exact(a, b, dtype=np.float16):
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(dtype)


@pytest.mark.parametrize("layouts", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("size", [(33, 41, 67), (40, 35, 72)])
def test_odd_products_are_computed_on_aligned_copies(device, always, monkeypatch, size, layouts):
    a, b = operands(*size)
    given = [own(np.asarray(x, order="F" if t == "T" else "C")) for x, t in zip((a, b), layouts, strict=True)]
    if layouts == "NN":
        monkeypatch.setattr(steps, "KEPT", 0)
    before = device.value("allocated")
    wide = aligned_products.widened(*size, layouts)
    for _ in range(2):
        np.testing.assert_array_equal(lego_mlir.matmul(*given), exact(a, b))
    pads = ["pad_rows" if t == "N" else "pad_columns" for t, copied in zip(layouts, wide.copied, strict=True) if copied]
    assert device.entries() == [*pads, "matmul", *["crop"] * wide.cropped] * 2
    assert device.value("allocated") == before + (layouts != "NN")  # a small block is kept for the stream


def test_the_launches_of_an_odd_product_are_prepared(device, always):
    """A warm call of four launches enters few functions more than one of a single launch: no plan is made again."""
    device.machine.set(needs_context=0)  # as for a thread that has one
    device.machine.kernels.clear()  # launches are recorded, and run nothing
    counts = []
    for size in ((32, 64, 64), (33, 41, 67)):
        given = [own(x) for x in operands(*size)]
        for _ in range(2):
            lego_mlir.matmul(*given)
        device.machine.launches.clear()
        counts.append((package_calls(lambda given=given: lego_mlir.matmul(*given)), len(device.machine.launches)))
    (of_plain, one), (of_odd, several) = counts
    assert (one, several) == (1, 4)
    assert of_odd <= of_plain + 7, counts


def test_threads_do_not_share_scratch_memory_between_steps(device, always):
    a, b = operands(33, 41, 67)
    given = own(a), own(b)
    lego_mlir.matmul(*given)
    steps_of_one = device.entries()
    assert len(steps_of_one) > 1
    device.machine.launches.clear()
    device.machine.kernels.update(dict.fromkeys(steps_of_one, lambda parameters, grid: time.sleep(0.005)))
    threads = [threading.Thread(target=lambda: [lego_mlir.matmul(*given) for _ in range(3)]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert device.entries() == steps_of_one * 6


def test_an_odd_product_of_few_rows(split, always):
    """M is odd, A is stored by columns: A is copied, C is copied back, and K is split between."""
    a, b = operands(15, 64, 1024)
    for _ in range(2):
        found = lego_mlir.matmul(own(np.asarray(a, order="F")), own(b))
        np.testing.assert_array_equal(found, exact(a, b))
    assert split.entries() == ["pad_columns", "matmul", "crop"] * 2


def test_odd_products_by_warpgroups(device, always, monkeypatch):
    monkeypatch.setattr(families, "warpgroups_compute", lambda *_: True)
    a, b = operands(65, 67, 129)
    np.testing.assert_array_equal(lego_mlir.matmul(own(a), own(b)), exact(a, b))
    assert any("wgmma" in made.text for made in device.compiled.values())
    assert device.entries() == ["pad_rows", "pad_rows", "matmul", "crop"]


@pytest.mark.parametrize(("dtype", "result"), [(np.float16, "float32"), (ml_dtypes.bfloat16, "bfloat16")])
def test_types_of_odd_products(device, always, dtype, result):
    a, b = operands(33, 41, 67, dtype)
    found = lego_mlir.matmul(own(a), own(b), result=result)
    np.testing.assert_array_equal(found, exact(a, b, found.dtype))


def test_small_odd_products_are_one_launch(device):
    a, b = operands(33, 41, 67)
    np.testing.assert_array_equal(lego_mlir.matmul(own(a), own(b)), exact(a, b))
    assert device.entries() == ["matmul"]


def test_other_targets_copy_only_what_they_load():
    """mma.sync stores rows of C that begin anywhere; a tensor copy does not."""
    odd = Problem(1024, 1023, 1024, "f16", "f16", "NT", "sm_80", 108)
    assert odd.wide() is None
    assert Problem(1024, 1023, 1024, "f16", "f16", "NT", "sm_90a", 132).wide().cropped


@pytest.fixture
def split(device, monkeypatch):
    """A device on which K is split in four."""
    tile = replace(warp_tiles.PARTED[0], parts=4)
    monkeypatch.setattr(warp_tiles, "choose_parts", lambda *_: tile)
    monkeypatch.setattr(families, "warpgroups_compute", lambda *_: False)
    return device


def test_products_of_few_rows_keep_their_counters(split):
    a, b = operands(16, 64, 1024)
    before = split.value("allocated")
    for _ in range(3):
        np.testing.assert_array_equal(lego_mlir.matmul(own(a), own(b)), exact(a, b))
    split.library.stream = 7
    np.testing.assert_array_equal(lego_mlir.matmul(own(a), own(b)), exact(a, b))
    assert split.entries() == ["matmul"] * 4
    assert split.value("allocated") == before + 4  # counters and partial sums for each stream


def test_products_share_partial_sums_but_no_counters(split):
    found = []
    split.machine.kernels["matmul"] = lambda parameters, grid: found.append(
        [ctypes.c_uint64.from_address(parameters[n]).value for n in (3, 4)]
    )
    for columns in (128, 64, 128):
        lego_mlir.matmul(*(own(x) for x in operands(16, columns, 1024)))
    (partial, counters), (other_partial, other_counters), again = found
    assert partial == other_partial and counters != other_counters and again == [partial, counters]


def test_a_captured_product_clears_its_own_counters(split):
    a, b = operands(16, 64, 1024)
    split.machine.set(capturing=1)
    before = split.value("allocated")
    for _ in range(2):
        np.testing.assert_array_equal(lego_mlir.matmul(own(a), own(b)), exact(a, b))
    assert split.value("allocated") == before


def test_the_parts_fit_the_problem():
    kernel, script, parameters = kernels.kernel_for(Problem(16, 1024, 8192, "f16", "f16", "NT", "sm_80", 108))
    assert [p.name for p in kernel.params] == ["a", "b", "c", "partial", "counters"]
    assert (script, 2 <= parameters["stages"] <= 5) == (kernels.PIPELINED, True)


def test_a_pack_holds_every_kernel_of_an_odd_product(device, always, tmp_path):
    from lego_mlir.runtime import packs

    problem = Problem(33, 41, 67, "f16", "f16", "NT", "sm_90", 132)
    packs.write(tmp_path, kernels.compilations(problem))
    assert {file.stem for file in tmp_path.glob("*.ptx")} == {
        "pad_f16_N", "pad_f16_T", "matmul_33x41x128_f16_f16_NT",
    }  # fmt: skip


def test_a_pack_without_the_copies_is_refused(device, always, tmp_path):
    from lego_mlir.runtime import packs

    problem = Problem(33, 41, 67, "f16", "f16", "NT", "sm_90a", 132)
    made = kernels.compilations(problem)
    packs.write(tmp_path, {name: one for name, one in made.items() if not name.startswith("pad")})
    a, b = operands(33, 41, 67)
    with pytest.raises(UsageError, match="has no kernel pad_f16_N, which products of odd sizes need; pack them again"):
        lego_mlir.matmul(own(a), own(np.asarray(b, order="F")), kernels=tmp_path)
