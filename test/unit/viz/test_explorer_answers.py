"""Answers of the explorer: equal to what the package computes, and messages for text from elsewhere."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from lego_mlir import gallery
from lego_mlir.analysis import layouts as counts
from lego_mlir.analysis import patterns
from lego_mlir.expr.explain import lines_of
from lego_mlir.viz.explorer.answers import LONGEST, answer
from lego_mlir.viz.explorer.page import page
from lego_mlir.viz.explorer.worker import SECONDS, Worker

from strategies import readable_layouts


def asked(layout, access="", **more):
    return answer({"layout": layout, "access": access, **more})


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(readable_layouts())
def test_positions_and_expression_are_the_layouts(drawn):
    text, layout = drawn
    found = asked(text)
    dims = layout.dims()
    index = np.indices(dims).reshape(len(dims), -1)
    assert np.ravel(found["positions"]).tolist() == [int(layout.apply(*map(int, i))) for i in index.T]
    derived, index = layout.derive(), asked(text, part="index")
    assert (index["text"], index["operations"]) == ("\n".join(lines_of(derived.expr)), derived.after)


@pytest.mark.parametrize("access", ["0, lane", "lane, 0", "lane // 4, 8 * (lane % 4)", "lane % 16, lane // 16"])
@pytest.mark.parametrize(("dtype", "width"), [("f32", 1), ("f16", 2), ("f16", 8), ("f64", 1)])
def test_counts_are_those_of_analyze(access, dtype, width):
    if width == 8 and access == "lane % 16, lane // 16":
        access = "lane, 8"
    layout, size = gallery.xor_swizzle(32, 64, vec=8), {"f32": 4, "f16": 2, "f64": 8}[dtype]
    found = asked(repr(layout), access, dtype=dtype, width=width)["access"]
    pattern = patterns.parse(access)
    shared, through = counts.shared(layout, pattern, size, width), counts.through_cache(layout, pattern, size, width)
    assert (found["wavefronts"], found["ideal"], found["ways"]) == (shared.wavefronts, shared.ideal, shared.ways)
    assert (found["sectors"], found["idealSectors"]) == (through.sectors, through.ideal)
    assert max(lane["wavefront"] for lane in found["lanes"]) + 1 == shared.wavefronts


def test_a_repair_can_be_asked_for_again_and_has_no_conflict():
    found = asked("Row(32, 32)", "lane, 0")["access"]["repair"]
    again = asked(found["layout"], "lane, 0")["access"]
    assert again["wavefronts"] == again["ideal"] == found["wavefronts"] and again["repair"] is None


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"layout": "Row(4, 4"}, "layout text, column 9"),
        ({"layout": "__import__('os').system('true')"}, "layout text, column 1"),
        ({"layout": "Row(4, 4)" + " " * LONGEST}, f"layout must be text of at most {LONGEST} characters"),
        ({"layout": 3}, "layout must be text"),
        ({"layout": "Row(2, 2)", "width": True}, "width must be a number of elements"),
        ({"layout": "Row(2, 2)", "width": 99}, "1 to 16"),
        ({"layout": "Row(2, 2)", "dtype": "f33"}, "did you mean f32"),
        ({"layout": "Row(2, 2)", "dtype": ["f32"]}, "dtype ['f32'] is unknown"),
        ({"layout": "Row(2, 2)", "dtype": {}}, "dtype {} is unknown"),
        ({"layout": "Row(2, 2)", "acess": ""}, "unknown key 'acess'; did you mean access"),
        ({"layout": "Row(2, 2)", "part": "all"}, "part is 'drawing' or 'index'"),
        ({"layout": "Row(99999, 99999)"}, "too large to explore"),
        ({"layout": "#lego.layout<[M]: Row(M, 4)>"}, "symbolic sizes"),
        ({"layout": "gallery.table([2, 2], [0, 0, 1, 2])"}, "table"),
    ],
)
def test_messages(question, message):
    assert message in answer(question)["error"]


@pytest.mark.parametrize("access", ["lane", "lane, 99", "lane, 0, 0", "lane.x, 0", "__import__('os'), 0", "1 // 0, 0"])
def test_an_access_with_a_fault_leaves_the_drawing(access):
    found = asked("Row(32, 32)", access)
    assert found["access"]["error"] and found["positions"][1][0] == 32


@pytest.mark.parametrize("text", ["Row(4096, 4096)", "gallery.hilbert(1024)"])
def test_large_layouts_are_sampled(text):
    found = asked(text)
    assert len(found["positions"]) == 64 and len(json.dumps(found)) < 100_000


def test_an_index_with_many_shared_parts_is_written_with_names():
    found = asked("gallery.hilbert(1024)", part="index")
    *names, result = found["text"].splitlines()
    assert all(line.startswith(f"s{number} = ") for number, line in enumerate(names)) and len(names) > 10
    assert "=" not in result and len(found["text"]) < 3000


def test_an_answer_that_takes_too_long_is_given_up_and_the_next_one_answered():
    worker = Worker()
    try:
        assert worker.ask({"layout": "Row(2, 2)"})["positions"] == [[0, 1], [2, 3]]
        slow = {"layout": "OrderBy(gallery.hilbert(256))." * 8 + "GroupBy([256, 256])"}
        assert worker.ask(slow)["dims"] == [256, 256]
        worker.seconds = 0.02  # a hundredth of what the quickest machine here takes for this index
        assert "no answer within 0.02 seconds" in worker.ask({**slow, "part": "index"})["error"]
        worker.seconds = SECONDS
        assert worker.ask({"layout": "Row(2, 2)"})["positions"] == [[0, 1], [2, 3]]
    finally:
        worker.close()


def test_a_page_is_one_file_without_addresses():
    text = page("a <b>", {"A": "Row(2, 2)", "B": "</script>"}, "lane, 0")
    assert "{{" not in text and len(text.encode()) < 300_000
    assert "<title>a &lt;b&gt;</title>" in text and text.count("</script>") == 2
    assert "http://www.w3.org/2000/svg" in text
    assert "https:" not in text and text.count("http:") == text.count("http://www.w3.org/2000/svg")
