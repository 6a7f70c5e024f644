"""Results as SVG: flops a cycle over the matrix size, one curve a rival, one picture a case.

Forms of one rival share a curve, which shows the fastest of them at each size.
"""

from pathlib import Path

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 380, 56, 44, 36, 150
COLOURS = ("#c0392b", "#2471a3", "#7d3c98", "#117a65", "#b9770e", "#566573", "#2e86c1", "#a04000")
# curve: its process (None: either) and its entries
CURVES = {
    "ours": ("avx512", ("ours",)),
    "MKL, AVX-512": ("avx512", ("mkl",)),
    "MKL, default": ("as they come", ("mkl",)),
    "OpenBLAS": (None, ("openblas",)),
    "Eigen": ("avx512", ("eigen", "eigen_dense")),
    "C by clang": ("avx512", ("naive_clang", "rows_clang")),
    "C by gcc": ("avx512", ("naive_gcc", "rows_gcc")),
}


def curve(points, x, y, colour):
    path = " ".join(f"{x(n):.1f},{y(value):.1f}" for n, value in points)
    marks = "".join(f'<circle cx="{x(n):.1f}" cy="{y(v):.1f}" r="2.5" fill="{colour}"/>' for n, v in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>{marks}'


def picture(title, curves):
    """One picture; `curves` maps a name to (n, flops a cycle) pairs."""
    sizes = sorted({n for points in curves.values() for n, _ in points})
    high = max(value for points in curves.values() for _, value in points) * 1.05
    inner = WIDTH - LEFT - RIGHT

    def x(n):
        return LEFT + inner * (n - sizes[0]) / max(sizes[-1] - sizes[0], 1)

    def y(value):
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / high

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"',
        ' font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{title}: flops a cycle</text>',
    ]
    step = max(round(high / 5), 1)
    for tick in range(0, int(high) + 1, step):
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick}</text>')
    for n in range(0, sizes[-1] + 1, 20):
        if n >= sizes[0]:
            parts.append(f'<text x="{x(n):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{n}</text>')
    parts.append(f'<text x="{LEFT + inner / 2}" y="{HEIGHT - 8}" text-anchor="middle">n</text>')
    for at, (name, points) in enumerate(curves.items()):
        colour = COLOURS[at % len(COLOURS)]
        parts.append(curve(sorted(points), x, y, colour))
        parts.append(f'<text x="{WIDTH - RIGHT + 12}" y="{TOP + 16 * at + 8}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def speeds(results, case, dtype, flops):
    """Flops a cycle of every curve, by n."""
    found = {}
    for point in results:
        if (point["case"], point["dtype"]) != (case, dtype):
            continue
        for name, (process, entries) in CURVES.items():
            times = [point["entries"].get(entry, {}).get("ns") for entry in entries]
            times = [time for time in times if time is not None]
            if process in (None, point["process"]) and times:
                value = flops(point["n"]) * point["cycle_ns"] / min(times)
                curve_of = found.setdefault(name, {})
                curve_of[point["n"]] = max(value, curve_of.get(point["n"], 0.0))
    return {name: list(found[name].items()) for name in CURVES if name in found}


def write(results, flops, folder):
    """All pictures of a run, into a folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for case, dtype in sorted({(point["case"], point["dtype"]) for point in results}):
        shown = picture(f"{case}, {dtype}", speeds(results, case, dtype, flops[case]))
        (folder / f"structured-{case}-{dtype}.svg").write_text(shown)
