"""Mutants of the corpus's synchronisation: one barrier, fence or wait is removed at a time.

    python test/sanitizer_mutants.py FOLDER OUT [--seeds 5] [--most 40] [--jobs N]     most: mutants of one launch

FOLDER has the launches that `corpus/cases.py` kept. Each is first run as it is, under every seed; a kernel whose values
depend on the seed has no value to be compared with. Then each mutant: is it reported, does it change a value? The rows
go to OUT (JSON). Needs NumPy and ml_dtypes, no GPU, compiler or Triton.
"""

import argparse
import hashlib
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the package, which need not be installed here

from lego_mlir.errors import InterpreterError
from lego_mlir.interp.ptx.ptx_launch import EmulatorOptions
from lego_mlir.interp.ptx.recorded_launches import RecordedLaunch
from lego_mlir.interp.ptx.replays import replayed

REMOVED = re.compile(
    r"^\s*(?:@!?%p\d+\s+)?(?:bar\.(?!warp)|barrier\.|membar|fence|cp\.async\.wait_|cp\.async\.bulk\.wait_|wgmma\.fence|"
    r"wgmma\.wait_group|griddepcontrol\.wait)"
)
WAITED = re.compile(r"^\s*(?:@!?%p\d+\s+)?mbarrier\.(?:try_wait|test_wait)\S*\s+(\S+),")
MEMORY = re.compile(r"^\s*(?:@!?\S+\s+)?(?:ld|st|atom|red|ldmatrix|stmatrix|cp|wgmma|tcgen05)\.")
FREELY, BUDGET = 20_000_000, 200_000
"""Instructions of gangs: a mutant that waits for ever is stopped, and reported by that."""
LIMIT_S, LATE = 40, "no end within the limit"
"""Seconds of a run; a mutant that takes longer is not counted."""


def sites(launch: RecordedLaunch) -> list[int]:
    """The lines of the entry that synchronise."""
    lines = launch.text.splitlines()
    start = next(i for i, line in enumerate(lines) if re.search(rf"\.entry\s+{re.escape(launch.entry)}\b", line))
    end = next((i for i in range(start + 1, len(lines)) if ".entry " in lines[i]), len(lines))
    return [i for i in range(start, end) if REMOVED.match(lines[i]) or WAITED.match(lines[i])]


def mutant(text: str, at: int) -> str:
    """The text without a line; a wait's answer is yes."""
    lines = text.splitlines()
    waited = WAITED.match(lines[at])
    lines[at] = f"setp.eq.u32 {waited[1]}, 0, 0;" if waited else ""
    return "\n".join(lines)


def outcome(launch: RecordedLaunch, text: str, seed: int, budget: int) -> tuple[list[str], str]:
    """The kinds of the faults, and a digest of all buffers after the run."""
    options = EmulatorOptions(seed, budget, replace(launch.checks, compiled=False), cores=1)
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(LIMIT_S)
    try:
        report, arrays = replayed(launch, text=text, options=options)
    except InterpreterError as error:
        return [f"refused: {error}"], ""
    except TimeoutError:
        return [LATE], ""
    finally:
        signal.alarm(0)
    digest = hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()
    return sorted({f.kind.value for f in report.faults}), digest


def _late(*_: object) -> None:
    raise TimeoutError


def base(path: Path, seeds: int) -> dict[str, Any]:
    """The launch as it is: its faults, and its values if no seed changes them."""
    launch, start = RecordedLaunch.load(path), time.process_time()
    if not sites(launch):
        seeds = 1
    runs = [outcome(launch, launch.text, seed, FREELY) for seed in range(seeds)]
    values = {digest for _, digest in runs}
    return {
        "launch": str(path), "entry": launch.entry, "faults": sorted({f for faults, _ in runs for f in faults}),
        "value": values.pop() if len(values) == 1 else None, "sites": sites(launch),
        "seconds": round((time.process_time() - start) / seeds, 3),
    }  # fmt: skip


