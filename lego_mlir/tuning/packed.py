"""Candidates that were compiled elsewhere, in a folder: measured where a GPU is and no compiler.

    candidates.json       the tunable, its space, the toolchain; each size with its candidates, best predicted first
    code/<digest>.ptx     the code of a candidate, once for all sizes that share it; its manifest beside it; the code
                          of a CUDA template is a cubin, that of a Triton template its text (.triton)
    checks/<digest>.npz   input and expected output of a check, or
    checks/<digest>.json  what they are computed from there: the reference as code, the input as a seed

`write` compiles what pruning leaves and adds a size to the folder, or replaces it; `read` needs neither the compiler
nor the spec. A candidate that could not be compiled is listed with the reason, and is a failure where it is measured.

A kernel with symbolic sizes is compiled once, and checked with data of a small size. The check of the sizes that are
timed is computed where they are (`computed_checks`), because its data may be as large as memory. A kernel whose
reference cannot travel as code is checked at the small size alone; one for exactly one size has the data of that size.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import Json
from lego_mlir.errors import LegoError, SpecError, UsageError
from lego_mlir.runtime.driver import driver
from lego_mlir.runtime.manifest import LARGEST_SIZE
from lego_mlir.store import from_json, key, make_folder, replace_file
from lego_mlir.tuning import computed_checks
from lego_mlir.tuning.candidates import Candidate, Configuration, PredictedTime
from lego_mlir.tuning.device_launch import identity
from lego_mlir.tuning.gpu_trials import TRITON, GpuBuild, GpuTrial
from lego_mlir.tuning.isolated import LIVE, IsolatedBench
from lego_mlir.tuning.work_units import SizedProblem

if TYPE_CHECKING:
    from lego_mlir.tuning.template_trials import TemplateBuild
    from lego_mlir.tuning.tunable import Tunable
    from lego_mlir.tuning.workbench import Workbench

FORMAT: Final = 2
READ: Final = (1, 2)
"""Formats that can be read; the first one has neither computed checks nor all of a prediction."""
INDEX: Final = "candidates.json"
HEAD: Final = ("tunable", "space", "toolchain", "target")


@dataclass(frozen=True, slots=True)
class PackedCandidates:
    """A folder of candidates: what they are of, what compiled them for which target, and the problems.

    `recipe` is the digest of the recipe that they were packed from, `budget` its time for each size; empty for others.
    """

    folder: Path
    tunable: str
    space: str
    toolchain: str
    target: str
    rows: tuple[Json, ...]
    recipe: str = ""
    budget: str = ""
    computed: computed_checks.ComputedChecks = field(
        default_factory=computed_checks.ComputedChecks, repr=False, compare=False
    )

    @property
    def problems(self) -> list[SizedProblem]:
        """The candidates of each size."""
        return [SizedProblem([_candidate(row) for row in job["candidates"]], job["sizes"]) for job in self.rows]

    @property
    def python_files(self) -> list[str]:
        """The files whose Python text is run where the candidates are measured: references, and Triton's templates."""
        rows = [row for job in self.rows for row in job["candidates"] if "failure" not in row]
        checks = [f"checks/{name}" for row in rows for name in row["checks"] if name.endswith(computed_checks.SUFFIX)]
        codes = [f"code/{row['code']}" for row in rows if row["code"].endswith(f".{TRITON}")]
        return list(dict.fromkeys([*checks, *codes]))

    @property
    def compiled_by(self) -> str:
        """The digest of the toolchain; of Triton's text, which is compiled here, with the version of Triton."""
        codes = [row["code"] for job in self.rows for row in job["candidates"] if "failure" not in row]
        if not any(code.endswith(f".{TRITON}") for code in codes):
            return self.toolchain
        from lego_mlir.toolchain import triton_text

        return key("packed", self.toolchain.encode(), triton_text.version())[:16]

    def trial(self, candidate: Candidate, sizes: Mapping[str, int]) -> GpuTrial:
        """The trial of a candidate, the data of its checks made. Raises UsageError for one that was not compiled."""
        job = next(job for job in self.rows if job["sizes"] == dict(sizes))
        row = next(row for row in job["candidates"] if row["digest"] == candidate.digest)
        if "failure" in row:
            raise UsageError(row["failure"])
        code = self.folder / "code" / row["code"]
        described = _described(code)
        checks = tuple(self._check(self.folder / "checks" / name, row["sizes"]) for name in row["checks"])
        return GpuTrial(_bytes(code), described, checks, row["sizes"])

    def _check(self, path: Path, sizes: Mapping[str, int]) -> Path:
        """The data of a check: as packed, or computed here."""
        return self.computed.data(_bytes(path), sizes) if path.suffix == computed_checks.SUFFIX else path

    def workbench(self, device: int = 0, live: int = LIVE) -> Workbench:
        """The workbench of a CUDA device of this machine for these candidates; `live` have a process at once.

        Raises DependencyError without a GPU.
        """
        from lego_mlir.tuning.gpu_workbench import visible
        from lego_mlir.tuning.workbench import Workbench

        found = identity(driver(), device)
        return Workbench(
            found.name, found.multiprocessors, found.driver, self.compiled_by,
            IsolatedBench(live, environment=visible(device), kept=True), self.trial,
        )  # fmt: skip


