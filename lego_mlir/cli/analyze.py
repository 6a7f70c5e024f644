"""`lego-mlir analyze`: count bank conflicts and memory sectors of a spec's kernels and layouts, and suggest repairs.

For a kernel, the interpreter runs a sample of blocks and counts; its shared tiles are then tried with other layouts, on
the recorded accesses where these depend on data. For a layout alone, a warp traverses it along each axis or by the
pattern of `--access`; symbolic sizes take the values of `--size`. With `--cache`, orders of blocks are ranked by a
simulation of the caches (`cache_analysis`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lego_mlir.aliases import Json
from lego_mlir.cli import cache_analysis, files, mlir_files, options, remarks
from lego_mlir.cli.json_output import print_json
from lego_mlir.cli.progress import Progress
from lego_mlir.cli.run import Given, refuse_sample
from lego_mlir.cli.several import add_specs, expanded
from lego_mlir.cli.terminal import ResultTable, show
from lego_mlir.errors import SpecError, UsageError
from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES, WARP
from lego_mlir.hardware.memory import ELEMENT_BYTES
from lego_mlir.runtime.manifest import refuse_unknown_sizes, sizes_of

if TYPE_CHECKING:
    from lego_mlir.analysis.recorded_requests import RecordedRequests
    from lego_mlir.interp.report import Report
    from lego_mlir.layout.base import Layout
    from lego_mlir.spec import Spec
    from lego_mlir.tracing.definition.kernel import Kernel
    from lego_mlir.tracing.definition.program import Runnable

HELP: Final = "Count bank conflicts and memory sectors, and suggest repairs."
EXAMPLE: Final = "lego-mlir analyze examples/transpose.py"
DEFAULT_BLOCKS: Final = 8
SHOWN_FAULTS: Final = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    add_specs(parser, "a spec, a Python file; or MLIR (.mlir), run on random input")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--html", metavar="FILE", help="write the source with its counts and drawings as a page")
    parser.add_argument("--kernel", metavar="NAME", help="analyze this kernel only")
    parser.add_argument("--layout", metavar="NAME", help="analyze this layout only")
    parser.add_argument(
        "--access", metavar="INDEX", help="the logical index of each lane of a warp, such as 'lane // 4, lane %% 4 + k'"
    )
    parser.add_argument(
        "--free",
        metavar="NAME=N",
        action="append",
        default=[],
        help="another variable of --access, with values 0 .. N-1",
    )
    parser.add_argument("--dtype", choices=ELEMENT_BYTES, help="the elements of a layout (default: f32)")
    parser.add_argument("--width", type=int, metavar="N", help="elements per lane and access (default: 1)")
    parser.add_argument("--size", metavar="NAME=N", action="append", default=[], help="a symbolic size, such as M=4096")
    parser.add_argument("--transform", metavar="FILE", help="a transform script to apply before counting")
    cache_analysis.add_arguments(parser)
    options.add_parameters(parser)
    options.add_input(parser)
    parser.add_argument("--blocks", type=int, metavar="N", help=f"blocks to count (default: {DEFAULT_BLOCKS})")
    mlir_files.add_arguments(parser)
    options.add_cache_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print a table for each kernel and layout, with remarks and repairs."""
    from lego_mlir.analysis.recorded_requests import RecordedRequests

    cache_analysis.refuse_idle(args)
    if args.html and len(expanded(args.specs)) > 1:
        raise UsageError(f"--html {args.html} is the page of one spec, and several are given; name one")
    if args.cache:
        return _caches(args)
    if args.html:
        return _write_page(args)
    results = _results(args, RecordedRequests)
    if args.json:
        print_json(args.command, {"spec": args.spec, **results})
        return 0
    for found in results["kernels"]:
        show(*_kernel_text(found))
    for found in results["layouts"]:
        show(*_layout_text(found))
    return 0


