"""A wait or an arrival of a ring that is left out of a scheduled kernel is reported, by interpreter and emulator."""

from functools import cache

import pytest
from tiled_products import PRODUCTS, after, emulated, interpreted, run

from lego_mlir.errors import InterpreterError
from lego_mlir.tracing.schedules.replay import Replay
from lego_mlir.tracing.schedules.scheduled import Scheduled, words_in
from lego_mlir.tracing.trace.marks import RingPass

COMPOSITIONS = {
    "pipeline": "warpgroups, pipeline(stages=2)",
    "roles": "warpgroups, pipeline(stages=2), roles",
    "persistent": "persistent(blocks=1), warpgroups, pipeline(stages=2), roles",
    "clusters": "warpgroups, pipeline(stages=2), clusters(blocks=2), roles",
}


class Without(Replay):
    """The kernel without its ring word of this number."""

    def __init__(self, number):
        self.number = number

    def run(self):
        self.words = {RingPass: self.pass_over}
        self.seen = 0
        super().run()

    def pass_over(self, statement, mark):
        self.seen += 1
        if self.seen - 1 != self.number:
            self.branch(statement)


@cache
def kernel_of(name):
    sizes = (128, 256, 256) if name in ("persistent", "clusters") else (128, 128, 256)
    kernel, reference = PRODUCTS["plain"](*sizes)
    return after(kernel, COMPOSITIONS[name]), reference


UNNEEDED = {
    **{(name, 4): "the last stage is released for nobody" for name in ("pipeline", "roles", "clusters")},
    ("pipeline", 0): "arrivals at the full ring order the copies of one program after its products' reads",
}
"""Words whose absence no run shows, by composition and number, with the reason."""
WORDS = 5
"""How many words of rings each kernel has."""
CASES = [(name, n) for name in COMPOSITIONS for n in range(WORDS) if (name, n) not in UNNEEDED]


def test_each_kernel_has_both_words_of_both_rings():
    for name in COMPOSITIONS:
        both = {(kind, side) for kind in ("wait", "arrive") for side in ("copies", "products")}
        words = [(m.kind, m.side) for _, m in words_in(kernel_of(name)[0].trace().body, RingPass)]
        assert set(words) == both, name
        assert len(words) == WORDS, name
        assert words[4] == ("arrive", "products")


def left_out(name, number, machine):
    """Whether the run without this word is reported."""
    kernel, reference = kernel_of(name)
    try:
        faults, _ = run(Scheduled(kernel, Without(number), "without"), reference, machine)
    except InterpreterError as error:
        return "deadlock" in str(error) or "wait" in str(error)
    return bool(faults)


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_word_that_is_left_out_is_reported_by_the_interpreter(name, number):
    assert left_out(name, number, interpreted)


@pytest.mark.parametrize(("name", "number"), [case for case in CASES if case[0] == "persistent"])
def test_a_word_that_is_left_out_is_reported_by_the_emulator(name, number):
    assert left_out(name, number, emulated)


@pytest.mark.long
@pytest.mark.parametrize(("name", "number"), [case for case in CASES if case[0] != "persistent"])
def test_a_word_of_the_others_that_is_left_out_is_reported_by_the_emulator(name, number):
    assert left_out(name, number, emulated)