def write(
    folder: Path,
    tunable: Tunable,
    problems: Sequence[SizedProblem],
    target: str,
    toolchain: str,
    build: Callable[[Candidate, Mapping[str, int]], GpuBuild | TemplateBuild],
    on_candidate: Callable[[], None] = lambda: None,
    recipe: str = "",
    budget: str = "",
) -> PackedCandidates:
    """Compile the candidates into a folder. Raises UsageError for a folder of another tunable, space or toolchain.

    `recipe` is the digest of the recipe that names these sizes, all of them, and `budget` the time for each.
    """
    head = dict(zip(HEAD, (tunable.name, tunable.space.digest, toolchain, target), strict=True))
    rows: list[Json] = []
    if (folder / INDEX).is_file():
        known = read(folder)
        for name, value in head.items():
            if getattr(known, name) != value:
                raise UsageError(
                    f"{folder} has candidates of another {name} ({getattr(known, name)}, not {value}); "
                    "pack them into an empty folder"
                )
        rows = list(known.rows)
    for name in ("code", "checks"):
        make_folder(folder / name)
    made = {row["digest"]: row for job in rows for row in job["candidates"] if "code" in row}
    for problem in problems:
        found = []
        for candidate in problem.candidates:
            row = _again(candidate, problem.sizes, made) or _written(folder, candidate, problem.sizes, build)
            found.append(row)
            if "code" in row:
                made[row["digest"]] = row
            on_candidate()
        rows = [row for row in rows if row["sizes"] != dict(problem.sizes)]
        rows.append({"sizes": dict(problem.sizes), "candidates": found})
        of_recipe = all(row["sizes"] in [dict(p.sizes) for p in problems] for row in rows)
        of = {"recipe": recipe, "budget": budget} if of_recipe else {"recipe": "", "budget": ""}
        index = {"format": FORMAT, **head, **of, "jobs": rows}
        replace_file(folder / INDEX, (json.dumps(index, indent=1) + "\n").encode())
    return read(folder)


def read(folder: Path) -> PackedCandidates:
    """The candidates in a folder. Raises SpecError for one without them."""
    path = folder / INDEX
    try:
        data = from_json(path.read_text(encoding="utf-8"))
        if data["format"] not in READ:
            raise SpecError(f"{path}: the candidates have format {data['format']}, not {FORMAT}; pack them again")
        head = {**{name: data[name] for name in HEAD}, **{name: data.get(name, "") for name in ("recipe", "budget")}}
        if not all(isinstance(word, str) for word in head.values()):
            raise TypeError(f"{', '.join(head)} are texts")
        for job in data["jobs"]:
            _require_sizes(job["sizes"])
            for row in job["candidates"]:
                _require_row(path, row)
        return PackedCandidates(folder, rows=tuple(data["jobs"]), **head)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise SpecError(
            f"{path}: not a folder of packed candidates ({error!r}); make one with lego-mlir tune SPEC --pack FOLDER"
        ) from error


