"""Moves of a matrix over the GPUs of one host, against NCCL and DTensor; on a CPU the same in small, under gloo.

    python bench/mesh.py render [N ..]      the kernels of N ranks each as cubins (2 and 4), no GPU
    python bench/mesh.py time [PAIR ..]     on the GPU machine: correctness, then times; one process for each GPU
    python bench/mesh.py alone              on one GPU: the kernels of two ranks, peers in its own memory
    torchrun --nproc-per-node N bench/mesh.py time [size=256]
    python bench/mesh.py table              the tables of docs/results/mesh.md
    python bench/mesh.py plans              plans over up to 10^5 ranks, no GPU: the table of docs/how-to/mesh.md

Six pairs of distributions (mesh_pairs.py), in f32 and f16, by three contenders:

    exchange   packed by one kernel, all_to_all of NCCL, unpacked by another        lego.mesh.Exchange
    peers      one kernel that stores at the peers, between two barriers            lego.mesh.PeerExchange
    DTensor    redistribute

Every element of every rank's new part is compared with a part cut out of the whole matrix before anything is timed. The
ceilings are measured in the same run: a copy of 1 GiB to the next rank, of all ranks at once, and a kernel that stores
as much contiguously there. A `single` time is one move between two events of the stream, after a barrier on it and with
the launches ahead of it; `steady` is the tenth part of ten moves in a row. Medians, of the slowest rank. Rates are
bytes that leave a rank, in GB/s. NVLink multicast is off. On a CPU the times are of wall clock, and say nothing.
"""

import datetime
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from statistics import geometric_mean
from time import process_time
from types import SimpleNamespace
from typing import Any

import harness
import mesh_pairs
import mlir_kernels
import runner
from mesh_stage import NAME, PAGE, Stage, circumstances, free_port, keep, over_ranks, parsed, recorded

FOLDER = harness.ARTIFACTS / NAME
SIZE, SMALL = 16384, 512
CEILING_BYTES = 1 << 30
BITS = {"f32": 32, "f16": 16}
KERNELS = ("pack", "unpack", "peers")


# -- the kernels and the matrix that they move


@dataclass(frozen=True)
class Kept:
    """Kernels of one rank in a pair of N ranks: `store` compiles and keeps them, `load` finds them."""

    size: int
    ranks: int
    rank: int
    pair: str

    def path(self, name: str, dtype: Any) -> Path:
        words = (self.pair.replace(" ", "_"), self.size, f"{self.rank}of{self.ranks}", dtype.bits, name)
        return FOLDER / f"{'-'.join(map(str, words))}.cubin"

    def store(self, name: str, moves: Any, dtype: Any, held: int, capacities: Sequence[int]) -> Any:
        from lego_mlir.mesh.box_kernels import box_kernel

        made = mlir_kernels.compiled(box_kernel(name, moves, dtype, held, capacities), "sm_90a")
        mlir_kernels.keep_code(FOLDER, self.path(name, dtype).stem, made)

    def load(self, name: str, moves: Any, dtype: Any, held: int, capacities: Sequence[int]) -> Any:
        return mlir_kernels.kept_kernel(self.path(name, dtype))


def contiguous(ranks: int, rank: int, make: Any, bits: int = 32) -> Any:
    """A kernel that stores CEILING_BYTES contiguously."""
    from lego_mlir.mesh.box_kernels import BoxMove
    from lego_mlir.mesh.redistribution import StridedBox
    from lego_mlir.tracing.trace.dtypes import dtype_named

    n = CEILING_BYTES * 8 // bits
    box = StridedBox(0, (1, n), (n, 1))
    return make("contiguous", [BoxMove(box, box)], dtype_named(f"i{bits}"), n, [n])


def _rendered(case: tuple[int, int, int, str, int]) -> int:
    """The three kernels of one rank."""
    import lego_mlir as lego

    size, ranks, rank, name, bits = case
    kept = Kept(size, ranks, rank, name)
    pair = next(pair for pair in mesh_pairs.pairs(size, ranks) if pair.name == name)
    plan = lego.redistribute(pair.source.division, pair.target.division)

    lego.mesh.Exchange(plan, rank, make=kept.store).moves(bits)
    lego.mesh.PeerExchange(plan, rank, kept.store).kernel(bits)
    return 3


