"""Malformed text never crashes the plugin of the lego dialect: mlir-opt ends with diagnostics."""

import random

import pytest
from dialect_mutations import BATCH, PASSES, SCRIPT, SEEDS, SPREAD, case, crashes, failing
from lego_plugin import mlir_opt, needs_plugin

EVERYDAY, LONG = 500, 10_000


@needs_plugin
def test_the_seeds_are_valid():
    mlir_opt("\n// -----\n".join(SEEDS), PASSES, "--split-input-file")


@needs_plugin
def test_mutated_texts_end_in_diagnostics():
    for begin in range(0, EVERYDAY, BATCH):
        assert failing(range(begin, begin + BATCH), PASSES) == []
        assert failing(range(begin, begin + BATCH), SCRIPT) == []
        assert failing(range(begin, begin + BATCH), SPREAD) == []


@needs_plugin
@pytest.mark.long
def test_many_mutated_texts_end_in_diagnostics():
    first = random.SystemRandom().randrange(1, 10**6) * LONG
    for begin in range(first, first + LONG, BATCH):
        assert failing(range(begin, begin + BATCH), PASSES) == []
        assert failing(range(begin, begin + BATCH), SCRIPT) == []
        assert failing(range(begin, begin + BATCH), SPREAD) == []


@needs_plugin
def test_a_crash_is_seen(monkeypatch):
    import dialect_mutations

    monkeypatch.setattr(dialect_mutations, "command", lambda *_: ["sh", "-c", "kill -SEGV $$", "sh"])
    assert crashes(["module {}"], PASSES).startswith("exit code -11")


def test_a_case_is_the_same_each_time_and_rarely_its_seed():
    assert case(3) == case(3)
    assert sum(case(number) in SEEDS for number in range(100)) < 20
