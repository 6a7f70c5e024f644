"""The decoder of `examples/decoder`: its logits against NumPy in f32, its tokens against Philox in Python."""

import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "examples" / "decoder"
STEPS = 18  # over the end of a page
SEED, CHOSEN, TEMPERATURE = 1, 8, 0.8


@pytest.fixture(scope="module")
def modules():
    names = ("decoder_kernels", "decoder_model", "decode")
    sys.path.insert(0, str(FOLDER))
    try:
        yield [__import__(name) for name in names]
    finally:
        sys.path.remove(str(FOLDER))
        for name in names:
            sys.modules.pop(name, None)


def started(modules, weights, **sizes):
    """A decoder of three sequences, and its weights."""
    _, model, decode = modules
    rng = np.random.default_rng(4)
    given = model.made_up(model.Model(**{"vocabulary": 256, "layers": 1, **sizes}), weights, rng)
    first = rng.integers(0, given.model.vocabulary, 3)
    return given, decode.Decoder(given, decode.kernels_of(given.model, weights), first, STEPS + 1, rng)


def philox(*counter, key):
    """The first word of Philox 4x32-10."""
    (a, b, c, d), (one, two) = (*counter, *[0] * (4 - len(counter))), key
    for _ in range(10):
        p, q = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = (q >> 32) ^ b ^ one, q & 0xFFFFFFFF, (p >> 32) ^ d ^ two, p & 0xFFFFFFFF
        one, two = (one + 0x9E3779B9) & 0xFFFFFFFF, (two + 0xBB67AE85) & 0xFFFFFFFF
    return a


def drawn(logits, position, sequence):
    """The token that a step draws; None where another rounding might draw its neighbour."""
    order = np.argsort(-logits, kind="stable")[:CHOSEN]
    powers = np.exp((logits[order].astype(np.float64) - logits[order[0]]) / TEMPERATURE)
    aim = (philox(position, sequence, key=(SEED, 0)) >> 8) * 2.0**-24
    shares = np.cumsum(powers) / powers.sum()
    return None if np.abs(shares - aim).min() < 1e-5 else int(order[np.searchsorted(shares, aim, side="right")])


@pytest.mark.parametrize("weights", ["f16", "f8", "i4"])
def test_tokens_and_logits(modules, weights):
    given, decoder = started(modules, weights)
    known = 0
    for step in range(STEPS):
        decoder.step()
        for b, sequence in enumerate(decoder.written):
            expected = modules[1].reference(given, sequence[: step + 1])[-1]
            np.testing.assert_allclose(decoder.logits[b], expected, atol=0.004 * np.abs(expected).max())
            token = drawn(decoder.logits[b], step, b)
            known += token is not None
            assert token in (None, decoder.tokens[b]), (step, b)
            assert sequence[step + 1] == decoder.tokens[b]
        assert (decoder.positions == step + 1).all()
    assert known > 0.9 * 3 * STEPS


def test_sizes_that_are_no_powers_of_two(modules):
    given, decoder = started(modules, "i4", width=384, heads=6, hidden=640)
    for _ in range(2):
        decoder.step()
    for b, sequence in enumerate(decoder.written):
        expected = modules[1].reference(given, sequence[:2])[-1]
        np.testing.assert_allclose(decoder.logits[b], expected, atol=0.004 * np.abs(expected).max())


def test_no_kernel_races(modules):
    """The interpreter's checks, of every kernel of a step with all their arguments."""
    _, decoder = started(modules, "f8")
    checked, other = started(modules, "f8")[1], []
    for (kernel, arguments), (_, again) in zip(decoder.launches(), checked.launches(), strict=True):
        kernel(*arguments)
        kernel(*again, check=True)
        other.append(kernel.name)
    np.testing.assert_allclose(checked.logits, decoder.logits, rtol=1e-2, atol=1e-2)
    assert len(other) == 14


def test_the_command_prints_what_it_compared(modules, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["decode.py", "--weights", "i4", "--tokens", "2", "--batch", "1"])
    modules[2].main()
    said = capsys.readouterr().out
    assert "sequence 0: " in said and "of the largest" in said and "tokens in" in said


@pytest.mark.parametrize("option", ["--batch", "--tokens"])
def test_no_sequence_or_no_token_is_refused(modules, monkeypatch, capsys, option):
    monkeypatch.setattr(sys, "argv", ["decode.py", option, "0"])
    with pytest.raises(SystemExit):
        modules[2].main()
    assert "have to be at least 1" in capsys.readouterr().err
