"""`lego.philox`: random words from a counter, without state.

    a, b, c, d = lego.philox(number, key=(seed, 0))        four u32 that depend on the number and the key alone

Philox 4x32-10: ten rounds of two products of 64 bits, whose halves are exchanged and mixed with a key that grows by a
constant in each round. Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011; cuRAND's and
Triton's generator of this name gives the same words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lego_mlir.aliases import Operand
from lego_mlir.errors import brief
from lego_mlir.expr.index import PerElement
from lego_mlir.tracing.trace.dtypes import u32, u64
from lego_mlir.tracing.trace.tracer import current
from lego_mlir.tracing.words.scalar import Scalar

FACTORS: Final = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS: Final = (0x9E3779B9, 0xBB67AE85)
ROUNDS: Final = 10
Words = tuple[Operand, Operand, Operand, Operand]


def philox(*counter: Operand, key: Sequence[Operand] = (0, 0)) -> Words:
    """Four random words of type u32 of a counter of up to four words and a key of two.

    Words are ints, indices, numbers of u32 or tiles of them, for a tile of words. Raises TraceError for others.
    """
    tracer = current("lego.philox")
    if not 1 <= len(counter) <= 4 or len(key) != 2:
        raise tracer.error(
            f"lego.philox takes one to four words of a counter and a key of two, got {len(counter)} and "
            f"{brief(repr(key))}"
        )
    given: list[Operand] = [word if isinstance(word, Scalar | PerElement) else u32(word) for word in (*counter, *key)]
    if any(word.dtype is not u32 for word in given):
        raise tracer.error(
            f"lego.philox takes words of u32, got {', '.join(str(w.dtype) for w in given)}; write .to(u32)"
        )
    zeros: list[Operand] = [u32(0)] * (4 - len(counter))
    a, b, c, d, one, two = [*given[: len(counter)], *zeros, *given[len(counter) :]]
    for _ in range(ROUNDS):
        (high, low), (upper, lower) = _product(FACTORS[0], a), _product(FACTORS[1], c)
        a, b, c, d = upper ^ b ^ one, lower, high ^ d ^ two, low
        one, two = one + u32(KEY_STEPS[0]), two + u32(KEY_STEPS[1])
    return a, b, c, d


def _product(factor: int, word: Operand) -> tuple[Operand, Operand]:
    """The upper and the lower half of a product."""
    wide = word.to(u64) * factor
    return (wide >> 32).to(u32), wide.to(u32)
