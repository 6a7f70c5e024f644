"""Ranges of data that pass through registers and shared tiles, known once a kernel is traced.

What a register holds was written to it, and what is read from a shared tile was stored there, if each element is
written before it is read and no threads race. So a value read has a range that holds for all values written:

    tile[t] = table[t]              of a declared range (0, P)
    lego.barrier()
    i = lego.index(tile[t ^ 1])     0 <= i < P

A value that is written may come from the same place, as in a loop that swaps neighbours. Its range is assumed, and
holds by induction over the writes: a declared range passes through moves alone, also as words that `ldmatrix` loads,
and a numeric one is computed again from the assumption. `tiles_behind` names the tiles that a range relies on; that
they are written before they are read, without a race, is for `proofs` to show.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import sympy

from lego_mlir.expr.intervals import bounds
from lego_mlir.expr.nodes import Le, Lt
from lego_mlir.expr.prove import prove
from lego_mlir.expr.verdict import Proved
from lego_mlir.tracing.trace.data_ranges import SHUFFLES, DataRanges, Span
from lego_mlir.tracing.trace.trace import (
    AsyncCopy,
    Atomic,
    Buffer,
    Compose,
    Compute,
    Constant,
    KernelTrace,
    Lane,
    Load,
    MatrixLoad,
    MlirOperation,
    Read,
    Statement,
    Store,
    TileStore,
    Value,
    Write,
)

Place: TypeAlias = int | str
"""The number of a register, or the name of a shared tile."""
Ends: TypeAlias = tuple[Any, Any]
MOST_ROUNDS: Final = 4
"""Rounds in which an assumed numeric range may grow before it is given up."""
MOST_PLACES: Final = 64
"""Places whose numeric ranges are computed."""


class StoredRanges(DataRanges):
    """The ranges of a traced kernel's values, with those that pass through registers and shared tiles."""

    def __init__(self, trace: KernelTrace) -> None:
        old = trace.data
        super().__init__(old.index_bounds)
        self.names, self.symbols, self.claimed = old.names, old.symbols, old.claimed
        self._written: dict[Place, list[Value | Buffer]] = {}
        self._matrices: dict[int, Value] = {}
        self._closed = set[Place]()
        self._assumed: dict[Place, Span | None] = {}
        self._open = set[Place]()
        for statement in trace.statements():
            self._add(statement)
        self._closed |= trace.tiles_of_peers() | frozenset[str]().union(*trace.phases)

    def _add(self, statement: Statement) -> None:
        made = getattr(statement, "results", None) or (getattr(statement, "result", None),)
        results = [r.number for r in made if isinstance(r, Value)]
        if any(number in self._definitions for number in results):
            for number in results:  # defined twice
                self._definitions.pop(number, None)
        else:
            self.define(statement)
        match statement:
            case Write(register=register, value=value):
                self._written.setdefault(register.number, []).append(value)
            case Store(access=access, value=value) if access.buffer.space == "workgroup":
                self._written.setdefault(access.buffer.name, []).append(value)
            case AsyncCopy(origin=origin, target=target):
                self._written.setdefault(target.buffer.name, []).append(origin.buffer)
                if origin.is_masked:
                    self._closed.add(target.buffer.name)  # zeros as well
            case Atomic(access=access):
                self._closed.add(access.buffer.name)
            case MlirOperation(name="vector.extract", results=(result,), operands=(matrices,)):
                self._matrices[result.number] = matrices
            case TileStore(buffer=buffer):
                self._closed.add(buffer.name)

    # ---- places

    def _place(self, value: Value) -> Place | None:
        """The register or shared tile that a value is read from, if all that is written there is known."""
        matrices = self._matrices.get(value.number)
        match self._definitions.get(value.number if matrices is None else matrices.number):
            case Read(register=register) if register.dtype == value.dtype:
                place: Place = register.number
            case MatrixLoad(access=access, transposed=False) if value.dtype.bits == access.buffer.dtype.bits == 32:
                place = access.buffer.name  # a lane's word of a matrix is one element
            case Load(access=access, other=None) if access.buffer.space == "workgroup":
                place = access.buffer.name
            case _:
                return None
        integers = value.dtype.family == "int"
        same = all(w.dtype.name == value.dtype.name for w in self._at(place))
        return place if integers and same and place not in self._closed else None

    def _at(self, place: Place) -> Sequence[Value | Buffer]:
        return self._written.get(place, ())

    def _sources(self, value: Value) -> Iterator[Value]:
        """The values that one is computed from."""
        match self._definitions.get(value.number):
            case Compute(operands=operands) | Compose(operands=operands) | MlirOperation(operands=operands):
                yield from operands
            case Load(other=other) if other is not None:
                yield other
            case statement:
                operand = getattr(statement, "operand", None)
                if isinstance(operand, Value):
                    yield operand

    # ---- ranges of sizes

    def declared(self, value: Value) -> Ends | None:
        """The declared range of the tensor whose elements a value is one of, moved or not; constants may be inside."""
        if value.number in self._open:
            return None
        self._open.add(value.number)
        try:
            origins = self._origins(value)
            if origins == [value]:
                return super().declared(value)
            ranges = [
                one.values if isinstance(one, Buffer) else super(StoredRanges, self).declared(one) for one in origins
            ]
        finally:
            self._open.discard(value.number)
        known = {ends for ends in ranges if ends is not None}
        if len(known) != 1:
            return None
        (lo, hi), others = next(iter(known)), [o for o, ends in zip(origins, ranges, strict=True) if ends is None]
        for other in others:
            constant = None if isinstance(other, Buffer) else self._definitions.get(other.number)
            if not isinstance(constant, Constant):
                return None
            inside = sympy.And(Le(lo, int(constant.number)), Lt(int(constant.number), hi))
            if not isinstance(prove(inside, {}), Proved):
                return None
        return lo, hi

    def _origins(self, value: Value) -> list[Value | Buffer]:
        """The values, and tensors that are copied, of which a value is one, moved without change."""
        found: dict[Value | Buffer, None] = {}
        seen, pending = set[int](), [value]
        while pending:
            current = pending.pop()
            if current.number in seen:
                continue
            seen.add(current.number)
            place = self._place(current)
            if place is not None:
                for written in self._at(place):
                    if isinstance(written, Value):
                        pending.append(written)
                    else:
                        found[written] = None
                continue
            match self._definitions.get(current.number):
                case Lane(operand=operand):
                    pending.append(operand)
                case MlirOperation(name=name, operands=operands) if name in SHUFFLES:
                    pending.append(operands[SHUFFLES[name]])
                case Compute(operation="select", operands=(_, *operands)) | Compose(operands=operands):
                    pending += operands
                case _:
                    found[current] = None
        return list(found)

    # ---- numeric ranges

    def _exact_span(self, value: Value) -> Span | None:
        place = self._place(value)
        return super()._exact_span(value) if place is None else self._span_at(place, value.dtype.span)

    def _span_at(self, place: Place, whole: Span) -> Span | None:
        """The range of what is written to a place: it holds for all writes if it is assumed of what is read there."""
        if place in self._assumed:
            return self._assumed[place]
        written = self._at(place)
        spans = [self._span_written(w) for w in written if isinstance(w, Buffer) or place not in self._behind(w)]
        assumed = _hull(spans) if spans and len(self._assumed) < MOST_PLACES else None
        for _ in range(MOST_ROUNDS):
            if assumed is None:
                break
            within = copy.copy(self)
            within._spans, within._assumed = {}, {**self._assumed, place: assumed}
            grown = _hull([assumed, *map(within._span_written, written)])
            if grown == assumed:
                break
            assumed = grown if grown is not None and grown != whole else None
        else:
            assumed = None
        self._assumed[place] = assumed
        return assumed

    def _span_written(self, written: Value | Buffer) -> Span | None:
        if isinstance(written, Value):
            return self.range(written)
        if written.values is None:
            return None
        lo, hi = (bounds(end, {}) for end in written.values)
        return None if lo.lo is None or hi.hi is None else (lo.lo, hi.hi - 1)

    def _behind(self, value: Value) -> frozenset[Place]:
        """The places that a value's range follows from."""
        found, seen, pending = set[Place](), set[int](), [value]
        while pending:
            current = pending.pop()
            if current.number in seen:
                continue
            seen.add(current.number)
            place = self._place(current)
            if place is not None:
                found.add(place)
                pending += [w for w in self._at(place) if isinstance(w, Value) and place not in self._assumed]
            pending += self._sources(current)
        return frozenset(found)

    def tiles_behind(self, values: Iterable[Value]) -> frozenset[str]:
        """The shared tiles that the ranges of values follow from."""
        afresh = copy.copy(self)
        afresh._assumed = {}
        places = frozenset[Place]().union(*map(afresh._behind, values))
        return frozenset(place for place in places if isinstance(place, str))


def _hull(spans: Sequence[Span | None]) -> Span | None:
    """The least range around all; None if one is not known."""
    known = [span for span in spans if span is not None]
    if len(known) < len(spans):
        return None
    return min(low for low, _ in known), max(high for _, high in known)
