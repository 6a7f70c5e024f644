"""What `first_day.py` compares each kernel with: its tensors, its launch, and the same by a library.

A trial has all that one case needs: `start` prepares the results, `run` launches ours, `expected` computes what the
results must be, and `baselines` are the library's ways to do the same. What a library needs in another form (a sparse
matrix, 64-bit tokens) it gets before its time is taken.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Run = Callable[[], Any]
DEVICE = "cuda"


@dataclass(frozen=True)
class Trial:
    run: Run
    results: tuple[Any, ...]
    expected: Callable[[], tuple[Any, ...]]
    baselines: Mapping[str, Run]
    tolerance: float = 1e-5
    start: Run = lambda: None


def _random(*shape: int, dtype: str = "float32") -> Any:
    import torch

    return torch.randn(shape, device=DEVICE, dtype=getattr(torch, dtype))


def _integers(low: int, high: int, *shape: int, dtype: str = "int32") -> Any:
    import torch

    return torch.randint(low, high, shape, device=DEVICE, dtype=getattr(torch, dtype))


def _simple(
    kernels: Any, entry: str, given: tuple[Any, ...], result: Any, baseline: Run, tolerance: float = 1e-5
) -> Trial:
    """A kernel that takes its sources, then its result, which torch computes with `baseline`."""
    run = kernels.launch(entry, *given, result)
    return Trial(run, (result,), lambda: (baseline(),), {"torch": baseline}, tolerance)


def vector_add(kernels: Any, n: Mapping[str, int]) -> Trial:
    import torch

    x, y = _random(n["N"]), _random(n["N"])
    out = torch.empty_like(x)
    return _simple(kernels, "add", (x, y), torch.empty_like(x), lambda: torch.add(x, y, out=out))


def axpy_f16(kernels: Any, n: Mapping[str, int]) -> Trial:
    import numpy
    import torch

    x, y, a = _random(n["N"], dtype="float16"), _random(n["N"], dtype="float16"), 2.0**-12
    kept, result, theirs = y.clone(), y.clone(), y.clone()
    run = kernels.launch("axpy", numpy.float16(a), x, result)
    return Trial(
        run, (result,), lambda: (torch.add(kept, x, alpha=a),), {"torch": lambda: theirs.add_(x, alpha=a)}, 2e-3,
        lambda: result.copy_(kept),
    )  # fmt: skip


def stencil(kernels: Any, n: Mapping[str, int]) -> Trial:
    import torch

    x = _random(n["H"], n["W"])
    weights = torch.tensor([[0, 1, 0], [1, -4, 1], [0, 1, 0]], device=DEVICE, dtype=torch.float32)[None, None]

    def baseline() -> Any:
        padded = torch.nn.functional.pad(x[None, None], (1, 1, 1, 1), mode="replicate")
        return torch.nn.functional.conv2d(padded, weights)[0, 0]

    return _simple(kernels, "stencil", (x,), torch.empty_like(x), baseline)


def grid_sum(kernels: Any, n: Mapping[str, int]) -> Trial:
    import torch

    x = torch.rand(n["N"], device=DEVICE)
    y, out = torch.zeros(1, device=DEVICE), torch.zeros((), device=DEVICE)
    launch = kernels.launch("grid_sum", x, y)

    def run() -> None:
        y.zero_()
        launch()

    baseline = {"torch": lambda: torch.sum(x, dim=0, out=out)}
    return Trial(run, (y,), lambda: (x.double().sum().float()[None],), baseline, 1e-4)


def row_softmax(kernels: Any, n: Mapping[str, int]) -> Trial:
    import torch

    x = _random(n["M"], n["N"])
    return _simple(kernels, "softmax", (x,), torch.empty_like(x), lambda: torch.softmax(x, dim=1))


def histogram(kernels: Any, n: Mapping[str, int]) -> Trial:
    import cupy
    import torch

    x, counts = _integers(0, 256, n["N"], dtype="uint8"), torch.zeros(256, device=DEVICE, dtype=torch.int32)
    launch, array = kernels.launch("histogram", x, counts, _1="uint32"), cupy.from_dlpack(x)

    def run() -> None:
        counts.zero_()
        launch()

    baselines = {"torch": lambda: torch.bincount(x, minlength=256), "CuPy": lambda: cupy.bincount(array, minlength=256)}
    return Trial(run, (counts,), lambda: (torch.bincount(x, minlength=256),), baselines, 0.0)


def three_pass_scan(kernels: Any, n: Mapping[str, int]) -> Trial:
    import torch

    x = torch.rand(n["N"], device=DEVICE)
    y, sums = torch.empty_like(x), torch.empty(-(-n["N"] // (4 * n["T"])), device=DEVICE)
    steps = [
        kernels.launch("sum_blocks", x, sums),
        kernels.launch("scan_sums", sums),
        kernels.launch("scan_blocks", x, y, sums),
    ]
    baselines = _scans(x)
    return Trial(lambda: [step() for step in steps], (y,), lambda: (x.double().cumsum(0).float(),), baselines, 1e-4)


def look_back_scan(kernels: Any, n: Mapping[str, int]) -> Trial:
    import torch

    x = _integers(0, 20, n["N"])
    y, words = torch.empty_like(x), torch.empty(-(-n["N"] // 4096), device=DEVICE, dtype=torch.int64)
    clear = kernels.launch("clear", words, _0="uint64")
    scan = kernels.launch("scan_blocks", x, y, words, _0="uint32", _1="uint32", _2="uint64")

    def run() -> None:
        clear()
        scan()

    return Trial(run, (y,), lambda: (x.cumsum(0, dtype=torch.int32),), _scans(x), 0.0)


def _scans(x: Any) -> dict[str, Run]:
    """torch's and CUB's inclusive sums into memory that is there."""
    import cupy
    import torch

    out, given = torch.empty_like(x), cupy.from_dlpack(x)
    theirs = cupy.empty_like(given)
    cupy._core.set_routine_accelerators(["cub"])
    return {
        "torch": lambda: torch.cumsum(x, 0, dtype=x.dtype, out=out),
        "CUB": lambda: cupy.cumsum(given, dtype=given.dtype, out=theirs),
    }


def matvec(kernels: Any, n: Mapping[str, int]) -> Trial:
    import torch

    a, x = _random(n["M"], n["K"]), _random(n["K"])
    y, out = (torch.empty(n["M"], device=DEVICE) for _ in range(2))
    return _simple(kernels, "matvec", (a, x), y, lambda: torch.mv(a, x, out=out), 1e-4)


def nchw_to_nhwc(kernels: Any, n: Mapping[str, int]) -> Trial:
    import torch

    x = _random(n["IMAGES"], n["C"], n["P"], dtype="float16")
    y, out = (torch.empty((n["IMAGES"], n["P"], n["C"]), device=DEVICE, dtype=x.dtype) for _ in range(2))
    return _simple(kernels, "to_nhwc", (x,), y, lambda: out.copy_(x.transpose(1, 2)), 0.0)


def conv2d(kernels: Any, n: Mapping[str, int]) -> Trial:
    import torch

    x, filters = _random(n["IMAGES"], n["C"], n["H"], n["W"]), _random(n["K"], n["C"], 3, 3)
    y = torch.empty((n["IMAGES"], n["K"], n["H"], n["W"]), device=DEVICE)
    return _simple(kernels, "conv2d", (x, filters), y, lambda: torch.nn.functional.conv2d(x, filters, padding=1), 1e-4)


def flash_attention(kernels: Any, n: Mapping[str, int]) -> Trial:
    import torch

    q, k, v = (_random(n["HEADS"], n["S"], 64, dtype="float16") for _ in range(3))
    attend = torch.nn.functional.scaled_dot_product_attention
    baseline = lambda: attend(q[None], k[None], v[None], is_causal=True)[0]  # noqa: E731
    return _simple(kernels, "attention", (q, k, v), torch.empty_like(q), baseline, 5e-3)


def bitonic_sort(kernels: Any, n: Mapping[str, int]) -> Trial:
    import cupy
    import torch

    x = _random(n["M"], 1024)
    y, array = torch.empty_like(x), cupy.from_dlpack(x)
    baselines = {"torch": lambda: torch.sort(x, dim=1), "CuPy": lambda: cupy.sort(array, axis=1)}
    return Trial(kernels.launch("sort", x, y), (y,), lambda: (torch.sort(x, dim=1).values,), baselines, 0.0)


def csr_matvec(kernels: Any, n: Mapping[str, int]) -> Trial:
    import cupy
    import torch
    from cupyx.scipy import sparse

    inner = _integers(0, n["E"] + 1, n["M"] - 1).sort().values
    rows = torch.cat([inner.new_zeros(1), inner, inner.new_full((1,), n["E"])])
    columns, values, x = _integers(0, n["K"], n["E"]), _random(n["E"]), _random(n["K"])
    y = torch.empty(n["M"], device=DEVICE)
    matrix = torch.sparse_csr_tensor(rows, columns, values, (n["M"], n["K"]), check_invariants=False)
    arrays = [cupy.from_dlpack(each) for each in (values, columns, rows)]
    theirs, vector = sparse.csr_matrix(tuple(arrays), shape=(n["M"], n["K"])), cupy.from_dlpack(x)
    baselines = {"torch": lambda: matrix @ x, "CuPy": lambda: theirs @ vector}
    run = kernels.launch("csr_matvec", rows, columns, values, x, y)
    return Trial(run, (y,), lambda: (matrix @ x,), baselines, 1e-4)


def embedding(kernels: Any, n: Mapping[str, int]) -> Trial:
    import torch

    tokens, table = _integers(0, n["V"], n["N"]), _random(n["V"], n["D"], dtype="float16")
    y = torch.empty((n["N"], n["D"]), device=DEVICE, dtype=table.dtype)
    run = kernels.launch("embed", tokens, table, y, _0="uint32")
    baseline = lambda: torch.nn.functional.embedding(tokens, table)  # noqa: E731
    return Trial(run, (y,), lambda: (baseline(),), {"torch": baseline}, 0.0)


def embedding_in_range(kernels: Any, n: Mapping[str, int]) -> Trial:
    import torch

    tokens, table = _integers(0, n["V"], n["N"]), _random(n["V"], n["D"])
    y = torch.empty((n["N"], n["D"]), device=DEVICE)
    baseline = lambda: torch.nn.functional.embedding(tokens, table)  # noqa: E731
    return _simple(kernels, "embedding", (tokens, table), y, baseline, 0.0)


def layer_norm(kernels: Any, n: Mapping[str, int]) -> Trial:
    import torch

    x, weight, bias = _random(n["M"], n["N"]), _random(n["N"]), _random(n["N"])
    baseline = lambda: torch.nn.functional.layer_norm(x, (n["N"],), weight, bias)  # noqa: E731
    return _simple(kernels, "layer_norm", (x, weight, bias), torch.empty_like(x), baseline)


def rope(kernels: Any, n: Mapping[str, int]) -> Trial:
    import torch

    x = _random(n["S"], 8, 64, dtype="float16")
    exact = torch.arange(n["S"], device=DEVICE).double()[:, None] * 10000.0 ** (
        -torch.arange(0, 64, 2, device=DEVICE).double() / 64
    )
    turn = torch.polar(torch.ones_like(exact), exact).to(torch.complex64)[:, None]

    def baseline() -> Any:
        pairs = torch.view_as_complex(x.float().view(n["S"], 8, 32, 2))
        return torch.view_as_real(pairs * turn).reshape(x.shape).half()

    return _simple(kernels, "rope", (x,), torch.empty_like(x), baseline, 5e-3)


def quantise_int8(kernels: Any, n: Mapping[str, int]) -> Trial:
    import torch

    x = _random(n["M"], n["N"])
    q, scale = torch.empty(x.shape, device=DEVICE, dtype=torch.int8), torch.empty(n["M"], device=DEVICE)

    def baseline() -> Any:
        step = x.abs().amax(1) / 127
        return (x / step[:, None]).round().to(torch.int8), step

    # A quotient next to a half may round to either side.
    return Trial(kernels.launch("quantise", x, q, scale), (q, scale), baseline, {"torch": baseline}, 1.01 / 127)


def matmul_gelu(kernels: Any, n: Mapping[str, int]) -> Trial:
    import torch

    a, b = _random(n["M"], n["K"], dtype="float16"), _random(n["K"], n["N"], dtype="float16") / n["K"] ** 0.5
    bias, c = _random(n["N"]), torch.empty((n["M"], n["N"]), device=DEVICE, dtype=a.dtype)
    theirs = bias.half()
    baseline = lambda: torch.nn.functional.gelu(torch.addmm(theirs, a, b))  # noqa: E731
    return _simple(kernels, "matmul", (a, b, bias), c, baseline, 5e-3)


def _product(entry: str, dtype: str, tolerance: float) -> Callable[[Any, Mapping[str, int]], Trial]:
    def trial(kernels: Any, n: Mapping[str, int]) -> Trial:
        import torch

        a, b = _random(n["M"], n["K"], dtype=dtype), _random(n["K"], n["N"], dtype=dtype)
        c, out = (torch.empty((n["M"], n["N"]), device=DEVICE, dtype=a.dtype) for _ in range(2))
        return _simple(kernels, entry, (a, b), c, lambda: torch.mm(a, b, out=out), tolerance)

    return trial


def big_tile(kernels: Any, n: Mapping[str, int]) -> Trial:
    import torch

    x = _random(n["M"] * 128, n["N"] * 128)
    y, out = (torch.empty(x.shape[::-1], device=DEVICE) for _ in range(2))
    return _simple(kernels, "transpose", (x,), y, lambda: out.copy_(x.T), 0.0)


def morton_matmul(kernels: Any, n: Mapping[str, int]) -> Trial:
    """Memory holds matrices along a Z-curve; torch multiplies the same matrices in rows."""
    import torch

    side = n["N"]
    row, column = torch.meshgrid(*[torch.arange(side, device=DEVICE)] * 2, indexing="ij")
    place = torch.zeros_like(row)
    for bit in range(side.bit_length() - 1):
        place |= ((row >> bit & 1) << 2 * bit + 1) | ((column >> bit & 1) << 2 * bit)
    a, b = _random(side, side), _random(side, side)
    stored = [torch.empty(side * side, device=DEVICE).scatter_(0, place.flatten(), m.flatten()) for m in (a, b)]
    c, out = torch.empty(side * side, device=DEVICE), torch.empty_like(a)
    baseline = lambda: torch.mm(a, b, out=out)  # noqa: E731
    expected = lambda: (torch.empty_like(c).scatter_(0, place.flatten(), baseline().flatten()),)  # noqa: E731
    return Trial(kernels.launch("matmul", *stored, c), (c,), expected, {"torch": baseline}, 1e-4)


TRIALS: dict[str, Callable[[Any, Mapping[str, int]], Trial]] = {
    **{
        trial.__name__: trial
        for trial in (
            vector_add, axpy_f16, stencil, grid_sum, row_softmax, histogram, three_pass_scan, look_back_scan, matvec,
            nchw_to_nhwc, conv2d, flash_attention, bitonic_sort, csr_matvec, embedding, embedding_in_range, layer_norm,
            rope, quantise_int8, matmul_gelu, big_tile, morton_matmul,
        )
    },
    "ragged_matmul": _product("matmul", "float32", 1e-4),
    "persistent_matmul": _product("matmul", "float16", 5e-3),
}  # fmt: skip
