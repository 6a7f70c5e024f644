"""A rank that is killed in the middle of a move or a product: what the others say, and what still works.

    python bench/mesh.py render               where MLIR is: the kernels of the moves
    python test/hardware/mesh_kills.py kill   on the GPU machine, or on a CPU in small; results as JSON

exchange   lego.mesh.Exchange, with a limit of time
peers      lego.mesh.PeerExchange between two checked barriers
product    lego.mesh.MeshProduct, with a limit of time
"""

import faulthandler
import json
import os
import signal
import sys
import time as clock
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

import mesh_pairs  # noqa: E402  (bench/ is a folder of scripts, not a package)
import runner  # noqa: E402
from mesh import SIZE, SMALL, Kept, whole_matrix  # noqa: E402
from mesh_stage import Stage, by_torch, keep, parsed, ranks_of, spawned  # noqa: E402

WAYS = ("exchange", "peers", "product")
LIMIT_S = 10
"""How long a rank waits for another."""


def killed_rank(rank: int, ranks: int, port: int, way: str, options: SimpleNamespace, told: Any) -> None:
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
    product, column = None, None
    if way == "product":
        product, part, column, expected = summed_rows(stage, size)
        before = part.clone()

    def move(dies: bool) -> Any:
        if way == "peers":
            memory.barrier(checked=True)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        if way == "exchange":
            return exchange(part, within=LIMIT_S)
        if way == "product":
            return product(part, column, within=LIMIT_S)
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


def summed_rows(stage: Stage, size: int) -> tuple[Any, Any, Any, Any]:
    """A product with both operands in rows, this rank's parts of them, and its part of the result."""
    import torch

    import lego_mlir as lego
    from lego_mlir.distributions import Chunks, Sharded

    shapes = ((size, size), (size, 64), (size, 64))
    rows = [Sharded(shape, {"r": stage.ranks}, [[("r", Chunks(stage.ranks))], []]) for shape in shapes]
    generator = torch.Generator(stage.device).manual_seed(1)
    a = torch.randint(-1, 2, shapes[0], generator=generator, device=stage.device).to(torch.float32)
    b = torch.randint(-1, 2, shapes[1], generator=generator, device=stage.device).to(torch.float32)
    product = lego.mesh.MeshProduct(lego.mesh.plan_product(*rows), a.dtype, stage.device, by_torch)
    part, column = (whole.chunk(stage.ranks)[stage.rank].contiguous() for whole in (a, b))
    return product, part, column, (a @ b).chunk(stage.ranks)[stage.rank]


def works_after(rank: int, ranks: int, port: int) -> None:
    """New processes use the same devices, and reach each other."""
    import torch

    faulthandler.dump_traceback_later(6 * LIMIT_S, exit=True)
    stage = Stage(rank, ranks, port, 12 * LIMIT_S)
    square = torch.full((1024, 1024), float(rank + 1), device=stage.device)
    torch.distributed.all_reduce(square)
    found = square @ torch.eye(1024, device=stage.device)
    sys.exit(0 if bool((found == ranks * (ranks + 1) / 2).all()) else 1)


def kill(words: Sequence[str]) -> int:
    """A message on every other rank within the limit, the old part whole, and devices that work after."""
    options = parsed(words)
    ranks = ranks_of(options)
    results: dict[str, Any] = {"ranks": ranks, "limit_s": LIMIT_S, "ways": {}}
    for way in options.words or WAYS:
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


BENCHMARK = runner.Benchmark("mesh_kills", steps={"kill": kill})

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