def _results(args: argparse.Namespace, observer: Callable[[], RecordedRequests]) -> dict[str, list[Json]]:
    return _of_module(args, observer) if mlir_files.is_module(args.spec) else _of_spec(args, observer)


def _caches(args: argparse.Namespace) -> int:
    """Print the ranked orders of `--cache`."""
    if mlir_files.is_module(args.spec):
        raise UsageError(f"--cache simulates the kernels of a spec, and {args.spec} is an MLIR file")
    mlir_files.refuse_extents(args)
    found = cache_analysis.results(args)
    if args.json:
        print_json(args.command, {"spec": args.spec, "caches": found})
    else:
        show(*cache_analysis.text(found))
    return 0


def _write_page(args: argparse.Namespace) -> int:
    """Write the source with its counts, and the drawings of its lines."""
    from lego_mlir.cli.analysis_page import DrawnRequests, analysis_page

    files.require_not_an_input(args.html, {"the spec": args.spec})
    observers: list[DrawnRequests] = []

    def observer() -> DrawnRequests:
        observers.append(DrawnRequests())
        return observers[-1]

    found = _results(args, observer)
    if not found["kernels"]:
        raise UsageError(
            f"--html shows the lines of kernels, and {args.spec} has none; draw layouts with lego-mlir show"
        )
    files.write(args.html, analysis_page(Path(args.spec), found["kernels"], observers).encode())
    return 0


def _of_module(args: argparse.Namespace, observer: Callable[[], RecordedRequests]) -> dict[str, list[Json]]:
    for option in ("layout", "access", "free", "dtype", "width", "size", "input"):
        if getattr(args, option) not in (None, []):
            raise UsageError(
                f"--{option}: {args.spec} is an MLIR file: it has kernels but no layouts, sizes or names of arguments"
            )
    args.blocks = DEFAULT_BLOCKS if args.blocks is None else args.blocks
    found = []
    for report, recorded in mlir_files.reports(args, observer=observer):
        text = _with_runs(report.to_dict(), recorded)
        found.append({**text, "source": args.spec, "sizes": {}, "repairs": {}, "tiles": {}})
    return {"kernels": found, "layouts": []}


def _of_spec(args: argparse.Namespace, observer: Callable[[], RecordedRequests]) -> dict[str, list[Json]]:
    from lego_mlir import spec

    mlir_files.refuse_extents(args)
    loaded = spec.load(args.spec)
    sizes = sizes_of(args.size)
    layouts = _chosen_layouts(args, loaded, sizes)
    kernels = () if args.layout or (args.access and not args.kernel) else _chosen_kernels(args, loaded)
    if not kernels and not layouts:
        raise SpecError(f"{loaded.path}: {_nothing(args, loaded)}")
    _refuse_idle_options(args, loaded, kernels, layouts)
    with spec.blame(*loaded.files):
        of_layouts = {name for layout in layouts for name in layout.sizes}
        refuse_unknown_sizes({name: n for name, n in sizes.items() if name not in of_layouts}, kernels)
        file = options.input_of(args, kernels)
    results: dict[str, list[Json]] = {"kernels": [], "layouts": []}
    with Progress(f"analyzing {loaded.path.name}") as progress, spec.blame(*loaded.files):
        for kernel in kernels:
            progress.update(kernel.name)
            results["kernels"] += _runs(args, kernel, Given(sizes, file), observer)
        for layout in layouts:
            progress.update(layout.name)
            elements = prod(map(int, layout.layout.dims()))
            if elements < WARP and args.layout is None and not args.access:
                note = f"{elements} elements, fewer than a warp's {WARP} lanes: not analyzed"
                results["layouts"].append({"layout": layout.name, "text": layout.text, "note": note})
            else:
                results["layouts"].append(_layout(args, layout))
    return results


def _chosen_kernels(args: argparse.Namespace, loaded: Spec) -> tuple[Runnable, ...]:
    return loaded.runnable(args.kernel) if args.kernel or loaded.kernels else ()


