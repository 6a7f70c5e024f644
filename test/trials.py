"""Trials for the tests of tuning, in a module that their processes can import."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from lego_mlir.errors import LayoutError
from lego_mlir.tuning.measuring import Failure
from lego_mlir.tuning.simulated_device import VirtualBench


@dataclass(frozen=True)
class Printing:
    """A trial whose kernel prints, and whose samples are its process."""

    def open(self):
        os.write(1, b"not an answer\n")
        print("neither is this")
        return self

    def check(self):
        return ""

    def sample(self, count):
        return [float(os.getpid())] * count


@dataclass(frozen=True)
class Raising(Printing):
    def sample(self, count):
        raise RuntimeError(f"no {count} samples")


@dataclass(frozen=True)
class Closing(Printing):
    """Appends to a file when it is opened and closed."""

    path: str
    name: str

    def open(self):
        self.write("open")
        return self

    def close(self):
        self.write("close")

    def write(self, what):
        with Path(self.path).open("a") as file:
            file.write(f"{what}-{self.name}\n")


class Unreadable:
    """A trial that its process cannot make again."""

    def __reduce__(self):
        return (__import__, ("a_module_that_is_not_there",))


@dataclass(frozen=True)
class Told(Printing):
    """Writes its process to a file, then hangs."""

    path: str

    def open(self):
        Path(self.path).write_text(str(os.getpid()))
        time.sleep(600)


@dataclass(frozen=True)
class Recorded:
    """A trial that appends its name, and the process that measures, to a file as it is opened."""

    path: str
    name: str
    trial: object

    def open(self):
        with Path(self.path).open("a") as file:
            file.write(f"{self.name} {os.getppid()}\n")
        return self.trial.open()


class WaitingBench(VirtualBench):
    """A virtual bench whose trials are ready once a file exists, at most 30 s later."""

    def __init__(self, path):
        super().__init__()
        self.path = Path(path)

    def start(self, trial):
        contender = super().start(trial)
        ready = contender.ready

        def when_it_exists():
            for _ in range(3000):
                if self.path.exists():
                    return ready()
                time.sleep(0.01)
            return Failure("timed out", "the file does not exist")

        contender.ready = when_it_exists
        return contender


def refuse():
    raise LayoutError("sigma must order the axes")


def leave():
    os.kill(os.getpid(), signal.SIGKILL)
