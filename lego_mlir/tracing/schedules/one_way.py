"""One way for all blocks of a cluster that wait for each other: the same branches, equal numbers of turns.

with lego.when(at[1] <= at[0]):        a block that skips the steps of its tile never releases
    for step in lego.range(steps):     the stages that it shares, and the others wait for ever
        ...
"""

from __future__ import annotations

from lego_mlir.aliases import Expr
from lego_mlir.tracing.schedules.cluster_values import ClusterValues
from lego_mlir.tracing.schedules.scheduled import refused, words_in
from lego_mlir.tracing.trace.marks import RingCopy, RingPass
from lego_mlir.tracing.trace.trace import For, If, KernelTrace, Statement, While


def require_one_way(trace: KernelTrace, values: ClusterValues) -> None:
    """Refuse a branch or loop that blocks of a cluster may take differently, and that passes their common rings.

    Raises ScheduleError, with the line. The condition of a `lego.while_` is a register, of which nothing is proved.
    """
    for statement in trace.statements():
        what, decided, body = _ways(statement)
        if not any(True for kind in (RingPass, RingCopy) for _ in words_in(body, kind)):
            continue
        if isinstance(statement, For) and values.is_over_tiles(statement):
            continue
        if isinstance(statement, While) or not all(map(values.agree, decided)):
            raise refused(
                statement.source,
                f"{what} may differ between the {values.blocks} blocks of a cluster, which wait for each other inside; "
                "order the tiles so that such blocks decide alike, or leave out clusters",
            )


def _ways(statement: Statement) -> tuple[str, tuple[Expr, ...], tuple[Statement, ...]]:
    """What decides the way of a statement, in words and as indices, and what is inside."""
    match statement:
        case If(condition=condition, then=then, otherwise=otherwise):
            return "the condition", (condition,), then + otherwise
        case For(lo=lo, hi=hi, step=step, body=body):
            return "the bounds of this loop", (lo, hi, step), body
        case While(body=body):
            return "the condition of this loop", (), body
    return "", (), ()
