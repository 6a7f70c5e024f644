"""A recipe: how a table of choices is made, as a file. The table keeps the recipe's digest.

    {"format": 1, "spec": "transposes.py", "tunable": "transpose", "budget": "60s",
     "sizes": [{"M": 4096, "N": 4096}, ..], "export": "choices.json"}

`lego-mlir tune RECIPE.json` measures each size and writes the choices; paths are relative to the recipe. The digest is
of what decides the table: the tunable, the sizes, the budget and the text of the spec.

Raises SpecError for an invalid file.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lego_mlir.errors import SpecError
from lego_mlir.runtime.manifest import LARGEST_SIZE
from lego_mlir.store import from_json

FORMAT: Final = 1
NAMES: Final = ("format", "spec", "tunable", "budget", "sizes", "export")


@dataclass(frozen=True, slots=True)
class TuningRecipe:
    """A recipe. `budget` is for each size, as on the command line; None measures until the race is decided."""

    path: Path
    spec: Path
    tunable: str
    sizes: tuple[dict[str, int], ...]
    export: Path
    budget: str | None = None

    @property
    def digest(self) -> str:
        """The digest of what decides the table."""
        try:
            spec = self.spec.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError(f"{self.path}: the spec {self.spec} cannot be read ({error})") from error
        decides = json.dumps([self.tunable, self.sizes, self.budget, spec], sort_keys=True)
        return hashlib.sha256(decides.encode()).hexdigest()[:24]


def read(path: Path) -> TuningRecipe:
    """The recipe in a file."""
    try:
        data = from_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SpecError(f"{path}: not a recipe in JSON ({error})") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise SpecError(f'{path}: a recipe has "format": {FORMAT}, with {", ".join(NAMES[1:])}')
    for name in data:
        if name not in NAMES:
            raise SpecError(f"{path}: a recipe has no {name!r}; it has {', '.join(NAMES)}")
    for name in ("spec", "tunable", "sizes", "export"):
        if name not in data:
            raise SpecError(f"{path}: the recipe has no {name!r}")
    for name in ("spec", "tunable", "export", "budget"):
        if not isinstance(data.get(name, ""), str):
            raise SpecError(f"{path}: {name!r} is a text, got {data[name]!r}")
    folder = path.parent
    return TuningRecipe(
        path, folder / data["spec"], data["tunable"], _sizes(path, data["sizes"]), folder / data["export"],
        data.get("budget"),
    )  # fmt: skip


def _sizes(path: Path, given: object) -> tuple[dict[str, int], ...]:
    """Each set of sizes, once. Raises SpecError for anything else."""
    listed = given if isinstance(given, list) else []
    good = all(
        isinstance(sizes, dict) and all(type(n) is int and 0 < n <= LARGEST_SIZE for n in sizes.values())
        for sizes in listed
    )
    if not good or not listed:
        raise SpecError(f'{path}: "sizes" is a list such as [{{"M": 4096, "N": 1000}}], with ints of 1 to 2^48')
    if twice := next((sizes for at, sizes in enumerate(listed) if sizes in listed[:at]), None):
        raise SpecError(f"{path}: the sizes {twice} are listed twice")
    return tuple(listed)
