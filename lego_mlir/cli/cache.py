"""`lego-mlir cache`: the size of the cache of compiled stages and its limit; trim it to a size, or clear it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from lego_mlir.cli.json_output import print_json
from lego_mlir.cli.terminal import show
from lego_mlir.store import LIMIT, Cache, bytes_in, default_folder, limit

HELP: Final = "Show the cache of compiled stages, trim it, or clear it."
EXAMPLE: Final = "lego-mlir cache --trim 500MB"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line: which folder, and what to remove."""
    parser.add_argument("--cache-dir", metavar="DIR", help="another cache than the user's")
    removed = parser.add_mutually_exclusive_group()
    removed.add_argument("--trim", metavar="SIZE", help="remove the entries that were unused longest; 500MB, 4GiB")
    removed.add_argument("--clear", action="store_true", help="remove all entries")
    parser.add_argument("--json", action="store_true", help="print the sizes as JSON, in bytes")


def run(args: argparse.Namespace) -> int:
    """Remove what is asked for, and print what is left."""
    cache = Cache(Path(args.cache_dir) if args.cache_dir else default_folder())
    most = 0 if args.clear else None if args.trim is None else bytes_in(args.trim, f"--trim {args.trim}")
    removed, freed = (0, 0) if most is None else cache.trim(most)
    entries, size = cache.size()
    if args.json:
        found = {"folder": str(cache.folder), "entries": entries, "bytes": size, "limit": limit()}
        print_json(args.command, {**found, "removed": removed, "freed": freed})
        return 0
    lines = [f"  {entries} entries, {_shown(size)}; the limit is {_shown(limit())} ({LIMIT})"]
    if most is not None:
        lines.append(f"  {removed} entries removed, {_shown(freed)}")
    show(str(cache.folder), *lines)
    return 0


def _shown(size: int) -> str:
    """Bytes for a reader.

    >>> _shown(999), _shown(1_500_000), _shown(4 << 30)
    ('999 bytes', '1.5 MB', '4294.97 MB')
    """
    return f"{size} bytes" if size < 10**6 else f"{round(size / 10**6, 2):g} MB"
