"""Significance: which of two sets of timings is slower, with a stated confidence, from their ranks alone.

Timings are not normally distributed: they have a hard lower end and a long tail of disturbances. The Mann-Whitney test
only uses the order of the samples, so an outlier counts as one large sample, however large it is. For 8 samples or more
its statistic is nearly normal, and at the far end, where decisions are made, the normal tail is the larger one, so the
stated confidence is a lower bound.

>>> a, b = [10.0, 10.1, 10.2, 10.1, 10.3, 10.2, 10.1, 99.0], [11.0, 11.2, 11.1, 11.3, 11.2, 11.1, 11.0, 11.4]
>>> slower_by_chance(b, a) < 0.01 < slower_by_chance(a, b)
True

H. B. Mann and D. R. Whitney, "On a test of whether one of two random variables is stochastically larger than the
other", 1947. The interval of the median is the one of order statistics.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

FEWEST: Final = 8  # samples on each side; with fewer, nothing is decided


def slower_by_chance(these: Sequence[float], those: Sequence[float]) -> float:
    """The probability that `these` rank as high against `those` if they are not slower; 1 for fewer than 8 samples."""
    n, m = len(these), len(those)
    if min(n, m) < FEWEST:
        return 1.0
    ranked = _middle_ranks([*these, *those])
    statistic = sum(ranked[:n]) - n * (n + 1) / 2
    total, ties = n + m, Counter([*these, *those]).values()
    variance = n * m / 12 * (total + 1 - sum(t**3 - t for t in ties) / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    distance = (statistic - n * m / 2 - 0.5) / math.sqrt(variance)
    return 0.5 * math.erfc(distance / math.sqrt(2))


def _middle_ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value from 1 on; equal values share the middle one."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    ranks, start = [0.0] * len(values), 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for i in order[start:end]:
            ranks[i] = (start + 1 + end) / 2
        start = end
    return ranks


def median_bounds(samples: Sequence[float], confidence: float) -> tuple[float, float]:
    """The order statistics between which the median is with this confidence; infinite ones for too few samples.

    >>> median_bounds([1, 2, 3, 4, 5, 6, 7, 8], 0.95)
    (1, 8)
    >>> median_bounds([1, 2, 3], 0.95)
    (-inf, inf)
    """
    ordered, n = sorted(samples), len(samples)
    outside, k = 0.0, 0  # P(fewer than k + 1 samples are below the median), for n coins
    while k < n // 2:
        outside += math.comb(n, k) / 2**n
        if 2 * outside > 1 - confidence:
            break
        k += 1
    return (ordered[k - 1], ordered[n - k]) if k else (-math.inf, math.inf)
