"""Kernels of moves, in the interpreter, in PTX and on the processor, write what copies of NumPy do."""

import numpy as np
import pytest
from made_up_fields import made_up
from ptx_runs import ptx_of

from lego_mlir import interp
from lego_mlir.formats import FORMATS
from lego_mlir.formats.device_moves import build, types_of
from lego_mlir.formats.field_arrays import as_bytes, in_rows, write
from lego_mlir.formats.field_moves import move
from lego_mlir.interp.ptx import emulate
from lego_mlir.tracing.dtypes import dtype_named


def runs(name, field, seed=0):
    """A kernel that writes a field from rows, its arguments, and the bytes that it must write."""
    format_ = FORMATS[name].example(1)
    one = format_[field]
    values = made_up(format_, seed)[field]
    plan = move(in_rows(one), one)
    rows = as_bytes(np.ascontiguousarray(values))
    size = format_.bytes_of(one.buffer)
    kernel = build(plan, rows.nbytes, size)
    others = made_up(format_, seed)
    for other in format_.fields:
        if other.name != field:
            others[other.name] = np.zeros_like(others[other.name])
    expected = as_bytes(write(format_, others)[one.buffer])
    types = [dtype_named(t).numpy for t in types_of(plan)]
    return kernel, rows.view(types[0]), np.zeros(size, np.uint8).view(types[1]), expected


FIELDS = [
    ("vllm.marlin", "q"), ("awq", "q"), ("gptq", "q"), ("gptoss.gate_up", "up"), ("megatron.qkv", "k"),
    ("aiter.16x16", "weight"),
    ("gguf.q4_0", "q"), ("gguf.q6_k", "high"), ("gguf.q5_0", "high"), ("gguf.q8_0", "scale"),
    ("bitsandbytes.nf4", "even"),
    ("cutlass.scales_128x4", "scale"), ("kv.paged_x", "k"), ("kv.mla", "rope"), ("deepgemm.scales", "scale"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "field"), FIELDS, ids=[f"{n} {f}" for n, f in FIELDS])
def test_the_kernel_is_clean_and_right_in_the_interpreter(name, field):
    kernel, x, y, expected = runs(name, field)
    report = interp.launch(kernel.mlir(), grid=kernel.grid, block=kernel.block, args=[x, y])
    assert report.clean
    assert y.tobytes() == expected.tobytes()


@pytest.mark.parametrize(("name", "field"), [("vllm.marlin", "q"), ("aiter.16x16", "weight"), ("gguf.q6_k", "high")])
def test_the_kernel_is_right_in_ptx(name, field):
    kernel, x, y, expected = runs(name, field)
    text, facts = ptx_of(kernel)
    report = emulate(
        text,
        kernel.name,
        args=[x, y],
        grid=kernel.grid,
        block=kernel.block,
        names=["x", "y"],
        dynamic_shared=facts.dynamic_shared,
    )
    assert report.clean and y.tobytes() == expected.tobytes()
    if name == "aiter.16x16":
        assert "ld.global.v4" in text and "st.global.v4" in text


def test_the_kernel_is_right_on_the_processor():
    kernel, x, y, expected = runs("vllm.marlin", "q")
    kernel(x, y)
    assert y.tobytes() == expected.tobytes()
