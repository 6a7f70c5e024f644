"""Attention and its gradients in f64 by NumPy, for the tests of kernels and calls; no code of the package is used.

>>> one = attended(np.ones((1, 2, 4)), np.ones((1, 3, 4)), np.arange(3.0).reshape(1, 3, 1), np.tri(2, 3))
>>> one.o[..., 0], np.round(one.lse - one.lse[0, 0], 6)
(array([[0. , 0.5]]), array([[0., 1.]]))
"""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Attended:
    """What attention computes: `weights` of [.., heads, queries, keys], `o`, and log-sum-exps to base 2.

    A query that sees no key has zeros, and the log-sum-exp inf.
    """

    q: Any
    k: Any
    v: Any
    weights: Any
    lse: Any
    slopes: Any
    groups: int

    @property
    def o(self):
        return self.weights @ self.v

    def gradients(self, do):
        """Those of q, k and v, for the gradient of the result."""
        do = do.astype(np.float64)
        of_scores = self.weights * (do @ self.v.mT - (do * self.o).sum(-1, keepdims=True)) * self.slopes
        return of_scores @ self.k, self._summed(of_scores.mT @ self.q), self._summed(self.weights.mT @ do)

    def _summed(self, x):
        """Over the query heads of each head of keys."""
        heads, *rest = x.shape[-3:]
        return x.reshape(*x.shape[:-3], heads // self.groups, self.groups, *rest).sum(-3)


def attended(q, k, v, seen=True, factor=None, score=None):
    """Attention of q [.., heads, queries, features] to k and v [.., shared, keys, features], each of 1 or more heads.

    `seen` says which pairs count, and broadcasts to the scores; `factor` is 1 / sqrt(features). `score` maps the scaled
    scores to others, and to the slopes of these where gradients are asked for.
    """
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    groups = q.shape[-3] // k.shape[-3]
    k, v = (np.repeat(x, groups, axis=-3) for x in (k, v))
    factor = q.shape[-1] ** -0.5 if factor is None else factor
    s, slope = (q @ k.mT * factor, 1) if score is None else score(q @ k.mT * factor)
    s = np.where(seen, s, -np.inf)
    best = np.maximum(s.max(-1, keepdims=True), -1e300)
    powers = np.exp(s - best)
    total = powers.sum(-1, keepdims=True)
    some = total > 0
    lse = np.where(some, (best + np.log(np.where(some, total, 1))) * np.log2(np.e), np.inf)
    return Attended(q, k, v, powers / np.where(some, total, 1), lse[..., 0], slope * factor, groups)


def of_pages(q, keys, values, table, lengths, factor):
    """The last queries of each sequence to its keys so far: q [batch, queries, heads, features], keys and values
    [pages, positions, shared, features] in the order of `table` [batch, pages]."""
    found = np.zeros((*q.shape[:-1], values.shape[-1]))
    for b, length in enumerate(lengths):
        k, v = (x[table[b]].reshape(-1, *x.shape[2:]).swapaxes(0, 1) for x in (keys, values))
        last = length - q.shape[1] + np.arange(q.shape[1])
        found[b] = attended(q[b].swapaxes(0, 1), k, v, np.arange(k.shape[1]) <= last[:, None], factor).o.swapaxes(0, 1)
    return found
