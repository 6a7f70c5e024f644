"""Rounds of blocks over a device: all models of time charge the last one by the multiprocessor with the most blocks.

>>> rounds_of(blocks=300, slots=264, multiprocessors=132), rounds_of(133, 264, 132)
((1, 1), (0, 2))
"""

from __future__ import annotations


def rounds_of(blocks: int, slots: int, multiprocessors: int) -> tuple[int, int]:
    """Whole rounds of as many blocks as `slots`, and the blocks of the fullest multiprocessor in the last one."""
    whole, rest = divmod(blocks, slots)
    return whole, -(-rest // multiprocessors)
