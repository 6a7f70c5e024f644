"""A pipeline prints what MLIR reads; a text that MLIR does not read is refused with its reason and place."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_mlir import bindings
from lego_mlir.errors import UsageError
from lego_mlir.toolchain.lowering import NVVM, OUTLINE
from lego_mlir.transforms.modules import require_pipeline, session
from lego_mlir.transforms.passes import PASSES, named
from lego_mlir.transforms.passes.base import Pass
from lego_mlir.transforms.pipeline import Pipeline, PipelinePass

NAMED = re.compile(r"(?<![\w-])(?:cse|canonicalize|sccp|gpu\.module|func\.func)(?![\w-])")
LEAVES = st.one_of(
    st.sampled_from(["cse", "canonicalize", "sccp"]).map(PipelinePass),
    st.integers(1, 99).map(lambda n: PipelinePass("canonicalize", {"max-iterations": n, "top-down": n % 2 == 0})),
)


def pipelines():
    items = st.lists(LEAVES, min_size=1, max_size=3).map(tuple)
    inner = st.builds(Pipeline, st.sampled_from(["gpu.module", "func.func"]), items)
    return st.builds(Pipeline, st.just("builtin.module"), st.lists(st.one_of(LEAVES, inner), max_size=3).map(tuple))


def parsed(text):
    with session():
        return str(bindings.load().passmanager.PassManager.parse(text))


@given(pipelines())
def test_mlir_reads_what_is_printed(pipeline):
    printed = parsed(str(pipeline))
    assert parsed(printed) == printed
    require_pipeline(str(pipeline))
    assert NAMED.findall(printed) == NAMED.findall(str(pipeline))


@pytest.mark.parametrize("pipeline", [NVVM, OUTLINE], ids=["nvvm", "outline"])
def test_mlir_reads_our_pipelines(pipeline):
    require_pipeline(str(pipeline))
    assert "index-bitwidth=64" in parsed(str(NVVM))


def test_blanks_between_items_are_allowed():
    require_pipeline(" builtin.module( cse , gpu.module( canonicalize ) ) ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cse", "'cse': expected pass pipeline to be wrapped with the anchor operation type, e.g. 'builtin.module"),
        ("builtin.module(cse", "expected pass pipeline to be wrapped"),
        ("builtin.module(cse,)", "'' does not refer to a registered pass or pass pipeline at column 20"),
        ("builtin.module(cse))", "encountered extra closing '\\)' .* at column 19"),
        ("builtin.module(cse,make-faster)", "'make-faster' does not refer to a registered pass .* at column 20"),
        ("builtin.module(cse{x})", "no such option x; failed to add `cse` with options `x`"),
        ("builtin.module(cse{x=1)", "missing closing '}' while processing pass options at column 19"),
        ("", "expected pass pipeline to be wrapped"),
    ],
)
def test_a_mistake_has_a_reason_and_a_place(text, message):
    with pytest.raises(UsageError, match=message):
        require_pipeline(text)


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_has_the_name_that_it_is_listed_under(name):
    found = named(name)
    assert issubclass(found, Pass)
    assert found.name == name
    assert hash(found.from_parameters({"stages": 3})) == hash(found.from_parameters({"stages": 3}))


def test_every_pass_is_listed():
    for name in PASSES:
        named(name)
    concrete, rest = set(), [Pass]
    while rest:
        kind = rest.pop()
        rest += kind.__subclasses__()
        if kind.__module__.startswith("lego_mlir") and not kind.__abstractmethods__:
            concrete.add(kind.name)
    assert concrete == {*PASSES, "lego-pack-conversions"}  # a lowering that knows its target
