"""Tables of choices belong to recipes of this repository, and the shipped defaults to the recorded timings."""

import json
from pathlib import Path

import pytest

from lego_mlir import f32, spec
from lego_mlir.kernels import transpose
from lego_mlir.structured.lower import lower
from lego_mlir.structured.vector import generate
from lego_mlir.tuning import recipes
from lego_mlir.tuning.timings import TimingStore

FOLDER = Path(__file__).parents[3] / "bench" / "recipes"
RECIPES = [path for path in sorted(FOLDER.glob("*.json")) if not path.stem.endswith("-choices")]
STRUCTURED = [path for path in RECIPES if path.stem.startswith("structured-")]
WITHIN = 1.35
"""Of the fastest, quartile for quartile: a default is one rule for all programs, and the processor had other work."""


def test_every_recipe_has_its_table():
    assert [path.name for path in RECIPES if not recipes.read(path).export.is_file()] == []
    assert len(STRUCTURED) == 5
    assert len(RECIPES) == 6


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_table_of_choices_is_of_the_recipe_beside_it(path):
    recipe = recipes.read(path)
    table = json.loads(recipe.export.read_text())
    assert table["recipe"] == recipe.digest, f"run lego-mlir tune {path}"
    tunable = spec.load(recipe.spec).tunable_named(recipe.tunable)
    assert table["space"] == tunable.space.digest
    assert [row["sizes"] for row in table["choices"]] == list(recipe.sizes)


def timings(recipe):
    """The quartiles of the recorded timings of each size by their variants."""
    found = {}
    for timing in TimingStore(FOLDER / "structured_timings.jsonl").timings(tunable=recipe.tunable):
        if not timing.failure:
            found.setdefault(timing.sizes["n"], {})[timing.kernel] = timing.quartiles
    return found


@pytest.mark.parametrize("path", STRUCTURED, ids=lambda path: path.stem)
def test_the_default_of_a_structured_program_is_close_to_the_fastest_that_was_measured(path):
    recipe = recipes.read(path)
    tunable, recorded = spec.load(recipe.spec).tunable_named(recipe.tunable), timings(recipe)
    for sizes in recipe.sizes:
        variant = default(tunable, sizes)
        given = {"width": variant.width, "tile": (variant.rows, variant.vectors), "rolled": variant.rolled}
        text = " ".join(f"{name}={value}" for name, value in given.items())
        digest = tunable.candidate(tunable.space.find(text), sizes).digest
        times = recorded[sizes["n"]]
        lower, upper = times[digest][0], min(upper for _, upper in times.values())
        assert lower <= WITHIN * upper, (sizes, text, lower / upper)


def default(tunable, sizes):
    """The variant without tuning, for vectors of 8 doubles."""
    built = tunable.candidates(sizes)[0].built
    return generate.default(lower(built.program), 8, 32)


TRANSPOSES = recipes.read(FOLDER / "transposes.json")


def transposes(sizes):
    """The recorded times of a size by configuration."""
    timings = TimingStore(FOLDER / "transposes_timings.jsonl").timings(tunable=TRANSPOSES.tunable, sizes=sizes)
    return {timing.configuration.key: timing.median for timing in timings if not timing.failure}


@pytest.mark.parametrize("sizes", TRANSPOSES.sizes, ids=str)
def test_the_default_transpose_is_within_5_percent_of_the_best_that_was_measured(sizes):
    shape = tuple(sizes.values())
    width, order = transpose._width(*shape, f32), transpose._order(*shape, f32)
    tile = transpose._tile(*shape, f32, width)
    threads = min(transpose.THREADS, tile[0] * tile[1] // width**2)
    tunable = spec.load(TRANSPOSES.spec).tunable_named(TRANSPOSES.tunable)
    default = tunable.space.find(f"tile={tile} threads={threads} width={width} order={order}")
    times = transposes(sizes)
    assert times[default.key] <= 1.05 * min(times.values())


def test_the_table_of_transposes_is_of_its_timings():
    table = json.loads(TRANSPOSES.export.read_text())
    for row in table["choices"]:
        times = transposes(row["sizes"])
        assert len(times) == 54
        assert row["us"] == min(times.values())
