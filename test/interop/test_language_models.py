"""Kernels of `examples/language_models` as PyTorch's operators, against its autograd; their benchmark's formulas."""

import sys
from functools import partial
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed; `python test/run.py interop` installs it")

from torch.nn import functional  # noqa: E402

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "examples" / "language_models"), str(ROOT / "bench")]

import language_models  # noqa: E402
import torch_operators as ours  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
ROWS, COLUMNS, HEADS = 5, 1000, 3


def rotated(x, cosines, sines, positions):
    a, b = x.chunk(2, dim=2)
    c, s = cosines[positions][:, None], sines[positions][:, None]
    return torch.cat([a * c - b * s, a * s + b * c], dim=2)


def drawn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


ANGLES = torch.arange(9)[:, None] * 100.0 ** (-torch.arange(16) / 16)
POSITIONS, LABELS = torch.tensor([8, 0, 3, 3, 1], dtype=torch.int32), torch.tensor([0, 999, -100, 5, 7])
F32, MATRIX, VECTOR = torch.float32, (ROWS, COLUMNS), (COLUMNS,)
CASES = {  # ours, PyTorch's, and the shapes of what has a gradient
    "softmax": (ours.softmax(F32, 100), lambda x: x.softmax(-1), [(2, 3, 100)]),
    "rms_norm": (ours.rms_norm(F32, COLUMNS), lambda x, w: functional.rms_norm(x, VECTOR, w, 1e-6), [MATRIX, VECTOR]),
    "added_rms_norm": (
        ours.added_rms_norm(F32, COLUMNS),
        lambda x, r, w: (functional.rms_norm(x + r, VECTOR, w, 1e-6), x + r),
        [MATRIX, MATRIX, VECTOR],
    ),
    "layer_norm": (
        ours.layer_norm(F32, COLUMNS),
        lambda x, w, b: functional.layer_norm(x, VECTOR, w, b, 1e-6),
        [MATRIX, VECTOR, VECTOR],
    ),
    "cross_entropy": (
        partial(ours.cross_entropy(F32, COLUMNS), labels=LABELS),
        lambda x: functional.cross_entropy(x, LABELS, reduction="none"),
        [MATRIX],
    ),
    "rope": (
        partial(ours.rope(F32, HEADS, 32), cosines=ANGLES.cos(), sines=ANGLES.sin(), positions=POSITIONS),
        lambda x: rotated(x, ANGLES.cos(), ANGLES.sin(), POSITIONS),
        [(ROWS, HEADS, 32)],
    ),
    "swiglu": (ours.swiglu(F32, COLUMNS), lambda a, b: functional.silu(a) * b, [MATRIX, MATRIX]),
}


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_pytorch(name, graph):
    mine, theirs, shapes = CASES[name]
    found = []
    for function in (torch.compile(mine, fullgraph=True, backend="aot_eager") if graph else mine, theirs):
        inputs = [drawn(*shape).requires_grad_() for shape in shapes]
        results = function(*inputs)
        results = results if isinstance(results, tuple) else (results,)
        torch.autograd.backward(results, [drawn(*result.shape) for result in results])
        found.append([*(result.detach() for result in results), *(x.grad for x in inputs)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", [name for name, kernel in language_models.KERNELS.items() if kernel.check is None])
def test_the_benchmark_compares_what_computes_the_same(name, monkeypatch):
    monkeypatch.setattr(language_models, "DEVICE", "cpu")
    monkeypatch.setattr(language_models, "compiled", lambda function: function)
    kernel = language_models.KERNELS[name]
    columns = kernel.columns[-1] if max(kernel.columns) <= 256 else 4096
    runs = kernel.call(language_models.Given(kernel.build(columns), 3, columns))
    for one, other in zip(runs["ours"](), runs["torch"](), strict=True):
        torch.testing.assert_close(one.float(), other.float(), rtol=0.2 if "f8" in name else 1e-2, atol=1e-2)
