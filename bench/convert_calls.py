"""`lego.convert` on arrays of a GPU: the bits of the processor, and times against a copy of the same bytes.

`time` runs on a GPU machine with MLIR, which compiles the kernels.

A case is a conversion by `lego.convert(array, source=.., to=..)` of tensors of PyTorch, or of arrays of CuPy (`cupy`),
with everything that a call does: plan, allocate, launch. `copy` is `torch.clone` of the larger side. Results are
compared with those of NumPy arrays, byte by byte, before anything is timed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import harness
import mlir_kernels
import numpy as np
import runner

NAME, PAGE = "convert_calls", "results/formats.md"
LAYER = {"rows": 8192, "columns": 8192}
HEADS = {"groups": 8, "heads": 8, "depth": 128, "inputs": 8192}
CACHE = {"layers": 4, "blocks": 512, "heads": 8, "tokens": 16, "depth": 128}
CASES: dict[str, tuple[str, str, dict[str, int], str]] = {
    "transposition": ("hf.linear", "conv1d.linear", LAYER, "torch"),
    "transposition-cupy": ("hf.linear", "conv1d.linear", LAYER, "cupy"),
    "gate-up-in-turn": ("vllm.gate_up", "gptoss.gate_up", LAYER, "torch"),
    "fused-qkv": ("hf.qkv", "megatron.qkv", HEADS, "torch"),
    "experts": ("vllm.moe_w13", "llama4.experts", {"experts": 8, "rows": 2048, "columns": 2048}, "cupy"),
    "rotary-rows": ("hf.linear", "gguf.rope_rows", {**LAYER, "heads": 64, "depth": 128, "inputs": 8192}, "torch"),
    "shards": ("hf.linear", "megatron.row_parallel", {"rows": 8192, "columns": 8192, "ranks": 4}, "torch"),
    "scales": ("hf.scales", "cutlass.scales_128x4", {"rows": 2**17, "groups": 512}, "cupy"),
    "records-mxfp4": ("gptoss.mxfp4", "gguf.mxfp4", {"rows": 16384, "columns": 8192}, "torch"),
    "cache": ("kv.lbnhc", "kv.bhlnc", CACHE, "torch"),
    "latents": ("kv.mla_separate", "kv.mla", {"tokens": 2**17}, "torch"),
    "cast-marlin": ("hf.linear", "vllm.marlin", LAYER, "torch"),
    "cast-q8_0": ("hf.linear", "gguf.q8_0", LAYER, "cupy"),
    "uncast-awq": ("awq", "hf.linear", LAYER, "torch"),
}


def formats_of(case: str) -> tuple[Any, Any]:
    from lego_mlir.formats import FORMATS

    source, target, sizes, _ = CASES[case]
    made = []
    for name in (source, target):
        entry = FORMATS[name]
        own = {n: v for n, v in sizes.items() if n in entry.parameters}
        made.append(
            entry(**own | ({"columns": own["columns"] // own["ranks"]} if name == "megatron.row_parallel" else {}))
        )
    return made[0], made[1]


def made_up(format_: Any) -> dict[str, Any]:
    """Buffers of random bits; floating-point ones of values that a cast can round."""
    from lego_mlir.formats.field_arrays import empty_buffers

    rng, found = np.random.default_rng(0), empty_buffers(format_)
    for array in found.values():
        if array.dtype == np.float16:
            array[:] = (rng.standard_normal(array.shape, np.float32) * 0.05).astype(np.float16)
        else:
            array.view(np.uint8)[:] = rng.integers(0, 256, array.view(np.uint8).shape, np.uint8)
    return found


def timed(folder: Path, case: str) -> list[harness.Contender]:
    import cupy
    import torch

    import lego_mlir as lego

    source, target = formats_of(case)
    given = made_up(source)
    only = next(iter(given.values()))
    expected = lego.convert(given if len(given) > 1 else only, source=source, to=target)
    expected = expected if isinstance(expected, dict) else {next(iter(target.buffers)): expected}
    library = CASES[case][3]
    move = cupy.asarray if library == "cupy" else lambda x: torch.from_numpy(x).cuda()
    there = {name: move(array.view(np.uint8)) for name, array in given.items()}
    value = there if len(there) > 1 else next(iter(there.values()))
    require_same(case, expected, lego.convert(value, source=source, to=target))
    ways = {"convert": lambda: lego.convert(value, source=source, to=target)}
    permuted = source.buffers.keys() == target.buffers.keys() == {"data"}
    if permuted and source.bytes_of("data") == target.bytes_of("data"):
        once = value.copy() if library == "cupy" else value.clone()
        require_same(case, expected, lego.convert(once, source=source, to=target, in_place=True))
        ways["in place"] = lambda: lego.convert(once, source=source, to=target, in_place=True)
    size = max(sum(one.bytes_of(b) for b in one.buffers) for one in (source, target))
    block = torch.zeros(size, dtype=torch.uint8, device="cuda")
    facts = {"bytes": size, "library": library, "kernels": len(_kernels(source, target))}
    ours = [harness.contender(run, kernel=way, **facts) for way, run in ways.items()]
    return [*ours, harness.contender(block.clone, kernel="copy", bytes=size)]


def require_same(case: str, expected: dict[str, Any], found: Any) -> None:
    """Compare the bytes of all buffers."""
    for name, array in expected.items():
        mine = found[name] if isinstance(found, dict) else found
        mine = mine.cpu().numpy() if hasattr(mine, "cpu") else mine.get()
        if mine.tobytes() != array.tobytes():
            raise harness.WrongResultError(f"{case}: {name} has other bytes than NumPy's; nothing is timed")


def _kernels(source: Any, target: Any) -> list[Any]:
    from lego_mlir.formats.conversions import Conversion
    from lego_mlir.formats.device_moves import kernels_of

    return kernels_of(Conversion(source, target))


def table() -> None:
    """One row a case: time of a call, and the share of a copy's speed."""
    cells, shares = [], {True: [], False: []}  # type: ignore[var-annotated]
    for (case,), times in mlir_kernels.by_case(mlir_kernels.newest(NAME)).items():
        source, target, _, _ = CASES[case]
        ours, share = times["convert"], times["copy"]["ms"] / times["convert"]["ms"]
        shares[ours["kernels"] == 1].append(share)
        inside = f"{1000 * times['in place']['ms']:.0f}" if "in place" in times else ""
        cells.append([
            f"`{source}` to `{target}`", ours["library"], str(ours["kernels"]), f"{ours['bytes'] / 2**20:.0f}",
            f"{1000 * ours['ms']:.0f}", f"{share:.2f}", inside,
        ])  # fmt: skip
    moves, casts = (f"{geometric_mean(shares[kind]):.2f}" for kind in (True, False))
    made = mlir_kernels.table("conversion|arrays of|kernels|MiB|us|of a copy|us in place", cells)
    means = f"; of a copy in the geometric mean: moves {moves}, casts {casts}"
    mlir_kernels.put_results(PAGE, NAME, NAME, made, "torch", note=means)


BENCHMARK = runner.Benchmark(NAME, [(case,) for case in CASES], timed, table)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