def _has_fixed_sizes(layout: Layout) -> bool:
    return all(isinstance(n, int) for n in layout.dims())


@dataclass(frozen=True, slots=True)
class ChosenLayout:
    """A layout to analyze, with values for its `sizes`; `text` shows the spec's layout and these values."""

    name: str
    layout: Layout
    text: str
    sizes: tuple[str, ...] = ()


def _chosen_layouts(args: argparse.Namespace, loaded: Spec, sizes: Mapping[str, int]) -> list[ChosenLayout]:
    """The requested layouts of the spec; those with symbolic sizes only if requested by name."""
    if args.layout and args.kernel:
        raise UsageError(f"--layout {args.layout} and --kernel {args.kernel} are analyzed one at a time; leave one out")
    if args.kernel:
        return []
    if args.layout is None:
        return [ChosenLayout(n, x, repr(x)) for n, x in loaded.layouts.items() if _has_fixed_sizes(x)]
    if args.layout not in loaded.layouts:
        raise SpecError(
            f"{loaded.path}: no layout named {args.layout!r}; it has: {', '.join(loaded.layouts) or 'none'}"
        )
    return [at_sizes(args.layout, loaded.layouts[args.layout], sizes)]


def at_sizes(name: str, layout: Layout, given: Mapping[str, int]) -> ChosenLayout:
    """`layout` at the values of `--size`. Raises UsageError for a size without a value and for an invalid value."""
    from lego_mlir.expr import related
    from lego_mlir.layout import substitute

    sizes = substitute.sizes_of(layout)
    missing = [size for size in sizes if size not in given]
    if missing:
        raise UsageError(
            f"{layout!r} has symbolic sizes; give a value for {', '.join(missing)}: "
            + " ".join(f"--size {size}=N" for size in missing)
        )
    for text, size in sizes.items():
        value = given[text]
        if value < size.min or (size.max is not None and value > size.max) or value % size.multiple_of:
            upper = "" if size.max is None else f", at most {size.max}"
            raise UsageError(
                f"--size {text}={value}: {text} is at least {size.min}{upper}, a multiple of {size.multiple_of}"
            )
    values = {size: given[size] for size in sizes}
    if failed := related.refusal(sizes.values(), values):
        raise UsageError(f"--size: {failed}")
    shown = f"{layout!r} at {', '.join(f'{size}={n}' for size, n in values.items())}" if values else repr(layout)
    return ChosenLayout(name, substitute.substitute(layout, values), shown, tuple(values))


def _nothing(args: argparse.Namespace, loaded: Spec) -> str:
    """Why there is nothing to analyze, and which options to pass instead."""
    kernels, layouts = ", ".join(loaded.kernels), ", ".join(loaded.layouts)
    if not loaded.kernels and not loaded.layouts:
        return "this spec has no kernel and no layout"
    if not loaded.layouts:
        return f"--access applies to a layout, and this spec has none; omit it to analyze kernel {kernels}"
    also = f"; without --access, kernel {kernels} is analyzed" if kernels and args.access else ""
    return f"{layouts} has symbolic sizes; name a layout and give its sizes: --layout NAME --size NAME=N{also}"


def _refuse_idle_options(
    args: argparse.Namespace, loaded: Spec, kernels: Sequence[Runnable], layouts: Sequence[ChosenLayout]
) -> None:
    """Raise UsageError for an option that would have no effect here."""
    if args.free and not args.access:
        raise UsageError(f"--free {args.free[0]} names a variable of --access; give both, or neither")
    for option in ("access", "dtype", "width"):
        if getattr(args, option) is not None and not layouts:
            instead = f"name one: {', '.join(loaded.layouts)}" if loaded.layouts else "this spec has none"
            raise UsageError(f"--{option} applies to a layout, with --layout NAME, not to kernels; {instead}")
    for option in ("blocks", "transform", "input"):
        if getattr(args, option) is not None and not kernels:
            raise UsageError(f"--{option} applies to kernels, and only a layout is analyzed here; omit it")
    options.require_transform(args)


