"""What the ranks of test_mesh.py do, each in a process of its own, under gloo."""

import datetime
import os
import signal
import socket

import pytest

pytest.importorskip("torch")

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

SHAPE = (9, 10)
SECONDS = 30


def started(rank, world, port):
    import lego_mlir.mesh

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=world, timeout=datetime.timedelta(seconds=SECONDS))
    from torch.distributed.device_mesh import init_device_mesh

    sizes = (2, world // 2) if world % 2 == 0 else (1, world)
    return lego_mlir.mesh, init_device_mesh("cpu", sizes, mesh_dim_names=("a", "b"))


def everything(rank, world, port):
    """All that needs no rank to fail, in one set of processes."""
    lego_mesh, mesh = started(rank, world, port)
    moves(lego_mesh, mesh, rank, world)
    multiplies(lego_mesh, rank, world)
    if world == 2:  # kernels are compiled for the CPU
        packed_by_kernels(lego_mesh, rank, world)
        stored_at_peers(lego_mesh, rank, world)
    dist.destroy_process_group()
    os._exit(0)  # Gloo now and then aborts an interpreter that ends; what was wrong has raised before


def moves(lego_mesh, mesh, rank, world):
    """Every pair of placements, against DTensor's own."""
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    whole = torch.arange(float(SHAPE[0] * SHAPE[1])).view(SHAPE)
    placements = [[Shard(0), Replicate()], [Shard(0), Shard(1)], [Replicate(), Shard(1)], [Shard(1), Shard(1)]]
    for source in placements:
        for target in [*placements, [Replicate(), Replicate()]]:
            found = lego_mesh.redistribute(distribute_tensor(whole, mesh, source), target)
            wanted = distribute_tensor(whole, mesh, target)
            assert torch.equal(found.to_local(), wanted.to_local()), (source, target)
            assert found.placements == wanted.placements and torch.equal(found.full_tensor(), whole)
    parts = DTensor.from_local(whole * (rank + 1), mesh, [Partial(), Partial()], run_check=False)
    summed = lego_mesh.redistribute(parts, [Shard(1), Replicate()])
    assert torch.equal(summed.full_tensor(), whole * sum(range(1, world + 1)))


def packed_by_kernels(lego_mesh, rank, world):
    """Every rank packs and unpacks by generated kernels, and gets what the plan says."""
    import numpy as np

    import lego_mlir as lego

    plan = lego.redistribute(*division_pair(world))
    parts = [np.arange(plan.source.capacity(r), dtype=np.float32) + 1000 * r for r in range(world)]
    exchange = lego_mesh.Exchange(plan, rank, kernels=True)
    for within in (None, SECONDS):
        found = exchange(torch.from_numpy(parts[rank]), within=within)
        assert torch.equal(found, torch.from_numpy(plan.move(parts)[rank]))


def stored_at_peers(lego_mesh, rank, world):
    """Every rank stores its messages into the memory of all, and finds its own part whole."""
    import numpy as np

    import lego_mlir as lego

    plan = lego.redistribute(*division_pair(world))
    sizes = [plan.target.capacity(t) for t in range(world)]
    exchange, memory = lego_mesh.PeerExchange(plan, rank), lego_mesh.PeerMemory(max(sizes), torch.float64, "cpu")
    assert not memory.own.any()
    parts = [np.arange(plan.source.capacity(r), dtype=np.float64) + 1000 * r for r in range(world)]
    memory.barrier()
    exchange(torch.from_numpy(parts[rank]), memory.parts(sizes))
    memory.barrier()
    assert torch.equal(memory.part(rank, sizes[rank]), torch.from_numpy(plan.move(parts)[rank]))


def multiplies(lego_mesh, rank, world):
    """Products of small integers in several distributions, exact in f16, with what is fused and without."""
    import numpy as np

    import lego_mlir as lego
    from lego_mlir.distributions import Chunks, Cyclic, Sharded

    generator = np.random.default_rng(1)
    m, n, k = 26, 38, 22
    a, b = (generator.integers(-2, 3, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    bias = np.arange(n, dtype=np.float32)

    def part(division, whole):
        moves = lego.redistribute(Sharded(whole.shape, {}, [[], []]), division)
        return torch.from_numpy(moves.move([whole.reshape(-1)])[rank])

    def divided(shape, kind):
        axis, split, order = [
            (0, Chunks(world), "C"), (1, Chunks(world), "C"), (1, Cyclic(world, 3), "C"), (0, Cyclic(world, 5), "F"),
        ][kind]  # fmt: skip
        return Sharded(shape, {"r": world}, [[("r", split)] if d == axis else [] for d in (0, 1)], {}, order)

    algorithms, residual = set(), generator.integers(-2, 3, (m, n)).astype(np.float16)
    factors = [np.resize(np.array([1, 2, 0.5], np.float32), size) for size in (m, n)]
    for kinds in ((0, 1, 1), (1, 0, 0), (2, 0, 1), (3, 3, 2), (1, 2, 0), (0, 0, 3)):
        divisions = [divided(shape, kind) for shape, kind in zip(((m, k), (k, n), (m, n)), kinds, strict=True)]
        plan = lego_mesh.plan_product(*divisions)
        algorithms.add(plan.algorithm)
        run = lego_mesh.MeshProduct(plan, torch.float16, "cpu")
        parts = part(divisions[0], a), part(divisions[1], b)
        for within in (None, SECONDS):
            assert torch.equal(run(*parts, within=within), part(divisions[2], a @ b)), plan
        wanted = np.maximum((a @ b).astype(np.float32) + bias, 0).astype(np.float16)
        assert torch.equal(run(*parts, torch.from_numpy(bias), "relu"), part(divisions[2], wanted)), plan
        every = np.maximum((a @ b).astype(np.float32) * factors[0][:, None] * factors[1] + bias, 0) + residual
        amax, scales = torch.zeros(1), [torch.from_numpy(factor) for factor in factors]
        found = run(
            *parts, torch.from_numpy(bias), "relu", residual=part(divisions[2], residual), scale_a=scales[0],
            scale_b=scales[1], amax=amax, scale_result=torch.tensor([0.5]),
        )  # fmt: skip
        assert torch.equal(found, part(divisions[2], (every / 2).astype(np.float16))), plan
        assert float(amax) == np.abs(every).max(), plan
    assert len(algorithms) > 1


def division_pair(world):
    """Rows in blocks of a processor each, and columns dealt two by two."""
    from lego_mlir.distributions import Chunks, Cyclic, Sharded

    source = Sharded([12, 20], {"r": world}, [[("r", Chunks(world))], []])
    return source, Sharded([12, 20], {"r": world}, [[], [("r", Cyclic(world, 2))]])


def dies(rank, world, port, told):
    """The last rank ends before it sends: a move and a product tell the others, and their parts are as they were."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    from lego_mlir.distributions import Chunks, Sharded
    from lego_mlir.errors import UsageError

    lego_mesh, mesh = started(rank, world, port)
    whole = torch.arange(float(SHAPE[0] * SHAPE[1])).view(SHAPE)
    tensor = distribute_tensor(whole, mesh, [Shard(0), Replicate()])
    before = tensor.to_local().clone()
    rows = Sharded((9, 9), {"r": world}, [[("r", Chunks(world))], []])
    product = lego_mesh.MeshProduct(lego_mesh.plan_product(rows, rows, rows), torch.float16, "cpu")
    part = torch.ones(27, dtype=torch.float16)
    assert torch.equal(product(part, part, within=SECONDS), 9 * part)
    if rank == world - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    messages = []
    for call in (lambda: lego_mesh.redistribute(tensor, [Shard(1), Shard(1)]), lambda: product(part, part, within=2)):
        try:
            for _ in range(3):
                call()
        except UsageError as error:
            messages.append(str(error))
    assert "could not exchange its part" in messages[0]
    assert any(f"rank {rank} {what}" in messages[1] for what in ("waited for rank", "has its part, and another"))
    try:
        product(part, part)
    except UsageError as error:
        assert "an earlier product failed" in str(error)
    assert torch.equal(tensor.to_local(), before) and bool((part == 1).all())
    told.put(rank)
    told.close()
    told.join_thread()
    os._exit(0)


def run(function, world, *more):
    """The function in `world` processes; their exit codes."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    context = processes.get_context("spawn")
    made = [context.Process(target=function, args=(rank, world, port, *more)) for rank in range(world)]
    for process in made:
        process.start()
    for process in made:
        process.join(10 * SECONDS)  # a stop for hangs; to import PyTorch in all of them takes long
    return [process.exitcode for process in made]