def render(options: SimpleNamespace) -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    size = options.size or SIZE
    contiguous(1, 0, Kept(CEILING_BYTES, 1, 0, "ceiling").store)
    cases = [
        (size, ranks, rank, pair.name, bits)
        for ranks in options.ranks or (2, 4)
        for pair in mesh_pairs.pairs(size, ranks)
        for rank in range(ranks)
        for bits in BITS.values()
    ]
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        made = sum(pool.map(_rendered, cases))
    print(f"{made + 1} kernels in {FOLDER}")
    return 0


def whole_matrix(n: int, bits: int, device: Any) -> Any:
    """A matrix whose elements are integers that tell their places apart, as far as they can."""
    import torch

    found = torch.arange(n * n, device=device, dtype=torch.int32 if n * n < 1 << 31 else torch.int64)
    if bits == 16:
        found = found ^ (found >> 15) * 40503 ^ (found >> 27)
    return found.to(getattr(torch, f"int{bits}")).view(n, n)


# -- moves


def contenders(stage: Stage, pair: Any, kept: Kept, part: Any, memory: Any) -> dict[str, Callable[[], Any]]:
    """How the pair is moved, each with the new part of this rank as its result."""
    import lego_mlir as lego

    plan = lego.redistribute(pair.source.division, pair.target.division)
    make = {"make": kept.load} if stage.gpu else {}
    exchange = lego.mesh.Exchange(plan, stage.rank, **make)
    peers = lego.mesh.PeerExchange(plan, stage.rank, **make)
    new = memory.parts([plan.target.capacity(t) for t in range(stage.ranks)])

    def stored() -> Any:
        memory.barrier()
        peers(part, new)
        memory.barrier()
        return new[stage.rank]

    runs = {"exchange": lambda: exchange(part), "peers": stored}
    by_torch = dtensor_run(stage, pair, part)
    return runs if by_torch is None else {**runs, "DTensor": by_torch}


