"""`lego-mlir analyze`: what the memory system sees of a spec's kernels and layouts, and what would repair it.

A kernel is run on a sample of blocks in the interpreter, which counts; its shared tiles are then tried with other
layouts. A layout alone is walked over by a warp, along each axis or by the pattern of `--access`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lego_mlir.cli import modules, options
from lego_mlir.cli.progress import Progress
from lego_mlir.cli.run import make_input, transformed
from lego_mlir.errors import SpecError, UsageError
from lego_mlir.runtime.manifest import sizes_of

HELP: Final = "Count bank conflicts and memory sectors, and suggest repairs."
EXAMPLE: Final = "lego-mlir analyze examples/transpose.py"
DEFAULT_BLOCKS: Final = 8
DTYPES: Final = {"i8": 1, "f8": 1, "f16": 2, "bf16": 2, "i16": 2, "f32": 4, "i32": 4, "f64": 8, "i64": 8}
SHOWN_LANES: Final = 4
SHARED_BYTES: Final = 227 * 1024  # the most that a block has, sm_90; CUDA C++ guide, technical specifications


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("spec", help="the spec, a Python file; or MLIR (.mlir), run on random input")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--kernel", metavar="NAME", help="analyze this kernel only")
    parser.add_argument("--layout", metavar="NAME", help="analyze this layout only")
    parser.add_argument(
        "--access", metavar="INDEX", help="the logical index of each lane of a warp, such as 'lane // 4, lane %% 4 + k'"
    )
    parser.add_argument(
        "--free", metavar="NAME=N", action="append", default=[], help="another variable of --access: it takes 0 .. N-1"
    )
    parser.add_argument("--dtype", choices=DTYPES, default="f32", help="the elements of a layout (default: f32)")
    parser.add_argument("--width", type=int, default=1, metavar="N", help="elements a lane takes at once (default: 1)")
    parser.add_argument("--size", metavar="NAME=N", action="append", default=[], help="a symbolic size, such as M=4096")
    parser.add_argument("--transform", metavar="FILE", help="a transform script to apply before counting")
    options.add_parameters(parser)
    parser.add_argument(
        "--blocks", type=int, metavar="N", default=DEFAULT_BLOCKS, help=f"blocks to count (default: {DEFAULT_BLOCKS})"
    )
    modules.add_arguments(parser)
    options.add_cache_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print a table for each kernel and layout, and what is wrong with it."""
    results = _of_module(args) if modules.is_module(args.spec) else _of_spec(args)
    if args.json:
        print(json.dumps(results, indent=2))
        return 0
    for found in results["kernels"]:
        print("\n".join(_kernel_text(found)))
    for found in results["layouts"]:
        print("\n".join(_layout_text(found)))
    return 0


def _of_module(args: argparse.Namespace) -> dict[str, list[Any]]:
    if args.layout or args.access or args.size:
        raise UsageError(f"{args.spec} is an MLIR file: it has kernels, and no layouts and sizes")
    found = [{**report.to_dict(), "source": args.spec, "sizes": {}, "repairs": {}} for report in modules.reports(args)]
    return {"kernels": found, "layouts": []}


def _of_spec(args: argparse.Namespace) -> dict[str, list[Any]]:
    from lego_mlir import spec
    from lego_mlir.runtime import data

    loaded = spec.load(args.spec)
    layouts = _chosen_layouts(args, loaded)
    kernels = () if args.layout or (args.access and not args.kernel) else _chosen_kernels(args, loaded)
    if not kernels and not layouts:
        raise SpecError(f"{loaded.path}: no kernel and no layout in this spec")
    sizes = sizes_of(args.size)
    with spec.blame(*loaded.files):
        data.refuse_unknown_sizes(sizes, kernels)
    results: dict[str, list[Any]] = {"kernels": [], "layouts": []}
    with Progress(f"analyzing {loaded.path.name}") as progress, spec.blame(*loaded.files):
        for kernel in kernels:
            progress.update(kernel.name)
            results["kernels"].append(_kernel(args, kernel, sizes))
        for name, layout in layouts.items():
            progress.update(name)
            results["layouts"].append(_layout(args, name, layout))
    return results


