"""Bounds on registers: in the PTX, kept by ptxas, through schedules, and refused where no launch can have them."""

import numpy as np
import pytest
from assembling import needs_ptxas
from launching import launch

import lego_mlir as lego
from lego_mlir import Row, f32
from lego_mlir.errors import TraceError
from lego_mlir.hardware.targets import target_named
from lego_mlir.toolchain import compile_kernel, ptxas

N, KEPT = 128, 48


def kernel_of(**bounds):
    @lego.kernel(grid=1, block=N, **bounds)
    def k(x: lego.Tensor(f32, Row(KEPT, N)), y: lego.Tensor(f32, Row(KEPT, N))):
        t = lego.thread_id[0]
        kept = [x[n, t] for n in range(KEPT)]
        total = sum(kept)
        for n in range(KEPT):
            y[n, t] = kept[n] / total

    return k


@pytest.mark.parametrize(
    ("bounds", "directive"),
    [
        ({"max_registers": 40}, {".maxnreg 40"}),
        ({"min_blocks": 12}, {".minnctapersm 12"}),
        ({"max_registers": 64, "min_blocks": 12}, {".maxnreg 40", ".minnctapersm 12"}),
        ({"max_registers": 32, "min_blocks": 2}, {".maxnreg 32", ".minnctapersm 2"}),
        ({}, set()),
    ],
)
def test_they_are_directives_of_ptx(bounds, directive):
    text = compile_kernel((kernel_of(**bounds),), target="sm_80").text
    assert {line for line in text.splitlines() if line.startswith((".maxnreg", ".minn"))} == directive


@needs_ptxas
def test_ptxas_keeps_them():
    def registers(**bounds):
        text = compile_kernel((kernel_of(**bounds),), target="sm_80").text
        (found,) = ptxas.assemble(text, target_named("sm_80"))[1]
        return found.registers

    assert registers() > 42
    assert registers(max_registers=40) <= 40
    assert registers(min_blocks=12) <= 65536 // (12 * N)
    assert registers(min_blocks=12, max_registers=64) <= 65536 // (12 * N)


def test_results_are_the_same_and_the_trace_has_them():
    x = np.random.default_rng(1).random((KEPT, N), np.float32)
    plain, bound = (launch(kernel_of(**b), x, np.zeros((KEPT, N)))[1] for b in ({}, {"max_registers": 24}))
    np.testing.assert_array_equal(plain, bound)
    assert kernel_of(min_blocks=2).trace().bounds.attributes() == {"nvvm.minctasm": 2}


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"max_registers": 256}, "max_registers=256 is an int from 1 to 255, the registers of a thread"),
        ({"max_registers": True}, "max_registers=True is an int from 1 to 255"),
        ({"min_blocks": 17}, "min_blocks=17 is an int from 1 to 16, the blocks of 128 threads"),
        ({"min_blocks": 0}, "min_blocks=0 is an int from 1 to 16"),
    ],
)
def test_what_no_launch_can_have_is_refused(bounds, message):
    with pytest.raises(TraceError, match=message):
        kernel_of(**bounds)
