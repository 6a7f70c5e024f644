"""Casts by kernels are those of NumPy, bit by bit: moves to packed rows, a kernel that casts, and moves from there."""

import numpy as np
import pytest

from lego_mlir import interp
from lego_mlir.errors import LayoutError
from lego_mlir.formats import FORMATS, StorageFormat, stored
from lego_mlir.formats.codings import AffineGroups
from lego_mlir.formats.conversions import Conversion
from lego_mlir.formats.device_casts import cast_kernel, in_packed_rows
from lego_mlir.formats.device_moves import CAST, READ, SOURCE, TARGET, kernels_of
from lego_mlir.formats.field_arrays import as_bytes, read, write

BLOCKED = {"rows": 6, "columns": 128}
GROUPED = {"rows": 64, "columns": 256}
PAIRS = [
    *(("hf.linear", f"gguf.{kind}", BLOCKED) for kind in ("q4_0", "q4_1", "q5_0", "q8_0")),
    *((f"gguf.{kind}", "hf.linear", BLOCKED) for kind in ("q4_0", "q4_1", "q5_0", "q8_0")),
    *(("hf.linear", name, GROUPED) for name in ("vllm.marlin", "awq", "gptq")),
    ("vllm.marlin", "gguf.q8_0", GROUPED), ("gptq", "hf.linear", GROUPED), ("gguf.q8_0", "awq", GROUPED),
]  # fmt: skip


def example(source, target, sizes):
    """A plan, buffers of its source with zeros, halves and one group of zeros, and what NumPy makes of them."""
    plan = Conversion(FORMATS[source](**sizes), FORMATS[target](**sizes))
    w = np.random.default_rng(0).standard_normal((sizes["rows"], sizes["columns"])).astype(np.float16)
    w[0, :128], w[1, ::3], w[2, ::5] = 0, 0.5, -2
    plain = FORMATS["hf.linear"](**sizes)
    given = {"data": w} if source == "hf.linear" else Conversion(plain, plan.source).run({"data": w})
    return plan, given, plan.run(given)


@pytest.mark.parametrize(("source", "target", "sizes"), PAIRS, ids=[f"{a} to {b}" for a, b, _ in PAIRS])
def test_a_cast_on_a_device_is_that_of_the_processor(source, target, sizes):
    plan, given, expected = example(source, target, sizes)
    found = {(SOURCE, name): as_bytes(array) for name, array in given.items()}
    for side, format_ in (
        (TARGET, plan.target),
        (READ, in_packed_rows(plan.source)),
        (CAST, in_packed_rows(plan.target)),
    ):
        found |= {(side, name): np.zeros(format_.bytes_of(name), np.uint8) for name in format_.buffers}
    for kernel, names in kernels_of(plan):
        kernel(*(found[name].view(p.dtype.numpy) for name, p in zip(names, kernel.params, strict=True)))
    for name, array in expected.items():
        assert found[TARGET, name].tobytes() == array.tobytes(), name


@pytest.mark.parametrize("target", ["gguf.q8_0", "gguf.q4_1"])
def test_the_casting_kernel_is_clean_in_the_interpreter(target):
    plan, given, expected = example("hf.linear", target, {"rows": 3, "columns": 64})
    kernel, _, writes = cast_kernel(plan)
    rows = in_packed_rows(plan.target)
    wanted = write(rows, read(plan.target, expected))
    out = {name: np.zeros(rows.bytes_of(name), np.uint8) for name in writes}
    arrays = [as_bytes(given["data"]), *out.values()]
    report = interp.launch(
        kernel.mlir(), grid=kernel.grid, block=kernel.block,
        args=[a.view(p.dtype.numpy) for a, p in zip(arrays, kernel.params, strict=True)],
    )  # fmt: skip
    assert report.clean and all(out[name].tobytes() == wanted[name].tobytes() for name in out)


def test_casts_without_a_kernel_are_refused():
    for source, target, match in (
        ("hf.linear", "deepseek.fp8", "casts of ScaledTiles run on the processor"),
        ("awq", "gptq", "exchanges codes, which the processor does"),
    ):
        sizes = {"rows": 128, "columns": 128}
        with pytest.raises(LayoutError, match=match):
            kernels_of(Conversion(FORMATS[source](**sizes), FORMATS[target](**sizes)))
    fields = [
        stored("q", "u4", {"r": 1, "c": 32}, "r | c", "r c"),
        stored("scale", "f16", {"r": 1, "g": 1}, "r | g", "r g", buffer="scale"),
        stored("zero", "u4", {"r": 1, "g": 1}, "r | g", "r g", buffer="zero"),
    ]
    buffers = {"data": ("u8", (16,)), "scale": ("f16", (1,)), "zero": ("u4", (1,))}
    single = StorageFormat("single", fields, buffers, coding=AffineGroups(32, "zero"))
    with pytest.raises(LayoutError, match="groups of 64 do not divide 32"):
        kernels_of(Conversion(FORMATS["hf.linear"](rows=1, columns=32), single))


def test_plain_values_of_any_number_are_cast():
    sizes = {"rows": 3, "columns": 5}
    plan = Conversion(FORMATS["hf.linear"](**sizes), FORMATS["hf.linear"](**sizes, dtype="bf16"))
    w = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float16)
    kernel, _, _ = cast_kernel(plan)
    out = np.zeros(15, kernel.params[1].dtype.numpy)
    kernel(w.reshape(-1), out)
    assert out.tobytes() == plan.run({"data": w})["data"].tobytes()
