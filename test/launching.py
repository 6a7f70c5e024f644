"""Running a kernel in the interpreter on logical arrays: placed in memory by its layouts, read back by them."""

import numpy as np

from lego_mlir import interp
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.runtime.data import concrete, positions

UNTOUCHED = -77


def launch(kernel, *arrays, sizes=None, form="affine", clean=True):
    """The logical arrays and numbers of the signature in; the arrays after the kernel out, in the same order."""
    sizes = sizes or {}
    memories, placed = [], []
    for parameter, given in zip(kernel.params, arrays, strict=True):
        if parameter.layout is None:
            memories.append(given)
            placed.append(None)
            continue
        where = positions(parameter.layout, sizes)
        memory = np.full(concrete(parameter.size, sizes), UNTOUCHED).astype(parameter.dtype.numpy)
        memory[where] = np.asarray(given).astype(parameter.dtype.numpy)
        memories.append(memory)
        placed.append(where)
    report = interp.launch(
        kernel.mlir(form),
        grid=[int(evaluate(n, sizes)) for n in kernel.grid],
        block=[int(evaluate(n, sizes)) for n in kernel.block],
        args=[*memories, *(sizes[s.name] for s in kernel.sizes)],
    )
    if clean:
        assert report.clean, [f"{fault.kind} at {fault.location}: {fault.message}" for fault in report.faults]
    return [m if w is None else m[w] for m, w in zip(memories, placed, strict=True)]
