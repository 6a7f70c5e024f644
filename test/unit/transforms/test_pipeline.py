"""A pipeline prints what MLIR reads, and parses back to the same value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_mlir import bindings
from lego_mlir.errors import UsageError
from lego_mlir.toolchain.lowering import NVVM, OUTLINE
from lego_mlir.transforms.pipeline import Pipeline, PipelinePass

NAMES = st.from_regex(r"[a-z][a-z0-9\-]{0,8}", fullmatch=True)
VALUES = st.one_of(st.booleans(), st.integers(), NAMES, st.just("{a=1 b=2}"), st.just("1,2,3"))
PASSES = st.builds(PipelinePass, NAMES, st.dictionaries(NAMES, VALUES, max_size=3))


def pipelines():
    tuples = lambda items: st.lists(items, max_size=3).map(tuple)  # noqa: E731
    flat = st.builds(Pipeline, NAMES, tuples(PASSES))
    return st.builds(Pipeline, NAMES, tuples(st.one_of(PASSES, flat)))


@given(pipelines())
def test_parse_is_the_inverse_of_str(pipeline):
    assert Pipeline.parse(str(pipeline)) == pipeline


@pytest.mark.parametrize("pipeline", [NVVM, OUTLINE], ids=["nvvm", "outline"])
def test_mlir_reads_what_is_printed(pipeline):
    mlir = bindings.load()
    with mlir.ir.Context():
        printed = str(mlir.passmanager.PassManager.parse(str(pipeline)))
    # MLIR prints every option with its default: ours are among them.
    assert [p.name for p in Pipeline.parse(printed).passes()] == [p.name for p in pipeline.passes()]


def test_blanks_between_items_are_allowed():
    assert Pipeline.parse(" builtin.module( cse , gpu.module( canonicalize ) ) ") == Pipeline(
        "builtin.module", (PipelinePass("cse"), Pipeline("gpu.module", (PipelinePass("canonicalize"),)))
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cse", "must begin with what it runs on"),
        ("builtin.module(cse", "expected , or \\) at column 19"),
        ("builtin.module(cse,)", "expected a name at column 20"),
        ("builtin.module(cse))", "expected the end at column 20"),
        ("builtin.module(cse{x})", "expected = after the option x"),
        ("builtin.module(cse{x=1)", "expected }"),
        ("", "expected a name at column 1"),
    ],
)
def test_a_mistake_is_placed(text, message):
    with pytest.raises(UsageError, match=message):
        Pipeline.parse(text)
