"""Conversions into storage formats, and calls of `lego.convert`, against a copy of the same bytes.

    python bench/formats.py formats STEP [FORMAT ..]        the steps of `runner.py`, and on this processor
    python bench/formats.py formats cpu [FORMAT ..]         conversions and a copy, by two threads each
    python bench/formats.py convert_calls time [CASE ..]    on a GPU machine with MLIR, which compiles the kernels

All fields of a format are written by one launch, each from a dense row-major array of its elements, packed to the bit.
`copy` moves as many bytes as the format's buffers have, by the driver. `bitsandbytes.nf4` is not among the cases: its
two fields share bytes, so they are two launches, the second of which reads what the first wrote.

A case of `convert_calls` is a conversion by `lego.convert(array, source=.., to=..)` of tensors of PyTorch, or of arrays
of CuPy (`cupy`), with everything that a call does: plan, allocate, launch. `copy` is `torch.clone` of the larger side.
Results are compared with those of NumPy arrays, byte by byte, before anything is timed.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean, median, quantiles
from time import perf_counter
from typing import Any

import harness
import mlir_kernels
import numpy as np
import runner

NAME, PAGE, TARGET = "formats", "results/formats.md", "sm_90"
RUNS = (NAME, "formats_one_line")
"""The names of the results: those of today's kernels, and of kernels with runs of one line and four units a thread."""
GPU_MIB, CPU_MIB, CPU_ROUNDS = 256, 64, 25
CPU_NAME = "formats_cpu"
SAMPLED = 2**20
SIZES = {
    "rows": 4096, "columns": 4096, "inputs": 4096, "depth": 128, "tokens": 16, "heads": 8, "groups": 8, "experts": 4,
    "ranks": 4, "blocks": 64, "layers": 4,
}  # fmt: skip
GROWN = ("rows", "blocks", "tokens", "inputs", "groups")
CASES = [
    "hf.linear", "conv1d.linear", "hf.gate_up", "vllm.gate_up", "flashinfer.up_gate", "gptoss.gate_up",
    "megatron.gate_up", "mixtral.experts", "vllm.moe_w13", "llama4.experts", "hf.qkv", "vllm.qkv", "megatron.qkv",
    "gguf.rope_rows", "megatron.column_parallel", "megatron.row_parallel", "aiter.16x16",
    "gptq", "awq", "vllm.marlin", "vllm.marlin_int8", "gptoss.mxfp4", "deepseek.fp8", "hf.scales", "deepgemm.scales",
    "cutlass.scales_128x4",
    "gguf.q4_0", "gguf.q4_1", "gguf.q5_0", "gguf.q8_0", "gguf.q6_k", "gguf.mxfp4", "gguf.nvfp4",
    "kv.lbnhc", "kv.lbhnc", "kv.lhbnc", "kv.blhnc", "kv.blnhc", "kv.bhlnc", "kv.nhd", "kv.hnd", "kv.paged",
    "kv.paged_x", "kv.mla", "kv.mla_separate", "kv.mla_nvfp4",
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


def conversion_of(case: str, mebibytes: int) -> Any:
    from lego_mlir.formats.conversions import Conversion
    from lego_mlir.formats.device_casts import in_packed_rows

    format_ = format_of(case, mebibytes)
    return Conversion(in_packed_rows(format_), format_)


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    from lego_mlir.formats.device_moves import kernels_of

    kept = folder / "cases.json"
    facts = json.loads(kept.read_text()) if kept.is_file() else {}
    for (case,) in cases:
        plan = conversion_of(case, GPU_MIB)
        ((kernel, arguments),) = kernels_of(plan)
        mlir_kernels.keep_cubin(folder / case, kernel, TARGET)
        facts[case] = {
            "kernel": kernel.name,
            "arguments": [
                {"side": side, "buffer": name, "type": p.dtype.numpy_name,
                 "bytes": (plan.source, plan.target)[side].bytes_of(name)}
                for (side, name), p in zip(arguments, kernel.params, strict=True)
            ],
            "moves": [
                {"source": there, "target": here, "unit": m.unit, "start": m.start, "digits": m.digits}
                for there, here, m in plan.moves
            ],
        }  # fmt: skip
        kept.write_text(json.dumps(facts, indent=1) + "\n")


def sampled_bits(move: Mapping[str, Any], count: int = SAMPLED) -> tuple[Any, Any]:
    """First bits of random units, in the source and in the target, from the digits."""
    rng = np.random.default_rng(0)
    there, here = (np.full(count, start, np.int64) for start in move["start"])
    for size, source, target in move["digits"]:
        digit = rng.integers(0, size, count)
        there, here = there + digit * source, here + digit * target
    return there, here


def require_right(move: Mapping[str, Any], x: Any, y: Any) -> None:
    """Compare sampled units of two arrays of bytes: all bits of those below a byte, and the bytes of the others."""
    there, here = sampled_bits(move)
    width = min(8, move["unit"])
    for byte in range(0, move["unit"], width):
        first, second = (
            (array[at // 8] >> (at % 8).astype(np.uint8)) & np.uint8((1 << width) - 1)
            for array, at in ((x, there + byte), (y, here + byte))
        )
        if not np.array_equal(first, second):
            raise harness.WrongResultError(f"{move['source']} to {move['target']}: wrong; nothing is timed")


def timed(folder: Path, case: str) -> list[harness.Contender]:
    import cupy as cp

    facts = json.loads(harness.rendered(folder / "cases.json").read_text())[case]
    kernel = mlir_kernels.kept_kernel(folder / case / f"{facts['kernel']}.cubin")
    rng, memory, views = np.random.default_rng(1), {}, []
    for one in facts["arguments"]:
        key = one["side"], one["buffer"]
        given = rng.integers(0, 256, one["bytes"], dtype=np.uint8) if one["side"] == 0 else None
        memory[key] = cp.zeros(one["bytes"], cp.uint8) if given is None else cp.asarray(given)
        views.append(memory[key].view(one["type"]))
    kernel(*views)
    for move in facts["moves"]:
        x, y = (cp.asnumpy(memory[key]) for key in ((0, move["source"]), (1, move["target"])))
        require_right(move, x, y)
    total = sum(one["bytes"] for one in facts["arguments"] if one["side"] == 1)
    a, b = cp.zeros(total, cp.uint8), cp.empty(total, cp.uint8)
    return [
        harness.contender(kernel.prepare(*views), kernel="ours", bytes=total),
        harness.contender(lambda: cp.copyto(b, a), kernel="copy", bytes=total),
    ]


def cpu(words: Sequence[str]) -> None:
    """Median ratios of a copy by two threads and the conversion, timed in turns: a shared machine shows in both."""
    from lego_mlir.formats.compiled_moves import THREADS
    from lego_mlir.formats.host_moves import COMPILED_BYTES

    rows, chosen = [], [case for (case,) in FORMATS.chosen(words)]
    for case in chosen:
        plan = conversion_of(case, CPU_MIB)
        run, total = _prepared(plan)
        for _ in range(2 + COMPILED_BYTES // total):
            run()
        copy = _copy_of(total, THREADS)
        ratios, times = [], []
        for _ in range(CPU_ROUNDS):
            seconds = {}
            for name, job in (("copy", copy), ("ours", run)):
                start = perf_counter()
                job()
                seconds[name] = perf_counter() - start
            ratios.append(seconds["copy"] / seconds["ours"])
            times.append(seconds["ours"])
        low, middle, high = quantiles(ratios, n=4)
        rows.append({"case": [case], "bytes": total, "ms": 1000 * median(times), "of_copy": [low, middle, high]})
        print(
            f"{case:26} {total / median(times) / 1e9:6.2f} GB/s, {middle:.2f} of a copy ({low:.2f} to {high:.2f})",
            flush=True,
        )
    found = [row["of_copy"][1] for row in rows]
    print(f"geometric mean {geometric_mean(found):.2f}, least {min(found):.2f}")
    if chosen == CASES:
        from lego_mlir.runtime.cpu import model_name
        from lego_mlir.toolchain import llvm

        path = harness.results_path(llvm.binding().get_host_cpu_name(), CPU_NAME)
        harness.save(CPU_NAME, {"device": model_name(), "threads": THREADS, "rows": rows}, path)


def _prepared(plan: Any) -> tuple[Callable[[], None], int]:
    """The moves of a conversion between made-up buffers, checked once, and the bytes that they write."""
    from lego_mlir.formats.field_arrays import as_bytes, empty_buffers
    from lego_mlir.formats.host_moves import execute_all

    given, found = (
        {name: as_bytes(array) for name, array in empty_buffers(one).items()} for one in (plan.source, plan.target)
    )
    rng = np.random.default_rng(0)
    for array in given.values():
        array[:] = rng.integers(0, 256, array.size, dtype=np.uint8)
    moves = [(move, given[there], found[here]) for there, here, move in plan.moves]
    execute_all(moves)
    for there, here, move in plan.moves:
        facts = {"source": there, "target": here, "unit": move.unit, "start": move.start, "digits": move.digits}
        require_right(facts, given[there], found[here])
    return lambda: execute_all(moves), sum(array.size for array in found.values())


def _copy_of(size: int, threads: int) -> Callable[[], None]:
    """A copy of these bytes, a part by each thread."""
    from lego_mlir.formats.compiled_moves import workers

    a, b = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    parts = [slice(size * k // threads, size * (k + 1) // threads) for k in range(threads)]

    def copy() -> None:
        for done in [workers(threads).submit(np.copyto, b[part], a[part]) for part in parts]:
            done.result()

    return copy


def cpu_table() -> None:
    """The table of the processor: speed, and the ratio to a copy with its quartiles."""
    found, cells, ratios = mlir_kernels.newest(CPU_NAME), [], []
    for row in found["rows"]:
        low, middle, high = row["of_copy"]
        ratios.append(middle)
        speed = f"{row['bytes'] / row['ms'] / 1e6:.1f}"
        cells.append(
            [f"`{row['case'][0]}`", f"{row['bytes'] >> 20}", speed, f"{middle:.2f}", f"{low:.2f} to {high:.2f}"]
        )
    means = f"{geometric_mean(ratios):.2f} of a copy in the geometric mean, least {min(ratios):.2f}"
    made = mlir_kernels.table("format|MiB|GB/s|of a copy|quartiles", cells)
    mlir_kernels.put_results(PAGE, CPU_NAME, CPU_NAME, made, note=f", {found['threads']} threads: {means}")


def table() -> None:
    """The tables of the documentation: our time, what it reads and writes, and the share of a copy's speed, by run."""
    cpu_table()
    runs = {name: found for name in RUNS if (found := mlir_kernels.latest(name)) is not None}
    text = "".join(f"{mlir_kernels.circumstances(name, found, 'torch')}.\n" for name, found in runs.items())
    times = [{(row["case"][0], row["kernel"]): row for row in found["rows"]} for found in runs.values()]
    shares: list[list[float]] = [[] for _ in runs]
    cells = []
    for case in CASES:
        cell = [f"`{case}`"]
        for rows, found in zip(times, shares, strict=True):
            if (case, "ours") not in rows:
                cell += ["", "", ""]
                continue
            ours, copy = rows[case, "ours"], rows[case, "copy"]
            found.append(copy["ms"] / ours["ms"])
            cell += [f"{1000 * ours['ms']:.0f}", f"{2 * ours['bytes'] / ours['ms'] / 1e9:.2f}", f"{found[-1]:.3f}"]
        cells.append(cell)
    for what, of in (("geometric mean", geometric_mean), ("least", min)):
        cells.append([what, *(part for found in shares for part in ("", "", f"{of(found):.3f}"))])
    columns = [f"{found['device'].split()[1]}, us|TB/s read and written|of a copy" for found in runs.values()]
    mlir_kernels.put_into(PAGE, NAME, f"{text}\n", mlir_kernels.table("|".join(["format", *columns]), cells))


# -- calls of `lego.convert`

CALLS_NAME = "convert_calls"
LAYER = {"rows": 8192, "columns": 8192}
HEADS = {"groups": 8, "heads": 8, "depth": 128, "inputs": 8192}
CACHE = {"layers": 4, "blocks": 512, "heads": 8, "tokens": 16, "depth": 128}
CALLS: dict[str, tuple[str, str, dict[str, int], str]] = {
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

    source, target, sizes, _ = CALLS[case]
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


def timed_call(folder: Path, case: str) -> list[harness.Contender]:
    import cupy
    import torch

    import lego_mlir as lego

    source, target = formats_of(case)
    given = made_up(source)
    only = next(iter(given.values()))
    expected = lego.convert(given if len(given) > 1 else only, source=source, to=target)
    expected = expected if isinstance(expected, dict) else {next(iter(target.buffers)): expected}
    library = CALLS[case][3]
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


def calls_table() -> None:
    """One row a case: time of a call, and the share of a copy's speed."""
    cells, shares = [], {True: [], False: []}  # type: ignore[var-annotated]
    for (case,), times in mlir_kernels.by_case(mlir_kernels.newest(CALLS_NAME)).items():
        source, target, _, _ = CALLS[case]
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
    mlir_kernels.put_results(PAGE, CALLS_NAME, CALLS_NAME, made, "torch", note=means)


FORMATS = runner.Benchmark(NAME, [(case,) for case in CASES], timed, table, render, steps={"cpu": cpu}, together=True)
BENCHMARKS = {
    NAME: FORMATS, CALLS_NAME: runner.Benchmark(CALLS_NAME, [(case,) for case in CALLS], timed_call, calls_table)
}  # fmt: skip

if __name__ == "__main__":
    sys.exit(runner.main_of(BENCHMARKS, __doc__))
