"""`lego-mlir sanitize`: check a CUDA, PTX or MLIR kernel without a GPU, and report every fault by its source line.

The kernel runs in the PTX emulator on the arguments of `--arg`, in the order of its parameters, or on those of a launch
file. Exit code 1 if there is a fault.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.cli import code_hosts, files, mlir_files, options
from lego_mlir.cli.json_output import print_json
from lego_mlir.cli.progress import Progress
from lego_mlir.cli.terminal import show
from lego_mlir.errors import UsageError

if TYPE_CHECKING:
    from lego_mlir.interp.ptx.ptx_launch import PtxArgument
    from lego_mlir.interp.report import Report
    from lego_mlir.sanitize.launch_files import LaunchRequest
    from lego_mlir.sanitize.sanitized_kernels import SanitizedKernel

HELP: Final = "Check a CUDA, Triton, PTX or MLIR kernel without a GPU: bounds, races, deadlocks, bank conflicts."
EXAMPLE: Final = (
    "lego-mlir sanitize saxpy.cu --grid 64 --block 256 --arg x=f32[16384] --arg y=f32[16384] --arg a=2.0 --arg n=16384"
)
PTX, CUDA, MLIR, TOML = ".ptx", ".cu", ".mlir", ".toml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("file", help="a kernel (.cu, .ptx, .mlir), or a file of launches (.toml)")
    parser.add_argument("--entry", metavar="NAME", help="the kernel, where the file has several")
    parser.add_argument("--grid", metavar="X[,Y[,Z]]", help="the blocks of the grid")
    parser.add_argument("--block", metavar="X[,Y[,Z]]", help="the threads of a block, where the kernel does not fix it")
    parser.add_argument("--cluster", metavar="X[,Y[,Z]]", help="the blocks of a cluster")
    parser.add_argument("--shared", type=options.at_least(0), default=0, metavar="BYTES", help="dynamic shared memory")
    parser.add_argument(
        "--arg", action="append", default=[], metavar="NAME=VALUE",
        help="the next argument: n=512, x=f32[1024,512]:normal, x=FILE.npz:NAME",
    )  # fmt: skip
    parser.add_argument("--target", default="sm_90", help="the architecture that a .cu or .mlir is compiled for")
    parser.add_argument("--compiler", choices=("nvcc", "clang"), help="what compiles a .cu (nvcc where it is found)")
    parser.add_argument("--transform", metavar="FILE", help="a transform script, for a .mlir file")
    parser.add_argument("--seed", type=options.at_least(0), default=0, help="the seed of input and of all orders")
    parser.add_argument("--blocks", type=options.at_least(1), metavar="N", help="run a spread-out sample of N blocks")
    parser.add_argument("--cores", type=options.at_least(1), metavar="N", help="the processes of a long launch (all)")
    parser.add_argument("--counts", action="store_true", help="also count bank conflicts and sectors by line")
    parser.add_argument("--nonfinite", action="store_true", help="also report where NaN and infinity come from")
    parser.add_argument("--overflow", action="store_true", help="also report 32-bit overflow in parts of addresses")
    parser.add_argument("--lanes", action="store_true", help="also report races between the lanes of one warp")
    parser.add_argument("--tensor-fences", action="store_true", help="also report tensor memory without tcgen05.fence")
    parser.add_argument("--output", metavar="FILE.npz", help="write the arrays, as the kernel left them")
    parser.add_argument("--json", action="store_true", help="print the reports as JSON")
    code_hosts.add_arguments(parser)
    parser.add_argument("--html", metavar="FILE", help="write the annotated source; includes --counts")


def run(args: argparse.Namespace) -> int:
    """Run the launches; return 1 if there was a fault."""
    from lego_mlir import sanitize
    from lego_mlir.interp.ptx.checks import Checks

    requests = _requests(args)
    checks = Checks(
        counts=args.counts or args.html is not None,
        nonfinite=args.nonfinite,
        overflow=args.overflow,
        lanes=args.lanes,
        tensor_fences=args.tensor_fences,
    )
    random = np.random.default_rng(args.seed)
    known: dict[str, PtxArgument] = {}
    kernels: dict[Path, SanitizedKernel] = {}
    with sanitize.session(
        on_fault="collect", seed=args.seed, blocks=args.blocks, checks=checks, cores=args.cores
    ) as session:
        for request in requests:
            with Progress(f"checking {request.file.name}") as progress:
                _launch(request, args, _Arguments(random, known), kernels, progress)
            if not args.json:
                show(str(session.reports[-1]))
    _write(args, session.reports, known)
    return 0 if session.clean else 1


class _Arguments:
    """The values of arguments; `known` are those of earlier launches, by name."""

    def __init__(self, random: np.random.Generator, known: dict[str, PtxArgument]) -> None:
        self.random, self.known = random, known

    def values(self, texts: Mapping[str, str]) -> list[PtxArgument]:
        """A value for each text, in order."""
        from lego_mlir.sanitize.drawn_arguments import drawn

        found = {}
        for name, text in texts.items():
            if text.startswith("@"):
                if text[1:] not in self.known:
                    raise UsageError(f"{name} = {text}: no launch before this one has an argument {text[1:]}")
                found[name] = self.known[text[1:]]
            else:
                found[name] = drawn(text, self.random)
        self.known.update(found)
        return list(found.values())


def _requests(args: argparse.Namespace) -> list[LaunchRequest]:
    from lego_mlir.sanitize.launch_files import LaunchRequest, read_launches

    path = Path(args.file)
    if path.suffix == TOML:
        for option in ("entry", "grid", "block", "cluster", "arg"):
            if getattr(args, option):
                raise UsageError(f"--{option}: {path.name} has the launches; leave it out")
        return read_launches(path)
    if path.suffix not in (PTX, CUDA, MLIR):
        raise UsageError(f"{path}: a kernel is a .cu, .ptx or .mlir file, and launches are in a .toml file")
    if not path.is_file():
        raise UsageError(f"{path}: no such file; give the path of a .cu, .ptx or .mlir file")
    grid = mlir_files.extents_of("grid", args.grid)
    if grid is None:
        raise UsageError("--grid X[,Y[,Z]] is missing: how many blocks to run")
    texts = {}
    for given in args.arg:
        name, equals, text = given.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--arg {given}: give NAME=VALUE, such as n=512 or x=f32[1024]:normal")
        texts[name] = text
    block, cluster = (mlir_files.extents_of(what, getattr(args, what)) for what in ("block", "cluster"))
    return [LaunchRequest(path, grid, block, args.entry, cluster, args.shared, texts)]


def _launch(
    request: LaunchRequest, args: argparse.Namespace, arguments: _Arguments, kernels: dict[Path, SanitizedKernel],
    progress: Progress,
) -> None:  # fmt: skip
    from lego_mlir.sanitize.sanitized_kernels import SanitizedKernel, SanitizedLaunch, entry_name

    if request.file not in kernels:
        kernels[request.file] = _compiled(request, args)
    kernel = kernels[request.file]
    kernel = SanitizedKernel(kernel.module, entry_name(kernel.module, request.entry), kernel.source)
    expected = len(kernel.module.entry(kernel.entry).parameters)
    if len(request.arguments) != expected:
        raise UsageError(
            f"{kernel.entry} has {expected} parameters ({', '.join(kernel.names)}), got {len(request.arguments)}; "
            "give an --arg for each, in this order"
        )
    launch = SanitizedLaunch(
        kernel, request.grid, request.block, request.shared, request.cluster,
        lambda done, total: progress.update("blocks", done=done, total=total), tuple(request.arguments),
    )  # fmt: skip
    launch(*arguments.values(request.arguments))


def _compiled(request: LaunchRequest, args: argparse.Namespace) -> SanitizedKernel:
    """The file's module, with any of its entries."""
    from lego_mlir.interp.ptx.ptx_reader import read_ptx
    from lego_mlir.sanitize import cuda_text
    from lego_mlir.sanitize.sanitized_kernels import SanitizedKernel

    path = request.file
    try:
        text = path.read_text()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    source, name = "", str(path)
    if path.suffix == CUDA:
        source, text = text, cuda_text.compile_to_ptx(text, path, args.target, compiler=args.compiler)
    elif path.suffix == MLIR:
        from lego_mlir.toolchain import compile_kernel

        text = compile_kernel(text, target=args.target, transform=args.transform, name=str(path)).text
        name = path.with_suffix(PTX).name  # whose lines are reported
    return SanitizedKernel(read_ptx(text, name), "", source)


def _write(args: argparse.Namespace, reports: list[Report], arrays: Mapping[str, PtxArgument]) -> None:
    from lego_mlir.sanitize.findings import RULES, findings_of

    if args.json:
        print_json(args.command, {"file": args.file, "launches": [report.to_dict() for report in reports]})
    code_hosts.report(args, RULES, list(findings_of(reports)))
    if args.html:
        from lego_mlir.sanitize.fault_page import fault_page

        files.write(args.html, fault_page(reports).encode())
    if args.output:
        body = io.BytesIO()
        np.savez(body, allow_pickle=False, **{k: v for k, v in arrays.items() if hasattr(v, "dtype")})
        files.write(args.output, body.getvalue())
