"""A launch on several processes gives the values and the faults of one process."""

import numpy as np
import pytest
from ptx_kernels import THREAD, entry

from lego_mlir.interp.ptx import ptx_launch
from lego_mlir.interp.ptx.divided_launches import is_divisible
from lego_mlir.interp.ptx.ptx_launch import EmulatorOptions, emulate
from lego_mlir.interp.ptx.ptx_reader import read_ptx

BLOCKS, THREADS = 16, 64
N = BLOCKS * THREADS
INCREMENT = """add.s64 %rd4, %rd1, %rd50; ld.global.u32 %r8, [%rd4]; add.u32 %r8, %r8, %r53;
st.global.u32 [%rd4], %r8; ret;"""
READ_FAR = """add.u32 %r9, %r53, 512; and.b32 %r9, %r9, 1023; mul.wide.u32 %rd5, %r9, 4; add.s64 %rd5, %rd1, %rd5;
ld.global.u32 %r8, [%rd5]; add.s64 %rd4, %rd1, %rd50; st.global.u32 [%rd4], %r53; ret;"""
WRITE_ONE = "add.s64 %rd4, %rd1, %rd51; st.global.u32 [%rd4], {value}; ret;"
OUTSIDE = "add.s64 %rd4, %rd1, %rd50; st.global.u32 [%rd4+2048], %r53; ret;"
KERNELS = {
    "disjoint": INCREMENT,
    "reads what another block writes": READ_FAR,
    "writes one value": WRITE_ONE.format(value="7"),
    "writes different values": WRITE_ONE.format(value="%r51"),
    "outside": OUTSIDE,
}


def run(body: str, cores: int):
    x, done = np.arange(N, dtype=np.uint32), []
    options = EmulatorOptions(cores=cores, progress=lambda *state: done.append(state))
    report = emulate(entry(THREAD + body, "x"), args=[x], names=["x"], grid=BLOCKS, block=THREADS, options=options)
    return report, x, done


@pytest.fixture(autouse=True)
def small_waves(monkeypatch):
    monkeypatch.setattr(ptx_launch, "LONG_S", 0.0)
    monkeypatch.setattr(ptx_launch, "RESIDENT_THREADS", 2 * THREADS)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("cores", [2, 3])
def test_faults_and_values_are_those_of_one_process(name, cores):
    alone, x, _ = run(KERNELS[name], 1)
    divided, y, done = run(KERNELS[name], cores)
    assert {(f.kind, f.count) for f in divided.faults if "race" not in f.kind.value} == {
        (f.kind, f.count) for f in alone.faults if "race" not in f.kind.value
    }
    assert {f.kind for f in divided.faults} == {f.kind for f in alone.faults}
    assert divided.clean == (name in ("disjoint", "writes one value"))
    if divided.clean:
        assert np.array_equal(x, y)
    assert divided.blocks_run == BLOCKS
    assert done[-1] == (BLOCKS, BLOCKS)
    assert len(done) < len(run(KERNELS[name], 1)[2])  # some waves ran elsewhere


@pytest.mark.parametrize(
    "text",
    [
        "atom.global.add.u32 %r8, [%rd1], 1; ret;", "membar.gl; ret;", "st.volatile.global.u32 [%rd1], 1; ret;",
        "red.global.add.u32 [%rd1], 1; ret;",
    ],
)  # fmt: skip
def test_kernels_whose_blocks_see_each_other_are_not_divided(text):
    kernel = read_ptx(entry(text, "x")).entry("k")
    assert not is_divisible(kernel.instructions, EmulatorOptions().checks)
    plain = read_ptx(entry("st.global.u32 [%rd1], 1; ret;", "x")).entry("k")
    assert is_divisible(plain.instructions, EmulatorOptions().checks)
