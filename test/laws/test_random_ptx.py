"""Random kernels, compiled to PTX and emulated, against NumPy: bit for bit, without a fault.

`pytest test/laws/test_random_ptx.py --kernels-seed=7` draws other kernels than the everyday ones.
"""

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from kernel_cases import wrong
from launching import in_memory, logical
from random_kernels import cases

from lego_mlir.errors import InterpreterError
from lego_mlir.interp.ptx import PtxRun

EVERYDAY, LONG = 12, 5_000


def emulated(case, target):
    kernel = case.kernel()
    memories, placed = in_memory(kernel, case.arrays(), case.sizes)
    arguments = {parameter.name: memory for parameter, memory in zip(kernel.params, memories, strict=True)}
    try:
        report = PtxRun(target)(kernel, arguments, case.sizes)
    except InterpreterError as error:
        hypothesis.assume("kernels without calls" not in str(error))  # a function that LLVM did not inline
        raise
    assert report.clean, f"{report.faults}\n{case.text()}"
    return logical(memories, placed)


def test_random_kernels_as_ptx(request: pytest.FixtureRequest) -> None:
    seed = request.config.getoption("--kernels-seed")

    @settings(
        max_examples=EVERYDAY if seed is None else LONG,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        phases=(Phase.generate,),
    )
    @hypothesis.seed(0 if seed is None else seed)
    @given(cases())
    def check(case):
        for target in ("sm_80", "sm_90"):
            difference = wrong(case, emulated(case, target))
            assert not difference, f"{target}: {difference}\n{case.text()}"

    check()
