"""Reductions of integers over whole warps become redux.sync, where the target has it and the meaning is the same."""

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, f2, i32, interp, u32
from lego_mlir.interp.ptx.ptx_launch import emulate
from lego_mlir.toolchain import compile_kernel
from lego_mlir.transforms import modules
from lego_mlir.transforms.passes.subgroup_reduce import KINDS, LowerWarpReductions

TEXT = """module attributes {{gpu.container_module}} {{ gpu.module @m {{
  gpu.func @k(%p: memref<64xi32>, %q: memref<64xi32>) kernel
      attributes {{known_block_size = array<i32: {block}, 1, 1>}} {{
    %i = gpu.thread_id x
    %v = memref.load %p[%i] : memref<64xi32>
    %r = gpu.subgroup_reduce {kind} %v{cluster} : (i32) -> i32
    memref.store %r, %q[%i] : memref<64xi32>
    gpu.return
  }} }} }}"""


def lowered(redux=True, **facts):
    with modules.session():
        module = modules.parse(TEXT.format(**{"kind": "add", "block": 64, "cluster": ""} | facts))
        LowerWarpReductions(redux).run_on_kernels(module)
        module.operation.verify()
        return modules.to_text(module, locations=False)


@pytest.mark.parametrize("kind", KINDS)
def test_the_instruction_computes_what_the_reduction_means(kind):
    given = np.random.default_rng(0).integers(-(2**31), 2**31, 64).astype(np.int32)
    text, results = lowered(kind=kind), []
    assert "nvvm.redux.sync" in text and "subgroup_reduce" not in text
    for each in (text, TEXT.format(kind=kind, block=64, cluster="")):
        found = np.zeros_like(given)
        assert interp.launch(each, grid=1, args=[given, found]).clean
        results.append(found)
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("facts", [{"kind": "mul"}, {"block": 48}, {"cluster": " cluster(size = 8)"}, {"redux": False}])
def test_other_reductions_stay(facts):
    assert "gpu.subgroup_reduce" in lowered(**facts)


def total_of(dtype, how, layout):
    @lego.kernel(grid=1, block=32 * layout.in_sizes["warp"])
    def total(x: lego.Tensor(dtype, Row(*layout.out_sizes.values())), y: lego.Tensor(dtype, Row(1))):
        found = getattr(lego.load(x, layout), how)(0)
        with lego.when(lego.thread_id[0] < 1):
            y[0] = found

    return total


@pytest.mark.parametrize("dtype", [i32, u32])
@pytest.mark.parametrize("how", ["sum", "min", "max"])
@pytest.mark.parametrize(("size", "held"), [(16, 1), (32, 1), (64, 2), (256, 1)])
def test_sums_of_tiles_use_it(dtype, how, size, held):
    layout = f2.Blocked((held,), (32,), (2,), (0,)).layout((size,))  # 16: half of the lanes hold copies
    given = np.random.default_rng(size).integers(-(2**31), 2**31, size).astype(dtype.numpy)
    kernel, expected = (
        total_of(dtype, how, layout),
        getattr(given, how)(dtype=given.dtype) if how == "sum" else getattr(given, how)(),
    )
    for target, expects in (("sm_80", True), ("sm_75", False)):
        ptx = str(compile_kernel(kernel, target=target, emit="ptx").text)
        assert ("redux.sync" in ptx) == expects
        found = np.zeros(1, given.dtype)
        assert emulate(ptx, args=[given, found], block=64).clean
        assert found[0] == expected
