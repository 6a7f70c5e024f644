"""The cache of a run of the tests: what earlier runs compiled is linked into it, and what this run compiles is kept.

An entry's name is a digest of its input, of the tools' versions and of the code that makes it (`lego_mlir.store`), so
a change of the compiler finds nothing old. Only such entries are kept, and the simulator's machine code, whose folder
is named after a digest too; timings, rendered texts and the inputs of failed stages end with the run.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from lego_mlir.store import OWN, Cache

KEPT = Path(__file__).resolve().parents[1] / "build" / "tests" / "lego-mlir"
MOST = 512 << 20  # bytes


def begin(folder: Path) -> None:
    """Give a run's cache what earlier ones have compiled."""
    _link(KEPT, folder / "lego-mlir")


def end(folder: Path) -> None:
    """Keep what the run has compiled, up to MOST bytes of what was used last."""
    _link(folder / "lego-mlir", KEPT)
    Cache(KEPT).trim(MOST)


def _link(source: Path, target: Path) -> None:
    for path in (*source.glob("??/*"), *source.glob("numba/**/*")):
        linked = target / path.relative_to(source)
        if path.name.startswith(".") or linked.exists() or not path.is_file():
            continue
        for parent in reversed(linked.relative_to(target).parents):
            (target / parent).mkdir(mode=OWN, parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # another run in this checkout has removed it
            try:
                os.link(path, linked)
            except FileExistsError:  # .. or has kept it
                continue
            except OSError:  # another disk, or one without links
                shutil.copy2(path, linked)
