"""The processes of a benchmark over a mesh, one for each rank: their device, how time is taken, and what is reported.

A `single` time is one run between two events of the stream, after a barrier on it and with the launches ahead of it;
`steady` is the tenth part of ten runs in a row. Medians, of the slowest rank. NVLink multicast is off. On a CPU times
are of wall clock.
"""

import datetime
import os
import socket
import sys
import time as clock
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from statistics import median
from types import SimpleNamespace
from typing import Any

import harness
import mlir_kernels
import runner

NAME, PAGE = "mesh", "results/mesh.md"
GPUS = (2, 4, 8)
SINGLE, STEADY, IN_A_ROW = 20, 5, 10
SLEEP_CYCLES = 2_000_000  # the device waits while the host gets ahead


class Stage:
    """The processes of a run as one of them sees it: its device, and how a time is taken there."""

    def __init__(self, rank: int, ranks: int, port: int, limit_s: int = 600) -> None:
        import torch
        import torch.distributed as dist

        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", str(port))
        self.rank, self.ranks, self.gpu = rank, ranks, torch.cuda.is_available()
        self.device = torch.device("cuda", rank) if self.gpu else torch.device("cpu")
        backend = "cpu:gloo,cuda:nccl" if self.gpu else "gloo"
        if self.gpu:
            torch.cuda.set_device(self.device)
        limit = datetime.timedelta(seconds=limit_s)
        dist.init_process_group(backend, rank=rank, world_size=ranks, timeout=limit)
        self.one = torch.zeros(1, device=self.device)

    def wait(self) -> None:
        """All ranks are here, and what was launched is done."""
        import torch
        import torch.distributed as dist

        dist.all_reduce(self.one)
        if self.gpu:
            torch.cuda.synchronize()

    def seconds(self, run: Callable[[], Any], times: int) -> float:
        """The time of this many runs on this rank, one after the other."""
        import torch
        import torch.distributed as dist

        if not self.gpu:
            dist.all_reduce(self.one)
            began = clock.perf_counter()
            for _ in range(times):
                run()
            return clock.perf_counter() - began
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.wait()
        torch.cuda._sleep(SLEEP_CYCLES * min(times, 3))
        dist.all_reduce(self.one)
        start.record()
        for _ in range(times):
            run()
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end)) / 1000

    def times_ms(self, run: Callable[[], Any]) -> dict[str, float]:
        """The medians `single` and `steady` of the slowest rank, in milliseconds."""
        few = 1 if self.gpu else 4
        for _ in range(3):
            run()
        single = [self.seconds(run, 1) for _ in range(SINGLE // few)]
        steady = [self.seconds(run, IN_A_ROW) / IN_A_ROW for _ in range(STEADY // few)]
        return {"single": 1000 * self.most(median(single)), "steady": 1000 * self.most(median(steady))}

    def most(self, value: float) -> float:
        """The largest value of all ranks."""
        import torch
        import torch.distributed as dist

        found = torch.tensor([value], dtype=torch.float64)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return float(found)

    def failure(self, run: Callable[[], Any], expected: Any) -> str:
        """Why a run does not give this rank's part, or another rank's; "" where all are right."""
        found = ""
        try:
            part = run().view(-1)
            wrong = int((part != expected.reshape(-1)).sum()) if part.numel() == expected.numel() else -1
            if wrong:
                found = f"{wrong} of {expected.numel()} elements are wrong on rank {self.rank}"
        except (RuntimeError, NotImplementedError, AssertionError, ValueError) as error:  # a row tells it
            found = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:300]}"
        failed = self.most(bool(found))
        return (found or "another rank failed") if failed else ""

    def report(self, name: str, results: dict[str, Any], rows: Sequence[dict[str, Any]], *facts: str) -> None:
        """Add rows to the results, which rank 0 keeps, and prints by these facts with what was measured."""
        results["rows"] += rows
        if self.rank:
            return
        keep(f"{name}{self.ranks}", results)
        for row in rows:
            rates = (f"{way} {ms:.4f} ms" for way, ms in row.get("ms", {}).items())
            print(*(row[fact] for fact in facts), row.get("failure") or " ".join(rates), sep="  ", flush=True)

    def finish(self, results: dict[str, Any], may_fail: str) -> None:
        """End the process: with 1 where a contender failed but this one."""
        import torch

        self.wait()
        torch.distributed.destroy_process_group()
        sys.stdout.flush()
        # Not sys.exit: Gloo now and then aborts an interpreter that ends, by "terminate called without an exception".
        os._exit(int(any("failure" in row and row["contender"] != may_fail for row in results["rows"])))


def circumstances(stage: Stage) -> dict[str, Any]:
    import torch

    device = torch.cuda.get_device_name() if stage.gpu else "CPU"
    nccl = ".".join(map(str, torch.cuda.nccl.version())) if stage.gpu else None
    return {
        "device": device, "ranks": stage.ranks, "torch": torch.__version__, "cuda": torch.version.cuda, "nccl": nccl,
        "clocks": harness.clocks() if stage.gpu else [], "multicast": "off",
    }  # fmt: skip


def keep(name: str, results: dict[str, Any]) -> None:
    """Results as a file, under the name of the benchmark and of the run."""
    import torch

    device = harness.device_name() if torch.cuda.is_available() else "CPU"
    harness.save(f"{NAME}-{name}", {"device": device, **results})


def parsed(words: Sequence[str]) -> SimpleNamespace:
    """Numbers among the words are of ranks, the others name cases; `size` is an option."""
    given = runner.options(words, size=0)
    given.ranks = [int(word) for word in given.words if word.isdigit()]
    given.words = [word for word in given.words if not word.isdigit()]
    return given


def ranks_of(options: SimpleNamespace) -> int:
    import torch

    return options.ranks[0] if options.ranks else torch.cuda.device_count() or 2


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def spawned(rank_of: Callable[..., None], ranks: int, *given: Any, limit_s: float = 3600) -> list[int]:
    """The exit codes of processes, one for each rank; those that take longer are ended."""
    os.environ.update(NCCL_NVLS_ENABLE="0", TORCH_SYMM_MEM_DISABLE_MULTICAST="1")
    port, context = free_port(), get_context("spawn")
    made = [context.Process(target=rank_of, args=(rank, ranks, port, *given)) for rank in range(ranks)]
    until = clock.monotonic() + limit_s
    for process in made:
        process.start()
    for process in made:
        process.join(max(until - clock.monotonic(), 0))
        if process.exitcode is None:
            process.kill()
            process.join()
    return [int(process.exitcode or 0) for process in made]


def over_ranks(rank_of: Callable[..., None], options: SimpleNamespace) -> int:
    """Run a function of each rank in a process, or as one rank of torchrun; the exit code."""
    if "RANK" in os.environ:
        rank_of(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), 0, options)
    return max(map(abs, spawned(rank_of, ranks_of(options), options)))


def by_torch(a: Any, b: Any, out: Any, residual: Any = None) -> None:
    """`multiply` of a MeshProduct by PyTorch."""
    import torch

    if residual is None:
        torch.mm(a, b, out=out)
    else:
        torch.addmm(residual, a, b, out=out)


def recorded(name: str) -> Iterator[tuple[dict[str, Any], str]]:
    """The newest run on each number of GPUs, and its circumstances."""
    for ranks in GPUS:
        run = mlir_kernels.latest(f"{name}{ranks}")
        if run is not None and run["device"] != "CPU":
            where = mlir_kernels.circumstances(f"{name}{ranks}", run, "torch")
            yield run, f"**{ranks} GPUs**, {where}, NCCL {run['nccl']}, CUDA {run['cuda']}"
