"""A small matrix product, its transform scripts, and running it in the interpreter before and after them."""

import numpy as np
from launching import UNTOUCHED

from lego_mlir import Col, Row, f16, interp
from lego_mlir.kernels import matmul
from lego_mlir.kernels.matmul import ProductTile
from lego_mlir.runtime.data import positions
from lego_mlir.toolchain import compile_kernel
from lego_mlir.transforms import scripts

SMALL = ProductTile(32, 64, 32, (1, 2))
SIZES = (64, 128, 128)
LAYOUTS = {"NN": (Row, Row), "NT": (Row, Col), "TN": (Col, Row), "TT": (Col, Col)}
SHIPPED = scripts.folder()


def operands(m, n, k, seed=0):
    """Small integers: their products and sums are exact, so results are equal or wrong."""
    draw = np.random.default_rng(seed)
    return draw.integers(-4, 5, (m, k)), draw.integers(-4, 5, (k, n))


def transformed(kernel, script, target="sm_90", **parameters):
    """The text of the kernel's module after a script; without one, as it is traced."""
    stage = "transformed" if script else "mlir"
    return compile_kernel(kernel, transform=script, parameters=parameters, emit=stage, target=target).text


def launch(kernel, text, *arrays, counts=True):
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
    report = interp.launch(text, args=memories, counts=counts)
    return report, memories[2][places[2]]


def check(kernel, script, m, n, k, *further, counts=True, **parameters):
    """Values equal to the reference's, and no fault; the report, for what it counted."""
    a, b = operands(m, n, k)
    text = transformed(kernel, script, **parameters)
    report, c = launch(kernel, text, a, b, np.zeros((m, n)), *further, counts=counts)
    assert report.clean, [str(fault) for fault in report.faults]
    np.testing.assert_array_equal(c, kernel.expected(a, b, *further))
    return report


def build(sizes=SIZES, dtype=f16, a=Row, b=Row, c=Row, **given):
    m, n, k = sizes
    return matmul.build(m, n, k, dtype, a=a(m, k), b=b(k, n), c=c(m, n), **{"tiling": SMALL, **given})


def composed(folder, *steps, **parameters):
    """A script of the user's own, made of ours and of passes."""
    for script in SHIPPED.glob("*.mlir"):
        (folder / script.name).write_text(script.read_text())
    path = folder / "mine.mlir"
    listed = ", ".join(step if step.startswith("@") else f'"{step}"' for step in steps)
    declared = ", ".join(f"{name} = {{default = {value} : i64}}" for name, value in parameters.items())
    path.write_text(
        f"module attributes {{transform.with_named_sequence, lego.parameters = {{{declared}}}, "
        f"lego.pipeline = [{listed}]}} {{}}"
    )
    return path
