"""The version of this checkout, which hatchling asks for: that of the newest tag `vX.Y.Z`, or of an unpacked sdist.

PKG-INFO in the folder above       an sdist: the version that it was built with
a tag vX.Y.Z on the commit         X.Y.Z
n commits after that tag           X.Y.(Z + 1).dev n
no tag                             FIRST
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

FIRST: Final = "0.1.0"
ROOT: Final = Path(__file__).resolve().parents[1]
_DESCRIBED: Final = re.compile(r"v(\d+)\.(\d+)\.(\d+)-(\d+)-g[0-9a-f]+\s*")


def version(root: Path = ROOT) -> str:
    """The version of the checkout or sdist in a folder."""
    stated = root / "PKG-INFO"
    if stated.is_file():
        for line in stated.read_text(encoding="utf-8").splitlines():
            if line.startswith("Version: "):
                return line.removeprefix("Version: ").strip()
    command = ("git", "describe", "--tags", "--long", "--match", "v[0-9]*")
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    except OSError:  # no git
        return FIRST
    return of_description(done.stdout)


def of_description(text: str) -> str:
    """The version that `git describe --long` says.

    >>> of_description("v0.2.0-0-g1c5a8e0"), of_description("v0.2.0-7-g1c5a8e0"), of_description("")
    ('0.2.0', '0.2.1.dev7', '0.1.0')
    """
    found = _DESCRIBED.fullmatch(text)
    if found is None:
        return FIRST
    major, minor, patch, commits = map(int, found.groups())
    return f"{major}.{minor}.{patch + 1}.dev{commits}" if commits else f"{major}.{minor}.{patch}"


if __name__ == "__main__":
    print(version())