def dtensor_run(stage: Stage, pair: Any, part: Any) -> Callable[[], Any] | None:
    """The pair by DTensor, where it has both placements."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor

    if pair.source.placements is None or pair.target.placements is None:
        return None
    sizes = tuple(pair.source.division.mesh.values())
    mesh = init_device_mesh(stage.device.type, sizes)
    source, target = (mesh_pairs.placements_of(side) for side in (pair.source, pair.target))
    floats = part.view({4: torch.float32, 2: torch.float16}[part.element_size()])
    whole = torch.Size(pair.source.division.shape)
    stride = (int(whole[1]), 1)

    def run() -> Any:
        tensor = DTensor.from_local(floats, mesh, source, run_check=False, shape=whole, stride=stride)
        tensor = tensor.t() if pair.transposes else tensor
        return tensor.redistribute(placements=target).to_local().contiguous().view(part.dtype)

    return run


def timed_pair(stage: Stage, pair: Any, dtype: str, whole: Any, memory: Any) -> list[dict[str, Any]]:
    """The rows of one pair; a contender that fails or is wrong has its message in place of times."""
    import torch

    import lego_mlir as lego

    part = pair.source.held(whole, stage.rank).contiguous()
    expected = pair.target.held(whole, stage.rank).contiguous()
    kept = Kept(whole.shape[0], stage.ranks, stage.rank, pair.name)
    plan = lego.redistribute(pair.source.division, pair.target.division)
    elements = plan.elements
    sent = max(int(row.sum() - row[s]) for s, row in enumerate(elements)) * part.element_size()
    rows = []
    for name, run in contenders(stage, pair, kept, part, memory).items():
        row = {"pair": pair.name, "dtype": dtype, "contender": name, "bytes": sent, "whole": part.nbytes * stage.ranks}
        memory.own.zero_()
        stage.wait()
        if failure := stage.failure(run, expected):
            rows.append({**row, "failure": failure})
            continue
        row["checked"] = expected.numel()
        times = stage.times_ms(run)
        rows.append({**row, "ms": times, "GB/s": {key: sent / 1e6 / ms for key, ms in times.items()}})
    if stage.gpu:
        torch.cuda.empty_cache()
    return rows


def ceilings(stage: Stage) -> dict[str, Any]:
    """GB/s that leave each rank: by the copy of a tensor to the next rank, and by a kernel that stores contiguously."""
    import torch

    import lego_mlir.mesh

    size = CEILING_BYTES if stage.gpu else 1 << 20
    memory = lego_mlir.mesh.PeerMemory(size // 4, torch.int32, stage.device)
    there = memory.part((stage.rank + 1) % stage.ranks)
    given = torch.arange(size // 4, device=stage.device, dtype=torch.int32) + stage.rank
    runs: dict[str, Callable[[], Any]] = {"copy": lambda: there.copy_(given)}
    if stage.gpu:
        kernel = contiguous(1, 0, Kept(CEILING_BYTES, 1, 0, "ceiling").load)
        runs["stores"] = lambda: kernel(given, there)
        runs["own memory"] = lambda: own.copy_(given)
        own = torch.empty_like(given)
    found = {}
    for name, run in runs.items():
        memory.own.zero_()
        stage.wait()
        run()
        stage.wait()
        if name != "own memory" and not torch.equal(memory.own - (stage.rank - 1) % stage.ranks, given - stage.rank):
            raise harness.WrongResultError(f"{name}: the copy from the previous rank is wrong")
        found[name] = {key: size / 1e6 / ms for key, ms in stage.times_ms(run).items()}
    sends, receives = given, torch.empty_like(given)
    times = stage.times_ms(lambda: torch.distributed.all_to_all_single(receives, sends))
    found["all_to_all"] = {key: size * (stage.ranks - 1) / stage.ranks / 1e6 / ms for key, ms in times.items()}
    return found


def time_rank(rank: int, ranks: int, port: int, options: SimpleNamespace) -> None:
    """One process of the step `time`."""
    import lego_mlir.mesh

    stage = Stage(rank, ranks, port)
    size = options.size or (SIZE if stage.gpu else SMALL)
    results: dict[str, Any] = {**circumstances(stage), "size": size, "rows": []}
    results["ceilings"] = ceilings(stage)
    if not rank:
        print("ceilings, GB/s:", results["ceilings"], flush=True)
    chosen = [pair for pair in mesh_pairs.pairs(size, ranks) if not options.words or pair.name in options.words]
    for dtype, bits in BITS.items():
        whole = whole_matrix(size, bits, stage.device)
        memory = lego_mlir.mesh.PeerMemory(size * size // ranks, whole.dtype, stage.device)
        for pair in chosen:
            rows = timed_pair(stage, pair, dtype, whole, memory)
            stage.report("", results, rows, "pair", "dtype", "contender")
        del whole, memory
    stage.finish(results, may_fail="DTensor")


def alone(options: SimpleNamespace) -> int:
    """The kernels of rank 0 of two on one GPU, against a copy of as many bytes."""
    import torch

    stage, size = Stage(0, 1, free_port()), options.size or SIZE
    if not stage.gpu:
        raise SystemExit("the step `alone` needs a GPU")
    rows: list[dict[str, Any]] = []
    for dtype, bits in BITS.items():
        whole = whole_matrix(size, bits, stage.device)
        for pair in mesh_pairs.pairs(size, 2):
            for row in timed_alone(stage, pair, whole, bits):
                rows.append({"pair": pair.name, "dtype": dtype, **row})
                text = f"{row['ms']['steady']:.3f} ms, {row['copy ms']['steady']:.3f} a copy, {row['of a copy']:.2f}"
                print(f"{pair.name:24} {dtype} {row['kernel']:7} {text}", flush=True)
    keep("alone", {**circumstances(stage), "size": size, "rows": rows})
    torch.distributed.destroy_process_group()
    return 0


def timed_alone(stage: Stage, pair: Any, whole: Any, bits: int) -> Iterator[dict[str, Any]]:
    """The kernels of one rank; the peer's memory is checked by the part that it should be."""
    import torch

    import lego_mlir as lego

    kept = Kept(whole.shape[0], 2, 0, pair.name)
    plan = lego.redistribute(pair.source.division, pair.target.division)
    exchange, peers = lego.mesh.Exchange(plan, 0, make=kept.load), lego.mesh.PeerExchange(plan, 0, kept.load)
    moves = exchange.moves(bits)
    assert moves is not None
    part = pair.source.held(whole, 0).contiguous().view(-1)
    _, sends, receives, capacity = (torch.zeros(n, dtype=part.dtype, device=stage.device) for n in exchange.extents)
    new = [capacity, torch.zeros_like(capacity)]
    for other in range(2):  # all that reaches the first new part, by the stores of both ranks
        given = pair.source.held(whole, other).contiguous().view(-1)
        lego.mesh.PeerExchange(plan, other, replace(kept, rank=other).load)(given, new)
    for rank in range(2):
        if not torch.equal(new[rank], pair.target.held(whole, rank).reshape(-1)):
            raise harness.WrongResultError(f"{pair.name}: the new part of rank {rank} is wrong")
    runs: dict[str, tuple[Any, Callable[[], Any]]] = {
        "pack": (part, lambda: moves.pack(part, sends, capacity)),
        "unpack": (receives, lambda: moves.unpack(receives, capacity)),
        "peers": (part, lambda: peers(part, new)),
    }
    for name, (moved, run) in runs.items():
        there = torch.empty_like(moved)
        ours, copy = stage.times_ms(run), stage.times_ms(partial(there.copy_, moved))
        yield {"kernel": name, "bytes": moved.nbytes, "ms": ours, "copy ms": copy,
               "of a copy": copy["steady"] / ours["steady"]}  # fmt: skip


