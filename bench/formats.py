"""Conversions into storage formats against a copy of the same bytes.

    python bench/formats.py render [FORMAT ..]   our PTX, one kernel for each field, and the moves as JSON
    python bench/formats.py time [FORMAT ..]     on the GPU machine: correctness, then times
    python bench/formats.py cpu [FORMAT ..]      on this processor: NumPy's moves and a copy, by two threads each
    python bench/formats.py table                the geometric mean and the least of the newest times

Each field of a format is written from a dense row-major array of the same elements, packed to the bit. `copy` moves as
many bytes as the format's buffers have, by the driver. A format below a byte is combined with zeros, which are written
before.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from math import prod
from statistics import geometric_mean
from time import perf_counter
from typing import Any

import harness
import mlir_kernels
import numpy as np

NAME, TARGET = "formats", "sm_90"
GPU_MIB, CPU_MIB = 256, 16
SAMPLED = 2**20
SIZES = {
    "rows": 4096, "columns": 4096, "inputs": 4096, "depth": 128, "tokens": 16, "heads": 8, "groups": 8, "experts": 4,
    "ranks": 4, "blocks": 64, "layers": 4,
}  # fmt: skip
GROWN = ("rows", "blocks", "tokens", "inputs", "groups")
CASES = [
    "hf.linear", "conv1d.linear", "vllm.gate_up", "gptoss.gate_up", "megatron.gate_up", "vllm.moe_w13",
    "llama4.experts",
    "vllm.qkv", "megatron.qkv", "gguf.rope_rows", "megatron.column_parallel", "megatron.row_parallel", "aiter.16x16",
    "gptq", "awq", "vllm.marlin", "vllm.marlin_int8", "gptoss.mxfp4", "deepseek.fp8", "deepgemm.scales",
    "cutlass.scales_128x4", "gguf.q4_0", "gguf.q8_0", "gguf.mxfp4", "kv.nhd", "kv.hnd", "kv.paged", "kv.paged_x",
    "kv.mla", "kv.lbhnc",
]  # fmt: skip


def format_of(case: str, mebibytes: int) -> Any:
    """A format of at least this size."""
    from lego_mlir.formats import FORMATS

    entry = FORMATS[case]
    sizes = {n: max(m, SIZES[n] // m * m) for n, m in entry.multiples.items()}
    grown = next(n for n in GROWN if n in sizes)
    while bytes_of(entry(**sizes)) < mebibytes * 2**20:
        sizes[grown] *= 2
    return entry(**sizes)


def bytes_of(format_: Any) -> int:
    return sum(format_.bytes_of(buffer) for buffer in format_.buffers)


def moves_of(format_: Any) -> list[tuple[Any, Any]]:
    """Each field with its move from dense rows."""
    from lego_mlir.formats.field_moves import move
    from lego_mlir.formats.stored_fields import PlaceDigit, StoredField

    found = []
    for field in format_.fields:
        stride, axes = field.bits, []
        for n in reversed(field.shape):
            axes.append((PlaceDigit(int(n), stride),))
            stride *= int(n)
        dense = StoredField(field.name, field.dtype, tuple(reversed(axes)), 0, field.name)
        found.append((field, move(dense, field)))
    return found


def render(cases: Sequence[str]) -> None:
    from lego_mlir.formats.device_moves import build, types_of
    from lego_mlir.toolchain import Cache, compile_kernel, default_folder
    from lego_mlir.tracing.dtypes import dtype_named

    folder = harness.ARTIFACTS / NAME
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "cases.json"
    facts = json.loads(kept.read_text()) if kept.is_file() else {}
    for case in cases:
        format_ = format_of(case, GPU_MIB)
        fields = []
        for field, plan in moves_of(format_):
            source_bytes = -(-field.bits * prod(map(int, field.shape)) // 8)
            kernel = build(plan, source_bytes, format_.bytes_of(field.buffer))
            compiled = compile_kernel(kernel, target=TARGET, cache=Cache(default_folder()))
            mlir_kernels.keep(folder, f"{case}-{field.name}", compiled)
            fields.append(
                {
                    "name": field.name, "buffer": field.buffer, "bytes": source_bytes,
                    "types": [dtype_named(t).numpy_name for t in types_of(plan)],
                    "unit": plan.unit, "start": plan.start, "digits": plan.digits,
                }
            )  # fmt: skip
        buffers = {name: format_.bytes_of(name) for name in format_.buffers}
        facts[case] = {"fields": fields, "buffers": buffers}
        print(case, *(f["name"] for f in fields), flush=True)
    kept.write_text(json.dumps(facts, indent=1) + "\n")


def sampled_bits(field: Mapping[str, Any], count: int = SAMPLED) -> tuple[Any, Any]:
    """First bits of random units, in the source and in the target, from the digits."""
    rng = np.random.default_rng(0)
    there, here = (np.full(count, start, np.int64) for start in field["start"])
    for size, source, target in field["digits"]:
        digit = rng.integers(0, size, count)
        there, here = there + digit * source, here + digit * target
    return there, here


def require_right(field: Mapping[str, Any], x: Any, y: Any) -> None:
    """Compare sampled units of two arrays of bytes: the first byte of each, or all of its bits."""
    there, here = sampled_bits(field)
    width = min(8, field["unit"])
    first, second = (
        (array[at // 8] >> (at % 8).astype(np.uint8)) & np.uint8((1 << width) - 1)
        for array, at in ((x, there), (y, here))
    )
    if not np.array_equal(first, second):
        raise harness.WrongResultError(f"{field['name']}: wrong; nothing is timed")


def time(cases: Sequence[str]) -> None:
    sys.exit(harness.time_cases(NAME, harness.ARTIFACTS / NAME, [(case,) for case in cases], contenders))


def contenders(folder: Any, case: str) -> list[harness.Contender]:
    import cupy as cp

    facts = json.loads(harness.rendered(folder / "cases.json").read_text())[case]
    out = {name: cp.zeros(size, cp.uint8) for name, size in facts["buffers"].items()}
    launches = []
    for field in facts["fields"]:
        x = cp.asarray(np.random.default_rng(1).integers(0, 256, field["bytes"], dtype=np.uint8))
        launch = mlir_kernels.launcher(folder, f"{case}-{field['name']}")
        views = [a.view(t) for a, t in zip((x, out[field["buffer"]]), field["types"], strict=True)]
        launches.append((field, launch, x, views))
    for field, launch, x, views in launches:
        launch(*views)
        require_right(field, cp.asnumpy(x), cp.asnumpy(out[field["buffer"]]))
    total = sum(facts["buffers"].values())
    a, b = cp.zeros(total, cp.uint8), cp.empty(total, cp.uint8)

    def ours() -> None:
        for _, launch, _, views in launches:
            launch(*views)

    return [
        harness.contender(ours, kernel="ours", bytes=total),
        harness.contender(lambda: cp.copyto(b, a), kernel="copy", bytes=total),
    ]


def cpu(cases: Sequence[str]) -> None:
    """The least of five times, copy and conversion in turns; a shared machine shows in both."""
    from lego_mlir.formats.field_arrays import as_bytes, empty_buffers
    from lego_mlir.formats.field_moves import Move
    from lego_mlir.formats.host_moves import THREADS, execute

    ratios = []
    for case in cases:
        format_ = format_of(case, CPU_MIB)
        buffers = {name: as_bytes(array) for name, array in empty_buffers(format_).items()}
        runs = []
        for field, plan in moves_of(format_):
            size = -(-field.bits * prod(map(int, field.shape)) // 8)
            runs.append((plan, np.random.default_rng(0).integers(0, 256, size, dtype=np.uint8), buffers[field.buffer]))
        total = bytes_of(format_)
        a, b = np.ones(total, np.uint8), np.zeros(total, np.uint8)
        copy = Move(((total // 16, 128, 128),), 128, (0, 0))
        times: dict[str, list[float]] = {"ours": [], "copy": []}
        for _ in range(5):
            start = perf_counter()
            for plan, x, y in runs:
                execute(plan, x, y)
            times["ours"].append(perf_counter() - start)
            start = perf_counter()
            execute(copy, a, b)
            times["copy"].append(perf_counter() - start)
        ratios.append(min(times["copy"]) / min(times["ours"]))
        speed = total / min(times["ours"]) / 1e9
        print(f"{case:26} {speed:6.2f} GB/s, {ratios[-1]:.2f} of a copy by {THREADS} threads", flush=True)
    print(f"geometric mean {geometric_mean(ratios):.2f}, least {min(ratios):.2f}")


def table(_: Sequence[str]) -> None:
    """Ours relative to a copy, of the newest times."""
    found = mlir_kernels.latest(NAME)
    if found is None:
        print("no times yet: run `python bench/formats.py time` on a machine with a GPU")
        return
    times: dict[str, dict[str, float]] = {}
    for row in found["rows"]:
        times.setdefault(row["case"][0], {})[row["kernel"]] = row["ms"]
    shares = {case: kinds["copy"] / kinds["ours"] for case, kinds in times.items()}
    for case, share in shares.items():
        print(case, f"{share:.2f}")
    print(f"geometric mean {geometric_mean(shares.values()):.3f}, least {min(shares.values()):.3f}")


if __name__ == "__main__":
    mlir_kernels.main(__doc__, {"render": render, "time": time, "cpu": cpu, "table": table}, CASES, str)
