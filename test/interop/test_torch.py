"""Operators of PyTorch: dispatch, fake shapes, `torch.compile`, autograd. `python test/run.py interop` has PyTorch."""

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


def test_tensors_without_elements(axpy):
    empty = torch.zeros(0)
    assert kernels.axpy(empty, empty, 2.0).shape == axpy(empty, empty, 2.0).shape == (0,)
    assert compiled(lambda x: axpy(x, x, 2.0) + 1)(empty).shape == (0,)


def test_a_compiled_function_names_the_operator_where_it_calls_a_kernel(axpy):
    def function(x):
        return kernels.axpy(x, x, 2.0) + 1

    x = torch.rand(300)
    with pytest.raises(
        torch._dynamo.exc.Unsupported, match=r"make it an operator, which is: op = lego.torch.op\(kernel\)"
    ):
        compiled(function)(x)
    assert torch.equal(torch.compile(function, backend="aot_eager")(x), function(x))


@pytest.fixture
def _quiet():
    from lego_mlir.runtime import host_reference

    host_reference._noted.update(("matmul", "attention", "attention_varlen", "grouped_matmul"))
    yield
    host_reference._noted.clear()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_on_the_cpu_is_that_of_pytorch(_quiet, dtype, causal):
    q = torch.randn(2, 4, 33, 64, dtype=dtype, requires_grad=True)
    k, v = (torch.randn(2, 2, 33, 64, dtype=dtype, requires_grad=True) for _ in "kv")
    wide = [x.detach().float().requires_grad_() for x in (q, k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(*wide, is_causal=causal, enable_gqa=True)
    found = lego.attention(q, k, v, causal=causal)
    torch.testing.assert_close(found.float(), expected, atol=2e-2, rtol=2e-2)
    assert found.dtype == dtype
    weights = torch.randn_like(expected)
    (found.float() * weights).sum().backward()
    (expected * weights).sum().backward()
    for x, y in zip((q, k, v), wide, strict=True):
        torch.testing.assert_close(x.grad.float(), y.grad, atol=5e-2, rtol=5e-2)


def test_packed_and_grouped_operations_on_the_cpu_are_those_of_their_parts(_quiet):
    q, k = torch.randn(20, 4, 64).half(), torch.randn(26, 2, 64).half()
    starts, keys = torch.tensor([0, 5, 5, 18], dtype=torch.int32), torch.tensor([0, 9, 9, 26], dtype=torch.int32)
    found = lego.attention_varlen(q, k, k, starts, keys, causal=True)
    for (a, b), (c, d) in (((0, 5), (0, 9)), ((5, 18), (9, 26))):
        mask = torch.ones(b - a, d - c, dtype=torch.bool).tril(d - c - (b - a))
        parts = [x.swapaxes(0, 1).float() for x in (q[a:b], k[c:d], k[c:d])]
        expected = torch.nn.functional.scaled_dot_product_attention(*parts, attn_mask=mask, enable_gqa=True)
        torch.testing.assert_close(found[a:b].swapaxes(0, 1).float(), expected, atol=1e-2, rtol=1e-2)
    assert not found[18:].any()
    a, b, ends = torch.randn(20, 16).half(), torch.randn(3, 16, 8).half(), torch.tensor([5, 5, 18], dtype=torch.int32)
    found = lego.grouped_matmul(a, b, ends)
    torch.testing.assert_close(found[:5], (a[:5].float() @ b[0].float()).half())
    torch.testing.assert_close(found[5:18], (a[5:18].float() @ b[2].float()).half())
    turned = lego.grouped_matmul(b.mT, a.mT, ends)
    torch.testing.assert_close(turned, found.mT)
    depths = lego.grouped_matmul(a.mT, a, ends)
    torch.testing.assert_close(depths[2], (a[5:18].float().mT @ a[5:18].float()).half())
    assert not depths[1].any()
    with pytest.raises(UsageError, match="do not decrease"):
        lego.grouped_matmul(a, b, ends.flip(0))


def test_products_on_the_cpu_have_the_operations_of_a_kernel(_quiet):
    a, b = torch.randn(5, 16).bfloat16(), torch.randn(16, 8).bfloat16()
    bias, residual, amax = torch.randn(8), torch.randn(5, 8).bfloat16(), torch.zeros(1)
    scales = {"scale_a": torch.rand(5), "scale_b": torch.tensor(0.5)}
    expected = torch.relu(scales["scale_a"][:, None] * (a.float() @ b.float()) * 0.5 + bias) + residual.float()
    found = lego.matmul(a, b, bias=bias, residual=residual, activation="relu", amax=amax, **scales)
    torch.testing.assert_close(found, expected.bfloat16())
    torch.testing.assert_close(amax, expected.abs().max().reshape(1))
    batch = torch.randn(3, 5, 16).bfloat16()
    torch.testing.assert_close(lego.matmul(batch, b, result="float32"), batch.float() @ b.float())
    small = torch.randint(-8, 8, (5, 16), dtype=torch.int8)
    assert torch.equal(lego.matmul(small, small.mT), small.int() @ small.int().mT)
    eight = (a.float() * 400).to(torch.float8_e4m3fn)
    assert lego.matmul(eight, eight.mT, result="float8_e4m3fn").float().isfinite().all()
    with pytest.raises(UsageError, match="a requires a gradient"):
        lego.matmul(a.requires_grad_(), b)


def test_an_onnx_graph_has_the_operator_as_a_node(axpy):
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")

    class Model(torch.nn.Module):
        def forward(self, x, y):
            return axpy(x, y, 2.0) + 1

    tensors = (torch.rand(300), torch.rand(300))
    table = lego.torch.onnx_translations()
    program = torch.onnx.export(
        Model(), tensors, dynamo=True, verbose=False, custom_translation_table=table, keep_initializers_as_inputs=False
    )
    (node,) = [node for node in program.model.graph if node.domain == "lego"]
    assert node.op_type == axpy.name().partition("::")[2] and node.attributes["alpha"].value == 2.0
    assert [value.name for value in node.inputs] == ["x", "y"] and program.model.opset_imports["lego"] == 1
    with pytest.raises(UsageError, match="changes x in place, which no ONNX node does"):
        lego.torch.onnx_translations(lego.torch.op(kernels.double))
    with pytest.raises(UsageError, match=r"takes operators that lego.torch.op returned"):
        lego.torch.onnx_translations(torch.sin)
