"""`lego-mlir run`: run kernels, compare with their references, and report every fault.

On a machine without a GPU, the interpreter runs the emitted MLIR itself (`--on interp`), or the emulator the compiled
PTX (`--on ptx`). Input is that of `--input` or
the spec's `@k.inputs`, else drawn from the kernel's parameters; the reference computes in double precision.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lego_mlir.aliases import Array, Json
from lego_mlir.cli import mlir_files, options
from lego_mlir.cli.json_output import print_json
from lego_mlir.cli.progress import Progress
from lego_mlir.cli.several import add_specs
from lego_mlir.cli.terminal import show
from lego_mlir.errors import LayoutError, LegoError, UsageError
from lego_mlir.runtime.manifest import refuse_unknown_sizes, sizes_of

if TYPE_CHECKING:
    from lego_mlir.interp.ptx import PtxRun
    from lego_mlir.interp.report import Fault, LastWrite, Report
    from lego_mlir.runtime.comparing import Comparison
    from lego_mlir.runtime.data import Elements
    from lego_mlir.runtime.inputs import InputFile
    from lego_mlir.runtime.kernel_input import KernelInput
    from lego_mlir.tracing.definition.kernel import Kernel
    from lego_mlir.tracing.definition.kernel_traces import Parameter
    from lego_mlir.tracing.definition.program import KernelProgram, Runnable
    from lego_mlir.tracing.trace.trace import Buffer

HELP: Final = "Run the kernels of a spec, and compare with its references."
EXAMPLE: Final = "lego-mlir run examples/transpose.py --on interp"
BACKENDS: Final = ("interp", "ptx", "cuda")
SHOWN_FAULTS: Final = 8
DEFAULT_MEMORY: Final = 1024  # MB


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    add_specs(
        parser,
        "a spec, a Python file, or - for a spec on standard input; or MLIR (.mlir), run on random input without a "
        "reference",
    )
    parser.add_argument(
        "--on", choices=BACKENDS, default="interp", help="where to run (default: interp; cuda needs a GPU)"
    )
    parser.add_argument("--kernel", metavar="NAME", help="run this kernel only; default: all of them")
    parser.add_argument("--size", metavar="NAME=N", action="append", default=[], help="a symbolic size, such as M=4096")
    parser.add_argument("--transform", metavar="FILE", help="a transform script to apply before the run")
    options.add_parameters(parser)
    options.add_input(parser)
    parser.add_argument("--target", help="the architecture, for --on ptx and cuda (default: sm_80)")
    parser.add_argument("--seed", type=options.at_least(0), help="the seed of the random input (default: 0)")
    parser.add_argument("--blocks", type=int, metavar="N", help="run a spread-out sample of N blocks (interp)")
    parser.add_argument(
        "--memory",
        type=options.at_least(1),
        metavar="MB",
        help=f"memory for the blocks that run at once (interp; default: {DEFAULT_MEMORY})",
    )
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    mlir_files.add_arguments(parser)
    options.add_cache_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run and compare; return 1 if a value is wrong or a fault was found."""
    from lego_mlir import spec
    from lego_mlir.cli import files, structured

    if structured.require_program(args.spec):
        return structured.run_program(args)

    if mlir_files.is_module(args.spec):
        return _run_module(args)
    mlir_files.refuse_extents(args)
    options.require_transform(args)
    loaded = files.load_spec(args.spec)
    kernels = loaded.runnable(args.kernel)
    if args.on == "cuda":
        return _on_cuda(args)
    _refuse_for_backend(args)
    given = sizes_of(args.size)
    with spec.blame(*loaded.files):
        refuse_unknown_sizes(given, kernels)
        file = options.input_of(args, kernels)
    outcomes = []
    for kernel in kernels:
        with Progress(f"running {kernel.name}") as progress, spec.blame(*loaded.files):
            outcomes.append(_run_kernel(args, kernel, Given(given, file), progress, loaded.files))
        if not args.json:
            show(str(outcomes[-1]))
    if args.json:
        print_json(args.command, {"spec": args.spec, "kernels": [outcome.to_dict() for outcome in outcomes]})
    return 0 if all(outcome.right for outcome in outcomes) else 1


def _refuse_target(args: argparse.Namespace) -> None:
    if args.target is not None:
        raise UsageError(f"--target {args.target}: the interpreter has no target architecture; add --on cuda or ptx")


