"""Plans carried out by `torch.distributed` under gloo, in processes; `python test/run.py interop` has PyTorch."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed; `python test/run.py interop` installs it")

import mesh_processes as mesh  # noqa: E402
import torch.multiprocessing as processes  # noqa: E402


@pytest.mark.parametrize("world", [2, 3, 4, 8])
def test_tensors_move_as_dtensors_do(world):
    assert mesh.run(mesh.moves, world) == [0] * world


def test_kernels_pack_and_unpack():
    assert mesh.run(mesh.packed_by_kernels, 2) == [0, 0]


def test_a_rank_that_dies_is_reported_on_every_other():
    told = processes.get_context("spawn").Queue()
    mesh.run(mesh.dies, 3, told)
    assert sorted(told.get(timeout=mesh.SECONDS) for _ in range(2)) == [0, 1]


def test_other_tensors_are_refused():
    import lego_mlir.mesh
    from lego_mlir.errors import UsageError

    with pytest.raises(UsageError, match="takes a DTensor, got a Tensor"):
        lego_mlir.mesh.redistribute(torch.zeros(4), [])
