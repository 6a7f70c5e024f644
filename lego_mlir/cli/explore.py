"""`lego-mlir explore`: edit layouts, accesses and repairs on a page in the browser, served by this machine alone."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import Json
from lego_mlir.cli import files
from lego_mlir.cli.analyze import at_sizes
from lego_mlir.errors import LegoError, SpecError, UsageError
from lego_mlir.runtime.manifest import sizes_of

if TYPE_CHECKING:
    from lego_mlir.layout.base import Layout
    from lego_mlir.spec import Spec

HELP: Final = "Edit layouts and accesses on a page in the browser."
EXAMPLE: Final = "lego-mlir explore examples/layout.py"
ACCESSES: Final = ("", "0, lane", "lane, 0")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("spec", help="the spec, a Python file with layouts, or with kernels that have shared tiles")
    parser.add_argument("--size", metavar="NAME=N", action="append", default=[], help="a symbolic size, such as M=4096")
    parser.add_argument("--export", metavar="FILE", help="write a page that works alone for the spec's layouts")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="the port on 127.0.0.1 (default: a free one)")
    parser.add_argument("--no-browser", action="store_true", help="print the address only")


def run(args: argparse.Namespace) -> int:
    """Serve the page until interrupted, or write it."""
    from lego_mlir import spec
    from lego_mlir.viz.explorer.page import page

    loaded = spec.load(args.spec)
    with spec.blame(*loaded.files):
        layouts = _texts(args, loaded)
    title = f"lego-mlir explore {loaded.path.name}"
    if args.export:
        files.require_not_an_input(args.export, {"the spec": args.spec})
        files.write(args.export, page(title, layouts, "", _answers(layouts)).encode())
        return 0
    return _serve(page(title, layouts, "lane, 0"), args)


def _texts(args: argparse.Namespace, loaded: Spec) -> dict[str, str]:
    """The layouts of the spec, and of its kernels' shared tiles, that can be read back from their text, by name."""
    from lego_mlir.layout.notation_parser import parse_layout

    sizes = sizes_of(args.size)
    found: dict[str, str] = {}
    refused = ""
    for name, layout in {**loaded.layouts, **_tiles(loaded)}.items():
        try:
            text = repr(at_sizes(name, layout, sizes).layout)
            parse_layout(text)
        except LegoError as error:
            refused = f"{name}: {error}"
            continue
        found[name] = text
    if not found:
        reason = refused or "this spec has none, and its kernels have no shared tile"
        raise SpecError(f"{loaded.path}: no layout can be explored; {reason}")
    return found


def _tiles(loaded: Spec) -> dict[str, Layout]:
    """The layouts of the shared tiles of the spec's kernels, such as `transpose.shared0`."""
    return {
        f"{kernel.name}.{tile.name}": tile.layout
        for kernel in loaded.kernels.values()
        for tile in kernel.trace().shared
        if hasattr(tile, "layout")
    }


def _answers(layouts: dict[str, str]) -> list[Json]:
    """An answer for each layout and standard access that fits it."""
    from lego_mlir.viz.explorer.worker import Worker

    found, worker = [], Worker()
    try:
        for text in layouts.values():
            index = worker.ask({"part": "index", "layout": text})
            for access in ACCESSES:
                question = {"layout": text, "access": access, "width": 1, "dtype": "f32"}
                answered = worker.ask(question)
                if "error" not in answered and not (access and "error" in answered["access"]):
                    found.append({"question": question, **answered, "index": index})
    finally:
        worker.close()
    return found


def _serve(text: str, args: argparse.Namespace) -> int:
    import threading
    import webbrowser

    from lego_mlir.viz.explorer.server import ExplorerServer

    try:
        server = ExplorerServer(text, args.port)
    except (OSError, OverflowError) as error:
        raise UsageError(f"--port {args.port} cannot be used ({error}); omit it to get a free one") from None
    threading.Thread(target=server.worker.start, daemon=True).start()
    with server:
        print(f"{server.address}\nend with Ctrl-C", flush=True)
        if not args.no_browser:
            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0
