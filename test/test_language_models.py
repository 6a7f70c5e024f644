"""The kernels of `examples/language_models`: right in the interpreter and by their PTX at odd sizes, without a race."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_mlir import f32
from lego_mlir.cli.main import main

FOLDER = Path(__file__).parents[1] / "examples" / "language_models"
SIZES = {
    "cross_entropy": [{"M": 1}, {"M": 3}],
    "norms": [{"M": 2}],
    "norm_gradients": [{"M": 1, "G": 1, "C": 300}, {"M": 21, "G": 2, "C": 1}],
    "routing": [{"M": 1, "N": 1}, {"M": 6, "N": 5000}, {"M": 1, "N": 34_000}],
    "sampling": [{"B": 1}, {"B": 4}],
    "rope": [{"S": 1, "P": 1}, {"S": 3, "P": 50}],
    "softmax": [{"M": 1}, {"M": 2}],
    "swiglu": [{"M": 1}, {"M": 3}],
}
CASES = [(name, sizes) for name, several in SIZES.items() for sizes in several]


@pytest.fixture(scope="module")
def modules():
    """The files of the folder, as modules by their names."""
    names = (*SIZES, "row_parts")
    sys.path.insert(0, str(FOLDER))
    try:
        yield SimpleNamespace(**{name: __import__(name) for name in names})
    finally:
        sys.path.remove(str(FOLDER))
        for name in names:
            sys.modules.pop(name, None)


def test_every_example_has_sizes():
    assert {path.stem for path in FOLDER.glob("*.py")} == {*SIZES, "row_parts", "torch_operators"}


@pytest.mark.parametrize(("name", "sizes"), CASES, ids=str)
@pytest.mark.parametrize("on", ["interp", "ptx"])
def test_it_agrees_with_its_reference(name, sizes, on, capsys):
    words = [word for size, n in sizes.items() for word in ("--size", f"{size}={n}")]
    target = ["--target", "sm_90"] if on == "ptx" else []
    assert main(["run", str(FOLDER / f"{name}.py"), "--on", on, *target, *words]) == 0, capsys.readouterr().out


@given(columns=st.integers(1, 1 << 18), each=st.sampled_from([16, 32]), even=st.booleans())
def test_parts_cover_a_row_and_no_block_is_without_columns(modules, columns, each, even):
    row_parts = modules.row_parts
    found = row_parts.parts_of(columns, each, even)
    assert not even or found.part & (found.part - 1) == 0
    assert (found.blocks - 1) * found.part < columns <= found.blocks * found.part
    assert found.part % (row_parts.WIDTH * found.threads) == 0 and found.part <= 32 * found.threads
    assert found.blocks <= row_parts.BLOCKS and found.threads <= row_parts.THREADS


@pytest.mark.parametrize("columns", [1, 33_000])
def test_softmax_of_equal_numbers_is_uniform(modules, columns):
    """Also of the lowest number, by which masks are often filled in."""
    x = np.repeat(np.float32([[np.finfo(np.float32).min], [0], [np.finfo(np.float32).max]]), columns, axis=1)
    np.testing.assert_allclose(modules.softmax.softmax[f32, columns](x, check=True), 1 / columns, rtol=1e-5)


def test_a_row_that_no_cluster_holds_is_refused(modules):
    with pytest.raises(ValueError, match="a row of 262145 columns is longer than 262144, which a cluster holds"):
        modules.row_parts.parts_of((1 << 18) + 1)


def test_each_kernel_of_a_cluster_has_one(modules):
    names = [(module, name) for module in vars(modules).values() for name in vars(module) if name.endswith("_cluster")]
    assert names and all("nvvm.cluster.arrive" in getattr(module, name).mlir() for module, name in names)


def test_heads_that_rope_cannot_turn_are_refused(modules):
    with pytest.raises(ValueError, match="rope takes heads of a power of two elements, got 96"):
        modules.rope.rope[f32, 8, 96, True]


def test_more_experts_than_threads_are_refused(modules):
    with pytest.raises(ValueError, match="permutation has a thread for each expert: at most 256, got 257"):
        modules.routing.permutation(257, 16)


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"), [(1.0, 50, 1.0), (1.0, 8, 1.0), (0.7, 50, 0.8), (1.3, 20, 0.9)]
)
def test_tokens_have_the_law_of_their_set(modules, temperature, top_k, top_p):
    """Chi-square of 1500 draws: none is outside of the set, and the shares are those of its tokens."""
    draws, tokens = 1500, 50
    logits = (np.random.default_rng(0).standard_normal(tokens) * 1.5).astype(np.float32)
    kinds = ((temperature, np.float32), (top_k, np.int32), (top_p, np.float32))
    kernel = modules.sampling.sampling[f32, tokens]
    found = kernel(np.tile(logits, (draws, 1)), *(np.full(draws, n, kind) for n, kind in kinds), 7, 0, check=True)
    share = np.exp((logits - logits.max()).astype(np.float64) / temperature)
    order = np.argsort(-share)
    before = np.cumsum(share[order]) - share[order]
    kept = order[(np.arange(tokens) < top_k) & (before < top_p * share.sum())]
    counts, expected = np.bincount(found, minlength=tokens), draws * share[kept] / share[kept].sum()
    assert counts[kept].sum() == draws
    freedom = len(kept) - 1
    assert ((counts[kept] - expected) ** 2 / expected).sum() < freedom + 4 * np.sqrt(2 * freedom)


def test_tokens_as_probable_as_each_other_are_in_the_set_together(modules):
    logits = np.zeros((200, 50), np.float32)
    logits[:, :3] = 5.0
    given = [np.full(200, n, kind) for n, kind in ((1.0, np.float32), (2, np.int32), (1.0, np.float32))]
    found = modules.sampling.sampling[f32, 50](logits, *given, 1, 1, check=True)
    assert set(found) == {0, 1, 2}


@pytest.mark.parametrize(("name", "logits"), [("not a number", np.nan), ("no token", -np.inf)])
def test_rows_without_a_most_probable_token_end(modules, name, logits):
    given = [np.full(1, n, kind) for n, kind in ((1.0, np.float32), (50, np.int32), (1.0, np.float32))]
    assert modules.sampling.sampling[f32, 50](np.full((1, 50), logits, np.float32), *given, 1, 1, check=True)[0] == 0
