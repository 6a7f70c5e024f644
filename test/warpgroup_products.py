"""Kernels of tiles of warpgroups, and their results on a machine."""

import numpy as np
from ptx_runs import memories_of

from lego_mlir.kernels.fused_epilogues import PLAIN
from lego_mlir.kernels.scheduled_products import ScheduledProduct
from lego_mlir.runtime.data import positions


def built(size, tile, layouts="NT", dtype="f16", result="f32", fused=PLAIN, clusters=132):
    return ScheduledProduct(tile, layouts, dtype, result, fused).kernel(size, clusters)


def run(kernel, machine, a, b, *further, launches=1):
    """C after launches in a row on one workspace, whose sums begin as NaN."""
    names = [p.name for p in kernel.params if p.name not in ("c", "partial", "counters")]
    given = dict(zip(names, (a, b, *further), strict=True))
    for p in kernel.params:
        if p.name in ("partial", "counters"):
            given[p.name] = np.full(p.layout.dims(), np.nan if p.name == "partial" else 0)
    memories = memories_of(kernel, given)
    for _ in range(launches):
        memories["c"][:] = np.nan if kernel.params[2].dtype.is_float else -1
        report = machine(kernel, memories)
        assert report.clean, [str(fault) for fault in report.faults]
    assert "counters" not in memories or not memories["counters"].any()
    c = memories["c"][positions(kernel.params[2].layout, {})]
    return (c, memories["amax"][0]) if "amax" in memories else c


def operands(m, n, k, dtype, seed=0):
    """Small numbers that each type holds, and whose sums are exact."""
    draw = np.random.default_rng(seed)
    return draw.integers(-2, 3, (m, k)).astype(dtype.numpy), draw.integers(-2, 3, (k, n)).astype(dtype.numpy)
