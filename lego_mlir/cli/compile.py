"""`lego-mlir compile`: lower a spec, or the text of a module, to the requested stage."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lego_mlir.aliases import Json
from lego_mlir.cli import files, options
from lego_mlir.cli.progress import Progress
from lego_mlir.errors import UsageError
from lego_mlir.runtime.first_calls import KeptKernel
from lego_mlir.runtime.manifest import refuse_unknown_sizes, sizes_of

if TYPE_CHECKING:
    from lego_mlir.spec import Spec
    from lego_mlir.toolchain.compile import Compilation
    from lego_mlir.tracing.definition.kernel import Kernel
    from lego_mlir.tracing.definition.program import Runnable

HELP: Final = "Compile the kernels of a spec to MLIR, PTX or a cubin."
EXAMPLE: Final = "lego-mlir compile examples/transpose.py --emit ptx --target sm_90 -o transpose.ptx"
STAGES: Final = ("mlir", "transformed", "nvvm", "llvm", "ptx", "cubin")
# The stage that produced a text, unless --from names it.
_STAGE_OF_SUFFIX: Final = {".mlir": "mlir", ".ll": "llvm", ".ptx": "ptx"}
# The stage to stop at, unless --emit names it; a file name without a suffix implies none.
_EMITTED_BY_SUFFIX: Final = {"": None, ".mlir": None, ".ll": "llvm", ".ptx": "ptx", ".cubin": "cubin"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("spec", help="a spec (.py), the text of a stage (.mlir, .ll, .ptx), or - for MLIR on stdin")
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write; default and '-': standard output")
    parser.add_argument(
        "--emit",
        choices=("lego", "tiles", *STAGES, "obj", "c", "c-header"),
        help="the stage to stop at (default: by the output's suffix; otherwise mlir, or transformed with "
        "--transform); lego is mlir with layouts as operations of the lego dialect, tiles has whole tiles with layouts "
        "in their types; obj, c and c-header are for LL programs (.ll), which compile to mlir, llvm, obj, c (with "
        "vector intrinsics) or c-header",
    )
    parser.add_argument(
        "--target", default="sm_80", help="the GPU architecture, such as sm_80 or sm_90a (default: sm_80)"
    )
    parser.add_argument(
        "--transform", metavar="FILE", help="a transform script: a file, or a shipped one such as matmul_sm80.mlir"
    )
    options.add_parameters(parser)
    parser.add_argument(
        "--kernel", metavar="NAME", help="compile this kernel only; default: all of them into one module"
    )
    parser.add_argument("--from", dest="start", choices=STAGES[:-1], help="the stage that produced the given text")
    parser.add_argument(
        "--with-data",
        action="store_true",
        help="beside PTX or a cubin, write input and expected output (.npz) for python -m lego_mlir.runtime to check",
    )
    parser.add_argument(
        "--size", metavar="NAME=N", action="append", default=[], help="a symbolic size for --with-data, such as M=4096"
    )
    options.add_input(parser)
    parser.add_argument(
        "--pipeline", metavar="TEXT", help="the passes of the nvvm stage, as mlir-opt writes a pipeline"
    )
    parser.add_argument("--locations", action="store_true", help="keep source locations in emitted MLIR")
    options.add_cache_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Compile, and write the output and, beside PTX or a cubin, the manifest."""
    from lego_mlir.cli import structured

    if args.start is None and structured.is_program(args.spec):
        return structured.compile_program(args)
    if args.emit in ("obj", "c", "c-header"):
        raise UsageError(f"--emit {args.emit} is for LL programs (.ll); a GPU kernel compiles to {', '.join(STAGES)}")
    from lego_mlir.toolchain import target_named

    text_stage = "mlir" if args.transform is None else "transformed"
    args.emit = args.emit or files.emitted_by_suffix(args.output, _EMITTED_BY_SUFFIX) or text_stage
    target_named(args.target)  # reject an unknown target before any work
    _require_distinct_outputs(args)
    _refuse_idle_options(args)
    start, given = _input(args)
    entries = () if isinstance(given, bytes) else given.runnable(args.kernel)
    if args.emit in ("lego", "tiles"):
        files.write(args.output, _lego(args, given).encode())
        return 0
    made = _through_disk(args, start, given, entries)
    if args.emit == "cubin" and args.output in (None, files.STANDARD):
        raise UsageError("a cubin is binary; give it a file with -o")
    beside: dict[str, bytes] = {}
    if _has_manifest(args, start):
        beside[".json"] = (json.dumps(made.described, indent=2) + "\n").encode()
    if args.with_data:
        beside[".npz"] = _data(args, entries)
    for suffix, content in beside.items():  # nothing is written until all outputs exist
        files.write(str(Path(args.output).with_suffix(suffix)), content)
    files.write(args.output, made.code)
    return 0


