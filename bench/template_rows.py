"""Rendered Triton templates of rows and attention, and what all benchmarks of templates share.

The command line is that of `triton_templates`: `python bench/triton_templates.py triton_softmax time 1000`.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import comparison
import harness
import runner
from harness import Case, Contender

EVERY_PROGRAM = ("pointers", "descriptors")


def cells(sizes: Iterable[int]) -> str:
    return "x".join(map(str, sizes))


def divisible(n: int) -> str:
    """The type of a number that Triton specializes where it is a multiple of 16."""
    return "i32:16" if n % 16 == 0 else "i32"


def counted(kernels: Mapping[str, Any], work: str, **facts: Any) -> list[dict[str, Any]]:
    """The static rows of compiled kernels by name."""
    return [harness.static_row(compiled, work, kernel=name, **facts) for name, compiled in kernels.items()]


def searched(
    choices: Mapping[str, Mapping[Any, Callable[[], Any]]], results: Sequence[tuple[Any, Any]], tolerance: float,
    **facts: Any,
) -> list[Contender]:  # fmt: skip
    """The fastest configuration of each kernel."""
    return [harness.fastest(who, runs, results, tolerance, **facts) for who, runs in choices.items()]


def line(
    case: tuple[str, ...], rows: Sequence[Any], baselines: Mapping[str, str], config: str, ours: str = "rendered",
    **facts: Any,
) -> comparison.Line:  # fmt: skip
    """A case of a page: ours, the baselines by the heads of their columns, and what the search chose."""
    found = {head: comparison.find(rows, kernel=kernel, **facts) for head, kernel in baselines.items()}
    row = comparison.find(rows, kernel=ours, **facts)
    return comparison.Line(case, row, found, {config: comparison.configuration(row)})


# -- rows

ROWS = 4096
WIDTHS = (256, 384, 512, 768, 1000, 1024, 1536, 2048, 3000, 4096, 6144, 8192, 12288, 16384)
AT_A_TIME, WARPS, LARGEST_BLOCK = (1, 2, 4, 8), (1, 2, 4, 8, 16, 32), 16384  # rows a program takes
AGAINST = {"by hand": "by hand", "torch": "torch"}


def softmax_shapes(columns: int) -> list[int]:
    """How many rows a program can take."""
    return [rows for rows in AT_A_TIME if columns * rows <= LARGEST_BLOCK]


def render_softmax(folder: Path, cases: Sequence[Case]) -> None:
    from lego_mlir.templates.library.rows import softmax

    for columns, rows in ((wide, rows) for (wide,) in cases for rows in softmax_shapes(wide)):
        harness.keep(folder, f"softmax_{columns}_{rows}", softmax(ROWS, columns, at_a_time=rows).render())


def static_softmax() -> list[dict[str, Any]]:
    from rivals.triton_rows import softmax as hand

    from lego_mlir.templates.library.rows import block_of, softmax
    from lego_mlir.templates.run import triton

    rows, types = [], {"x_ptr": "*fp32:16", "y_ptr": "*fp32:16"}
    for columns in (256, 1000, 1024, 4096, 16384):
        options = {"num_warps": 4 if columns <= 2048 else 8 if columns <= 8192 else 16}
        signature = types | dict.fromkeys(("x_stride", "y_stride", "columns"), divisible(columns))
        ours = triton.load(softmax(ROWS, columns).render(), "softmax")
        found = {
            f"{columns} wide by hand": triton.compile_for(hand, signature, {"BLOCK": block_of(columns)}, **options),
            f"{columns} wide rendered": triton.compile_for(ours, types, {}, **options),
        }
        rows += counted(found, "none", columns=columns, **options)
    return rows


def timed_softmax(folder: Path, columns: int) -> list[Contender]:
    import torch
    from rivals.triton_rows import softmax as hand

    x = torch.randn(ROWS, columns, device="cuda")
    y, block = torch.empty_like(x), 1 << (columns - 1).bit_length()

    def rendered(rows: int, warps: int) -> Any:
        launch = harness.load(folder, f"softmax_{columns}_{rows}", "softmax")[(-(-ROWS // rows),)]
        return partial(launch, x, y, num_warps=warps)

    def by_hand(warps: int) -> Any:
        return partial(hand[(ROWS,)], x, y, x.stride(0), y.stride(0), columns, block, num_warps=warps)

    runs = {
        "rendered": {(r, w): rendered(r, w) for r, w in product(softmax_shapes(columns), WARPS)},
        "by hand": {w: by_hand(w) for w in WARPS},
    }
    library = partial(torch.softmax, x, dim=1)
    rows = searched(runs, [(y, library())], 1e-4, columns=columns)
    return [*rows, harness.contender(library, kernel="torch", columns=columns)]


def softmax_table() -> None:
    rows = comparison.rows_of("triton_softmax")
    lines = [line((str(columns),), rows, AGAINST, "rows, warps", columns=columns) for columns in WIDTHS]
    comparison.write("triton_softmax", ["width"], lines)


NORM_WIDTHS, PARTIAL_GROUPS, NORM_BLOCK, EPS = (512, 1000, 1024, 2048, 4096, 8192, 16384), 132, 128, 1e-5
NORM_WARPS, NORM_STAGES = (
    (4, 8, 16),
    (1, 2, 3),
)  # of the rendered backward kernel: how many rows it reads ahead, and one


def norm_template(columns: int, stages: int) -> Any:
    from lego_mlir.templates.library.rows import layer_norm

    return layer_norm(ROWS, columns, eps=EPS, groups=PARTIAL_GROUPS, block=NORM_BLOCK, stages=stages)


def render_norm(folder: Path, cases: Sequence[Case]) -> None:
    for (columns,), stages in product(cases, NORM_STAGES):
        harness.keep(folder, f"layer_norm_{columns}_{stages}", norm_template(columns, stages).render())


def static_norm() -> list[dict[str, Any]]:
    from rivals import triton_rows as hand

    from lego_mlir.templates.library.rows import block_of
    from lego_mlir.templates.run import triton

    rows = []
    types = dict.fromkeys(("mean_ptr", "rstd_ptr", "dw_ptr", "db_ptr"), "*fp32:16")
    types |= dict.fromkeys(("x_ptr", "y_ptr", "dy_ptr", "dx_ptr", "w_ptr", "b_ptr"), "*fp16:16")
    types |= {"rows": "i32:16", "groups": "i32", "eps": "fp32"}
    for columns, way in product((1000, 1024, 8192), ("forward", "backward")):
        options, name = {"num_warps": 4 if columns < 4096 else 8}, f"layer_norm_{way}"
        given = types | dict.fromkeys(("stride", "columns"), divisible(columns))
        block = {"BLOCK": block_of(columns)}
        found = {f"{way} {columns} wide by hand": triton.compile_for(getattr(hand, name), given, block, **options)}
        for stages in (1,) if way == "forward" else (1, 3):
            kernel = triton.load(norm_template(columns, stages).render(), name)
            called = f"{way} {columns} wide rendered{', rows read ahead' * (stages > 1)}"
            found[called] = triton.compile_for(kernel, given, {}, **options)
        rows += counted(found, "none" if way == "forward" else "LDG", columns=columns, **options)
    return rows


def timed_norm(folder: Path, columns: int) -> list[Contender]:
    import torch
    from rivals import triton_rows as hand

    x, dy = (torch.randn(ROWS, columns, device="cuda", dtype=torch.float16) for _ in "xy")
    w, b = (torch.randn(columns, device="cuda", dtype=torch.float16) for _ in "wb")
    y, dx, dw, db = torch.empty_like(x), torch.empty_like(x), torch.empty_like(w), torch.empty_like(b)
    mean, rstd = (torch.empty(ROWS, device="cuda") for _ in "mr")
    parts = [torch.empty(PARTIAL_GROUPS, columns, device="cuda") for _ in "wb"]
    block, blocks = 1 << (columns - 1).bit_length(), (-(-columns // NORM_BLOCK),)

    def ours(name: str, stages: int = 1) -> Any:
        return harness.load(folder, f"layer_norm_{columns}_{stages}", name)

    forward, sums = ours("layer_norm_forward"), ours("sum_groups")
    backward = {stages: ours("layer_norm_backward", stages) for stages in NORM_STAGES}

    def rendered_forward(warps: int) -> None:
        forward[(ROWS,)](x, w, b, y, mean, rstd, num_warps=warps)

    def rendered_backward(warps: int, stages: int) -> None:
        backward[stages][(PARTIAL_GROUPS,)](dy, x, w, mean, rstd, dx, *parts, num_warps=warps)
        for part, out in zip(parts, (dw, db), strict=True):
            sums[blocks](part, out)

    def forward_by_hand(warps: int) -> None:
        hand.layer_norm_forward[(ROWS,)](x, w, b, y, mean, rstd, columns, columns, EPS, block, num_warps=warps)

    def backward_by_hand(warps: int) -> None:
        numbers = (columns, ROWS, columns, PARTIAL_GROUPS, block)
        hand.layer_norm_backward[(PARTIAL_GROUPS,)](dy, x, w, mean, rstd, dx, *parts, *numbers, num_warps=warps)
        for part, out in zip(parts, (dw, db), strict=True):
            hand.sum_groups[blocks](part, out, columns, PARTIAL_GROUPS, NORM_BLOCK)

    inputs = [t.clone().requires_grad_() for t in (x, w, b)]
    library = partial(torch.nn.functional.layer_norm, inputs[0], (columns,), *inputs[1:], EPS)
    expected = library()
    gradients = partial(torch.autograd.grad, expected, inputs, dy, retain_graph=True)
    one, ahead = [(warps,) for warps in NORM_WARPS], list(product(NORM_WARPS, NORM_STAGES))
    found = list(zip((dx, dw, db), gradients(), strict=True))
    right = {"forward": ([(y, expected)], 5e-3), "backward": (found, 1e-2)}
    rows = []
    for way, who, run, configs in (
        ("forward", "rendered", rendered_forward, one), ("forward", "by hand", forward_by_hand, one),
        ("backward", "rendered", rendered_backward, ahead), ("backward", "by hand", backward_by_hand, one),
    ):  # fmt: skip
        rows += searched({f"{way} {who}": {c: partial(run, *c) for c in configs}}, *right[way], columns=columns)
    rows.append(harness.contender(library, kernel="forward torch", columns=columns))
    return [*rows, harness.contender(gradients, kernel="backward torch", columns=columns)]


def norm_table() -> None:
    rows, lines = comparison.rows_of("triton_layer_norm"), []
    for way, columns in product(("forward", "backward"), NORM_WIDTHS):
        kernels = {head: f"{way} {kernel}" for head, kernel in AGAINST.items()}
        lines.append(line((way, str(columns)), rows, kernels, "warps, stages", f"{way} rendered", columns=columns))
    comparison.write("triton_layer_norm", ["direction", "width"], lines)


# -- attention

BATCH, HEADS, FEATURES = 4, 16, 64
POSITIONS, MASKS = (512, 1000, 1024, 2048, 4096, 8192), ("full", "causal")
ATTENTION = [((128, 64), 4, 3), ((128, 64), 8, 3), ((128, 128), 8, 2), ((64, 64), 4, 3)]


def attention_label(positions: int, tile: tuple[int, int], mask: str, form: str) -> str:
    return f"attention_{positions}_{cells(tile)}_{mask}_{form}"


def attention_template(positions: int, tile: tuple[int, int], mask: str, form: str) -> Any:
    from lego_mlir.templates.library.attention import attention

    given = {"causal": mask == "causal", "tile": tile, "descriptors": form == "descriptors"}
    return attention(BATCH, HEADS, positions, FEATURES, **given)


def render_attention(folder: Path, cases: Sequence[Case]) -> None:
    tiles = {tile for tile, _, _ in ATTENTION}
    for (positions, mask), form, tile in product(cases, EVERY_PROGRAM, tiles):
        text = attention_template(positions, tile, mask, form).render()
        harness.keep(folder, attention_label(positions, tile, mask, form), text)


def static_attention() -> list[dict[str, Any]]:
    from rivals.triton_attention import attention as hand

    from lego_mlir.templates.run import triton

    rows, (tile, warps, stages) = [], ATTENTION[0]
    types = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16:16") | {"lse_ptr": "*fp32:16"}
    options = {"num_warps": warps, "num_stages": stages}
    for positions, mask in ((4096, "full"), (4096, "causal"), (1000, "full")):
        numbers = {"scale": "fp32", "heads": "i32:16", "positions": divisible(positions)}
        numbers |= dict.fromkeys(("stride_b", "stride_h", "stride_s"), "i32:16")
        constants = {"stride_d": 1, "D": FEATURES, "BLOCK_M": tile[0], "BLOCK_N": tile[1], "CAUSAL": mask == "causal"}
        found = {"by hand": triton.compile_for(hand, types | numbers, constants, **options)}
        for form in EVERY_PROGRAM:
            kernel = triton.load(attention_template(positions, tile, mask, form).render(), "attention")
            found[f"rendered, {form}"] = triton.compile_for(kernel, types, {}, **options)
        named = {f"{positions} positions, {mask}, {who}": one for who, one in found.items()}
        rows += counted(named, "GMMA", tile=tile, **options)
    return rows


def timed_attention(folder: Path, positions: int, mask: str) -> list[Contender]:
    import torch
    from rivals.triton_attention import attention as hand

    causal, shape = mask == "causal", (BATCH, HEADS, positions, FEATURES)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.float16) for _ in "qkv")
    o, lse = torch.empty_like(q), torch.empty(shape[:3], device="cuda")
    scale = math.log2(math.e) / math.sqrt(FEATURES)
    harness.descriptors_need_memory()

    def rendered(tile: Any, warps: int, stages: int, form: str) -> Any:
        kernel = harness.load(folder, attention_label(positions, tile, mask, form), "attention")
        launch = kernel[(BATCH * HEADS * -(-positions // tile[0]),)]
        return partial(launch, q, k, v, o, lse, num_warps=warps, num_stages=stages)

    def by_hand(tile: Any, warps: int, stages: int) -> Any:
        launch = hand[(-(-positions // tile[0]), BATCH * HEADS)]
        numbers = (scale, HEADS, positions, *q.stride(), FEATURES, *tile, causal)
        return partial(launch, q, k, v, o, lse, *numbers, num_warps=warps, num_stages=stages)

    attend = partial(torch.nn.functional.scaled_dot_product_attention, q, k, v, is_causal=causal)
    facts = {"positions": positions, "causal": causal}
    runs = {
        "rendered": {(*config, form): rendered(*config, form) for config in ATTENTION for form in EVERY_PROGRAM},
        "by hand": {config: by_hand(*config) for config in ATTENTION},
    }
    return [*searched(runs, [(o, attend())], 1e-2, **facts), harness.contender(attend, kernel="torch", **facts)]


def attention_table() -> None:
    rows, config = comparison.rows_of("triton_attention"), "tile, warps, stages, form"
    lines = [
        line((mask, str(positions)), rows, AGAINST, config, positions=positions, causal=mask == "causal")
        for mask, positions in product(MASKS, POSITIONS)
    ]
    comparison.write("triton_attention", ["mask", "positions"], lines)


OF_ROWS = (
    runner.Benchmark("triton_softmax", [(columns,) for columns in WIDTHS], timed_softmax, softmax_table,
                     render_softmax, static_softmax, counts=True),
    runner.Benchmark("triton_layer_norm", [(columns,) for columns in NORM_WIDTHS], timed_norm, norm_table,
                     render_norm, static_norm, counts=True),
    runner.Benchmark("triton_attention", list(product(POSITIONS, MASKS)), timed_attention, attention_table,
                     render_attention, static_attention, counts=True),
)  # fmt: skip
