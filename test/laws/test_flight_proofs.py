"""Proofs about asynchronous copies agree with runs, on random sequences of copies, commits, waits and reads."""

import random
from collections import Counter

import pytest

import lego_mlir as lego
from lego_mlir import Row, f32, i32
from lego_mlir.errors import LegoError
from lego_mlir.expr.verdict import Proved
from lego_mlir.interp.report import Kind
from lego_mlir.proofs.claims import kernel_claims
from lego_mlir.proofs.confirm import launched

EVERYDAY, LONG = 25, 2000
NAMES = {"lego": lego, "Row": Row, "f32": f32, "i32": i32}
RACE, INITIALISED = "no race for tile between two threads of a block", "every read of tile comes after a write"


def steps(rng, slot, least=2, most=7):
    """Lines of straight code, on the slots that `slot` draws."""
    lines = []
    for _ in range(rng.randint(least, most)):
        what = rng.choices(
            ["copy", "commit", "wait", "barrier", "read", "write", "when", "warp"], [5, 5, 4, 4, 5, 1, 1, 1]
        )[0]
        match what:
            case "copy":
                lines.append(f"lego.copy_async(x, tile.part(({slot()} * 4, 0), (4, 32)), at=(0, 0))")
            case "commit":
                lines.append("lego.commit_copies()")
            case "wait":
                lines.append(f"lego.wait_copies({rng.choice([0, 0, 1, 2])})")
            case "barrier":
                lines.append("lego.barrier()")
            case "warp":
                lines.append("lego.warp_sync()")
            case "read":
                at = rng.choice(["t // 8, t % 8 * 4", "t // 8, (t % 8 * 4 + 4) % 32", "t % 4, t // 4"])
                row, column = at.split(", ")
                lines.append(f"total += tile[{slot()} * 4 + {row}, {column}]")
            case "write":
                lines.append(f"tile[{slot()} * 4 + t // 8, t % 8 * 4] = 1.0")
            case "when":
                lines.append(f"with lego.when({rng.choice(['N > 1', 't < 16', 'k < N - 1'])}):")
                lines += [
                    f"    {line}" for line in steps(rng, slot, 1, 2) if "barrier" not in line and "sync" not in line
                ]
                lines.append("    pass")
    return lines


def pipeline(rng):
    """The text of a kernel: a prologue, a loop on a ring of slots, an epilogue. Often right, often not."""
    ring = rng.choice([1, 2, 3])
    if rng.random() < 0.5:  # a pipeline of `ahead` stages, perhaps with a stage too few or a step left out
        ahead, wait = rng.choice([0, 1, 1, 2]), rng.choice([0, 0, 1])
        copy = f"lego.copy_async(x, tile.part(((k + {ahead}) % {ring} * 4, 0), (4, 32)), at=(0, 0))"
        before = []
        for number in range(ahead):
            before += [copy.replace(f"(k + {ahead})", str(number)), "lego.commit_copies()"]
        read = f"total += tile[k % {ring} * 4 + t % 4, t // 4]"
        ordered = [[copy, "lego.commit_copies()"], [f"lego.wait_copies({wait})", "lego.barrier()"], [read]]
        if rng.random() < 0.5:
            ordered = [ordered[1], ordered[0], ordered[2]]
        inside = [line for part in ordered for line in part]
        if rng.random() < 0.4:
            inside.append("lego.barrier()")
        if rng.random() < 0.3:
            guard = f"with lego.when(k + {ahead + rng.choice([0, 0, 1, -1])} < N):"
            inside = [guard if line == copy else line for line in inside]
            inside = [new for line in inside for new in ([line, f"    {copy}"] if line.startswith("with") else [line])]
        if rng.random() < 0.4:
            inside.pop(rng.randrange(len(inside))) if not any(line.startswith("with") for line in inside) else None
        after = [] if rng.random() < 0.5 else ["lego.wait_copies()", "lego.barrier()", "total += tile[t % 4, t // 4]"]
    else:
        constant = lambda: str(rng.randrange(3))  # noqa: E731
        before, after = ([line.replace("k < N - 1", "N > 2") for line in steps(rng, constant)] for _ in range(2))
        inside = steps(rng, lambda: rng.choice([f"(k % {ring})", f"((k + 1) % {ring})", constant()]))
    lines = [
        'N = lego.size("N")',
        f"@lego.kernel(grid=1, block={rng.choice([32, 32, 32])})",
        "def k(x: lego.Tensor(f32, Row(8, 32)), n: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(32))):",
        "    t, total = lego.thread_id[0], lego.register(f32, 0.0)",
        '    tile = lego.shared(f32, Row(12, 32), name="tile")',
        *(f"    {line}" for line in before),
        "    for k in lego.range(N):",
        *(f"        {line}" for line in inside or ["pass"]),
        *(f"    {line}" for line in after),
        "    y[t] = total",
    ]
    return "\n".join(lines)


def compared(rng):
    """How many claims about the tile are proved, and how many a run shows to be false; a claim is never both."""
    text, names = pipeline(rng), dict(NAMES)
    exec(compile(text, "<pipeline>", "exec"), names)
    kernel = names["k"]
    try:
        verdicts = dict(kernel_claims(kernel, tried=False))
    except LegoError:
        return Counter(refused=1)
    wrong = set()
    for n in (1, 2, 3, 5):
        for fault in launched(kernel, {"N": n}).report.faults:
            if fault.buffer == "tile" and fault.kind in (Kind.RACE, Kind.PENDING):
                wrong.add(RACE)
            elif fault.buffer == "tile" and fault.kind is Kind.UNINITIALISED:
                wrong.add(INITIALISED)
    counts = Counter(kernels=1)
    for start in (RACE, INITIALISED):
        proved = [isinstance(v, Proved) for claim, v in verdicts.items() if claim.startswith(start)]
        what = "race" if start is RACE else "initialised"
        assert not (start in wrong and any(proved)), f"{start}: proved, and refuted by a run:\n{text}"
        counts += Counter({f"{what} proved": sum(proved), f"{what} wrong": int(start in wrong)})
        counts += Counter({f"{what} unknown": int(bool(proved) and not any(proved) and start not in wrong)})
    return counts


def test_no_proof_about_copies_is_refuted_by_a_run():
    counts = sum((compared(random.Random(seed)) for seed in range(EVERYDAY)), Counter())
    assert counts["race proved"] > 3 and counts["race wrong"] > 3, counts


@pytest.mark.long
def test_no_proof_about_many_copies_is_refuted_by_a_run():
    print(sum((compared(random.Random(seed)) for seed in range(EVERYDAY, LONG)), Counter()))
