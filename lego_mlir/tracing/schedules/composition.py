"""The text of a composition of schedules: `warpgroups, pipeline(stages=4), roles`, applied from left to right.

>>> [str(s) for s in parse("warpgroups, pipeline(stages=3), roles")]
['warpgroups', 'pipeline(stages=3)', 'roles']
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import fields
from typing import Final

from lego_mlir.errors import ScheduleError, did_you_mean
from lego_mlir.tracing.definition.kernel import Kernel, require_entry_name
from lego_mlir.tracing.schedules.ahead import Ahead
from lego_mlir.tracing.schedules.block_sums import Warpgroups, Warps
from lego_mlir.tracing.schedules.common_copies import Clusters
from lego_mlir.tracing.schedules.copied_out import CopiedOut
from lego_mlir.tracing.schedules.copying_roles import Roles
from lego_mlir.tracing.schedules.dependent import DependentLaunch
from lego_mlir.tracing.schedules.overlay import Overlay
from lego_mlir.tracing.schedules.persistent import Persistent
from lego_mlir.tracing.schedules.producer_lockstep import Lockstep
from lego_mlir.tracing.schedules.promoted_sums import Exact
from lego_mlir.tracing.schedules.replay import Replay
from lego_mlir.tracing.schedules.resident import Resident
from lego_mlir.tracing.schedules.ring_pipeline import RingPipeline
from lego_mlir.tracing.schedules.scheduled import Scheduled

Schedule = (
    Warpgroups
    | Warps
    | Exact
    | RingPipeline
    | Ahead
    | Roles
    | Clusters
    | Lockstep
    | Persistent
    | Overlay
    | CopiedOut
    | DependentLaunch
    | Resident
)

SCHEDULES: Final[dict[str, Callable[..., Schedule]]] = {
    "warpgroups": Warpgroups,
    "warps": Warps,
    "exact": Exact,
    "pipeline": RingPipeline,
    "ahead": Ahead,
    "roles": Roles,
    "clusters": Clusters,
    "lockstep": Lockstep,
    "persistent": Persistent,
    "overlay": Overlay,
    "copied_out": CopiedOut,
    "dependent": DependentLaunch,
    "resident": Resident,
}
"""The schedules by their names in texts."""

LONGEST: Final = 1000  # characters of a text


def parse(text: str) -> tuple[Schedule, ...]:
    """The schedules of a text. Raises ScheduleError for another syntax, an unknown name or option."""
    if not isinstance(text, str) or len(text) > LONGEST:
        raise ScheduleError(f"a composition of schedules is a text of at most {LONGEST} characters, got {text!r:.80}")
    try:
        tree = ast.parse(f"({text},)", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _unreadable(text) from None
    if not isinstance(tree, ast.Tuple):
        raise _unreadable(text)
    return tuple(_schedule(node, text) for node in tree.elts)


def apply(kernel: Kernel, *given: str | Schedule) -> Kernel:
    """The kernel after these schedules, from left to right. Raises ScheduleError, with the line that is in the way."""
    for item in given:
        for schedule in parse(item) if isinstance(item, str) else (item,):
            if not isinstance(schedule, Schedule):
                raise ScheduleError(f"{schedule!r} is not a schedule; the schedules are {', '.join(SCHEDULES)}")
            kernel = schedule(kernel)
            kernel.trace()  # refusals are of the schedule that is applied, not of a later use
    return kernel


def named(kernel: Kernel, name: str) -> Kernel:
    """The kernel under another name, so that a module may hold both."""
    require_entry_name(name, kernel.source)
    return Scheduled(kernel, Replay(), name=name)


def _unreadable(text: str) -> ScheduleError:
    return ScheduleError(f"{text!r} is not a composition of schedules; write 'warpgroups, pipeline(stages=4), roles'")


def _schedule(node: ast.expr, text: str) -> Schedule:
    called = node if isinstance(node, ast.Call) else None
    named = called.func if called else node
    if not isinstance(named, ast.Name):
        raise _unreadable(text)
    if named.id not in SCHEDULES:
        raise ScheduleError(
            f"unknown schedule {named.id!r}{did_you_mean(named.id, SCHEDULES)}; there are {', '.join(SCHEDULES)}"
        )
    kind = SCHEDULES[named.id]
    options = [entry.name for entry in fields(kind)]  # type: ignore[arg-type]  # each is a dataclass
    given: dict[str, object] = {}
    for position, value in enumerate(called.args if called else ()):
        if position >= len(options):
            raise ScheduleError(
                f"{named.id} takes {len(options)} options ({', '.join(options)}), got {ast.unparse(node)}"
            )
        given[options[position]] = _value(value, named.id)
    for keyword in called.keywords if called else ():
        if keyword.arg not in options:
            raise ScheduleError(
                f"{named.id} has no option {keyword.arg}{did_you_mean(str(keyword.arg), options)}; it takes "
                f"{', '.join(options) or 'none'}"
            )
        given[keyword.arg] = _value(keyword.value, named.id)
    try:
        return kind(**given)
    except TypeError:
        needed = ", ".join(f"{name}=.." for name in options)
        raise ScheduleError(f"{named.id} needs its option: write {named.id}({needed})") from None


def _value(node: ast.expr, name: str) -> int | bool:
    if isinstance(node, ast.Constant) and type(node.value) in (int, bool):
        return node.value  # type: ignore[return-value]  # of these two types
    raise ScheduleError(f"{name}: an option is an int, True or False, got {ast.unparse(node)}")
