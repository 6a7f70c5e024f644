"""Moves of a matrix over the GPUs of one host, against NCCL and DTensor; on a CPU the same in small, under gloo.

    python bench/mesh.py render [N ..]      the kernels of N ranks each as cubins (2 and 4), no GPU
    python bench/mesh.py time [PAIR ..]     on the GPU machine: correctness, then times; one process for each GPU
    python bench/mesh.py alone              on one GPU: the kernels of two ranks, peers in its own memory
    python bench/mesh.py kill               a rank is killed in the middle of a move, and what the others say
    torchrun --nproc-per-node N bench/mesh.py time [size=256]
    python bench/mesh.py table              the tables of docs/results/mesh.md

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

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import harness
import mesh_pairs
import runner
from mesh_kernels import BITS, CEILING_BYTES, SIZE, SMALL, Kept, contiguous, render, whole_matrix
from mesh_kills import kill
from mesh_stage import Stage, circumstances, free_port, keep, parsed, ranks_of, spawned
from mesh_tables import table


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
        failure = ""
        memory.own.zero_()
        stage.wait()
        try:
            found = run()
            wrong = int((found.view(-1) != expected.view(-1)).sum()) if found.numel() == expected.numel() else -1
            if wrong:
                failure = f"{wrong} of {expected.numel()} elements are wrong on rank {stage.rank}"
            del found
        except (RuntimeError, NotImplementedError, AssertionError, ValueError) as error:  # a row tells it
            failure = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:300]}"
        if stage.most(bool(failure)):
            rows.append({**row, "failure": failure or "another rank failed"})
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
    import torch

    import lego_mlir.mesh

    stage = Stage(rank, ranks, port)
    size = options.size or (SIZE if stage.gpu else SMALL)
    results: dict[str, Any] = {**circumstances(stage), "size": size, "rows": []}
    results["ceilings"] = ceilings(stage)
    report(stage, results)
    chosen = [pair for pair in mesh_pairs.pairs(size, ranks) if not options.words or pair.name in options.words]
    for dtype, bits in BITS.items():
        whole = whole_matrix(size, bits, stage.device)
        memory = lego_mlir.mesh.PeerMemory(size * size // ranks, whole.dtype, stage.device)
        for pair in chosen:
            results["rows"] += timed_pair(stage, pair, dtype, whole, memory)
            report(stage, results)
        del whole, memory
    stage.wait()
    torch.distributed.destroy_process_group()
    wrong = [row for row in results["rows"] if "failure" in row and row["contender"] != "DTensor"]
    sys.exit(1 if wrong else 0)


def report(stage: Stage, results: dict[str, Any]) -> None:
    """What is known so far, by rank 0: the last rows on the terminal, all in a file."""
    if stage.rank:
        return
    keep(str(stage.ranks), results)
    if not results["rows"]:
        print("ceilings, GB/s:", json.dumps(results["ceilings"]), flush=True)
        return
    last = results["rows"][-1]
    for row in results["rows"]:
        if (row["pair"], row["dtype"]) == (last["pair"], last["dtype"]):
            text = row.get("failure") or " ".join(
                f"{key} {ms:.3f} ms {row['GB/s'][key]:.1f} GB/s" for key, ms in row["ms"].items()
            )
            print(f"{row['pair']:24} {row['dtype']} {row['contender']:9} {text}", flush=True)


def time(options: SimpleNamespace) -> int:
    if "RANK" in os.environ:  # torchrun
        time_rank(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), 0, options)
    return max(map(abs, spawned(time_rank, ranks_of(options), options)))


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


PAIRS = [(pair.name,) for pair in mesh_pairs.pairs(SMALL, 2)]
BENCHMARK = runner.Benchmark("mesh", PAIRS, steps={
    "render": lambda words: render(parsed(words)), "time": lambda words: time(parsed(words)),
    "alone": lambda words: alone(parsed(words)), "kill": lambda words: kill(parsed(words)),
    "table": lambda words: table(),
})  # fmt: skip

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