def table() -> None:
    """The tables of the documentation: moves over several GPUs, and the kernels on one; f32 and f16 in a cell."""
    mlir_kernels.put_into(PAGE, "moves", *(part for found in recorded(f"{NAME}-") for part in moves_over(*found)))
    one = mlir_kernels.latest(f"{NAME}-alone")
    if one is not None:
        of_copy = {(row["pair"], row["kernel"], row["dtype"]): row["of a copy"] for row in one["rows"]}
        cells = [
            [pair, *(in_cell([of_copy[pair, kernel, dtype] for dtype in BITS], 2) for kernel in KERNELS)]
            for pair in dict.fromkeys(pair for pair, *_ in of_copy)
        ]
        mlir_kernels.put_into(PAGE, "alone", mlir_kernels.table("pair|" + "|".join(KERNELS), cells))


def moves_over(run: dict[str, Any], where: str) -> list[str | mlir_kernels.Table]:
    """Circumstances, ceilings and rates of a run."""
    copy, cells, every = run["ceilings"]["copy"]["steady"], [], []
    for pair in dict.fromkeys(row["pair"] for row in run["rows"]):
        found = {
            (row["contender"], row["dtype"]): row["GB/s"]["steady"]
            for row in run["rows"] if row["pair"] == pair and "GB/s" in row
        }  # fmt: skip
        rates = {way: [found.get((way, dtype)) for dtype in BITS] for way in ("exchange", "peers", "DTensor")}
        by_torch = ratios(rates["peers"], rates["DTensor"])
        every += [ratio for ratio in by_torch if ratio]
        shares = in_cell([rate / copy if rate else None for rate in rates["peers"]], 2)
        cells.append([pair, *(in_cell(values, 0) for values in rates.values()), shares, in_cell(by_torch, 2)])
    cells.append(["geometric mean", *[""] * 4, f"{geometric_mean(every):.2f}"])
    rates_text = ", ".join(f"{way} {rate['steady']:.0f}" for way, rate in run["ceilings"].items())
    columns = "pair|exchange|peers|DTensor|peers / copy|peers / DTensor"
    return [f"{where}. Ceilings, GB/s: {rates_text}.\n\n", mlir_kernels.table(columns, cells)]


def ratios(ours: Sequence[float | None], others: Sequence[float | None]) -> list[float | None]:
    """Ours by others, where both were measured."""
    return [a / b if a and b else None for a, b in zip(ours, others, strict=True)]


def in_cell(values: Sequence[float | None], digits: int) -> str:
    """The values of f32 and f16; nothing where none was measured."""
    return ", ".join(f"{value:.{digits}f}" for value in values if value is not None)


# -- plans over many ranks: each in a process of its own, planned and checked; nothing is moved

SHOWN = 3
"""Sizes of messages that are told apart in the table."""
Split = tuple[str, int] | tuple[str, int, int]
"""An axis of the mesh and its parts; of blocks that are dealt out, their size as well."""


