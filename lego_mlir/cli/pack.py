"""`lego-mlir pack`: compile kernels into a folder for machines that launch and do not compile."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lego_mlir.cli import options
from lego_mlir.errors import UsageError
from lego_mlir.hardware.devices import REFERENCE_SMS
from lego_mlir.kernels.attention_forms import HEADS, AttentionForm
from lego_mlir.tracing.trace.dtypes import dtype_named, f8e4m3fn

if TYPE_CHECKING:
    from lego_mlir.runtime.products.problem import Problem
    from lego_mlir.toolchain.compile import Compilation

HELP: Final = "Compile kernels into a folder for machines that only launch."
EXAMPLE: Final = "lego-mlir pack examples/transpose.py --target sm_90 -o kernels"
MATMUL: Final = "matmul"
OF_ROLES: Final = ("batched_matmul", "grouped_matmul")
"""Products whose kernels take all sizes."""
ATTENTION: Final = "attention"
LAYOUTS: Final = ("NN", "NT", "TN", "TT")
DTYPES: Final = ("f16", "bf16")
RESULTS: Final = (*DTYPES, "f32")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `pack`."""
    parser.add_argument(
        "what",
        metavar="SPEC|matmul",
        help="a spec, whose kernels are packed, or matmul, batched_matmul, grouped_matmul, attention",
    )
    parser.add_argument("-o", "--output", metavar="FOLDER", required=True, help="the folder to write into")
    parser.add_argument("--target", default="sm_80", help="the GPU architecture (default: %(default)s)")
    parser.add_argument("--emit", choices=("ptx", "cubin"), default="ptx", help="PTX, or a cubin for this target alone")
    parser.add_argument("--kernel", metavar="NAME", help="of a spec, only this kernel")
    parser.add_argument("--transform", metavar="FILE", help="of a spec, a transform script for its kernels")
    parser.add_argument(
        "--version", type=options.at_least(0), metavar="N", help="of the pack; load_kernels(.., version=N) requires it"
    )
    parser.add_argument(
        "--hub",
        metavar="NAME",
        help="write a repository of that name for the Hugging Face Hub, of --version (default: 0)",
    )
    products = parser.add_argument_group("the kernels of lego_mlir.matmul")
    products.add_argument("--sizes", metavar="MxNxK", nargs="+", default=[], help="products to pack; 512: 512x512x512")
    products.add_argument("--dtype", choices=DTYPES, nargs="+", default=["f16"], help="types of A and B (default: f16)")
    products.add_argument(
        "--result", choices=RESULTS, nargs="+", help="types of the result (default: those of A and B)"
    )
    products.add_argument(
        "--layouts", choices=LAYOUTS, nargs="+", default=["NN"], help="A and B in rows (N) or columns (T); default: NN"
    )
    products.add_argument(
        "--multiprocessors", type=options.at_least(1), default=REFERENCE_SMS, metavar="N",
        help="of the GPU, which large products are tuned to (default: %(default)s)",
    )  # fmt: skip
    forms = parser.add_argument_group("the kernels of lego_mlir.attention, for all lengths; --dtype as above")
    forms.add_argument(
        "--features", type=int, choices=HEADS, nargs="+", default=[64, 128], help="of a head (default: 64 128)"
    )
    forms.add_argument("--causal", action="store_true", help="with a causal mask")
    forms.add_argument("--window", type=options.at_least(1), metavar="N", help="of N keys, with --causal")
    forms.add_argument(
        "--group", type=options.at_least(1), default=1, metavar="N", help="heads of q that share one of k and v"
    )
    forms.add_argument("--scale", type=float, metavar="X", help="of scores (default: 1 / sqrt(features))")
    forms.add_argument("--narrow", action="store_true", help="q, k and v of f8e4m3fn, and a result of --dtype")
    forms.add_argument("--gradients", action="store_true", help="the kernels of gradients too")
    forms.add_argument(
        "--varlen-heads", type=options.at_least(1), nargs="+", default=[], metavar="N",
        help="also those of lego_mlir.attention_varlen, for N heads of k and v",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Compile, write, and print the files."""
    from lego_mlir.store import require_folder

    is_matmul = args.what == MATMUL
    if is_matmul != bool(args.sizes):
        raise UsageError(
            "lego-mlir pack matmul needs --sizes, such as --sizes 512 4096x4096x1024"
            if is_matmul
            else f"--sizes belong to lego-mlir pack matmul, not to {args.what}; {_sizes_of(args.what)}"
        )
    require_folder(Path(args.output))
    compiled = _compiled(args)
    for path in _written(Path(args.output), args.hub, args.version, compiled):
        print(path)
    return 0


def _compiled(args: argparse.Namespace) -> dict[str, Compilation]:
    """The kernels to pack, by their names in the folder."""
    if args.what == MATMUL:
        return _products(args)
    if args.what == ATTENTION:
        return _of_attention(args)
    return _of_roles(args) if args.what in OF_ROLES else _kernels(args)


def _written(folder: Path, hub_name: str | None, version: int | None, compiled: dict[str, Compilation]) -> list[Path]:
    from lego_mlir.runtime import hub, packs

    return (
        packs.write(folder, compiled, version)
        if hub_name is None
        else hub.write(folder, hub_name, version or 0, compiled)
    )


def _sizes_of(what: str) -> str:
    return "its kernels take all sizes" if what in (*OF_ROLES, ATTENTION) else "a spec has its own sizes"


def _kernels(args: argparse.Namespace) -> dict[str, Compilation]:
    """The kernels of a spec, by the names of their variables."""
    from lego_mlir import spec
    from lego_mlir.toolchain import Cache, compile_kernel, default_folder

    loaded = spec.load(args.what)
    compiled = {}
    with spec.blame(*loaded.files):
        for kernel in loaded.kernels_named(args.kernel):
            compiled[kernel.name] = compile_kernel(
                kernel, target=args.target, emit=args.emit, transform=args.transform, cache=Cache(default_folder())
            )
    return compiled


def _products(args: argparse.Namespace) -> dict[str, Compilation]:
    """The kernels of the products, by the names that `lego_mlir.matmul` looks for."""
    from lego_mlir.runtime.products import kernels

    problems = [problem for size in args.sizes for problem in _problems(args, *_size(size))]
    found: dict[str, Compilation] = {}
    for problem in problems:
        found |= kernels.compilations(problem, args.emit)
    return found


def _of_roles(args: argparse.Namespace) -> dict[str, Compilation]:
    """The kernels of batched or grouped products, in every tile, by the names that the calls look for."""
    from lego_mlir.hardware.targets import target_named
    from lego_mlir.runtime.products.role_kernels import ORDERS, RoleKernel, pairs_blocks
    from lego_mlir.toolchain import Cache, compile_kernel, default_folder

    orders, found, target = ORDERS[args.what], {}, target_named(args.target)
    wrong = [layouts for layouts in args.layouts if layouts not in orders]
    if wrong:
        raise UsageError(f"lego-mlir pack {args.what} takes the layouts {', '.join(orders)}, not {', '.join(wrong)}")
    kinds = [(d, r, layouts) for d in args.dtype for r in args.result or [d] for layouts in args.layouts]
    for kind in kinds:
        wanted = RoleKernel(args.what, *kind, blocks=args.multiprocessors)
        for one in wanted.tiles(target.shared_per_block, pairs_blocks(args.target, args.multiprocessors)):
            cache = Cache(default_folder())
            found[one.name] = compile_kernel(one.build(), target=args.target, emit=args.emit, cache=cache)
    return found


def _of_attention(args: argparse.Namespace) -> dict[str, Compilation]:
    """The kernels of attention in every tile that its lengths may take, by the names that the calls look for."""
    from lego_mlir.hardware.targets import target_named
    from lego_mlir.runtime.attention_calls import TENSOR_COPIES
    from lego_mlir.runtime.attention_kernels import packable
    from lego_mlir.runtime.calls import script_for
    from lego_mlir.toolchain import Cache, compile_kernel, default_folder

    if args.narrow and (args.gradients or args.varlen_heads):
        raise UsageError("lego-mlir pack attention --narrow has no gradients and no packed sequences; leave these out")
    found, (major, minor) = {}, target_named(args.target).compute_capability
    multiprocessors = args.multiprocessors if 10 * major + minor >= TENSOR_COPIES else None
    for dtype in args.dtype:
        for features in args.features:
            result = dtype_named(dtype)
            of_type = (
                AttentionForm(features, f8e4m3fn, result=result) if args.narrow else AttentionForm(features, result)
            )
            form = replace(of_type, causal=args.causal, window=args.window, group=args.group, scale=args.scale)
            for one in packable(form, multiprocessors, gradients=args.gradients, varlen_heads=args.varlen_heads):
                kernel, cache = one.build(), Cache(default_folder())
                found[one.name] = compile_kernel(
                    kernel, target=args.target, emit=args.emit, transform=script_for(kernel), cache=cache
                )
    return found


def _problems(args: argparse.Namespace, m: int, n: int, k: int) -> list[Problem]:
    from lego_mlir.runtime.products.problem import Problem

    return [
        Problem(m, n, k, dtype, result, layouts, args.target, args.multiprocessors)
        for dtype in args.dtype
        for result in args.result or [dtype]
        for layouts in args.layouts
    ]


def _size(text: str) -> tuple[int, int, int]:
    """M, N and K of `512` or `4096x4096x1024`."""
    parts = text.split("x")
    if len(parts) not in (1, 3) or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise UsageError(f"--sizes takes sizes MxNxK, or one number for a square product, not {text!r}")
    m, n, k = (parts * 3)[:3] if len(parts) == 1 else parts
    return int(m), int(n), int(k)