def _chosen_kernels(args: argparse.Namespace, loaded: Any) -> tuple[Any, ...]:
    return loaded.kernels_named(args.kernel) if args.kernel else tuple(loaded.kernels.values())


def _chosen_layouts(args: argparse.Namespace, loaded: Any) -> Mapping[str, Any]:
    """The layouts of the spec that are asked for; those with symbolic sizes only where they are asked for by name."""
    if args.kernel:
        return {}
    if args.layout is None:
        return {n: x for n, x in loaded.layouts.items() if all(isinstance(d, int) for d in x.dims())}
    if args.layout not in loaded.layouts:
        raise SpecError(
            f"{loaded.path}: no layout named {args.layout!r}; it has: {', '.join(loaded.layouts) or 'none'}"
        )
    layout = loaded.layouts[args.layout]
    if not all(isinstance(d, int) for d in layout.dims()):
        raise UsageError(f"{args.layout} has symbolic sizes {layout.dims()}; analyze a layout whose sizes are ints")
    return {args.layout: layout}


def _kernel(args: argparse.Namespace, kernel: Any, given: Mapping[str, int]) -> dict[str, Any]:
    from lego_mlir import interp
    from lego_mlir.analysis.kernels import tile_repairs

    made = make_input(kernel, given, 0)
    report = interp.run_kernel(kernel, made.memories, made.sizes, module=transformed(args, kernel), blocks=args.blocks)
    repairs = {name: [r.to_dict() for r in found] for name, found in tile_repairs(kernel, made.sizes).items()}
    return {**report.to_dict(), "source": str(kernel.source), "sizes": dict(made.sizes), "repairs": repairs}