def _require_row(path: Path, row: Json) -> None:
    """Raise TypeError or ValueError for a row that is no candidate, SpecError for a file outside of the folder."""
    if not isinstance(row["digest"], str):
        raise TypeError("the digest of a candidate is a text")
    predicted = _candidate(row).predicted
    if predicted is not None and not isinstance(predicted.microseconds, int | float):
        raise TypeError("predicted times are numbers")
    if "failure" in row:
        if not isinstance(row["failure"], str):
            raise TypeError("the failure of a candidate is a text")
        return
    _require_sizes(row["sizes"])
    for name in (row["code"], *row["checks"]):
        _require_plain(path, name)


def _require_sizes(sizes: Json) -> None:
    if not all(type(n) is int and 0 < n <= LARGEST_SIZE for n in sizes.values()):
        raise ValueError(f"sizes are ints of 1 to 2^48, not {sizes}")


def _require_plain(path: Path, name: object) -> None:
    """Raise SpecError for a file's name that leads out of its folder."""
    if not isinstance(name, str) or Path(name).name != name or name in ("", ".."):
        raise SpecError(f"{path}: {name!r} is not the name of a file in the folder; pack the candidates again")


def _written(
    folder: Path, candidate: Candidate, sizes: Mapping[str, int], build: Callable[..., GpuBuild | TemplateBuild]
) -> Json:
    """The row of a candidate, its files written."""
    row = _head(candidate)
    try:
        row["digest"] = candidate.digest
        made = build(candidate, sizes)
        trial = made()
    except LegoError as error:
        row.setdefault("digest", hashlib.sha256(candidate.configuration.key.encode()).hexdigest())
        return {**row, "failure": str(error)}
    described = json.dumps(dict(trial.described)).encode()  # the same code may be launched in several ways
    name = f"{hashlib.sha256(trial.code + described).hexdigest()[:24]}.{made.emit}"
    replace_file(folder / "code" / name, trial.code)
    replace_file((folder / "code" / name).with_suffix(".json"), described)
    checks = []
    for check in trial.checks:
        data, suffix = (check, ".npz") if isinstance(check, bytes) else (check.read_bytes(), check.suffix)
        checks.append(f"{hashlib.sha256(data).hexdigest()[:24]}{suffix}")
        replace_file(folder / "checks" / checks[-1], data)
    return {**row, "code": name, "checks": checks, "sizes": dict(trial.sizes)}


def _head(candidate: Candidate) -> Json:
    predicted = None if candidate.predicted is None else dataclasses.asdict(candidate.predicted)
    return {"configuration": candidate.configuration.to_data(), "predicted": predicted}


def _again(candidate: Candidate, sizes: Mapping[str, int], made: Mapping[str, Json]) -> Json | None:
    """The row of a kernel with symbolic sizes that is in the folder for another size."""
    try:
        row = made.get(candidate.digest)
    except LegoError:
        return None
    if row is None or not row["sizes"]:
        return None
    return {**row, **_head(candidate), "sizes": {name: sizes[name] for name in row["sizes"]}}


def _candidate(row: Mapping[str, Json]) -> Candidate:
    """A candidate whose code is in the folder; it is not built from its configuration."""

    def refuse() -> object:
        raise UsageError(f"{configuration} is packed code; trace it from its spec")

    configuration = Configuration.from_data(row["configuration"])
    predicted = row.get("predicted")
    made = Candidate(configuration, refuse, None if predicted is None else PredictedTime(**predicted))
    made.__dict__["digest"] = row["digest"]
    return made


def _described(code: Path) -> Json:
    """The manifest beside code. Raises UsageError for code of another kind than its name says: Triton's text is run."""
    path = code.with_suffix(".json")
    try:
        described = from_json(_bytes(path))
        kind = described["code"]
    except (ValueError, LookupError, TypeError) as error:
        raise UsageError(f"{path}: not the manifest of a candidate ({error!r}); pack the candidates again") from error
    if (kind == TRITON) != (code.suffix == f".{TRITON}"):
        raise UsageError(f"{path}: {code.name} is no code of kind {kind!r}; pack the candidates again")
    return described


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path}: a packed file cannot be read ({error.strerror}); pack the candidates again"
        ) from error