def _refuse_for_backend(args: argparse.Namespace) -> None:
    """Raise UsageError for an option that the interpreter or the emulator does not have."""
    if args.on != "ptx":
        _refuse_target(args)
        return
    for flag, value in (("--blocks", args.blocks), ("--memory", args.memory)):
        if value is not None:
            raise UsageError(f"{flag} requires --on interp")


def _run_module(args: argparse.Namespace) -> int:
    """Run the kernels of an MLIR file, which has no reference: report faults only."""
    if args.on != "interp" or args.size:
        raise UsageError("an MLIR file runs with --on interp and without --size; compile it to run it on a GPU")
    if args.input is not None:
        raise UsageError(f"--input {args.input} applies to a spec, whose parameters have names; omit it")
    _refuse_target(args)
    if args.memory is not None:
        raise UsageError(f"--memory {args.memory} applies to a spec; omit it for an MLIR file")
    found = [report for report, _ in mlir_files.reports(args, args.seed or 0)]
    if args.json:
        print_json(args.command, {"spec": args.spec, "kernels": [report.to_dict() for report in found]})
    else:
        for report in found:
            show(str(report))
    return 0 if all(report.clean for report in found) else 1


@dataclass(frozen=True, slots=True)
class ComparedTensor:
    """One written tensor compared with its reference, and the first element that differs."""

    name: str
    comparison: Comparison
    index: tuple[int, ...] | None
    writer: LastWrite | None
    writers_known: bool = True

    def __str__(self) -> str:
        if self.index is None:
            return f"{self.name}: {self.comparison.summary}"
        origin = "" if not self.writers_known else "; never written, so it has the initial value of memory"
        if self.writer is not None:
            origin = f"; written by block {self.writer.block}, thread {self.writer.thread}, at {self.writer.place}"
        where = f"{self.name}{list(self.index)}"
        return f"{self.name}: {self.comparison.summary}; the first is {where}: {self.comparison.first_wrong}{origin}"

    def to_dict(self) -> Json:
        """What `--json` prints; error and bound are of the first wrong element, or of the closest to its bound."""
        return {
            "name": self.name,
            "elements": self.comparison.elements,
            "wrong": self.comparison.wrong,
            "error": self.comparison.error if isfinite(self.comparison.error) else None,
            "allowed": self.comparison.allowed if isfinite(self.comparison.allowed) else None,
            "unit": self.comparison.unit.strip() or "1",
            "first_wrong": None if self.index is None else list(self.index),
        }


