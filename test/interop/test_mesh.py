"""Plans carried out by `torch.distributed` under gloo, in processes; `python test/run.py interop` has PyTorch."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed; `python test/run.py interop` installs it")

import mesh_processes as mesh  # noqa: E402
import torch.multiprocessing as processes  # noqa: E402

import lego_mlir as lego  # noqa: E402
from lego_mlir.errors import UsageError  # noqa: E402


@pytest.mark.parametrize("world", [2, 3, 4, 8])
def test_tensors_move_as_dtensors_do(world):
    assert mesh.run(mesh.moves, world) == [0] * world


def test_kernels_pack_and_unpack():
    assert mesh.run(mesh.packed_by_kernels, 2) == [0, 0]


def test_ranks_store_into_the_memory_of_their_peers():
    plan = lego.redistribute(*mesh.division_pair(2))
    parts = [torch.arange(120, dtype=torch.float64).share_memory_() + 1000 * r for r in range(2)]
    news = [torch.zeros(plan.target.capacity(t), dtype=torch.float64).share_memory_() for t in range(2)]
    assert mesh.run(mesh.stored_at_peers, 2, [part.share_memory_() for part in parts], news) == [0, 0]
    for found, wanted in zip(news, plan.move([part.numpy() for part in parts]), strict=True):
        assert torch.equal(found, torch.from_numpy(wanted))


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


def test_a_rank_that_dies_is_reported_on_every_other():
    told = processes.get_context("spawn").Queue()
    mesh.run(mesh.dies, 3, told)
    assert sorted(told.get(timeout=mesh.SECONDS) for _ in range(2)) == [0, 1]


def test_other_tensors_are_refused():
    with pytest.raises(UsageError, match="takes a DTensor, got a Tensor"):
        lego.mesh.redistribute(torch.zeros(4), [])
