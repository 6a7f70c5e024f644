"""Authors, contact and addresses, from publisher.toml into everything that names them.

    python packaging/publisher.py            write them into the files of FILES
    python packaging/publisher.py --check    write nothing; fail where a file would change

The fields of the wheel (authors, project URLs) are read by the build itself, through `PublisherHook`. In each other
file they stand between two marks, in the comments of that file; without a field the place says so, or is empty.

>>> place("a # publisher\\nold\\n# end of publisher\\nb", "new\\n")
'a # publisher\\nnew\\n# end of publisher\\nb'
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ImportError:  # only a build has it
    MetadataHookInterface = object  # type: ignore[assignment,misc]

ROOT: Final = Path(__file__).resolve().parents[1]
Fields = Mapping[str, Any]
_PLACE: Final = re.compile(r"(?P<head>(?:#|<!--) publisher(?: -->)?\n).*?(?P<tail>(?:#|<!--) end of publisher)", re.S)


def fields(root: Path = ROOT) -> Fields:
    """What publisher.toml says. Raises SystemExit for a field that is unknown, or an address that is none."""
    found = tomllib.loads((root / "packaging" / "publisher.toml").read_text(encoding="utf-8"))
    known = {"authors": list, "contact": str, "repository": str, "documentation": str}
    for name, value in found.items():
        if not isinstance(value, known.get(name, ())):
            raise SystemExit(
                f"publisher.toml: {name} = {value!r}; it has {', '.join(known)}, authors a list, others text"
            )
    for name in ("repository", "documentation"):
        if found[name] and not re.fullmatch(r"https://[^\s\"'<>]+[^/\s\"'<>]", found[name]):
            raise SystemExit(f"publisher.toml: {name} = {found[name]!r} is no address such as https://host/owner/name")
    return found


def urls(given: Fields) -> dict[str, str]:
    """The project's URLs, as they stand in the metadata of the wheel."""
    repository = given["repository"]
    found = {"Documentation": given["documentation"], "Repository": repository}
    if repository:
        found |= {"Issues": f"{repository}/issues", "Changelog": f"{repository}/blob/main/CHANGELOG.md"}
    return {name: url for name, url in found.items() if url}


def citation(given: Fields) -> str:
    """Of CITATION.cff."""
    lines = ["authors:", *(f"  - name: {json.dumps(author)}" for author in given["authors"])]
    lines += [f"repository-code: {given['repository']}"] if given["repository"] else []
    lines += [f"url: {given['documentation']}"] if given["documentation"] else []
    return "\n".join(lines) + "\n"


def site(given: Fields) -> str:
    """Of mkdocs.yml."""
    lines = [f"site_url: {given['documentation']}/"] if given["documentation"] else []
    lines += [f"repo_url: {given['repository']}"] if given["repository"] else []
    return "".join(f"{line}\n" for line in lines)


def recipe(given: Fields) -> str:
    """Of the conda recipe, inside `about`."""
    names = {"repository": "repository", "documentation": "documentation"}
    return "".join(f"  {name}: {given[field]}\n" for name, field in names.items() if given[field])


def security(given: Fields) -> str:
    """Of SECURITY.md."""
    whom = given["contact"] or "the maintainers, whose address is not known yet"
    return f"Report it privately, with a file that reproduces it, to {whom}.\n"


def installation(given: Fields) -> str:
    """Of the first page of Learn."""
    repository = given["repository"]
    if not repository:
        return "In a checkout of the project, which has no public address yet:\n"
    return f"Take a checkout:\n\n```sh\ngit clone {repository} && cd {repository.rpartition('/')[2]}\n```\n\nIn it:\n"


FILES: Final[Mapping[str, Callable[[Fields], str]]] = {
    "CITATION.cff": citation,
    "mkdocs.yml": site,
    "packaging/conda/recipe.yaml": recipe,
    "SECURITY.md": security,
    "docs/learn/1-install.md": installation,
}


def place(text: str, inside: str) -> str:
    """A file with what stands between its two marks replaced. Raises SystemExit where it has none."""
    made, count = _PLACE.subn(lambda found: found["head"] + inside + found["tail"], text)
    if count != 1:
        raise SystemExit("a file of FILES has one place between '# publisher' and '# end of publisher'")
    return made


def stale(root: Path = ROOT, write: bool = False) -> list[str]:
    """The files that differ from publisher.toml; written, if wanted."""
    given, found = fields(root), []
    for name, text in FILES.items():
        path = root / name
        before = path.read_text(encoding="utf-8")
        after = place(before, text(given))
        found += [name] if after != before else []
        if write:
            path.write_text(after, encoding="utf-8")
    return found


class PublisherHook(MetadataHookInterface):
    """Gives hatchling the authors and the URLs."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in the dynamic fields."""
        given = fields(Path(self.root))
        metadata["authors"] = [{"name": author} for author in given["authors"]]
        metadata["urls"] = urls(given)


def main() -> int:
    """Write the files, or check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file would change")
    is_check = parser.parse_args().check
    found = stale(write=not is_check)
    for name in found:
        print(
            f"{name} differs from packaging/publisher.toml"
            + ("; run python packaging/publisher.py" if is_check else "")
        )
    return bool(found) and is_check


if __name__ == "__main__":
    sys.exit(main())
