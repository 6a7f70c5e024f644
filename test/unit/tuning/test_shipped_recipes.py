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
MADE = [path for path in RECIPES if recipes.read(path).export.is_file()]
STRUCTURED = [path for path in RECIPES if path.stem.startswith("structured-")]
WITHIN = 1.35
"""Of the fastest: a default is one rule for all programs, and the times are of a machine that had other work."""


def test_only_the_table_that_needs_a_gpu_may_be_missing():
    assert {path.stem for path in RECIPES} - {path.stem for path in MADE} <= {"transposes"}
    assert len(STRUCTURED) == 5


@pytest.mark.parametrize("path", MADE, ids=lambda path: path.stem)
def test_a_table_of_choices_is_of_the_recipe_beside_it(path):
    recipe = recipes.read(path)
    table = json.loads(recipe.export.read_text())
    assert table["recipe"] == recipe.digest, f"run lego-mlir tune {path}"
    tunable = spec.load(recipe.spec).tunable_named(recipe.tunable)
    assert table["space"] == tunable.space.digest
    assert [row["sizes"] for row in table["choices"]] == list(recipe.sizes)


def timings(recipe):
    """The recorded timings of each size by their variants."""
    found = {}
    for timing in TimingStore(FOLDER / "structured_timings.jsonl").timings(tunable=recipe.tunable):
        if not timing.failure:
            found.setdefault(timing.sizes["n"], {})[timing.kernel] = timing.median
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
        assert times[digest] <= WITHIN * min(times.values()), (sizes, text, times[digest] / min(times.values()))


def default(tunable, sizes):
    """The variant without tuning, for vectors of 8 doubles."""
    built = tunable.candidates(sizes)[0].built
    return generate.default(lower(built.program), 8)


@pytest.mark.parametrize("sizes", [(1000, 3000), (2056, 6152), (4096, 4096), (8192, 7168)])
def test_the_default_transpose_is_within_5_percent_of_the_best_of_the_recorded_space(sizes):
    recorded = json.loads((FOLDER.parent / "results" / "NVIDIA-H200" / "2026-11-22-tuning_spaces.json").read_text())
    width, order = transpose._width(*sizes, f32), transpose._order(*sizes, f32)
    tile = transpose._tile(*sizes, f32, width)
    default = {
        "variant": "vectorised", "tile": list(tile), "threads": min(transpose.THREADS, tile[0] * tile[1] // width**2),
        "width": width, "order": order,
    }  # fmt: skip
    times = [
        (row["ms"], row["config"]) for row in recorded["rows"]
        if row["kernel"] == "transpose" and tuple(row["sizes"]) == sizes
    ]  # fmt: skip
    (mine,) = [ms for ms, config in times if config == default]
    assert mine <= 1.05 * min(ms for ms, _ in times)
    recipe = recipes.read(FOLDER / "transposes.json")
    tunable = spec.load(recipe.spec).tunable_named(recipe.tunable)
    given = {**default, "tile": tile}
    assert tunable.space.find(" ".join(f"{name}={given[name]}" for name in tunable.space.values))
    assert {"M": sizes[0], "N": sizes[1]} in recipe.sizes
