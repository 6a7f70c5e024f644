"""Cases of the sanitizer's corpus: `@case` registers a function that launches kernels of others.

A case returns pairs (found, wanted) of tensors to be compared, or nothing where only faults count. `python cases.py
MODULE ARCH OUT` runs the cases of a module under the sanitizer and writes OUT/MODULE.json: what each launched, how long
it took, what was reported, refused or wrong. The first launch of each kernel is kept in OUT/MODULE/ for mutants and for
comparison with hardware.
"""

import hashlib
import importlib
import json
import os
import re
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIMIT_S = 100
MOST_BYTES = 4 << 20
"""Larger launches are run, and not kept."""
CASES: dict[str, Callable[[], Any]] = {}


def case(function: Callable[[], Any]) -> Callable[[], Any]:
    """Register a case by the function's name."""
    CASES[function.__name__] = function
    return function


def add(name: str, function: Callable[[], Any]) -> None:
    """Register a case that a table makes."""
    CASES[name] = function


def differs(found: Any, wanted: Any, tolerance: float) -> str:
    """How a result differs, empty where it does not."""
    import torch

    if isinstance(found, (tuple, list)):
        return next((d for f, w in zip(found, wanted, strict=True) if (d := differs(f, w, tolerance))), "")
    if found is None and wanted is None:
        return ""
    f, w = torch.as_tensor(found), torch.as_tensor(wanted)
    if f.shape != w.shape:
        return f"shape {tuple(f.shape)}, not {tuple(w.shape)}"
    if f.is_complex():
        f, w = torch.view_as_real(f), torch.view_as_real(w)
    f, w = f.double(), w.double()
    same = (f == w) | (f.isnan() & w.isnan())
    scale = w[w.isfinite()].abs().max().item() if w.isfinite().any() else 1.0
    error = torch.where(same, 0.0, (f - w).abs()).nan_to_num(float("inf")).max().item() if f.numel() else 0.0
    return "" if error <= tolerance * max(scale, 1.0) else f"off by {error:.3g} of {scale:.3g}"


def run(name: str, function: Callable[[], Any], folder: Path, kept: set[str], tolerance: float) -> dict[str, Any]:
    """One case under the sanitizer."""
    from lego_mlir import sanitize
    from lego_mlir.errors import InterpreterError

    launches: list[tuple[str, str]] = []

    def record(launch: Any) -> None:
        text = re.sub(r"^\s*\.(loc|file)\b.*$", "", launch.text.split("\t.section")[0], flags=re.M)
        digest = hashlib.sha256((launch.entry + text).encode()).hexdigest()[:12]
        launches.append((launch.entry, digest))
        size = sum(len(b.contents) for b in launch.buffers)
        if digest not in kept and size <= MOST_BYTES:
            kept.add(digest)
            launch.save(folder / f"{name}-{len(launches)}-{digest}.npz")

    def late(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    start, said = time.process_time(), "ok"
    with sanitize.session(on_fault="collect", record=record) as session:
        try:
            result = function()
            if result is not None and (how := differs(*result, tolerance)):
                said = f"wrong: {how}"
        except TimeoutError:
            said = f"too long: {LIMIT_S} s"
        except InterpreterError as error:
            said = f"refused: {error}"
        except Exception as error:  # whatever another project raises is the outcome of its case
            last = traceback.extract_tb(error.__traceback__)[-1]
            said = f"error: {type(error).__name__}: {str(error)[-300:]} ({Path(last.filename).name}:{last.lineno})"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    faults = [str(f) for report in session.reports for f in report.faults]
    if faults and said == "ok":
        said = "alarm"
    seconds = round(time.process_time() - start, 2)
    count = max(len(launches), len(session.reports))
    return {"said": said, "kernels": sorted(set(launches)), "launches": count, "seconds": seconds,
            "faults": faults[:20]}  # fmt: skip


def main() -> None:
    """Run a module's cases; words after OUT choose some."""
    module, arch, out = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    words, kept = sys.argv[4:], set[str]()
    warnings.simplefilter("ignore")
    from lego_mlir import sanitize

    folder = out / module
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["FLAGGEMS_DB_URL"] = f"sqlite:///{folder}/tuning.db"
    sanitize.triton(arch, autotune="first", cuda=True)
    import torch

    loaded = importlib.import_module(module)
    path = out / f"{module}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if words and path.exists() else {}
    for name, function in CASES_OF().items():
        if words and not any(word in name for word in words):
            continue
        torch.manual_seed(0)
        found[name] = run(name, function, folder, kept, getattr(loaded, "TOLERANCE", 1e-2))
        print(
            f"{name}: {found[name]['said']} ({found[name]['launches']} launches, {found[name]['seconds']} s)",
            flush=True,
        )
        path.write_text(json.dumps(found, indent=1))


def CASES_OF() -> dict[str, Callable[[], Any]]:
    """The cases of the module that was imported, which knows this file as `cases`."""
    return dict(importlib.import_module("cases").CASES)


if __name__ == "__main__":
    main()
