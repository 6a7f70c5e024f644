"""Encodings and compositions equal Triton's, basis by basis: 5,200 random encodings, 5,200 random compositions.

`test/triton_linear.py` runs Triton in another process. Where Triton refuses an encoding, ours may be defined; where we
refuse one, Triton has to refuse it too, except for the tensor-copy boxes of rank 3 whose outer dimensions it mixes.
"""

import random

import pytest
import triton_linear
from random_encodings import FAMILIES, shape

from lego_mlir.errors import LayoutError

pytest.importorskip("triton")
CASES = 400
REFUSED = 10


@pytest.mark.parametrize("family", FAMILIES)
def test_encodings_equal_those_of_triton(family):
    draw = random.Random(family)
    cases: list = []
    while len(cases) < CASES:
        ours, theirs = FAMILIES[family](draw)
        size = shape(draw, family, ours)
        bases = bases_of(ours, size)
        if bases is not None or sum(1 for case in cases if case[3] is None) < REFUSED:  # each restarts the process
            cases.append((ours, theirs, size, bases))
    compared = 0
    for (ours, _, size, bases), theirs in zip(cases, triton_linear.of([[c[1], c[2]] for c in cases]), strict=True):
        if theirs is None or bases is None:
            assert theirs is None, f"{ours} of {size} is refused, not by Triton"
            continue
        assert bases == theirs, f"{ours} of {size}"
        compared += 1
    assert compared >= 0.8 * CASES


def bases_of(encoding, size: list[int]) -> dict[str, list[list[int]]] | None:
    """The bases of an encoding, None if it is refused."""
    try:
        return {name: [list(b) for b in images] for name, images in encoding.layout(size).bases.items()}
    except LayoutError:
        return None


def random_layout(draw: random.Random, ins: dict[str, int], outs: dict[str, int]) -> list:
    """Random bases in Triton's notation: [bases, output names, output sizes]."""
    bases = [[n, [[draw.randrange(1 << bits) for bits in outs.values()] for _ in range(k)]] for n, k in ins.items()]
    return [bases, list(outs), [1 << bits for bits in outs.values()]]


def random_dims(draw: random.Random, names: str) -> dict[str, int]:
    """One to three labelled dimensions with their bits."""
    return {n: draw.randint(0, 4) for n in draw.sample(names.split(), draw.randint(1, 3))}


def test_compositions_applications_and_inverses_equal_those_of_triton():
    from lego_mlir.f2.notation import from_bases, to_bases

    draw, requests, checks = random.Random("compositions"), [], []
    for _ in range(5200):
        ins, middle, outs = random_dims(draw, "a b c d"), random_dims(draw, "p q r s"), random_dims(draw, "x y z w")
        inner, outer = random_layout(draw, ins, middle), random_layout(draw, middle, outs)
        point = {n: draw.randrange(1 << k) for n, k in ins.items()}
        requests.append(["compose", inner, outer, point])
        first, second = from_bases(*inner), from_bases(*outer)
        whole = second @ first
        checks.append([[[n, b] for n, b in to_bases(whole)[0]], whole.apply(**point)])
    for request, ours, theirs in zip(requests, checks, triton_linear.of(requests), strict=True):
        assert ours == theirs, request


def test_right_inverses_equal_those_of_triton():
    from lego_mlir.f2.notation import from_bases, to_bases

    draw, requests, checks = random.Random("inverses"), [], []
    while len(requests) < 500:
        ins, outs = random_dims(draw, "a b c d"), random_dims(draw, "x y z")
        described = random_layout(draw, ins, outs)
        layout = from_bases(*described)
        if layout.is_surjective():
            requests.append(["pseudoinvert", described])
            checks.append([[n, b] for n, b in to_bases(layout.right_inverse())[0]])
    for request, ours, theirs in zip(requests, checks, triton_linear.of(requests), strict=True):
        assert ours == theirs, request
