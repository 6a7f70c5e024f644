"""No claim that is proved for all sizes is refuted by a run at some size, on random kernels and on mutants of them.

A run at random sizes gives the truth: races by buffer, barriers not reached, reads before a write, elements not written
and written twice. Each claim that is proved must agree; each that is refuted carries the report of such a run.
"""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from racing_kernels import SIZES, drawn, mutants
from random_kernels import cases

from lego_mlir.errors import LegoError
from lego_mlir.expr.verdict import Proved, Refuted
from lego_mlir.interp.report import Kind
from lego_mlir.proofs.claims import kernel_claims
from lego_mlir.proofs.confirm import launched
from lego_mlir.runtime.data import elements_of

EVERYDAY, LONG = 12, 2000
MUTATED = 2  # of each kernel


def faults(kernel, sizes):
    """The claims, as `check` words them, that a run at these sizes shows to be false."""
    launch = launched(kernel, sizes)
    if launch is None or Kind.OUT_OF_BOUNDS in launch.report.kinds():
        return set()  # of its own claims
    found = set()
    for fault in launch.report.faults:
        if fault.kind in (Kind.RACE, Kind.PENDING):
            across = " of block " in fault.message or " of other blocks" in fault.message
            who = "two blocks" if across else "two threads of a block"
            found.add(f"no race for {fault.buffer} between {who}")
        elif fault.kind is Kind.UNINITIALISED:
            found.add(f"every read of {fault.buffer} comes after a write of that element")
        elif fault.kind in (Kind.BARRIER, Kind.SHUFFLE):
            found.add(f"{fault.place.file}:{fault.place.line}: every ")
    for number, tensor in enumerate(kernel.params):
        written = launch.report.written(number) if tensor.written else None
        if written is None or not launch.whole:
            continue
        sites = (s for s in launch.report.sites if s.buffer == tensor.name and s.kind != "read")
        count = sum(site.lane_bytes for site in sites) // tensor.dtype.bytes
        if not written[elements_of(tensor.layout, launch.sizes).at].all():
            found.add(f"every element of {tensor.name} is written")
        if count > np.count_nonzero(written):
            found.add(f"no element of {tensor.name} is written twice")
    return found


def examined(case, rng, tried):
    """The verdicts on a kernel, and the claims that runs show to be false; None for a kernel that is refused."""
    try:
        kernel = case.kernel()
        verdicts = dict(kernel_claims(kernel, tried=tried))
    except (LegoError, SyntaxError):
        return None
    wrong = set().union(*(faults(kernel, {"M": rng.choice(SIZES[:4]), "N": rng.choice(SIZES)}) for _ in range(2)))
    wrong = {w for w in wrong if any(w in text for text in verdicts)}
    proved = {text for text, verdict in verdicts.items() if isinstance(verdict, Proved)}
    false = {w for w in wrong for text in proved if w in text}
    assert not false, f"{false} proved, and refuted by a run:\n{case.text()}"
    return verdicts, wrong


@settings(max_examples=10, suppress_health_check=list(HealthCheck), phases=(Phase.generate,))
@given(cases("drawn"))
def test_no_proved_claim_of_a_kernel_of_the_language_is_refuted_by_a_run(case):
    kernel = case.kernel()
    verdicts = dict(kernel_claims(kernel, tried=False))
    wrong = faults(kernel, case.sizes)
    false = {w for w in wrong for text, verdict in verdicts.items() if w in text and isinstance(verdict, Proved)}
    assert not false, f"{false} proved, and refuted by a run:\n{case.text()}"


def run(seeds, of_each, tried=True):
    counts = Counter()
    for seed in seeds:
        rng = random.Random(seed)
        case = drawn(rng)
        changed = mutants(case, rng)
        rng.shuffle(changed)
        for mutated, one in ((False, case), *((True, m) for m in changed[:of_each])):
            found = examined(one, rng, tried)
            if found is None:
                continue
            verdicts, wrong = found
            counts["mutants" if mutated else "kernels"] += 1
            counts.update(type(verdict).__name__ for verdict in verdicts.values())
            if wrong and mutated:
                counts["wrong"] += 1
                counts["noticed"] += not all(isinstance(v, Proved) for v in verdicts.values())
                counts["refuted"] += any(isinstance(v, Refuted) for v in verdicts.values())
    return counts


def test_no_proved_claim_is_refuted_by_a_run():
    counts = run(range(EVERYDAY), 1)
    assert counts["Proved"] > counts["Unknown"] + counts["Refuted"] > 0, counts
    assert counts["noticed"] >= 0.99 * counts["wrong"] > 0, counts


@pytest.mark.long
def test_no_proved_claim_of_many_kernels_is_refuted_by_a_run():
    counts = run(range(EVERYDAY, LONG), MUTATED, tried=False)
    print(counts)
    assert counts["noticed"] >= 0.99 * counts["wrong"] > 0, counts
