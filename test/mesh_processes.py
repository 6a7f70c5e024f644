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


def moves(rank, world, port):
    """Every pair of placements, against DTensor's own."""
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    lego_mesh, mesh = started(rank, world, port)
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
    dist.destroy_process_group()


def packed_by_kernels(rank, world, port):
    """Every rank packs and unpacks by generated kernels, and gets what the plan says."""
    import numpy as np

    import lego_mlir as lego

    lego_mesh, _ = started(rank, world, port)
    plan = lego.redistribute(*division_pair(world))
    parts = [np.arange(plan.source.capacity(r), dtype=np.float32) + 1000 * r for r in range(world)]
    exchange = lego_mesh.Exchange(plan, rank, kernels=True)
    for within in (None, SECONDS):
        found = exchange(torch.from_numpy(parts[rank]), within=within)
        assert torch.equal(found, torch.from_numpy(plan.move(parts)[rank]))
    dist.destroy_process_group()


def stored_at_peers(rank, world, port):
    """Every rank stores its messages into the memory of all, and finds its own part whole."""
    import numpy as np

    import lego_mlir as lego

    lego_mesh, _ = started(rank, world, port)
    plan = lego.redistribute(*division_pair(world))
    sizes = [plan.target.capacity(t) for t in range(world)]
    exchange, memory = lego_mesh.PeerExchange(plan, rank), lego_mesh.PeerMemory(max(sizes), torch.float64, "cpu")
    assert not memory.own.any()
    parts = [np.arange(plan.source.capacity(r), dtype=np.float64) + 1000 * r for r in range(world)]
    memory.barrier()
    exchange(torch.from_numpy(parts[rank]), memory.parts(sizes))
    memory.barrier()
    assert torch.equal(memory.part(rank, sizes[rank]), torch.from_numpy(plan.move(parts)[rank]))
    dist.destroy_process_group()


def division_pair(world):
    """Rows in blocks of a processor each, and columns dealt two by two."""
    from lego_mlir.distributions import Chunks, Cyclic, Sharded

    source = Sharded([12, 20], {"r": world}, [[("r", Chunks(world))], []])
    return source, Sharded([12, 20], {"r": world}, [[], [("r", Cyclic(world, 2))]])


def dies(rank, world, port, told):
    """The last rank ends before it sends: the others are told, and keep their parts."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    from lego_mlir.errors import UsageError

    lego_mesh, mesh = started(rank, world, port)
    whole = torch.arange(float(SHAPE[0] * SHAPE[1])).view(SHAPE)
    tensor = distribute_tensor(whole, mesh, [Shard(0), Replicate()])
    before = tensor.to_local().clone()
    if rank == world - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        for _ in range(3):
            lego_mesh.redistribute(tensor, [Shard(1), Shard(1)])
    except UsageError as error:
        assert "could not exchange its part" in str(error)
        assert torch.equal(tensor.to_local(), before)
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
        process.join(4 * SECONDS)
    return [process.exitcode for process in made]
