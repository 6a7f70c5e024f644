"""Signals between ranks: one rank raises a count at another, which waits for it, without a barrier of all.

    signals.raised(kind, t, stream)      the next signal of a kind to rank t, after what the stream has done so far
    signals.awaited(kind, s, stream)     the stream goes on when the next signal of a kind from rank s is there

On CUDA devices a signal is a write to a word of the other rank's memory, and a wait compares a word of this one's: both
are operations of the stream, which take no multiprocessor, so that a product that fills all of them keeps no signal
waiting (CUDA driver API, "Stream Memory Operations"). What a stream did before a signal is seen after the wait. A wait
for a rank that ended never ends; `release` ends this rank's waits. On a CPU signals are messages by gloo, which tells
when a rank has ended.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable
from typing import Final

from lego_mlir.aliases import Foreign
from lego_mlir.errors import UsageError
from lego_mlir.mesh.peer_memory import PeerMemory

TAG: Final = 1 << 16
"""The first tag of messages by gloo, above those that a program is likely to use."""
WORD_BYTES: Final = 4


class PeerSignals:
    """Signals of `kinds` kinds between the ranks of the default group; every rank makes them at the same time."""

    def __init__(self, kinds: int, device: Foreign) -> None:
        import torch
        import torch.distributed as dist

        self.rank, self.ranks, self.device = dist.get_rank(), dist.get_world_size(), torch.device(device)
        self.within: float | None = None
        """Seconds after which a wait on a CPU fails; the limit of the group for None."""
        self._raised: Counter[tuple[int, int]] = Counter()
        self._awaited: Counter[tuple[int, int]] = Counter()
        self._sent: list[Foreign] = []
        self._operations: dict[tuple[str, int, int], Callable[[int], None]] = {}
        self._memory: PeerMemory | None = None
        if self.device.type == "cuda":
            self._memory = PeerMemory(kinds * self.ranks, torch.int32, self.device)
            self._index = torch.cuda.current_device() if self.device.index is None else self.device.index
            self._words = [self._memory.part(rank).data_ptr() for rank in range(self.ranks)]
            self._spare = [torch.cuda.Stream(self.device, priority=-1) for _ in range(2)]

    def raised(self, kind: int, rank: int, stream: Foreign = None) -> None:
        """Raise the next signal of a kind at a rank, on a stream of a GPU."""
        self._raised[kind, rank] += 1
        count = self._raised[kind, rank]
        if self._memory is not None:
            self._operation("word_writer", self._word(rank, kind, self.rank), stream)(count)
            return
        import torch
        import torch.distributed as dist

        self._sent = [one for one in self._sent if not one[0].is_completed()]
        message = torch.tensor([count])
        try:
            self._sent.append((dist.isend(message, rank, tag=TAG + kind), message))
        except RuntimeError as error:
            raise self._failed(rank, error) from error

    def awaited(self, kind: int, rank: int, stream: Foreign = None) -> None:
        """Wait for the next signal of a kind from a rank: a stream of a GPU does, on a CPU this process.

        Raises UsageError on a CPU where the rank ended, or did not raise it within the limit.
        """
        self._awaited[kind, rank] += 1
        if self._memory is not None:
            self._operation("word_waiter", self._word(self.rank, kind, rank), stream)(self._awaited[kind, rank])
            return
        import torch
        import torch.distributed as dist

        found = torch.zeros(1, dtype=torch.int64)
        try:
            work = dist.irecv(found, rank, tag=TAG + kind)
            if self.within is None:
                work.wait()
            else:
                work.wait(datetime.timedelta(seconds=self.within))
        except RuntimeError as error:
            raise self._failed(rank, error) from error
        if int(found) != self._awaited[kind, rank]:
            raise UsageError(
                f"rank {self.rank} got signal {int(found)} of rank {rank} in place of another; make new ones"
            )

    def release(self) -> None:
        """End all waits of this rank's streams; what they waited for has not happened."""
        if self._memory is not None:
            for stream in self._spare:  # one of them at least shares no hardware queue with what waits
                for (kind, rank), count in self._awaited.items():
                    self._operation("word_writer", self._word(self.rank, kind, rank), stream)(count)

    def _word(self, rank: int, kind: int, sender: int) -> int:
        """The address of the word of a rank that a sender writes."""
        return self._words[rank] + WORD_BYTES * (kind * self.ranks + sender)

    def _operation(self, name: str, word: int, stream: Foreign) -> Callable[[int], None]:
        """An operation of the driver on a word, made once."""
        from lego_mlir.runtime.driver import driver

        key = name, word, stream.cuda_stream
        found = self._operations.get(key)
        if found is None:
            found = self._operations[key] = getattr(driver(), name)(word, self._index, stream.cuda_stream)
        return found

    def _failed(self, rank: int, error: RuntimeError) -> UsageError:
        reason = str(error).partition("\n")[0]
        return UsageError(
            f"rank {self.rank} waited for rank {rank} ({reason}); it or another rank ended, failed, or did not come in "
            "time"
        )
