"""The limit of enumeration: exact verdicts on concrete sizes take at most a few seconds."""

from __future__ import annotations

from typing import Final

ENUMERATED: Final = 2**24
"""Elements up to which a verdict on concrete sizes visits each one."""
BLOCK: Final = 2**17
"""Elements visited at a time: shorter blocks are bound by the interpreter, longer ones by cache misses."""
