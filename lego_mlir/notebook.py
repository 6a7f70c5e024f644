"""Rich displays in a notebook: a layout, a derivation or a report is drawn as the value of a cell.

IPython finds a formatter by the name of a class or of its base, so registering imports none of them. `import lego_mlir`
registers in a session of IPython; `register` does it for another shell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lego_mlir.aliases import Drawable

if TYPE_CHECKING:
    from lego_mlir.interp.report import Report

DRAWN: Final = (
    ("lego_mlir.layout.base", "Layout"),
    ("lego_mlir.f2.linear", "LinearLayout"),
    ("lego_mlir.cute.layout", "CuteLayout"),
    ("lego_mlir.expr.simplify", "Derivation"),
    ("lego_mlir.expr.verdict", "Proved"),
    ("lego_mlir.expr.verdict", "Refuted"),
    ("lego_mlir.expr.verdict", "Unknown"),
    ("lego_mlir.tracing.definition.kernel", "Kernel"),
    ("lego_mlir.f2.mixed", "MixedLayout"),
    ("lego_mlir.analysis.layouts", "SharedAccess"),
    ("lego_mlir.analysis.layouts", "GlobalAccess"),
)
REPORT: Final = ("lego_mlir.interp.report", "Report")


def register(shell: Any) -> None:
    """Show the classes above as pictures and tables in this IPython shell."""
    svg = shell.display_formatter.formatters["image/svg+xml"]
    for module, name in DRAWN:
        svg.for_type_by_name(module, name, drawn)
    shell.display_formatter.formatters["text/html"].for_type_by_name(*REPORT, table)


def drawn(value: Drawable) -> str | None:
    """The picture of a value; None, so that its text is shown, for one that cannot be drawn (symbolic sizes)."""
    from lego_mlir.errors import LegoError
    from lego_mlir.viz.shown import show

    try:
        return show(value).svg()
    except LegoError:
        return None


def table(report: Report) -> str:
    """A report of the interpreter: its faults, and a row for each line that accesses memory."""
    import html

    rows = "".join(
        f"<tr><td>{html.escape(str(site.place))}</td><td>{html.escape(f'{site.kind} of {site.buffer}')}</td>"
        f"<td>{site.wavefronts or ''}</td><td>{site.ideal_wavefronts or ''}</td>"
        f"<td>{site.sectors or ''}</td><td>{site.ideal_sectors or ''}</td></tr>"
        for site in report.by_line()
    )
    faults = "".join(f"<li>{html.escape(str(fault))}</li>" for fault in report.faults)
    head = "<tr><th>line</th><th>access</th><th>wavefronts</th><th>at best</th><th>sectors</th><th>at best</th></tr>"
    return f"{f'<ul>{faults}</ul>' if faults else '<p>no fault</p>'}<table>{head}{rows}</table>"
