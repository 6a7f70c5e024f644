"""Plans carried out by MPI and by JAX, each in processes of its own, against the plan in one process."""

import shutil
import subprocess
import sys
from pathlib import Path

import mesh_engines
import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir.errors import UsageError

SCRIPT = Path(__file__).parents[1] / "mesh_engines.py"
BESIDE = Path(sys.executable).with_name("mpiexec")  # of a wheel
MPIEXEC = str(BESIDE) if BESIDE.is_file() else shutil.which("mpiexec")


def run(*command):
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr[-2000:]
    return found.stdout


def test_mpi():
    pytest.importorskip("mpi4py", reason="mpi4py is not installed; `python test/run.py interop` installs it")
    if MPIEXEC is None:
        pytest.skip("no mpiexec")
    count = str(mesh_engines.RANKS)
    assert run(MPIEXEC, "-n", count, sys.executable, SCRIPT, "mpi") == f"ranks {count}\n"


def test_jax():
    pytest.importorskip("jax", reason="JAX is not installed; `python test/run.py interop` installs it")
    assert run(sys.executable, SCRIPT, "jax") == f"devices {mesh_engines.RANKS}\n"


class Communicator:
    """Two processes, as MPI4Py describes them."""

    def Get_rank(self):
        return 0

    def Get_size(self):
        return 2


def test_other_numbers_of_ranks_are_refused():
    plan = next(mesh_engines.pairs())[0]
    with pytest.raises(UsageError, match="the plan has 4 ranks, and the communicator 2 processes"):
        lego.mesh.MpiExchange(plan, Communicator())
    two = lego.redistribute(*[mesh_engines.Sharded([4], {"r": 2}, [[("r", mesh_engines.Chunks(2))]])] * 2)
    with pytest.raises(UsageError, match="rank 0 holds 2 elements, and its array has 3"):
        lego.mesh.MpiExchange(two, Communicator())(np.zeros(3))
