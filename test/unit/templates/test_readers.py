"""The readers of emitted C and Triton: where the languages agree, so do the readers, and both refuse the same texts."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_mlir.errors import TemplateError
from lego_mlir.templates.readback import read_c, read_triton

TABLES = {"table": (3, 1, 2)}


def read(text, **values):
    """The values of a text by each reader; `//` and the helpers are spelt as each language does."""
    columns = {name: np.asarray(value) for name, value in values.items()}
    c = text.replace("//", "/").replace("_lego", "lego").replace("tl.load(table + i)", "table[i]")
    return read_c.evaluate(c, columns, TABLES).tolist(), read_triton.evaluate(text, columns, TABLES).tolist()


@given(st.integers(-(2**20), 2**20), st.integers(-(2**20), 2**20).filter(bool))
def test_division_truncates(a, b):
    quotient = math.trunc(a / b)
    assert read("i // j", i=[a], j=[b]) == ([quotient], [quotient])
    assert read("i % j", i=[a], j=[b]) == ([a - b * quotient], [a - b * quotient])


@pytest.mark.parametrize(
    ("text", "value"),
    [("_lego_floor_div(i, 4)", -2), ("_lego_floor_mod(i, 4)", 1), ("_lego_isqrt(i * i)", 7), ("(i & 6) ^ 1", 1)],
)
def test_helpers_floor(text, value):
    assert read(text, i=[-7]) == ([value], [value])


def test_triton_computes_literals_as_python_does():
    assert read_triton.evaluate("-7 // 2", {}).tolist() == [-4]
    assert read_c.evaluate("-7 / 2", {}).tolist() == [-3]


def test_an_entry_of_a_table():
    assert read("tl.load(table + i)", i=[0, 2]) == ([3, 2], [3, 2])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("i // (j - j)", "divides by zero"),
        ("i % (j - j)", "divides by zero"),
        ("i + k", "the text uses k, which has no value here; it has: i, j"),
        ("tl.load(table + i)", "reads outside the 3 entries of table"),
    ],
)
def test_both_refuse_a_text(text, message):
    for reader, spelt in (
        (read_c, text.replace("//", "/").replace("tl.load(table + i)", "table[i]")),
        (read_triton, text),
    ):
        with pytest.raises(TemplateError, match=message):
            reader.evaluate(spelt, {"i": np.array([5]), "j": np.array([1])}, TABLES)
