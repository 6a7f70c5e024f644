"""Memory of every rank of a group that every other rank reads and writes: torch's symmetric memory, or a shared file.

    memory = PeerMemory(elements, dtype, device)     every rank calls it, with the same numbers
    memory.part(t)                                   the memory of rank t, a flat tensor
    memory.barrier(checked=True)                     all ranks are here, or a UsageError on each that still lives

On CUDA devices the ranks are GPUs of one host that reach each other, and barriers are waits of the stream on signals
between them, without the host. A checked barrier is one of the hosts: it waits for the stream, and for every rank by
gloo, which tells when one has ended. On a CPU the memory is a file that all processes map. NVLink multicast is off.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lego_mlir.aliases import Foreign, Tensor
from lego_mlir.errors import UsageError

SHARED: Final = "/dev/shm"  # a folder in memory, where there is one
NO_MULTICAST: Final = "TORCH_SYMM_MEM_DISABLE_MULTICAST"


class PeerMemory:
    """`elements` of each rank of the default group, all zero at first; every rank makes it at the same time.

    Raises UsageError where the group has no backend for CPU tensors, which checked barriers need.
    """

    def __init__(self, elements: int, dtype: Foreign, device: Foreign) -> None:
        import torch
        import torch.distributed as dist

        self.elements, self.dtype, self.device = elements, dtype, torch.device(device)
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        if self.device.type == "cuda":
            import torch.distributed._symmetric_memory as symmetric

            os.environ.setdefault(NO_MULTICAST, "1")
            self.own: Tensor = symmetric.empty(max(elements, 1), dtype=dtype, device=self.device)
            self._handle: Foreign = symmetric.rendezvous(self.own, dist.group.WORLD)
            self.own.zero_()
            torch.cuda.synchronize(self.device)
        else:
            self._handle = None
            self._files = _shared_files(self.ranks, max(elements, 1) * dtype.itemsize)
        self.barrier(checked=True)
        if self._handle is None:
            self._maps = [
                torch.from_file(file, shared=True, size=max(elements, 1), dtype=dtype) for file in self._files
            ]
            self.own = self._maps[self.rank]
            self.barrier(checked=True)
            Path(self._files[self.rank]).unlink()  # the maps keep it

    def part(self, rank: int, elements: int | None = None) -> Tensor:
        """The first `elements` of a rank's memory; all of them by default."""
        n = self.elements if elements is None else elements
        if self._handle is None:
            return self._maps[rank][:n]
        return self._handle.get_buffer(rank, (n,), self.dtype)

    def parts(self, elements: Sequence[int]) -> list[Tensor]:
        """For each rank, the first elements of its memory."""
        return [self.part(rank, n) for rank, n in enumerate(elements)]

    def barrier(self, checked: bool = False) -> None:
        """All ranks have come here; what they stored before is seen after.

        Without `checked` a CUDA stream waits, and waits forever for a rank that ended. Raises UsageError for one that
        ended, or did not come within the time limit of the group, if it is checked or on a CPU.
        """
        import torch
        import torch.distributed as dist

        if self._handle is not None:
            if not checked:
                self._handle.barrier(channel=0)
                return
            torch.cuda.synchronize(self.device)
        try:
            dist.all_reduce(torch.zeros(1))
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            raise UsageError(
                f"rank {self.rank} waited at a barrier of the memory of peers ({reason}); another rank ended, failed, "
                "or did not come in time, or the group has no gloo; new parts are not whole, old ones are as they were"
            ) from error


def _shared_files(ranks: int, size: int) -> list[str]:
    """A file of this size by each rank, of zeros; all names on every rank."""
    import torch.distributed as dist

    descriptor, name = tempfile.mkstemp(prefix="peer-memory-", dir=SHARED if Path(SHARED).is_dir() else None)
    os.ftruncate(descriptor, size)
    os.close(descriptor)
    names: list[str] = [""] * ranks
    dist.all_gather_object(names, name)
    return names