def _refuse_idle_options(args: argparse.Namespace) -> None:
    """Raise UsageError for an option that would have no effect, or that contradicts the output's suffix."""
    options.require_transform(args)
    if args.size and not args.with_data:
        raise UsageError(
            f"--size {args.size[0]} sets a size of the test data; add --with-data, or omit it: code serves every size"
        )
    if args.input is not None and not args.with_data:
        raise UsageError(f"--input {args.input} is the input of the test data; add --with-data, or omit it")
    if args.locations and args.emit in ("llvm", "ptx", "cubin"):
        raise UsageError(f"--locations keeps the locations of emitted MLIR; with --emit {args.emit}, omit it")
    if args.transform is not None and args.emit in ("lego", "tiles"):
        raise UsageError(f"--transform changes modules without layouts; with --emit {args.emit}, omit it")
    if args.pipeline and args.emit in ("lego", "tiles", "mlir", "transformed"):
        raise UsageError(f"--pipeline sets the passes of the nvvm stage, and --emit {args.emit} stops before it")
    suffix = Path(args.output or "").suffix
    implied = _EMITTED_BY_SUFFIX.get(suffix)
    if (implied or (suffix == ".mlir" and args.emit in ("llvm", "ptx", "cubin"))) and implied != args.emit:
        raise UsageError(
            f"-o {args.output}: the suffix implies {implied or 'mlir'}, but --emit is {args.emit}; omit --emit, or "
            f"give the output another suffix"
        )


def _lego(args: argparse.Namespace, given: Spec | bytes) -> str:
    """The kernels of a spec as one module of the lego dialect."""
    if isinstance(given, bytes):
        raise UsageError(
            f"--emit {args.emit} takes a spec, whose layouts are known; {args.spec} is the text of a module"
        )
    from lego_mlir.transforms.lego_ops.op_forms import to_custom, to_generic
    from lego_mlir.transforms.modules import merge

    texts = [kernel.mlir(args.emit, locations=args.locations) for kernel in _traced(args, given)]
    return to_custom(merge([to_generic(text) for text in texts], unregistered=True)) if len(texts) > 1 else texts[0]


def _has_manifest(args: argparse.Namespace, start: str) -> bool:
    return args.emit in ("ptx", "cubin") and start == "mlir" and files.is_named(args.output)


def _require_distinct_outputs(args: argparse.Namespace) -> None:
    """Reject, before any work, an output that would overwrite an input or the manifest or data beside it."""
    if not files.is_named(args.output):
        return
    output = Path(args.output)
    beside = {".json": "manifest", **({".npz": "data"} if args.with_data else {})}
    with_code = args.emit in ("ptx", "cubin")
    inputs = {"spec" if Path(args.spec).suffix == ".py" else "input": args.spec, "transform script": args.transform}
    for written in (args.output, *(str(output.with_suffix(suffix)) for suffix in beside if with_code)):
        files.require_not_an_input(written, inputs)
    if output.suffix in beside and with_code:
        raise UsageError(
            f"-o {args.output}: the {beside[output.suffix]} beside the code has that name; write, for example, "
            f"-o {output.with_suffix('.' + args.emit)}"
        )


