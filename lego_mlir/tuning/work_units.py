"""Candidates for one set of sizes: the unit of work that a device measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lego_mlir.tuning.candidates import Candidate


@dataclass(frozen=True, slots=True)
class SizedProblem:
    """The candidates for one set of sizes, best predicted first."""

    candidates: Sequence[Candidate]
    sizes: Mapping[str, int]

    @property
    def name(self) -> str:
        """The sizes as text."""
        return " ".join(f"{name}={n}" for name, n in self.sizes.items())