@dataclass(frozen=True, slots=True)
class KernelRun:
    """The interpreter's report of a kernel: of a whole run, or of one step of a program."""

    kernel: Kernel
    report: Report

    @property
    def blocks(self) -> str:
        """How many blocks ran, and their size."""
        report = self.report
        whole = report.grid[0] * report.grid[1] * report.grid[2]
        part = f"{report.blocks_run}" if report.blocks_run == whole else f"{report.blocks_run} of {whole}"
        return f"{part} blocks of {report.block}"

    def lines(self) -> list[str]:
        """Faults and traffic."""
        report, totals = self.report, self.report.totals
        lines = [f"  | {line}" for line in report.printed.splitlines()]
        lines += [f"  {fault}{self._logical(fault)}" for fault in report.faults[:SHOWN_FAULTS]]
        if len(report.faults) > SHOWN_FAULTS:
            lines.append(f"  and {len(report.faults) - SHOWN_FAULTS} more places; --json shows all")
        if totals.sectors:
            lines.append(
                f"  global memory: {totals.moved} bytes moved in sectors, {totals.compulsory} compulsory; "
                f"shared memory: {totals.wavefronts} wavefronts, {totals.conflicts} of them bank conflicts"
            )
        return lines

    def _logical(self, fault: Fault) -> str:
        """The logical index of a fault's address, if the buffer's layout maps it."""
        buffers: tuple[Parameter | Buffer, ...] = (*self.kernel.params, *self.kernel.trace().shared)
        layout = next((b.layout for b in buffers if b.name == fault.buffer), None)
        if layout is None or fault.address is None or not all(isinstance(n, int) for n in layout.dims()):
            return ""
        if not 0 <= fault.address < layout.physical_size():
            return ""
        try:
            index = layout.inv(fault.address)
        except LayoutError:  # padding, which no logical index maps to
            return ""
        return f"; element {fault.address} is {fault.buffer}{[int(i) for i in index]}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The run of a kernel, or of a program's kernels, and each written tensor compared with its reference."""

    entry: Runnable
    sizes: Mapping[str, int]
    runs: tuple[KernelRun, ...]
    compared: tuple[ComparedTensor, ...]
    reference_error: str = ""

    @property
    def right(self) -> bool:
        clean = all(run.report.clean for run in self.runs)
        return clean and not self.reference_error and all(c.comparison for c in self.compared)

    @property
    def verdict(self) -> str:
        """WRONG for a wrong value; FAULT if the values are right, or there is no reference to compare with."""
        if self.right:
            return "ok   "
        return "FAULT" if all(c.comparison for c in self.compared) else "WRONG"

    def __str__(self) -> str:
        shown = "".join(f" {name}={value}" for name, value in self.sizes.items())
        is_program = self.entry is not self.runs[0].kernel
        ran = f"{len(self.runs)} launches" if is_program else self.runs[0].blocks
        lines = [f"{self.verdict} {self.entry.name}{shown}: {ran}"]
        lines += [f"  {c}" for c in self.compared]
        if self.reference_error:
            lines.append(f"  not compared, because the reference fails: {self.reference_error}")
        for run in self.runs:
            lines += [f"  {run.kernel.name}: {run.blocks}"] if is_program else []
            lines += [f"  {line}" for line in run.lines()] if is_program else run.lines()
        return "\n".join(lines)

    def to_dict(self) -> Json:
        """What `--json` prints: of a kernel, with its report; of a program, with the reports of its launches."""
        found = {
            "right": self.right,
            "reference_error": self.reference_error or None,
            "sizes": dict(self.sizes),
            "tensors": [c.to_dict() for c in self.compared],
        }
        reports = [run.report.to_dict() for run in self.runs]
        if self.entry is self.runs[0].kernel:
            return {**found, **reports[0]}
        return {"program": self.entry.name, **found, "launches": reports}


@dataclass(frozen=True, slots=True)
class Given:
    """What the command line gives for the input: sizes and a file."""

    sizes: Mapping[str, int]
    file: InputFile | None


def _run_kernel(
    args: argparse.Namespace, entry: Runnable, given: Given, progress: Progress, files: Sequence[str]
) -> Outcome:
    """Run a kernel or program, then its reference, so that a failing reference does not hide the kernel's faults."""
    from lego_mlir import spec
    from lego_mlir.runtime import data, tolerance
    from lego_mlir.runtime.kernel_input import make_input

    if entry.expected is None:
        raise UsageError(
            f"kernel {entry.name} has no reference to compare with; give it one: @{entry.name}.reference above a "
            f"NumPy function of its parameters. For its faults alone: lego-mlir analyze {args.spec}"
        )
    made = make_input(entry, given.sizes, args.seed or 0, given.file)
    runs, writers = _launched(args, entry, made, progress)
    try:
        with spec.blame(*files):
            results = data.expected(entry, made.logical, made.sizes)
            allowed = tolerance.allowed(entry, made.logical, made.sizes, results)
    except LegoError as error:
        if all(run.report.clean for run in runs):
            raise
        return Outcome(entry, made.sizes, runs, (), str(error))
    compared = tuple(
        _compare(
            writers[p.name],
            p,
            made.memories[p.name],
            made.places[p.name],
            (results[p.name], allowed[p.name]),
            args.blocks,
        )
        for p in entry.params
        if p.name in results
    )
    return Outcome(entry, made.sizes, runs, compared)


Writer = tuple["Report", int]
"""The report of the last kernel that writes a tensor, and the number of its argument there."""


