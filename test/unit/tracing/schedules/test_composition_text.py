"""Texts of compositions: what they say, and messages for what they cannot say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiled_products import PRODUCTS

from lego_mlir.errors import ScheduleError
from lego_mlir.tracing.schedules.ahead import Ahead
from lego_mlir.tracing.schedules.block_sums import Warpgroups, Warps
from lego_mlir.tracing.schedules.common_copies import Clusters
from lego_mlir.tracing.schedules.composition import SCHEDULES, apply, parse
from lego_mlir.tracing.schedules.copied_out import CopiedOut
from lego_mlir.tracing.schedules.copying_roles import Roles
from lego_mlir.tracing.schedules.dependent import DependentLaunch
from lego_mlir.tracing.schedules.overlay import Overlay
from lego_mlir.tracing.schedules.persistent import Persistent
from lego_mlir.tracing.schedules.producer_lockstep import Lockstep
from lego_mlir.tracing.schedules.promoted_sums import Exact
from lego_mlir.tracing.schedules.resident import Resident
from lego_mlir.tracing.schedules.ring_pipeline import RingPipeline

DRAWN = st.one_of(
    st.just(Warpgroups()),
    st.just(Warps()),
    st.builds(Exact, st.integers(1, 64)),
    st.just(Ahead()),
    st.builds(RingPipeline, st.integers(2, 24), st.booleans()),
    st.builds(Roles, st.sampled_from([0, 24, 40, 232])),
    st.builds(Clusters, st.integers(2, 8)),
    st.builds(Lockstep, st.integers(1, 2**16), st.booleans()),
    st.builds(Persistent, st.integers(1, 2**31 - 1)),
    st.builds(Overlay, st.booleans()),
    st.builds(CopiedOut, st.integers(2, 8)),
    st.just(DependentLaunch()),
    st.builds(Resident, st.integers(2, 4)),
)


@given(st.lists(DRAWN, min_size=1, max_size=6))
def test_a_text_is_read_back(schedules):
    assert parse(", ".join(map(str, schedules))) == tuple(schedules)


def test_every_schedule_is_drawn():
    every = (Warpgroups(), Warps(), Exact(), RingPipeline(), Ahead(), Roles(), Clusters(), Lockstep(), Persistent(1),
             Overlay(),
             CopiedOut(), DependentLaunch(), Resident())  # fmt: skip
    assert {type(s) for s in every} == set(SCHEDULES.values())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pipeline", RingPipeline()),
        ("pipeline()", RingPipeline()),
        ("pipeline(3)", RingPipeline(3)),
        ("pipeline(3, True)", RingPipeline(3, narrow=True)),
        ("roles()", Roles()),
    ],
)
def test_options_may_be_left_out_or_named(text, expected):
    assert parse(text) == (expected,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pipline(stages=2)", "unknown schedule 'pipline'; did you mean pipeline"),
        ("pipeline(stage=2)", "pipeline has no option stage; did you mean stages"),
        ("warpgroups(True, 4)", r"warpgroups takes 1 options \(transposed\), got warpgroups\(True, 4\)"),
        ("overlay(a=1)", "overlay has no option a; it takes optional"),
        ("pipeline(stages=1)", "stages=1 must be an int from 2 to 24"),
        ("pipeline(stages=True)", "stages=True must be an int"),
        ("pipeline(stages='2')", "an option is an int, True or False, got '2'"),
        ("pipeline(stages=2 + 2)", r"an option is an int, True or False, got 2 \+ 2"),
        ("exact(every=0)", "every=0 must be an int from 1 to 64"),
        ("resident(blocks=1)", "blocks=1 must be an int from 2 to 4"),
        ("clusters(blocks=9)", "blocks=9 must be an int from 2 to 8"),
        ("persistent", "persistent needs its option: write persistent"),
        ("persistent(blocks=0)", "blocks=0 must be an int from 1"),
        ("copied_out(buffers=0)", "buffers=0 must be an int from 1 to 8"),
        ("warpgroups(transposed=1)", "transposed=1 must be True or False"),
        ("roles(copies=30)", "copies=30 must be 0 or a multiple of 8"),
        ("", "is not a composition of schedules"),
        ("warpgroups; roles", "is not a composition of schedules; write 'warpgroups, pipeline"),
        ("warpgroups roles", "is not a composition of schedules"),
        ("a.b(1)", "is not a composition of schedules"),
        ("[roles]", "is not a composition of schedules"),
        ("(" * 900, "is not a composition of schedules"),
        ("roles, " * 200, "at most 1000 characters"),
    ],
)
def test_messages(text, message):
    with pytest.raises(ScheduleError, match=message):
        parse(text)


def test_what_is_no_schedule():
    kernel, _ = PRODUCTS["plain"](128, 128, 128)
    with pytest.raises(
        ScheduleError, match="3 is not a schedule; the schedules are warpgroups, warps, exact, pipeline"
    ):
        apply(kernel, 3)