def _layout(args: argparse.Namespace, name: str, layout: Any) -> dict[str, Any]:
    from lego_mlir.analysis import layouts, patterns
    from lego_mlir.analysis.repair import Use, repairs, wavefronts_of, widest_vector

    element = DTYPES[args.dtype]
    if args.access:
        chosen = [patterns.parse(args.access, sizes_of(args.free))]
    else:
        chosen = patterns.walks(layout.dims())
    fits = layout.physical_size() * element <= SHARED_BYTES
    through = [layouts.through_cache(layout, pattern, element, args.width) for pattern in chosen]
    shared = [layouts.shared(layout, pattern, element, args.width) if fits else None for pattern in chosen]
    better: list[Any] = []
    if fits:
        uses = [Use.of(pattern, args.width) for pattern in chosen]
        total, ideal = wavefronts_of(layout, uses, element)
        if total > ideal:
            better = [r for r in repairs(layout.dims(), uses, element) if r.wavefronts < total]
    return {
        "layout": name,
        "text": repr(layout),
        "dtype": args.dtype,
        "accesses": [
            {
                "pattern": pattern.name,
                "shared": None if s is None else s.to_dict(),
                "global": g.to_dict(),
                "vector": widest_vector(patterns.positions(layout, pattern), element)
                if args.width == 1
                else args.width,
            }
            for pattern, s, g in zip(chosen, shared, through, strict=True)
        ],
        "repairs": [r.to_dict() for r in better],
    }


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Columns as wide as their widest entry, the first one to the left, the others to the right."""
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    return [
        "  " + "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in cells
    ]


def _kernel_text(found: Mapping[str, Any]) -> list[str]:
    x, y, z = found["grid"]
    shown = "".join(f" {name}={value}" for name, value in found["sizes"].items())
    lines = [f"kernel {found['kernel']}{shown}, {found['source']}: {found['blocks_run']} of {x * y * z} blocks"]
    rows = []
    for site in found["sites"]:
        is_shared = site["space"] == "shared"
        rows.append([
            f"{Path(site['file']).name}:{site['line']} {site['kind']} of {site['buffer']}",
            site["width"],
            site["requests"],
            site["wavefronts"] if is_shared else "",
            f"{site['ways']}-way" if is_shared and site["conflicts"] else "",
            "" if is_shared else site["sectors"],
            "" if is_shared else f"{100 * site['coalescing']:.0f}%",
        ])  # fmt: skip
    lines += _table(("access", "bytes a lane", "requests", "wavefronts", "conflict", "sectors", "needed"), rows)
    moved = [f"{b['name']} {b['moved']} ({b['compulsory']})" for b in found["buffers"]]
    lines.append(f"  bytes moved in sectors (compulsory): {', '.join(moved)}")
    lines += [f"  {line}" for site in found["sites"] for line in _remarks(site, found["repairs"])]
    if found["faults"]:
        lines.append(f"  {len(found['faults'])} faults; lego-mlir run shows them")
    return lines


def _remarks(site: Mapping[str, Any], repairs: Mapping[str, Any]) -> list[str]:
    """What is wrong with one line's access, and the repair."""
    where = f"line {site['line']}"
    lines = []
    if site["conflicts"]:
        lanes = ", ".join(map(str, site["worst_lanes"][:SHOWN_LANES]))
        more = ", .." if len(site["worst_lanes"]) > SHOWN_LANES else ""
        article = "an" if site["ways"] in (8, 11, 18) else "a"
        lines.append(
            f"{where}: {site['kind']} of {site['buffer']} has {article} {site['ways']}-way bank conflict: "
            f"lanes {lanes}{more} "
            f"want {site['ways']} words of bank {site['worst_bank']}, {site['conflicts']} extra wavefronts"
        )
        for word, repair in zip(("remedy", "    or"), repairs.get(site["buffer"], ()), strict=False):
            lines.append(f"  {word}: {_repair_text(repair)}")
    if site["space"] == "global" and site["sectors"] > site["ideal_sectors"]:
        remedy = "let neighbouring lanes take neighbouring elements"
        requests, ideal = site["requests"], site["ideal_sectors"]
        if site["sectors"] - ideal <= requests and ideal >= 2 * requests:
            remedy = "some begin or end inside a sector: let rows begin at multiples of 32 bytes"
        lines.append(
            f"{where}: {site['kind']} of {site['buffer']} moves {site['sectors']} sectors of 32 bytes where "
            f"{site['ideal_sectors']} hold what it asks for; {remedy}"
        )
    if site["space"] == "global" and site["widest"] and site["widest"] > site["width"]:
        times = site["widest"] // site["width"]
        lines.append(
            f"{where}: {site['kind']} of {site['buffer']} takes {site['width']} bytes a lane where layout and "
            f"alignment allow {site['widest']}: let a lane take {times} times as many elements at once"
        )
    return lines


def _repair_text(repair: Mapping[str, Any]) -> str:
    left = repair["wavefronts"] - repair["ideal"]
    effect = "no conflict" if left == 0 else f"{left} conflicts left"
    memory = "no extra memory" if repair["extra_bytes"] == 0 else f"{repair['extra_bytes']} bytes more"
    return f"{repair['layout']}: {effect}, {memory} ({repair['by']})"


def _ways(shared: Mapping[str, Any]) -> str:
    return f"{shared['ways']}-way" if shared["wavefronts"] > shared["ideal"] else "none"


def _layout_text(found: Mapping[str, Any]) -> list[str]:
    lines = [f"layout {found['layout']} = {found['text']} of {found['dtype']}"]
    rows = []
    for access in found["accesses"]:
        s, g = access["shared"], access["global"]
        banks = ["", ""] if s is None else [_ways(s), f"{s['wavefronts']} ({s['ideal']})"]
        sectors = [f"{g['sectors']} ({g['ideal']})", f"{100 * g['coalescing']:.0f}%"]
        rows.append([access["pattern"], *banks, *sectors, access["vector"], (s or g)["by"]])
    header = ("lanes go", "conflict", "wavefronts", "sectors", "needed", "elements at once", "known by")
    lines += _table(header, rows)
    lines += [f"  {word}: {_repair_text(r)}" for word, r in zip(("remedy", "    or"), found["repairs"], strict=False)]
    return lines