def tried(path: Path, at: int, value: str | None, seeds: int) -> dict[str, Any]:
    """A mutant under every seed."""
    launch = RecordedLaunch.load(path)
    text = mutant(launch.text, at)
    reported: set[str] = set()
    reports = changes = 0
    for seed in range(seeds):
        faults, digest = outcome(launch, text, seed, BUDGET)
        reported |= set(faults)
        reports += bool(faults)
        changes += value is not None and digest != value
    line = launch.text.splitlines()[at].strip()
    row = {"launch": path.name, "entry": launch.entry, "line": at + 1, "text": line, "kinds": sorted(reported),
           "reports": reports, "changes": changes if value is not None else None}  # fmt: skip
    return row | ({} if reports else {"reason": reason(launch, at)})


def reason(launch: RecordedLaunch, at: int) -> str:
    """Why a removal may change nothing, by the text."""
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    lines = launch.text.splitlines()
    if threads <= 32 and "bar" in lines[at][:12]:
        return "one warp"
    if threads <= 32:
        return "one warp: what it separates is in the order of the instructions"
    for step, name in ((1, "next"), (-1, "previous")):
        i = at + step
        while 0 < i < len(lines) and not MEMORY.match(lines[i]) and ".entry" not in lines[i]:
            if REMOVED.match(lines[i]):
                return f"no access of memory between it and the {name} one"
            i += step
        if not 0 < i < len(lines) or ".entry" in lines[i]:
            return f"no access of memory {'after' if step > 0 else 'before'} it"
    return "what it separates is ordered otherwise, or of one warp"


def swept(folder: Path, out: Path, seeds: int, most: int, jobs: int) -> dict[str, Any]:
    """All mutants, at most `most` of one launch (spread over it)."""
    paths = sorted(folder.rglob("*.npz"))
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(jobs) as pool:
        bases = []
        for future in as_completed([pool.submit(base, path, seeds) for path in paths]):
            bases.append(future.result())
            if len(bases) % 40 == 0:
                print(f"{len(bases)} of {len(paths)} launches", flush=True)
        print(f"{len(bases)} launches, {sum(bool(b['sites']) for b in bases)} of them synchronise", flush=True)
        waiting = [
            pool.submit(tried, Path(b["launch"]), at, b["value"], seeds)
            for b in sorted(bases, key=lambda b: b["seconds"])
            if not b["faults"]
            for at in spread(b["sites"], most)
        ]
        for done, future in enumerate(as_completed(waiting), 1):
            rows.append(future.result())
            if done % 20 == 0:
                print(f"{done} of {len(waiting)} mutants", flush=True)
                out.write_text(json.dumps({"seeds": seeds, "launches": bases, "mutants": rows}, indent=1))
    found = {"seeds": seeds, "launches": bases, "mutants": rows}
    out.write_text(json.dumps(found, indent=1))
    return found


def spread(sites_: list[int], most: int) -> list[int]:
    """At most so many, evenly."""
    if len(sites_) <= most:
        return sites_
    return [sites_[i * len(sites_) // most] for i in range(most)]


def summary(found: dict[str, Any]) -> Iterator[str]:
    """Lines for a person."""
    late = sum(LATE in m["kinds"] for m in found["mutants"])
    mutants = [m for m in found["mutants"] if LATE not in m["kinds"]]
    changed = [m for m in mutants if m["changes"]]
    missed = [m for m in changed if m["reports"] == 0]
    yield f"{len(mutants)} mutants of {len({m['launch'] for m in mutants})} launches, {found['seeds']} seeds"
    reported = sum(m["reports"] > 0 for m in mutants)
    yield f"reported: {reported}; change a value: {len(changed)}; of these missed: {len(missed)}"
    yield f"not ended in time, and not counted: {late}"
    yield from (f"  missed: {m['launch']}:{m['line']} {m['text']}" for m in missed)
    faults = [b for b in found["launches"] if b["faults"]]
    yield f"launches with a fault as they are: {len(faults)}"
    yield from (f"  {Path(b['launch']).name}: {', '.join(b['faults'])}" for b in faults)
    reasons: dict[str, int] = {}
    for m in mutants:
        if not m["reports"] and not m["changes"]:
            reasons[m["reason"]] = reasons.get(m["reason"], 0) + 1
    yield from (f"  not reported, no value changed: {n}, {why}" for why, n in sorted(reasons.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--most", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    for line in summary(swept(given.folder, given.out, given.seeds, given.most, given.jobs)):
        print(line)


if __name__ == "__main__":
    main()
