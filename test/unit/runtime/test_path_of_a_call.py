"""How far a reader goes from the door of a product to its launch: the modules that a call enters on the way."""

import numpy as np
from counted import modules_entered
from cuda_stand_in import own

import lego_mlir

KNOWN, PLANNED = 8, 19
"""At most, for arrays like those of a call before, and for others whose kernel is loaded."""


def test_a_call_enters_few_modules_before_its_launch(device):
    a, b = (own(np.zeros((32, 32), np.float16)) for _ in range(2))
    lego_mlir.matmul(a, b)
    entered = modules_entered(lambda: lego_mlir.matmul(a, b), until=device.launch)
    assert (entered[0], entered[-1]) == ("lego_mlir.runtime.products.door", "lego_mlir.runtime.driver")
    assert len(entered) <= KNOWN, entered
    planned = modules_entered(lambda: lego_mlir.matmul(a, b, result="float16"), until=device.launch)
    assert set(entered) < set(planned)
    assert len(planned) <= PLANNED, planned
    assert len(device.compiled) == 1