def _runs(
    args: argparse.Namespace, entry: Runnable, given: Given, observer: Callable[[], RecordedRequests]
) -> list[Json]:
    """The analysis of a kernel, or of each launch of a program."""
    from lego_mlir import interp
    from lego_mlir.runtime import programs
    from lego_mlir.runtime.kernel_input import make_input
    from lego_mlir.tracing.definition.program import KernelProgram

    made = make_input(entry, given.sizes, 0, given.file)
    if isinstance(entry, KernelProgram):
        refuse_sample(args, entry)
        modules = {kernel: options.transformed(args, (kernel,)) for kernel in entry.kernels}
        runs = programs.run_program(entry, made.memories, made.sizes, module=modules.__getitem__, observer=observer)
        return [
            {**_kernel(run.step.kernel, run.report, run.observed, run.sizes, modules[run.step.kernel]),
             "program": entry.name} for run in runs
        ]  # fmt: skip
    recorded, module = observer(), options.transformed(args, (entry,))
    report = interp.run_kernel(
        entry,
        made.memories,
        made.sizes,
        module=module,
        blocks=DEFAULT_BLOCKS if args.blocks is None else args.blocks,
        observe=recorded,
    )
    return [_kernel(entry, report, recorded, made.sizes, module)]


def _kernel(
    kernel: Kernel, report: Report, recorded: RecordedRequests, sizes: Mapping[str, int], module: str | None
) -> Json:
    from lego_mlir.analysis.kernel_repairs import tile_repairs
    from lego_mlir.proofs.barriers import unneeded_barriers

    tiles = tile_repairs(kernel, sizes, recorded if module is None else None)
    recorded.kernel, recorded.tiles = kernel, tiles
    found = _with_runs(report.to_dict(), recorded)
    for site in found["sites"]:
        site["wider"] = _wider(kernel, site)
    return {
        **found,
        "source": str(kernel.source),
        "sizes": dict(sizes),
        "repairs": {name: [r.to_dict() for r in tile.repairs] for name, tile in tiles.items() if tile.repairs},
        "tiles": {name: {"line": tile.source.line, "note": tile.note} for name, tile in tiles.items()},
        "unneeded_barriers": [] if module is not None else list(map(str, unneeded_barriers(kernel.trace()))),
    }


def _with_runs(found: Json, recorded: RecordedRequests) -> Json:
    """The report, with the contiguous segments of the requests at each of its lines."""
    from dataclasses import asdict

    from lego_mlir.analysis.recorded_requests import key_of

    for site in found["sites"]:
        runs = recorded.runs.get(key_of(site))
        site["runs"] = None if runs is None else asdict(runs)
    return found


def _wider(kernel: Kernel, site: Json) -> Json | None:
    """The widest access that a lane could make at this line; None if no wider than the present one."""
    from lego_mlir.analysis import widening

    if site["space"] != "global" or not site["widest"] or site["widest"] <= site["width"]:
        return None
    found = widening.of_line(kernel, site["file"], site["line"], site["buffer"], site["widest"])
    element = next((p.dtype.bytes for p in kernel.params if p.name == site["buffer"]), 0)
    if found is None or found.elements * element <= site["width"]:
        return None
    return {
        "elements": found.elements,
        "bytes": found.elements * element,
        "sizes": list(found.sizes),
        "along": found.along,
    }


