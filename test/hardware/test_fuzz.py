"""The fuzzing of kernels on a GPU: recipes give what the interpreter gives, and the replay sees what goes wrong."""

import sys
import types
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import fuzz  # a program beside this file
import fuzz_kernels
import ml_dtypes

from lego_mlir import interp

COUNT = 12


@pytest.fixture(scope="module")
def drawn():
    return list(fuzz_kernels.draw(COUNT, seed=5))


def recipe_of(drawn):
    recipe, positions = fuzz_kernels.recipe(drawn)
    return recipe, {f"{recipe['name']}/{tensor}": at for tensor, at in positions.items()}


def interpreted(kernel):
    """A launch by the interpreter, on the arrays that a GPU would get."""

    def launch(*arrays, sizes):
        names = [p.name for p in kernel.params]
        words = {p.name: a.view(p.dtype.numpy) for p, a in zip(kernel.params, arrays, strict=True)}
        report = interp.run_kernel(kernel, words, sizes)
        assert report.clean, report.faults
        assert len(names) == len(arrays)

    return launch


@pytest.mark.parametrize("number", range(COUNT))
def test_a_recipe_gives_what_the_interpreter_gives(drawn, number):
    recipe, arrays = recipe_of(drawn[number])
    assert fuzz.replay(recipe, arrays, interpreted(drawn[number].kernel), np) == "", recipe


def test_the_same_seed_draws_the_same_kernels(drawn):
    assert len({d.kind for d in drawn}) > 1
    again = fuzz_kernels.draw(COUNT, seed=5)
    assert [recipe_of(next(again))[0] for _ in range(3)] == [recipe_of(d)[0] for d in drawn[:3]]


def test_what_the_replay_sees(drawn):
    """A kernel that does nothing, one that changes its input, one that leaves its array."""
    recipe, arrays = recipe_of(next(d for d in drawn if d.kind == "tile"))
    first, *_ = (t["name"] for t in recipe["tensors"])
    run = interpreted(next(d for d in drawn if d.kind == "tile").kernel)
    assert "elements wrong; in memory the first is" in fuzz.replay(recipe, arrays, lambda *_, sizes: None, np)

    def destroys(source, target, sizes):
        run(source, target, sizes=sizes)
        source.view(np.uint8)[-1] ^= 1

    assert fuzz.replay(recipe, arrays, destroys, np).startswith(f"{first}: 1 of ")

    def beyond(source, target, sizes):
        run(source, target, sizes=sizes)
        target.base[-fuzz.GUARD] = 0

    assert fuzz.replay(recipe, arrays, beyond, np) == "y: written outside of the array"


@pytest.mark.parametrize("dtype", fuzz.WORDS)
def test_words_are_numbers_and_back(dtype):
    words = fuzz.drawn_words(np.random.default_rng(0), (5000,), dtype)
    back = fuzz.to_words(fuzz.numbers(words, dtype), dtype)
    assert fuzz.same(back, words, dtype).all()
    assert not fuzz.same(back[1:], words[:-1], dtype).all()
    if dtype == "bf16":
        values = np.random.default_rng(1).standard_normal(5000).astype(np.float32)
        assert np.array_equal(fuzz.to_words(values, dtype), values.astype(ml_dtypes.bfloat16).view(np.uint16))


def test_without_a_gpu_a_step_is_skipped_with_a_message(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert fuzz.on_gpu(types.SimpleNamespace(step="all", to=None, count=1)) == 0
    assert capsys.readouterr().out.startswith("skipped: CuPy is needed to run on a GPU")


def test_what_the_sanitizer_says_is_read():
    text = "========= ERROR SUMMARY: 0 errors\n========= RACECHECK SUMMARY: 3 hazards displayed (1 error, 2 warnings)\n"
    assert [int(a or b) for a, b in fuzz.ERRORS.findall(text)] == [0, 3]
