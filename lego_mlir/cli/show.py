"""`lego-mlir show`: draw the layouts of a spec, or a kernel: its accesses, the requests of a line, its repairs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from lego_mlir.cli import files, options
from lego_mlir.cli.analyze import at_sizes
from lego_mlir.errors import SpecError, UsageError
from lego_mlir.hardware.memory import ELEMENT_BYTES
from lego_mlir.runtime.manifest import sizes_of

if TYPE_CHECKING:
    from lego_mlir.spec import Spec
    from lego_mlir.viz.panels import Panel
    from lego_mlir.viz.picture import Picture

HELP: Final = "Draw layouts, accesses and the requests of a kernel's line."
EXAMPLE: Final = "lego-mlir show examples/transpose.py --kernel transpose --line 23 -o banks.svg"
FORMATS: Final = (".svg", ".html", ".png", ".txt")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("spec", help="the spec, a Python file")
    parser.add_argument("--layout", metavar="NAME", help="draw this layout only")
    parser.add_argument("--kernel", metavar="NAME", help="draw this kernel: its accesses, or the requests at --line")
    parser.add_argument("--line", type=int, metavar="N", help="the line of the spec that loads or stores")
    parser.add_argument(
        "--by", metavar="VIEW",
        help="position (default), order, bank, sector, wavefront, matrix, derivation, repair; kernel: access (the "
        "default), request (default with --line), time, thread, repair, stage",
    )  # fmt: skip
    parser.add_argument("--access", metavar="INDEX", help="the logical index of each lane, such as 'lane, 0'")
    parser.add_argument(
        "--free", metavar="NAME=N", action="append", default=[], help="another variable of --access, 0 .. N-1"
    )
    parser.add_argument("--dtype", choices=ELEMENT_BYTES, default="f32", help="the elements of a layout (default: f32)")
    parser.add_argument("--width", type=int, metavar="N", default=1, help="elements per lane and access (default: 1)")
    parser.add_argument("--size", metavar="NAME=N", action="append", default=[], help="a symbolic size, such as M=4096")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help=f"a file ending in {', '.join(FORMATS)}; default: text, -"
    )
    options.add_parameters(parser)
    options.add_input(parser)


def run(args: argparse.Namespace) -> int:
    """Write the picture, to a file or as text on standard output."""
    from lego_mlir import spec

    if args.output not in (None, "-") and not args.output.endswith(FORMATS):
        raise UsageError(f"-o {args.output}: a picture ends in {', '.join(FORMATS)}")
    loaded = spec.load(args.spec)
    with spec.blame(*loaded.files):
        picture = (_of_kernels if args.kernel or args.line is not None else _of_layouts)(args, loaded)
    if args.output in (None, "-"):
        _print(picture)
    else:
        files.require_not_an_input(args.output, {"the spec": args.spec})
        files.write(args.output, picture.as_format("." + args.output.rpartition(".")[2]))
    return 0


def _print(picture: Picture) -> None:
    import shutil

    from lego_mlir.viz.picture import terminal_colours

    print(picture.text(terminal_colours(), shutil.get_terminal_size().columns))


def _of_layouts(args: argparse.Namespace, loaded: Spec) -> Picture:
    from lego_mlir.viz import show

    if args.layout is not None and args.layout not in loaded.layouts:
        raise SpecError(
            f"{loaded.path}: no layout named {args.layout!r}; it has: {', '.join(loaded.layouts) or 'none'}"
        )
    names = [args.layout] if args.layout else list(loaded.layouts)
    if not names:
        raise SpecError(f"{loaded.path}: this spec has no layout; draw a line of a kernel with --kernel NAME --line N")
    sizes = sizes_of(args.size)
    chosen = [at_sizes(name, loaded.layouts[name], sizes).layout for name in names]
    free = sizes_of(args.free, "--free")
    return show(*chosen, by=args.by, access=args.access, free=free, width=args.width, dtype=args.dtype)


def _of_kernels(args: argparse.Namespace, loaded: Spec) -> Picture:
    from lego_mlir.viz.picture import Picture
    from lego_mlir.viz.shown import panels_of_kernel
    from lego_mlir.viz.views.kernel_runs import SampleRun

    for option in ("layout", "access"):
        if getattr(args, option) is not None:
            raise UsageError(f"--{option} applies to layouts, not to a kernel; omit it, or omit --kernel and --line")
    kernels = loaded.kernels_named(args.kernel)
    sizes, file = sizes_of(args.size), options.input_of(args, kernels)
    panels: list[Panel] = []
    refused: list[UsageError] = []
    for kernel in kernels:
        try:
            panels += panels_of_kernel(SampleRun(kernel, sizes, file), args.by, args.line)
        except UsageError as error:
            refused.append(error)
    if not panels:
        raise refused[0]
    line = "" if args.line is None else f", line {args.line}"
    return Picture(f"{loaded.path.name}{line}", tuple(panels))
