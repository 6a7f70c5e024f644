"""How `lego-mlir bench --on cuda` takes a time: the L2 cache flushed before each run, with PyTorch and with CuPy."""

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from lego_mlir.errors import DependencyError
from lego_mlir.tuning import baselines


class Events:
    """A library that writes down what it is told to do."""

    def __init__(self):
        self.log = []

    def event(self, **_):
        return SimpleNamespace(
            record=lambda: self.log.append("record"), synchronize=lambda: self.log.append("wait"),
            elapsed_time=lambda end: 0.25,
        )  # fmt: skip

    def memory(self, size, *_, **__):
        assert size == baselines.FLUSHED_BYTES
        return SimpleNamespace(zero_=lambda: self.log.append("flush"), fill=lambda value: self.log.append("flush"))


def with_torch(events):
    return SimpleNamespace(
        empty=events.memory, int8="int8", cuda=SimpleNamespace(Event=events.event), bfloat16="bf16",
        from_numpy=lambda array: SimpleNamespace(cuda=lambda: SimpleNamespace(view=lambda kind: (kind, array))),
    ), None  # fmt: skip


def with_cupy(events):
    cuda = SimpleNamespace(Event=events.event, get_elapsed_time=lambda begin, end: 0.25)
    return None, SimpleNamespace(empty=events.memory, cuda=cuda, asarray=lambda array: array)


@pytest.mark.parametrize("library", [with_torch, with_cupy])
def test_the_cache_is_flushed_before_the_clock_starts(library, monkeypatch):
    events = Events()
    monkeypatch.setattr(baselines, "_cuda_library", lambda: library(events))
    assert baselines._Cuda().seconds(lambda: events.log.append("run")) == 250e-6
    assert events.log == ["flush", "record", "run", "record", "wait"]


def test_bfloat16_crosses_as_its_bits_and_cupy_refuses_it(monkeypatch):
    value = np.array([1, -2], ml_dtypes.bfloat16)
    monkeypatch.setattr(baselines, "_cuda_library", lambda: with_torch(Events()))
    kind, bits = baselines._Cuda().put(value)
    assert (kind, bits.dtype.name, bits.tolist()) == ("bf16", "int16", [0x3F80, 0xC000 - 0x10000])
    monkeypatch.setattr(baselines, "_cuda_library", lambda: with_cupy(Events()))
    with pytest.raises(DependencyError, match="CuPy has no bfloat16; install PyTorch"):
        baselines._Cuda().put(value)
