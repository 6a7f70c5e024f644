"""CONTRIBUTING.md lists the package's rooms in the order of the layers; the head of a large one lists its modules."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "lego_mlir"
MOST_WITHOUT_SECTIONS = 20
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
ROOMS = [
    [room.removesuffix("/").removesuffix(".py") for room in re.findall(r"`([^`]+)`", line.split(" | ")[0])]
    for line in TEXT.split("**Where things live.**")[1].split("Beside the package")[0].splitlines()
    if line.startswith("| `")
]


def test_each_room_of_the_package_is_listed_once():
    tree = {path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"} - {
        "__init__",
        "__pycache__",
    }
    assert sorted(room for row in ROOMS for room in row) == sorted(tree)


def test_the_order_is_that_of_the_layers():
    (contract,) = (
        contract
        for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
        if contract["name"] == "imports go one way, down this list"
    )
    layers = [set(re.findall(r"lego_mlir\.(\w+)", layer)) for layer in contract["layers"]]
    place = {room: number for number, layer in enumerate(layers) for room in layer}
    places = [place[room] for row in ROOMS for room in row if room in place]
    assert places == sorted(places)
    assert len(places) == len(place)


def test_the_folders_beside_the_package_exist():
    beside = TEXT.split("Beside the package: ")[1].split("\n\n")[0]
    named = re.findall(r"`([^`]+/)`", beside)
    assert len(named) > 8
    assert [folder for folder in named if not (ROOT / folder).is_dir()] == []


def folders():
    return [PACKAGE, *(path for path in PACKAGE.rglob("*") if path.is_dir() and list(path.glob("*.py")))]


def modules_of(folder):
    return {path.stem for path in folder.glob("*.py")} - {"__init__", "__main__"}


LARGE = [f for f in folders() if len(modules_of(f)) > MOST_WITHOUT_SECTIONS]


@pytest.mark.parametrize("folder", LARGE, ids=lambda folder: str(folder.relative_to(PACKAGE)))
def test_a_large_folder_has_sections_with_each_module_once(folder):
    head = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    lines = head.partition("Sections:")[2]
    named = [name for name in re.findall(r"`([^`]+)`", lines) if not name.endswith("/")]
    assert sorted(named) == sorted(modules_of(folder))
    assert all((folder / name).is_dir() for name in re.findall(r"`(\w+)/`", lines))