def _layout(args: argparse.Namespace, chosen_layout: ChosenLayout) -> Json:
    from lego_mlir.analysis import layouts, patterns
    from lego_mlir.analysis.repair import TileAccess, repairs, wavefronts_of, widest_vector

    name, layout = chosen_layout.name, chosen_layout.layout
    dims = tuple(map(int, layout.dims()))
    dtype, width = args.dtype or "f32", 1 if args.width is None else args.width
    element = ELEMENT_BYTES[dtype]
    patterns.require_width(width, dtype, "--width ")
    if args.access:
        chosen = [patterns.parse(args.access, sizes_of(args.free, "--free"))]
        patterns.require_inside(chosen[0], name, dims, width)
    else:
        chosen = patterns.sweeps(dims)
    fits = layout.physical_size() * element <= LARGEST_SHARED_BYTES
    through = [layouts.through_cache(layout, pattern, element, width) for pattern in chosen]
    shared = [layouts.shared(layout, pattern, element, width) if fits else None for pattern in chosen]
    better: list[Any] = []
    if fits:
        uses = [TileAccess.of(pattern, width) for pattern in chosen]
        total, ideal = wavefronts_of(layout, uses, element)
        if total > ideal:
            better = [r for r in repairs(dims, uses, element) if r.wavefronts < total]
    return {
        "layout": name,
        "text": chosen_layout.text,
        "dtype": dtype,
        "accesses": [
            {
                "pattern": pattern.name,
                "shared": None if s is None else s.to_dict(),
                "global": g.to_dict(),
                "vector": widest_vector(patterns.positions(layout, pattern), element) if width == 1 else width,
            }
            for pattern, s, g in zip(chosen, shared, through, strict=True)
        ],
        "repairs": [r.to_dict() for r in better],
    }


def _kernel_text(found: Json) -> list[str | ResultTable]:
    x, y, z = found["grid"]
    shown = "".join(f" {name}={value}" for name, value in found["sizes"].items())
    lines: list[str | ResultTable] = [
        f"kernel {found['kernel']}{shown}, {found['source']}: {found['blocks_run']} of {x * y * z} blocks"
    ]
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
    lines.append(
        ResultTable(("access", "bytes a lane", "requests", "wavefronts", "conflict", "sectors", "needed"), rows)
    )
    moved = [f"{b['name']} {b['moved']} ({b['compulsory']})" for b in found["buffers"]]
    lines.append(f"  bytes moved in sectors (compulsory): {', '.join(moved)}")
    lines += [
        f"  {line}" for site in found["sites"] for line in remarks.of_site(site, found["repairs"], found["tiles"])
    ]
    lines += [f"  {place}: removing this barrier keeps every proof" for place in found.get("unneeded_barriers", ())]
    for fault in found["faults"][:SHOWN_FAULTS]:
        times = "" if fault["count"] == 1 else f" ({fault['count']} times in all)"
        lines.append(
            f"  FAULT {Path(fault['file']).name}:{fault['line']}: {fault['kind']}: {fault['message']}, "
            f"block {fault['block']}, thread {fault['thread']}{times}"
        )
    if len(found["faults"]) > SHOWN_FAULTS:
        lines.append(f"  and {len(found['faults']) - SHOWN_FAULTS} more places; --json shows all")
    return lines


def _ways(shared: Json) -> str:
    return f"{shared['ways']}-way" if shared["wavefronts"] > shared["ideal"] else "none"


def _layout_text(found: Json) -> list[str | ResultTable]:
    if "note" in found:
        return [f"layout {found['layout']} = {found['text']}: {found['note']}"]
    lines: list[str | ResultTable] = [f"layout {found['layout']} = {found['text']} of {found['dtype']}"]
    rows = []
    for access in found["accesses"]:
        s, g = access["shared"], access["global"]
        banks = ["", ""] if s is None else [_ways(s), f"{s['wavefronts']} ({s['ideal']})"]
        sectors = [f"{g['sectors']} ({g['ideal']})", f"{100 * g['coalescing']:.0f}%"]
        rows.append([access["pattern"], *banks, *sectors, access["vector"], (s or g)["by"]])
    header = ("lanes go", "conflict", "wavefronts", "sectors", "needed", "elements at once", "known by")
    lines.append(ResultTable(header, rows))
    lines += [
        f"  {word}: {remarks.repair_text(r)}" for word, r in zip(("remedy", "    or"), found["repairs"], strict=False)
    ]
    return lines
