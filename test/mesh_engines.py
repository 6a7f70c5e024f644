"""What the processes of MPI and the devices of JAX do in test_mesh_engines.py: `python mesh_engines.py mpi | jax`."""

import os
import sys

import numpy as np

import lego_mlir as lego
from lego_mlir.distributions import Balanced, Chunks, Cyclic, Sharded, StridedChunks

RANKS = 4
SHAPE = (9, 14)


def divisions():
    """Rows, columns dealt out and column-major, a grid, copies, and parts of sums."""
    grid = {"p": 2, "q": 2}
    return {
        "rows": Sharded(SHAPE, {"r": RANKS}, [[("r", Chunks(RANKS))], []]),
        "dealt": Sharded(SHAPE, {"r": RANKS}, [[], [("r", Cyclic(RANKS, 3))]], {}, "F"),
        "grid": Sharded(SHAPE, grid, [[("p", Balanced(2))], [("q", StridedChunks(2, 2))]]),
        "copies": Sharded(SHAPE, grid, [[("p", Chunks(2))], []]),
        "sums": Sharded(SHAPE, grid, [[("p", Chunks(2))], []], {"q": "sum"}),
    }


def pairs():
    """Every pair that can be planned, with its plan, the old parts and the new ones."""
    for source in divisions().values():
        for name, target in divisions().items():
            if name != "sums":
                plan = lego.redistribute(source, target)
                sizes = [plan.source.capacity(rank) for rank in range(RANKS)]
                parts = [np.arange(n, dtype=np.int32) + 1000 * rank for rank, n in enumerate(sizes)]
                yield plan, parts, plan.move(parts)


def by_mpi():
    from mpi4py import MPI

    rank = MPI.COMM_WORLD.Get_rank()
    for plan, parts, wanted in pairs():
        np.testing.assert_array_equal(lego.mesh.MpiExchange(plan, MPI.COMM_WORLD)(parts[rank]), wanted[rank])
    right = MPI.COMM_WORLD.allreduce(1)
    if rank == 0:
        print("ranks", right)


def by_jax():
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={RANKS}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax

    mesh = jax.make_mesh((RANKS,), ("r",))
    for plan, parts, wanted in list(pairs())[3::4]:  # each is compiled
        exchange = lego.mesh.JaxExchange(plan, mesh)
        rows = np.stack([np.pad(part, (0, exchange.held - len(part))) for part in parts])
        given = jax.device_put(rows, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("r")))
        found = np.asarray(jax.jit(exchange)(given))
        for row, one in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(row, np.pad(one, (0, exchange.capacity - len(one))))
    print("devices", len(jax.devices()))


if __name__ == "__main__":
    {"mpi": by_mpi, "jax": by_jax}[sys.argv[1]]()
