"""No claim about a kernel whose indices are data is proved and false, or refuted and true.

The threads of `thread_programs` are the definition. Memory is drawn over its declared range, with constants and
permutations: a claim that is proved holds in every draw, and one that is refuted fails in some draw, or on the input of
the run that refutes it.
"""

import random
import re
from collections import Counter

import pytest
from drawn_thread_programs import drawn
from thread_programs import violations

from lego_mlir.errors import LegoError
from lego_mlir.expr.verdict import Proved, Refuted
from lego_mlir.proofs.claims import bounds_claims, kernel_claims
from lego_mlir.proofs.models import Models
from lego_mlir.runtime import data

EVERYDAY, STORED, LONG = 40, 16, 2000
DRAWS, MORE = 5, 60
SIZES = (1, 7, 32, 40, 100)
CLAIMS = {
    r".*:(\d+): (?:load|store|atomic update) .* stays inside": "inside",
    r".*:(\d+): every .* reaches the": "reached",
    r"no race for (\w+) between two threads": "race",
    r"no race for (\w+) between two blocks": "race across",
    r"every read of (\w+) comes after": "initialised",
    r"every element of (\w+) is written": "written",
    r"no element of (\w+) is written twice": "once",
}


def claims(program, name, tried):
    """The verdicts on each claim, which a line may have several times; None for a kernel that is refused."""
    try:
        kernel = program.kernel(name)
        models = Models(kernel)
        listed = [*bounds_claims(models, 1000), *kernel_claims(kernel, tried=tried, models=models)]
    except LegoError:
        return None
    found = {}
    for text, verdict in listed:
        for pattern, kind in CLAIMS.items():
            of = re.match(pattern, text)
            if of:
                found.setdefault((kind, int(of[1]) if of[1].isdigit() else of[1]), []).append(verdict)
    return kernel, found


def on_input_of(kernel, program, verdict):
    """What the threads do on the input of the run that refutes a claim."""
    sizes = {name: verdict.counter_example[name] for name in ("N",) if name in verdict.counter_example}
    if program.sized and (not sizes or sizes["N"] > 2000):
        return None
    made = data.arguments(kernel, sizes, 0)
    memory = {name: [int(v) for v in made.logical[name].reshape(-1)] for name in program.tensors}
    return violations(program, {**memory, "n": int(made.logical["n"]), "N": sizes.get("N", 0)})


def judged(seed, tried, bare=False):
    """The number of verdicts of each kind; raises for one that the threads contradict."""
    program, rng = drawn(seed, bare), random.Random(seed)
    found = claims(program, f"<program {seed}>", tried)
    if found is None:
        return Counter(refused=1)
    kernel, verdicts = found
    draws = [program.drawn(rng, rng.choice(SIZES)) for _ in range(DRAWS)]
    seen = set().union(*(violations(program, memory) or set() for memory in draws))
    for claim, of in verdicts.items():
        if all(isinstance(verdict, Proved) for verdict in of):
            assert claim not in seen, f"{claim} is proved, and false:\n{program.text()}"
        for verdict in of:
            if isinstance(verdict, Refuted) and claim not in seen:
                assert possible(program, kernel, claim, verdict, rng), f"{verdict}: {claim}:\n{program.text()}"
    counts = Counter(type(verdict).__name__ for of in verdicts.values() for verdict in of)
    stored = sum("stored data" in getattr(verdict, "by", "") for of in verdicts.values() for verdict in of)
    return counts + Counter(kernels=1, violated=len(seen & verdicts.keys()), stored=stored)


def possible(program, kernel, claim, verdict, rng):
    """Whether a claim is false on some memory."""
    try:
        there = on_input_of(kernel, program, verdict)
    except LegoError:
        there = None
    names = {claim, ("stopped", 0), *([("race", claim[1])] if claim[0] == "initialised" else [])}
    if there is None or names & there:
        return True
    return any(names & (violations(program, program.drawn(rng, rng.choice(SIZES))) or set()) for _ in range(MORE))


def test_claims_about_kernels_of_data_are_those_of_their_threads():
    counts = sum((judged(seed, tried=seed % 4 == 0) for seed in range(EVERYDAY)), Counter())
    assert counts["Proved"] > counts["Unknown"] > 0 and counts["Refuted"] > 0 and counts["violated"] > EVERYDAY, counts


def test_ranges_pass_through_registers_and_tiles():
    """What was stored bounds what is read: never proved where a thread is outside, and proved in some programs."""
    counts = sum((judged(seed, tried=seed % 8 == 0, bare=True) for seed in range(STORED)), Counter())
    assert counts["stored"] > STORED / 4 and counts["violated"] > STORED / 2, counts


@pytest.mark.long
def test_claims_about_many_kernels_of_data_are_those_of_their_threads():
    counts = sum((judged(seed, tried=True) for seed in range(EVERYDAY, EVERYDAY + LONG)), Counter())
    print(counts)
    assert counts["kernels"] > 0.9 * LONG, counts