def _launched(
    args: argparse.Namespace, entry: Runnable, made: KernelInput, progress: Progress
) -> tuple[tuple[KernelRun, ...], dict[str, Writer]]:
    """Run in the interpreter: the reports, and for each written parameter who wrote it last."""
    from lego_mlir import interp
    from lego_mlir.runtime import programs
    from lego_mlir.tracing.definition.program import KernelProgram

    limits: dict[str, Any] = {
        "memory_limit": (DEFAULT_MEMORY if args.memory is None else args.memory) << 20,
        "progress": lambda done, total: progress.update("blocks", done=done, total=total),
    }
    emulator = _emulator(args)
    if not isinstance(entry, KernelProgram):
        if emulator is not None:
            report = emulator(entry, made.memories, made.sizes)
        else:
            module = options.transformed(args, (entry,))
            report = interp.run_kernel(entry, made.memories, made.sizes, module=module, blocks=args.blocks, **limits)
        return (KernelRun(entry, report),), {p.name: (report, number) for number, p in enumerate(entry.params)}
    refuse_sample(args, entry)
    runs = programs.run_program(
        entry,
        made.memories,
        made.sizes,
        module=lambda kernel: options.transformed(args, (kernel,)),
        emulator=emulator,
        **limits,
    )
    writers = {}
    for run in runs:
        for number, parameter in enumerate(run.step.kernel.params):
            if parameter.written:
                writers[run.step.tensor(parameter.name)] = (run.report, number)
    return tuple(KernelRun(run.step.kernel, run.report) for run in runs), writers


def _emulator(args: argparse.Namespace) -> PtxRun | None:
    """What compiles and runs a kernel's PTX with `--on ptx`."""
    if args.on != "ptx":
        return None
    from lego_mlir.interp.ptx import PtxRun

    return PtxRun(
        args.target or "sm_80", args.transform, options.parameters_of(args), options.cache_of(args), args.seed or 0
    )


def refuse_sample(args: argparse.Namespace, program: KernelProgram) -> None:
    """Raise UsageError for `--blocks` with a program, whose kernels need all results of those before."""
    if args.blocks is not None:
        raise UsageError(
            f"--blocks {args.blocks} runs a sample of blocks, and the kernels of program {program.name} need all "
            "results of those before them; name a kernel with --kernel, or omit --blocks"
        )


def _compare(
    writer: Writer,
    parameter: Parameter,
    memory: Array,
    elements: Elements,
    bounded: tuple[Array, Array],
    sampled: int | None,
) -> ComparedTensor:
    """Compare memory at the layout's positions; for a sample of blocks, only the elements that these wrote.

    `bounded` holds the expected values and the allowed error of each.
    """
    import numpy

    from lego_mlir.runtime import comparing

    report, number = writer
    at = elements.at
    chosen = numpy.arange(at.size)
    if sampled is not None and (written := report.written(number)) is not None:
        chosen = numpy.flatnonzero(written[at])
    stored = memory[at[chosen]]
    values = stored.astype(numpy.float64) if stored.dtype.kind not in "iub" else stored
    result, bound = map(numpy.asarray, bounded)
    expected, allowed = (elements.of(numpy.broadcast_to(a, result.shape))[chosen] for a in (result, bound))
    comparison = comparing.compare(values, expected, parameter.dtype.name, allowed)
    if comparison or comparison.first_wrong is None:
        return ComparedTensor(parameter.name, comparison, None, None)
    element = int(chosen[comparison.first_wrong.position])
    writer_of = report.writer(number, int(at[element]))
    return ComparedTensor(parameter.name, comparison, elements.index(element), writer_of, bool(report.shadows))


def _on_cuda(args: argparse.Namespace) -> int:
    """Compile with test data into a temporary folder, and launch through the runtime."""
    from lego_mlir.cli.main import main
    from lego_mlir.runtime.__main__ import main as launch

    given = {"--blocks": args.blocks, "--json": args.json or None, "--memory": args.memory, "--seed": args.seed}
    for flag, value in given.items():
        if value is not None:
            raise UsageError(f"{flag} requires --on interp")
    with tempfile.TemporaryDirectory() as folder:
        code = str(Path(folder, "kernel.ptx"))
        command = ["compile", args.spec, "--emit", "ptx", "--target", args.target or "sm_80", "--with-data", "-o", code]
        for option, value in (
            ("--kernel", args.kernel),
            ("--transform", args.transform),
            ("--input", args.input),
            ("--cache-dir", args.cache_dir),
        ):
            command += [option, value] if value else []
        command += [part for size in args.size for part in ("--size", size)]
        command += [part for parameter in args.param for part in ("--param", parameter)]
        command += ["--no-cache"] if args.no_cache else []
        return main(command) or launch([code])
