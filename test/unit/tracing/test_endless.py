"""Python loops that do not end while a kernel is traced: stopped at their line, by statements or by idle looks."""

import sys
from pathlib import Path

import pytest

import lego_mlir as lego
from lego_mlir import Row, f32
from lego_mlir.errors import TraceError
from lego_mlir.tracing.trace import endless, tracer


def line_of(function, text):
    """The line number of a text within a function of this file."""
    first = function.__code__.co_firstlineno
    lines = Path(__file__).read_text().splitlines()
    return next(n for n in range(first, len(lines) + 1) if text in lines[n - 1])


def test_statements_without_end_are_stopped_at_their_line(monkeypatch):
    monkeypatch.setattr(tracer, "MOST_STATEMENTS", 100)

    @lego.kernel(grid=1, block=32)
    def k(y: lego.Tensor(f32, Row(32))):
        t = lego.thread_id[0]
        while True:
            y[t] = y[t] + 1.0  # here

    at = line_of(k.function, "# here")
    with pytest.raises(TraceError, match=rf"test_endless.py:{at}: tracing stopped: k has more than 100 statements"):
        k.trace()


def test_as_many_statements_as_allowed_are_traced(monkeypatch):
    @lego.kernel(grid=1, block=32)
    def k(y: lego.Tensor(f32, Row(32))):
        y[lego.thread_id[0]] = 1.0

    monkeypatch.setattr(tracer, "MOST_STATEMENTS", 3)
    assert k.trace()


def test_a_loop_that_traces_nothing_is_stopped_at_its_line(monkeypatch):
    """The looks come every millisecond here; a loop that nothing stopped would hang the test."""
    patient = tracer.stopped_if_endless
    monkeypatch.setattr(tracer, "stopped_if_endless", lambda *given: patient(*given, interval=0.001))

    @lego.kernel(grid=1, block=32)
    def k(y: lego.Tensor(f32, Row(32))):
        steps = 0
        while steps >= 0:  # here
            steps += 1

    at = line_of(k.function, "# here")
    with pytest.raises(TraceError, match=rf"test_endless.py:({at}|{at + 1}): tracing stopped: Python code has run"):
        k.trace()


def test_proofs_and_progress_are_not_idle():
    code = test_proofs_and_progress_are_not_idle.__code__
    statements = iter(range(100))
    watch = endless.IdleWatch(code, lambda: next(statements))
    assert not any(watch.look(sys._getframe()) for _ in range(2 * endless.PATIENCE))
    watch = endless.IdleWatch(code, lambda: 7)
    looks = [watch.look(frame) for frame in [sys._getframe()] * endless.PATIENCE]
    assert looks == [False] * (endless.PATIENCE - 1) + [True]
    proof = {"__name__": "lego_mlir.expr.prove", "sys": sys}
    exec("def working():\n    return sys._getframe()", proof)
    assert not watch.look(proof["working"]())
    assert watch.idle == 0
