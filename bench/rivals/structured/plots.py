"""Results as SVG: flops a cycle over the matrix size, one curve a rival, one picture a case."""

from pathlib import Path

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 380, 56, 44, 36, 150
COLOURS = ("#c0392b", "#2471a3", "#7d3c98", "#117a65", "#b9770e", "#566573", "#2e86c1", "#a04000")


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


def write(results, flops, folder):
    """All pictures of a run, into a folder. BLAS entries carry the name of their process."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    curves = {}
    for point in results:
        for name, entry in point["entries"].items():
            blas = name in ("mkl", "openblas")
            if "ns" not in entry or (not blas and point["process"] != "avx512"):
                continue
            shown = f"{name} ({point['process']})" if blas else name
            value = flops[point["case"]](point["n"]) * point["cycle_ns"] / entry["ns"]
            curves.setdefault((point["case"], point["dtype"]), {}).setdefault(shown, []).append((point["n"], value))
    for (case, dtype), found in curves.items():
        ordered = dict(sorted(found.items(), key=lambda item: (item[0] != "ours", item[0])))
        (folder / f"structured-{case}-{dtype}.svg").write_text(picture(f"{case}, {dtype}", ordered))
