"""Running a matrix product in the interpreter, before a transform script and after it."""

import numpy as np
from launching import UNTOUCHED

from lego_mlir import interp
from lego_mlir.runtime.data import positions
from lego_mlir.toolchain import compile_kernel


def operands(m, n, k, seed=0):
    """Small integers: their products and sums are exact, so results are equal or wrong."""
    draw = np.random.default_rng(seed)
    return draw.integers(-4, 5, (m, k)), draw.integers(-4, 5, (k, n))


def transformed(kernel, script, target="sm_90", **parameters):
    """The text of the kernel's module after a script; without one, as it is traced."""
    stage = "transformed" if script else "mlir"
    return compile_kernel(kernel, transform=script, parameters=parameters, emit=stage, target=target).text


def launch(kernel, text, *arrays):
    """The report, and the logical array of `c`."""
    memories, places = [], []
    for parameter, given in zip(kernel.params, arrays, strict=True):
        if parameter.layout is None:
            memories.append(given)
            continue
        where = positions(parameter.layout, {})
        memory = np.full(int(parameter.size), UNTOUCHED).astype(parameter.dtype.numpy)
        memory[where] = np.asarray(given).astype(parameter.dtype.numpy)
        memories.append(memory)
        places.append(where)
    report = interp.launch(text, args=memories)
    return report, memories[2][places[2]]


def check(kernel, script, m, n, k, *further, **parameters):
    """Values equal to the reference's, and no fault; the report, for what it counted."""
    a, b = operands(m, n, k)
    report, c = launch(kernel, transformed(kernel, script, **parameters), a, b, np.zeros((m, n)), *further)
    assert report.clean, [str(fault) for fault in report.faults]
    np.testing.assert_array_equal(c, kernel.expected(a, b, *further))
    return report