def side(shape: tuple[int, ...], *axes: Split | None) -> Any:
    """A distribution whose axes are divided over one axis of the mesh each, or not at all."""
    from lego_mlir.distributions import Chunks, Cyclic, Sharded

    splits = [[] if one is None else [(one[0], Chunks(one[1]) if len(one) == 2 else Cyclic(*one[1:]))] for one in axes]
    return Sharded(shape, {one[0]: one[1] for one in axes if one is not None}, splits)


PLANS: tuple[tuple[str, tuple[int, ...], tuple[Split | None, ...], tuple[Split | None, ...]], ...] = (
    ("blocks of 64 in turn, to blocks", (1 << 30,), (("r", 8, 64),), (("r", 8),)),
    (
        "rows, to a 32 x 32 grid in blocks of 64", (1 << 16, 1 << 16),
        (("r", 1024), None), (("p", 32, 64), ("q", 32, 64)),
    ),
    ("rows, to a 64 x 64 grid", (1 << 18, 1 << 18), (("r", 4096), None), (("p", 64), ("q", 64))),
    ("rows, to a 128 x 128 grid", (1 << 18, 1 << 18), (("r", 16384), None), (("p", 128), ("q", 128))),
    (
        "320 x 320 in blocks of 64, to 256 x 400 in blocks of 128", (1 << 20, 1 << 20),
        (("p", 320, 64), ("q", 320, 64)), (("p", 256, 128), ("q", 400, 128)),
    ),
    ("rows, to a 320 x 320 grid", (1 << 20, 1 << 20), (("r", 102400), None), (("p", 320), ("q", 320))),
)  # fmt: skip


def planned(number: int) -> dict[str, Any]:
    """The figures of a case: seconds of the processor, and what the process has more of memory at most than before."""
    import lego_mlir as lego

    _, shape, *axes = PLANS[number]
    source, target = (side(shape, *one) for one in axes)
    small = (64,) * len(shape)
    lego.redistribute(side(small, *([None] * len(small))), side(small, *([None] * len(small)))).check()  # imports
    before, began = getrusage(RUSAGE_SELF).ru_maxrss, process_time()
    plan = lego.redistribute(source, target)
    if not plan.check():
        raise SystemExit(f"{PLANS[number][0]}: {plan.check().explanation}")
    found, seconds = plan.summary, process_time() - began
    began = process_time()
    one = plan.messages_from(plan.source.count // 2)
    return {
        "ranks": plan.source.count, "seconds": seconds, "MB": (getrusage(RUSAGE_SELF).ru_maxrss - before) / 1024,
        "messages": found.messages, "sizes": found.sizes, "of one rank": len(one), "s of one": process_time() - began,
    }  # fmt: skip


def sizes_in_words(sizes: dict[int, int]) -> str:
    """The most frequent sizes of messages, in elements."""
    most = Counter(sizes).most_common()
    shown = "; ".join(f"{count:,} of {size:,}" for size, count in most[:SHOWN])
    return shown if len(most) <= SHOWN else f"{shown}; other sizes: {len(most) - SHOWN}"


def plans(_: Sequence[str]) -> None:
    rows = []
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        for (name, shape, *_), found in zip(PLANS, pool.map(planned, range(len(PLANS))), strict=True):
            memory = f"{found['MB']:.0f} MB" if found["MB"] >= 1 else "below 1 MB"
            rows.append([
                f"{found['ranks']:,}", f"2^{math.prod(shape).bit_length() - 1}", name, f"{found['seconds']:.2f}",
                memory, f"{found['messages']:,}", sizes_in_words(found["sizes"]),
                f"{found['of one rank']:,}, in {found['s of one']:.3f} s",
            ])  # fmt: skip
            print(" | ".join(rows[-1]), flush=True)
    columns = "ranks|elements|from, to|seconds|more memory|messages|of elements each|messages of one rank"
    when = f"Measured on {datetime.date.today()} on one core of a processor that had other work.\n\n"
    mlir_kernels.put_into("how-to/mesh.md", "plans", when, mlir_kernels.table(columns, rows))


PAIRS = [(pair.name,) for pair in mesh_pairs.pairs(SMALL, 2)]
BENCHMARK = runner.Benchmark(NAME, PAIRS, steps={
    "render": lambda words: render(parsed(words)), "time": lambda words: over_ranks(time_rank, parsed(words)),
    "alone": lambda words: alone(parsed(words)), "table": lambda words: table(), "plans": plans,
}, together=True, alone=True)  # fmt: skip

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
