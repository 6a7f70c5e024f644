"""Plans carried out by `torch.distributed` under gloo, in processes; `python test/run.py interop` has PyTorch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed; `python test/run.py interop` installs it")

import mesh_processes as mesh  # noqa: E402
import torch.multiprocessing as processes  # noqa: E402

import lego_mlir as lego  # noqa: E402
from lego_mlir.distributions import Sharded  # noqa: E402
from lego_mlir.errors import UsageError  # noqa: E402
from lego_mlir.mesh.product_epilogues import MeshEpilogue  # noqa: E402

BENCH = Path(__file__).parents[2] / "bench"


@pytest.mark.parametrize("world", [2, 3, 4, 8])
def test_tensors_move_and_multiply(world):
    assert mesh.run(mesh.everything, world) == [0] * world


def test_the_benchmark_in_small(tmp_path):
    """Every contender moves every element of two pairs to its place, and has times."""
    chosen = ("two block-cyclic sizes", "transposed")
    command = [sys.executable, BENCH / "mesh.py", "time", "2", "size=512", *chosen]
    done = subprocess.run(command, env=os.environ | {"OUT": str(tmp_path)}, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((tmp_path / "mesh-2.json").read_text())
    rows = {(row["pair"], row["dtype"], row["contender"]): row for row in results["rows"]}
    assert results["ranks"] == 2 and len(rows) == 2 * (2 + 3)
    assert all(row["checked"] == 512 * 256 and row["ms"]["single"] > 0 for row in rows.values())


def test_stores_at_peers_of_another_size_or_type_are_refused():
    exchange = lego.mesh.PeerExchange(lego.redistribute(*mesh.division_pair(2)), 0)
    part, peers = torch.zeros(120), [torch.zeros(120), torch.zeros(120)]
    for wrong, message in (
        ((part, peers[:1]), "has 2 receivers, got 1 peers"),
        ((part, [peers[0], torch.zeros(7)]), "rank 1 has 120 elements of torch.float32, got 7 of torch.float32"),
        ((part, [peers[0], peers[1].double()]), "got 120 of torch.float64"),
        ((part.to(torch.complex128), peers), "elements of 1, 2, 4 or 8 bytes"),
    ):
        with pytest.raises(UsageError, match=message):
            exchange(*wrong)


@pytest.mark.parametrize(("name", "numbers", "message"), [
    ("bias", 1, "bias has 1 numbers; C of 12 x 20 takes 20"),
    ("scale_a", 20, "scale_a has 20 numbers; C of 12 x 20 takes 1 or 12"),
    ("amax", 2, "amax has 2 numbers"),
    ("residual", 240, "rank 0 holds 120 elements of C, and its part of residual has 240"),
])  # fmt: skip
def test_epilogues_of_another_size_are_refused(name, numbers, message):
    target = mesh.division_pair(2)[1]
    inner = [Sharded(shape, {"r": 2}, [[], []]) for shape in ((12, 4), (4, 20))]
    plan = lego.mesh.plan_product(*inner, target)
    with pytest.raises(UsageError, match=message):
        MeshEpilogue(plan, 0).given(**{name: torch.zeros(numbers)})


def test_a_rank_that_dies_is_reported_on_every_other():
    told = processes.get_context("spawn").Queue()
    mesh.run(mesh.dies, 3, told)
    assert sorted(told.get(timeout=mesh.SECONDS) for _ in range(2)) == [0, 1]


def test_other_tensors_are_refused():
    with pytest.raises(UsageError, match="takes a DTensor, got a Tensor"):
        lego.mesh.redistribute(torch.zeros(4), [])
