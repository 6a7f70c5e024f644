"""`with lego.while_(running):` repeats its body as long as a register is true.

    running = lego.register(lego.i1, True)
    with lego.while_(running):
        status = flags.atomic_load(i)
        running.set(status == 0)

Each thread repeats the body until its register is false before an iteration. The interpreter runs all threads together:
a loop that waits for a thread which does not run before it ends, spins for ever, and is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lego_mlir.aliases import Operand
from lego_mlir.tracing.trace.trace import While, registers_written
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.words.control import Branch, Cell


def while_(running: Operand) -> Branch:
    """A loop whose condition is a register of i1, which the body changes."""
    tracer = current("lego.while_")
    if not isinstance(running, Cell) or running.dtype.family != "bool":
        raise tracer.error(
            "lego.while_ takes a register of i1, which its body changes: write running = lego.register(lego.i1, True), "
            f"and running.set(..) in the body; got {running!r}"
        )
    return Branch("lego.while_(..)", lambda tracer: _body(tracer, running))


@contextmanager
def _body(tracer: Tracer, running: Cell) -> Iterator[None]:
    source, register = tracer.here(), tracer.use_register(running.register)
    with tracer.region() as body:
        yield
    if register not in registers_written(tuple(body)):
        raise tracer.error(f"lego.while_: the body never changes {running!r}, so that the loop would not end")
    tracer.append(While(register, tuple(body), source))
