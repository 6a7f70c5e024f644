"""Operators of PyTorch: dispatch, fake shapes, `torch.compile`, autograd. `python test/run.py interop` has PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed; `python test/run.py interop` installs it")

import interop_kernels as kernels  # noqa: E402

import lego_mlir as lego  # noqa: E402
from lego_mlir import Row, f32  # noqa: E402
from lego_mlir.errors import UsageError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")


@pytest.fixture
def axpy():
    return lego.torch.op(kernels.axpy)


def compiled(function):
    """A graph of the whole function, executed without a code generator."""
    return torch.compile(function, fullgraph=True, backend="aot_eager")


def test_the_schema_states_types_and_mutation():
    found = lego.torch.schema(kernels.axpy.calls.host_entry)
    assert found == "(Tensor x, Tensor y, float alpha, *, SymInt? M=None) -> Tensor"
    assert lego.torch.schema(kernels.double.calls.host_entry) == "(Tensor(a0!) x) -> ()"
    assert lego.torch.schema(kernels.two_results.calls.host_entry) == "(Tensor x, int shift) -> (Tensor, Tensor)"


def test_results_are_allocated_and_returned(axpy):
    x, y = torch.rand(1000), torch.rand(1000)
    assert torch.allclose(axpy(x, y, 2.0), 2 * x + y)
    assert torch.allclose(axpy(x, y, 2.0, M=1000), 2 * x + y)
    up, down = lego.torch.op(kernels.two_results)(torch.arange(128, dtype=torch.int32), 3)
    assert up[0] == 3 and down[0] == -3


def scaled(factor, name="scale"):
    @lego.kernel(grid=1, block=128, name=name)
    def scale(x: lego.Tensor(f32, Row(128)), y: lego.Tensor(f32, Row(128))):
        y[lego.thread_id.x] = x[lego.thread_id.x] * factor

    return scale


def test_a_name_is_of_one_kernel():
    twice, thrice = lego.torch.op(scaled(2.0)), lego.torch.op(scaled(3.0))
    assert twice is lego.torch.op(scaled(2.0)) and twice is not thrice
    assert twice.name() != thrice.name() and twice.name().startswith("lego::scale_")
    x = torch.ones(128)
    assert (twice(x) == 2).all() and (thrice(x) == 3).all()
    named = lego.torch.op(scaled(2.0), "named_scale")
    assert named.name() == "lego::named_scale" and named is lego.torch.op(scaled(2.0), "named_scale")
    with pytest.raises(
        UsageError, match=r"torch\.ops\.lego\.named_scale is another kernel already; give this one another"
    ):
        lego.torch.op(scaled(3.0), "named_scale")
    with pytest.raises(UsageError, match="name='a b' is no name of an operator; use letters, digits and _"):
        lego.torch.op(scaled(2.0), "a b")


def test_backward_functions_are_compared():
    def backward(factor):
        return lambda gradients, inputs, results: gradients[0] * factor

    two, three = 2.0, 3.0
    first = lego.torch.op(scaled(5.0), backward=backward(two))
    assert first is lego.torch.op(scaled(5.0), backward=backward(two))
    assert lego.torch.op(scaled(5.0)) is not first
    with pytest.raises(UsageError, match="has another backward function already; name this operator: name='"):
        lego.torch.op(scaled(5.0), backward=backward(three))
    assert lego.torch.op(scaled(5.0), "five_times_three", backward=backward(three)) is not first


def test_an_exported_program_finds_its_kernel_or_none(tmp_path):
    """Loaded by a process that registers kernels of the same name in another order."""

    class Model(torch.nn.Module):
        def forward(self, x):
            return lego.torch.op(scaled(2.0))(x)

    lego.torch.op(scaled(2.0))
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(Model(), (torch.ones(128),)), path)
    program = (
        "import sys, torch, test_torch, lego_mlir as lego\n"
        "for factor in map(float, sys.argv[2:]):\n"
        "    lego.torch.op(test_torch.scaled(factor))\n"
        "print(torch.export.load(sys.argv[1]).module()(torch.ones(128))[0].item())"
    )

    def loaded(*factors):
        command = [sys.executable, "-W", "ignore", "-c", program, str(path), *factors]
        paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        environment = {**os.environ, "PYTHONPATH": paths}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert loaded("3", "2").stdout == "2.0\n"
    missing = loaded("3")
    assert missing.returncode != 0 and "lego" in missing.stderr and "scale_" in missing.stderr


def test_tensors_are_changed_in_place():
    double, v = lego.torch.op(kernels.double), torch.ones(128)
    assert double(v) is None and (v == 2).all()
    graph = compiled(lambda a: (double(a), a + 1)[1])
    assert (graph(v) == 5).all() and (v == 4).all()


def test_results_can_be_arguments():
    operator = lego.torch.op(kernels.axpy, out=True)
    x, y, z = torch.rand(128), torch.rand(128), torch.zeros(128)
    assert operator(x, y, 2.0, z) is None and torch.allclose(z, 2 * x + y)
    graph = compiled(lambda a, b, c: (operator(a, b, 3.0, c), c * 2)[1])
    assert torch.allclose(graph(x, y, z), 6 * x + 2 * y)
    assert set(torch.library.opcheck(operator, (x, y, 2.0, z)).values()) == {"SUCCESS"}
    with pytest.raises(UsageError, match="changes an input in place"):
        lego.torch.op(kernels.axpy, out=True, backward=lambda *_: None)


def test_whole_graphs_at_several_shapes(axpy):
    graph = compiled(lambda a, b: axpy(a * 2, b, 3.0) + 1)
    for n in (1000, 500, 777):
        x, y = torch.rand(n), torch.rand(n)
        assert torch.allclose(graph(x, y), 6 * x + y + 1)


def test_strides_of_results_are_those_of_the_layout():
    y = lego.torch.op(kernels.columns)(torch.zeros(16, 8))
    assert y.shape == (16, 8) and y.stride() == (1, 16) and (y == 1).all()
    fake = torch.empty(16, 8, device="meta")
    with torch._subclasses.FakeTensorMode() as mode:
        found = lego.torch.op(kernels.columns)(mode.from_tensor(torch.zeros(16, 8)))
    assert found.stride() == (1, 16) and fake.shape == found.shape


@pytest.mark.parametrize("name", ["axpy", "double"])
def test_pytorch_finds_the_operators_right(name):
    operator = lego.torch.op(getattr(kernels, name))
    given = (torch.rand(128), torch.rand(128), 2.0) if name == "axpy" else (torch.rand(128),)
    assert set(torch.library.opcheck(operator, given).values()) == {"SUCCESS"}


def test_gradients_are_refused_without_a_backward_function(axpy):
    x, y = torch.rand(128, requires_grad=True), torch.rand(128)
    with pytest.raises(UsageError, match=r"has no derivative, and a tensor requires a gradient; pass tensor.detach"):
        axpy(x, y, 2.0)
    with pytest.raises(Exception, match="has no derivative"):
        compiled(lambda a, b: axpy(a, b, 2.0))(x, y)
    with torch.no_grad():
        assert torch.allclose(axpy(x, y, 2.0), 2 * x + y)
    with pytest.raises(UsageError, match="has no derivative"):
        lego.torch.op(kernels.double)(x)


def test_gradients_come_from_the_backward_function():
    axpy = lego.torch.op(
        kernels.axpy, backward=lambda gradients, inputs, results: (gradients[0] * inputs[2], gradients[0], None)
    )
    x, y = torch.rand(64, requires_grad=True), torch.rand(64, requires_grad=True)
    axpy(x, y, 2.0).sum().backward()
    assert (x.grad == 2).all() and (y.grad == 1).all()
    x.grad = None
    compiled(lambda a, b: axpy(a, b, 3.0).sum())(x, y).backward()
    assert (x.grad == 3).all()
    short = lego.torch.op(kernels.axpy, "axpy_with_one_gradient", lambda gradients, inputs, results: gradients[0])
    with pytest.raises(UsageError, match="must return 3 gradients, one for each of x, y, alpha"):
        short(x, y, 2.0).sum().backward()
    with pytest.raises(UsageError, match="changes an input in place"):
        lego.torch.op(kernels.double, backward=lambda *_: None)


def test_arguments_that_do_not_fit_are_refused(axpy):
    with pytest.raises(UsageError, match="y has the shape"):
        axpy(torch.rand(100), torch.rand(99), 2.0)
    with pytest.raises(UsageError, match="x holds f32"):
        axpy(torch.rand(100).double(), torch.rand(100), 2.0)
