"""Moves of a matrix over the GPUs of one host, beside NCCL and DTensor; on a CPU the same in small, under gloo.

    python bench/mesh.py render [N ..]      the kernels of N ranks each as cubins (2 and 4), no GPU
    python bench/mesh.py time [--size 256]  on the GPU machine: correctness, then times; one process for each GPU
    python bench/mesh.py alone              on one GPU: the kernels of two ranks, peers in its own memory
    python bench/mesh.py kill               a rank is killed in the middle of a move, and what the others say
    torchrun --nproc-per-node N bench/mesh.py time
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

import argparse
import datetime
import faulthandler
import json
import os
import signal
import socket
import sys
import time as clock
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import harness
import mesh_pairs
import mlir_kernels

NAME, PAGE = "mesh", "results/mesh.md"
RUNS = (NAME, "mesh-again")
"""The names of results: of all pairs, and of those that were measured again after a change."""
FOLDER = harness.ARTIFACTS / NAME
SIZE, SMALL = 16384, 512
CEILING_BYTES = 1 << 30
BITS = {"f32": 32, "f16": 16}
KERNELS = ("pack", "unpack", "peers")
SINGLE, STEADY, IN_A_ROW = 20, 5, 10
SLEEP_CYCLES = 2_000_000  # the device waits while the host gets ahead
LIMIT_S = 10
"""How long a rank waits for another in the step `kill`."""


# -- kernels that are compiled on one machine and called on another


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
        from lego_mlir.toolchain import compile_kernel

        made = compile_kernel(box_kernel(name, moves, dtype, held, capacities), target="sm_90a", emit="cubin")
        path = self.path(name, dtype)
        path.write_bytes(made.bytes)
        path.with_suffix(".json").write_text(json.dumps(made.manifest))

    def load(self, name: str, moves: Any, dtype: Any, held: int, capacities: Sequence[int]) -> Any:
        from lego_mlir.runtime.packs import load_kernels

        (kernel,) = load_kernels(harness.rendered(self.path(name, dtype))).values()
        return kernel


def contiguous(ranks: int, rank: int, make: Any, bits: int = 32) -> Any:
    """A kernel that stores CEILING_BYTES contiguously."""
    from lego_mlir.mesh.box_kernels import BoxMove
    from lego_mlir.mesh.redistribution import StridedBox
    from lego_mlir.tracing.dtypes import dtype_named

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


def render(options: argparse.Namespace) -> int:
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


# -- the ranks


class Stage:
    """The processes of a run as one of them sees it: its device, and how a time is taken there."""

    def __init__(self, rank: int, ranks: int, port: int, limit_s: int = 600) -> None:
        import torch
        import torch.distributed as dist

        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", str(port))
        self.rank, self.ranks, self.gpu = rank, ranks, torch.cuda.is_available()
        self.device = torch.device("cuda", rank) if self.gpu else torch.device("cpu")
        backend = "cpu:gloo,cuda:nccl" if self.gpu else "gloo"
        if self.gpu:
            torch.cuda.set_device(self.device)
        limit = datetime.timedelta(seconds=limit_s)
        dist.init_process_group(backend, rank=rank, world_size=ranks, timeout=limit)
        self.one = torch.zeros(1, device=self.device)

    def wait(self) -> None:
        """All ranks are here, and what was launched is done."""
        import torch
        import torch.distributed as dist

        dist.all_reduce(self.one)
        if self.gpu:
            torch.cuda.synchronize()

    def seconds(self, run: Callable[[], Any], times: int) -> float:
        """The time of this many runs on this rank, one after the other."""
        import torch
        import torch.distributed as dist

        if not self.gpu:
            dist.all_reduce(self.one)
            began = clock.perf_counter()
            for _ in range(times):
                run()
            return clock.perf_counter() - began
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.wait()
        torch.cuda._sleep(SLEEP_CYCLES * min(times, 3))
        dist.all_reduce(self.one)
        start.record()
        for _ in range(times):
            run()
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end)) / 1000

    def times_ms(self, run: Callable[[], Any]) -> dict[str, float]:
        """The medians `single` and `steady` of the slowest rank, in milliseconds."""
        few = 1 if self.gpu else 4
        for _ in range(3):
            run()
        single = [self.seconds(run, 1) for _ in range(SINGLE // few)]
        steady = [self.seconds(run, IN_A_ROW) / IN_A_ROW for _ in range(STEADY // few)]
        return {"single": 1000 * self.most(median(single)), "steady": 1000 * self.most(median(steady))}

    def most(self, value: float) -> float:
        """The largest value of all ranks."""
        import torch
        import torch.distributed as dist

        found = torch.tensor([value], dtype=torch.float64)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return float(found)


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
        failure = ""
        memory.own.zero_()
        stage.wait()
        try:
            found = run()
            wrong = int((found.view(-1) != expected.view(-1)).sum()) if found.numel() == expected.numel() else -1
            if wrong:
                failure = f"{wrong} of {expected.numel()} elements are wrong on rank {stage.rank}"
            del found
        except (RuntimeError, NotImplementedError, AssertionError, ValueError) as error:
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


def time_rank(rank: int, ranks: int, port: int, options: argparse.Namespace) -> None:
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


def circumstances(stage: Stage) -> dict[str, Any]:
    import torch

    device = torch.cuda.get_device_name() if stage.gpu else "CPU"
    nccl = ".".join(map(str, torch.cuda.nccl.version())) if stage.gpu else None
    return {
        "device": device, "ranks": stage.ranks, "torch": torch.__version__, "cuda": torch.version.cuda, "nccl": nccl,
        "clocks": harness.clocks() if stage.gpu else [], "multicast": "off",
    }  # fmt: skip


def keep(name: str, results: dict[str, Any]) -> None:
    """Results as a file, in $OUT or beside the others."""
    folder = Path(os.environ.get("OUT", harness.BENCH / "results"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{NAME}-{name}.json").write_text(json.dumps(results, indent=1) + "\n")


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


def time(options: argparse.Namespace) -> int:
    if "RANK" in os.environ:  # torchrun
        time_rank(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), 0, options)
    return max(map(abs, spawned(time_rank, ranks_of(options), options)))


def ranks_of(options: argparse.Namespace) -> int:
    import torch

    return options.ranks[0] if options.ranks else torch.cuda.device_count() or 2


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def spawned(rank_of: Callable[..., None], ranks: int, *given: Any, limit_s: float = 3600) -> list[int]:
    """The exit codes of processes, one for each rank; those that take longer are ended."""
    os.environ.update(NCCL_NVLS_ENABLE="0", TORCH_SYMM_MEM_DISABLE_MULTICAST="1")
    port, context = free_port(), get_context("spawn")
    made = [context.Process(target=rank_of, args=(rank, ranks, port, *given)) for rank in range(ranks)]
    until = clock.monotonic() + limit_s
    for process in made:
        process.start()
    for process in made:
        process.join(max(until - clock.monotonic(), 0))
        if process.exitcode is None:
            process.kill()
            process.join()
    return [int(process.exitcode or 0) for process in made]


# -- a rank that is killed


def killed_rank(rank: int, ranks: int, port: int, way: str, options: argparse.Namespace, told: Any) -> None:
    """The last rank is killed when all have begun a move; the others report their message and what they still have."""
    import torch

    import lego_mlir as lego
    from lego_mlir.errors import UsageError

    faulthandler.dump_traceback_later(6 * LIMIT_S, exit=True)
    stage = Stage(rank, ranks, port, 12 * LIMIT_S)
    size = options.size or (SIZE if stage.gpu else SMALL)
    pair = next(pair for pair in mesh_pairs.pairs(size, ranks) if pair.name == "rows to columns")
    plan = lego.redistribute(pair.source.division, pair.target.division)
    make = {"make": Kept(size, ranks, rank, pair.name).load} if stage.gpu else {}
    whole = whole_matrix(size, 32, stage.device)
    part = pair.source.held(whole, rank).contiguous()
    before, expected = part.clone(), pair.target.held(whole, rank)
    capacities = [plan.target.capacity(t) for t in range(ranks)]
    memory = lego.mesh.PeerMemory(max(capacities), part.dtype, stage.device)
    exchange, peers = lego.mesh.Exchange(plan, rank, **make), lego.mesh.PeerExchange(plan, rank, **make)
    new = memory.parts(capacities)

    def move(dies: bool) -> Any:
        if way == "exchange":
            if dies:
                os.kill(os.getpid(), signal.SIGKILL)
            return exchange(part, within=LIMIT_S)
        memory.barrier(checked=True)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        peers(part, new)
        memory.barrier(checked=True)
        return new[rank]

    assert torch.equal(move(dies=False).view(-1), expected.reshape(-1))
    stage.wait()
    print(f"{way}: rank {rank} begins the move in which rank {ranks - 1} is killed", flush=True)
    began = clock.perf_counter()
    try:
        move(dies=rank == ranks - 1)
        message = ""
    except UsageError as error:
        message = str(error)
    took = clock.perf_counter() - began
    print(f"{way}: rank {rank} after {took:.1f} s: {message}", flush=True)
    square = torch.ones(256, 256, device=stage.device)
    works = torch.equal(part, before) and bool((square @ square == 256).all())
    told.put({"rank": rank, "message": message, "seconds": took, "old part and device whole": works})
    told.close()
    told.join_thread()
    os._exit(0)


def works_after(rank: int, ranks: int, port: int) -> None:
    """New processes use the same devices, and reach each other."""
    import torch

    faulthandler.dump_traceback_later(6 * LIMIT_S, exit=True)
    stage = Stage(rank, ranks, port, 12 * LIMIT_S)
    square = torch.full((1024, 1024), float(rank + 1), device=stage.device)
    torch.distributed.all_reduce(square)
    found = square @ torch.eye(1024, device=stage.device)
    sys.exit(0 if bool((found == ranks * (ranks + 1) / 2).all()) else 1)


def kill(options: argparse.Namespace) -> int:
    """A message on every other rank within the limit, the old part whole, and devices that work after."""
    ranks = ranks_of(options)
    results: dict[str, Any] = {"ranks": ranks, "limit_s": LIMIT_S, "ways": {}}
    for way in ("exchange", "peers"):
        told = get_context("spawn").Queue()
        codes = spawned(killed_rank, ranks, way, options, told, limit_s=10 * LIMIT_S)
        found = []
        while not told.empty():
            found.append(told.get())
        after = spawned(works_after, ranks, limit_s=10 * LIMIT_S)
        results["ways"][way] = {"told": found, "exit codes": codes, "exit codes of new processes": after}
        good = len(found) == ranks - 1 and not any(after)
        good &= all(one["message"] and one["old part and device whole"] for one in found)
        results["ways"][way]["good"] = good
        print(way, "good" if good else "NOT good", json.dumps(results["ways"][way]), flush=True)
    keep(f"kill-{ranks}", results)
    return 0 if all(way["good"] for way in results["ways"].values()) else 1


# -- one GPU


def alone(options: argparse.Namespace) -> int:
    """The kernels of rank 0 of two on one GPU, beside a copy of as many bytes."""
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


# -- tables


def measured(ranks: int) -> dict[tuple[str, str], tuple[dict[str, Any], dict[str, float]]]:
    """For each pair and type the run that measured it last, and the steady rates by contender."""
    found = {}
    for name in RUNS:
        run = mlir_kernels.latest(f"{name}-{ranks}")
        if run is None or run["device"] == "CPU":
            continue
        for pair in dict.fromkeys((row["pair"], row["dtype"]) for row in run["rows"]):
            rows = [row for row in run["rows"] if (row["pair"], row["dtype"]) == pair and "GB/s" in row]
            found[pair] = run, {row["contender"]: row["GB/s"]["steady"] for row in rows}
    return found


def table(options: Any) -> int:
    """The tables of the documentation: moves over several GPUs, and the kernels on one; f32 and f16 in a cell."""
    cells, ceilings = [], ""
    for ranks in (2, 4, 8):
        found, every = measured(ranks), []
        for pair in dict.fromkeys(pair for pair, _ in found):
            runs = [found[pair, dtype] for dtype in BITS]
            rates = {way: [of.get(way) for _, of in runs] for way in ("exchange", "peers", "DTensor")}
            copies = [run["ceilings"]["copy"]["steady"] for run, _ in runs]
            by_torch = ratios(rates["peers"], rates["DTensor"])
            every += [ratio for ratio in by_torch if ratio]
            shares = in_cell(ratios(rates["peers"], copies), 2)
            shown = [in_cell(values, 0) for values in rates.values()]
            cells.append([f"{ranks} {runs[0][0]['device']}", pair, *shown, shares, in_cell(by_torch, 2)])
        if every:
            cells.append([f"{ranks} GPUs", "geometric mean", *[""] * 4, f"{geometric_mean(every):.2f}"])
            first = found["rows to columns", "f32"][0]["ceilings"]
            rates_text = ", ".join(f"{way} {rate['steady']:.0f}" for way, rate in first.items())
            ceilings += f"Ceilings of {ranks} GPUs, GB/s: {rates_text}.\n\n"
    columns = "GPUs|pair|exchange|peers|DTensor|peers / copy|peers / DTensor"
    mlir_kernels.put_into(PAGE, "moves", circumstances_of(*RUNS) + ceilings, mlir_kernels.table(columns, cells))
    one = mlir_kernels.latest(f"{NAME}-alone")
    if one is not None:
        of_copy = {(row["pair"], row["kernel"], row["dtype"]): row["of a copy"] for row in one["rows"]}
        cells = [
            [pair, *(in_cell([of_copy[pair, kernel, dtype] for dtype in BITS], 2) for kernel in KERNELS)]
            for pair in dict.fromkeys(pair for pair, *_ in of_copy)
        ]
        mlir_kernels.put_into(PAGE, "alone", mlir_kernels.table("pair|" + "|".join(KERNELS), cells))
    return 0


def ratios(ours: Sequence[float | None], others: Sequence[float | None]) -> list[float | None]:
    """Ours by others, where both were measured."""
    return [a / b if a and b else None for a, b in zip(ours, others, strict=True)]


def in_cell(values: Sequence[float | None], digits: int) -> str:
    """The values of f32 and f16; nothing where none was measured."""
    return ", ".join(f"{value:.{digits}f}" for value in values if value is not None)


def circumstances_of(*names: str) -> str:
    """Device, date and versions of the newest runs on two GPUs."""
    found = [(name, mlir_kernels.latest(f"{name}-2")) for name in names]
    lines = [
        f"{mlir_kernels.circumstances(f'{name}-2', run, 'torch')}, NCCL {run['nccl']}, CUDA {run['cuda']}"
        for name, run in found if run is not None
    ]  # fmt: skip
    return "; ".join(dict.fromkeys(lines)) + ".\n\n" if lines else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = {"render": render, "time": time, "alone": alone, "kill": kill, "table": table}
    parser.add_argument("step", choices=steps)
    parser.add_argument(
        "ranks", nargs="*", type=int, help="numbers of ranks; by default 2 and 4 to render, all GPUs to time"
    )
    parser.add_argument(
        "--size", type=int, help=f"rows and columns of the matrix; by default {SIZE}, and {SMALL} on a CPU"
    )
    parser.add_argument("--pair", dest="words", action="append", help="only this pair, by its name")
    options = parser.parse_args()
    return steps[options.step](options)


if __name__ == "__main__":
    sys.exit(main())