def _through_disk(args: argparse.Namespace, start: str, given: Spec | bytes, entries: Sequence[Runnable]) -> KeptKernel:
    """The output, and the manifest where there is one; of unchanged kernels both are on disk."""
    from lego_mlir.runtime.kept_traces import of_kernels

    def make() -> KeptKernel:
        made = _compile(args, start, given if isinstance(given, bytes) else _traced(args, given))
        text = made.bytes if args.emit == "cubin" else made.stage(args.emit, locations=args.locations).encode()
        return KeptKernel(_manifest(made, entries) if _has_manifest(args, start) else {}, text)

    cache = options.cache_of(args)
    if cache is None or isinstance(given, bytes) or any(hasattr(entry, "steps") for entry in entries):
        made = make()
    else:
        form = ("compile", args.emit, args.target, args.pipeline, args.locations, _has_manifest(args, start))
        kernels, parameters = given.kernels_named(args.kernel), options.parameters_of(args)
        made = of_kernels(kernels, form, make, args.transform, parameters, cache.folder)
    return made


def _manifest(compilation: Compilation, entries: Sequence[Runnable]) -> Json:
    """The manifest, with the programs whose kernels were compiled."""
    from lego_mlir.toolchain.manifest import describe_steps

    found = compilation.manifest
    programs = [entry for entry in entries if hasattr(entry, "steps")]
    if programs:
        found["programs"] = [describe_steps(program, found["kernels"]) for program in programs]
    return found


def _data(args: argparse.Namespace, entries: Sequence[Runnable]) -> bytes:
    from lego_mlir import spec
    from lego_mlir.runtime import data, data_files

    if not entries or not _has_manifest(args, "mlir"):
        raise UsageError("--with-data requires a spec, --emit ptx or cubin, and an output file")
    given = sizes_of(args.size)
    refuse_unknown_sizes(given, entries)
    file = options.input_of(args, entries)
    arrays: dict[str, Any] = {}
    with Progress("computing the test data") as progress, spec.blame(Path(args.spec)):
        for kernel in entries:
            progress.update(kernel.name)
            arrays |= data.check_data(kernel, data.sizes_of_kernel(kernel, given), file=file)
        return data_files.to_npz(arrays)


def _input(args: argparse.Namespace) -> tuple[str, Spec | bytes]:
    """The stage that compilation starts from, and its input: a text, or a spec."""
    from lego_mlir import spec

    suffix = Path(args.spec).suffix
    if args.start is None and args.spec != files.STANDARD and suffix not in _STAGE_OF_SUFFIX:
        return "mlir", spec.load(args.spec)
    if args.kernel is not None:
        raise UsageError("--kernel selects a kernel of a spec; a text is compiled whole")
    start = args.start or _STAGE_OF_SUFFIX.get(suffix, "mlir")
    return start, files.read_bytes(args.spec)


def _traced(args: argparse.Namespace, given: Spec) -> tuple[Kernel, ...]:
    """The kernels of a spec that are compiled, traced."""
    from lego_mlir import spec

    kernels = given.kernels_named(args.kernel)
    with Progress(f"tracing {given.path.name}"), spec.blame(*given.files):
        for kernel in kernels:
            kernel.mlir()
    return kernels


def _compile(args: argparse.Namespace, start: str, given: tuple[Kernel, ...] | bytes) -> Compilation:
    from lego_mlir.toolchain import compile_kernel

    with Progress(f"compiling {Path(args.spec).name}") as progress:
        return compile_kernel(
            given,
            target=args.target,
            emit=args.emit,
            transform=args.transform,
            parameters=options.parameters_of(args),
            cache=options.cache_of(args),
            start=start,
            pipeline=args.pipeline or None,
            name="stdin" if args.spec == files.STANDARD else args.spec,
            on_stage=lambda stage: progress.update(stage.name),
        )
