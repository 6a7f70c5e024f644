"""The least sum of tables over shared variables, exactly: variable elimination, after bounds that remove values.

A factor is a table of costs over a few variables; the sum of all factors is minimised over all assignments.
Eliminating a variable replaces the tables in which it occurs by one table of the least sums over its values. Min-sum
diffusion moves costs between tables that share a variable, which keeps their sum, until the sum of the least entries is
a good lower bound; a value of a variable whose bound is above the cost of a known assignment is removed.

>>> tables = [(("x", "y"), np.array([[0.0, 3.0], [3.0, 1.0]])), (("x",), np.array([2.0, 0.0]))]
>>> least({"x": 2, "y": 2}, tables)
(1.0, {'x': 1, 'y': 1})
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import prod
from typing import Final, TypeAlias, TypeVar

import numpy as np

V = TypeVar("V", bound=Hashable)
Factor: TypeAlias = tuple[tuple[V, ...], np.ndarray]
"""Variables, and costs by their values."""

INFEASIBLE: Final = 1e9
TURNS: Final = 10
"""Turns of the diffusion; values are removed after every second."""
_SLACK: Final = 1e-6
LARGEST: Final = 1 << 24
"""Entries of the largest table that is made."""


def least(sizes: Mapping[V, int], factors: Sequence[Factor[V]]) -> tuple[float, dict[V, int]] | None:
    """The least sum and an assignment that has it; None where a table would be larger than LARGEST."""
    left, tables = list(sizes), [(tuple(scope), table) for scope, table in factors]
    steps: list[tuple[V, tuple[V, ...], np.ndarray]] = []

    together = {v: {u for scope, _ in tables if v in scope for u in scope} for v in left}
    entries = {v: prod(sizes[u] for u in others) for v, others in together.items()}
    while left:
        variable = min(left, key=entries.__getitem__)
        if entries[variable] > LARGEST:
            return None
        mine = [f for f in tables if variable in f[0]]
        tables = [f for f in tables if variable not in f[0]]
        scope = tuple(dict.fromkeys(v for s, _ in mine for v in s if v != variable))
        full = (*scope, variable)
        total = np.zeros([sizes[v] for v in full])
        for part, table in mine:
            at = [full.index(v) for v in part]
            total += np.transpose(table, np.argsort(at)).reshape([sizes[v] if v in part else 1 for v in full])
        steps.append((variable, scope, total.argmin(-1)))
        tables.append((scope, total.min(-1)))
        left.remove(variable)
        for v in scope:
            together[v] = (together[v] | set(scope)) - {variable}
            entries[v] = prod(sizes[u] for u in together[v])
    value, found = float(sum(table for _, table in tables)), dict[V, int]()
    for variable, scope, best in reversed(steps):
        found[variable] = int(best[tuple(found[v] for v in scope)])
    return value, {variable: found[variable] for variable in sizes}


def kept(sizes: Mapping[V, int], factors: Sequence[Factor[V]], most: float) -> dict[V, np.ndarray]:
    """For each variable which of its values an assignment of at most `most` may have."""
    tables = [table.copy() for _, table in factors]
    scopes = [scope for scope, _ in factors]
    within = {v: [k for k, scope in enumerate(scopes) if v in scope] for v in sizes}
    alive = {v: np.arange(n) for v, n in sizes.items()}

    def least_of(k: int, variable: V) -> np.ndarray:
        return tables[k].min(tuple(axis for axis, v in enumerate(scopes[k]) if v != variable))

    for turn in range(TURNS):
        for v, own in within.items():
            if len(own) > 1 and len(alive[v]) > 1:  # of one value only a constant would move
                found = [least_of(k, v) for k in own]
                mean = np.minimum(sum(found) / len(own), INFEASIBLE)
                for k, now in zip(own, found, strict=True):
                    shape = [-1 if u == v else 1 for u in scopes[k]]
                    tables[k] = np.minimum(tables[k] + (mean - now).reshape(shape), INFEASIBLE)
        if turn % 2 == 0:
            continue
        bounds = [table.min() for table in tables]
        stay: dict[V, np.ndarray] = {}
        for v, own in within.items():
            if len(alive[v]) == 1:
                stay[v] = np.ones(1, bool)
                continue
            rest = sum(bounds) - sum(bounds[k] for k in own)
            stay[v] = rest + sum(least_of(k, v) for k in own) <= most + _SLACK
            if not stay[v].any():
                stay[v][:] = True  # `most` is below every assignment: rounding
        for k, scope in enumerate(scopes):
            tables[k] = tables[k][np.ix_(*(stay[v] for v in scope))]
        alive = {v: alive[v][stay[v]] for v in alive}
    return alive


def restricted(factors: Sequence[Factor[V]], alive: Mapping[V, np.ndarray]) -> list[Factor[V]]:
    """The tables of the values that are left."""
    return [(scope, table[np.ix_(*(alive[v] for v in scope))]) for scope, table in factors]
