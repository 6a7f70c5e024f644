"""The list of the package's rooms in CONTRIBUTING.md has each once, in the order of the layers."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "lego_mlir"
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
