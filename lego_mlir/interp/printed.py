"""The text that threads of a launch print, up to the size of a GPU's buffer."""

from __future__ import annotations

from typing import Final

MOST_CHARACTERS: Final = 1 << 20  # the buffer of a GPU; CUDA C++ Programming Guide, "Formatted Output"


class Printed:
    """The printed texts, in order; texts beyond MOST_CHARACTERS are dropped."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._left = MOST_CHARACTERS

    def add(self, text: str) -> bool:
        """Keep a text; False once no more is kept."""
        if self._left <= 0:
            return False
        self._texts.append(text[: self._left])
        self._left -= len(text)
        if self._left <= 0:
            self._texts.append(f"\n(printing stopped at {MOST_CHARACTERS} characters)\n")
        return self._left > 0

    def __str__(self) -> str:
        return "".join(self._texts)
