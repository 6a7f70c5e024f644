"""Input of a spec or a file: reaches the kernel and its reference, and what does not fit is refused."""

import io

import numpy as np
import pytest
from command_line import output_of, refusal_of

import lego_mlir as lego
from lego_mlir import Col, Row, bf16, f16, f32, gallery, i8, i32
from lego_mlir.cli.main import main
from lego_mlir.errors import TraceError, UsageError
from lego_mlir.runtime import data, inputs

ROWS, ENTRIES = lego.size("rows", max=1000), lego.size("entries", max=10_000)

SPEC = '''
import lego_mlir as lego
import numpy as np
from lego_mlir import Row, f32, i32

rows, entries = lego.size("rows", max=1000), lego.size("entries", max=10_000)


@lego.kernel(grid=lego.cdiv(rows, 32), block=32)
def spmv(start: lego.Tensor(i32, Row(rows + 1)), column: lego.Tensor(i32, Row(entries)),
         value: lego.Tensor(f32, Row(entries)), x: lego.Tensor(f32, Row(rows)), y: lego.Tensor(f32, Row(rows))):
    """A sparse matrix in compressed rows times a vector, one row a thread."""
    row, total = lego.block_id[0] * 32 + lego.thread_id[0], lego.register(f32, 0.0)
    with lego.when(row < rows):
        for k in lego.range(start[row], start[row + 1]):
            total += value[k] * x[column[k]]
        y[row] = total


@spmv.reference
def product(start, column, value, x):
    parts = np.append(np.cumsum(value * x[column]), 0.0)
    ends = parts[start - 1] * (start > 0)
    return np.diff(ends)
'''
INPUTS = """

@spmv.inputs
def random_matrix(rng, rows, entries):
    start = np.append(0, np.cumsum(rng.multinomial(entries, np.full(rows, 1 / rows))))
    return {"start": start, "column": rng.integers(0, rows, entries)}
"""


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "spec.py"
    path.write_text(SPEC + INPUTS)
    return str(path)


def test_run_and_analyze_use_the_inputs_of_the_spec(spec, tmp_path, capsys):
    assert main(["run", spec, "--size", "rows=70", "--size", "entries=300"]) == 0
    assert "ok    spmv rows=70 entries=300" in capsys.readouterr().out
    assert "FAULT" not in output_of(capsys, ["analyze", spec, "--size", "rows=70", "--size", "entries=300"])
    without = tmp_path / "random.py"
    without.write_text(SPEC)
    main(["run", str(without), "--size", "rows=70", "--size", "entries=300"])
    assert "out of bounds" in capsys.readouterr().out  # random rows are not a sparse matrix


def test_a_file_gives_arrays_and_sizes(spec, tmp_path, capsys):
    path = tmp_path / "ring.npz"
    start, column, value = np.arange(0, 41, 2), np.arange(40) % 20, np.ones(40)
    np.savez(path, start=start, column=column, value=value, x=np.arange(20))
    assert "ok    spmv rows=20 entries=40: 1 blocks" in output_of(capsys, ["run", spec, "--input", str(path)])
    assert "kernel spmv rows=20 entries=40" in output_of(capsys, ["analyze", spec, "--input", str(path)])
    code = tmp_path / "spmv.ptx"
    assert main(["compile", spec, "-o", str(code), "--with-data", "--input", str(path), "--no-cache"]) == 0
    arrays = np.load(tmp_path / "spmv.npz")
    assert arrays["spmv/start"].tolist() == start.tolist()
    assert arrays["spmv/y/expected"][:3].tolist() == [1, 5, 9]
    # the data of a check are themselves a file of input
    assert "ok    spmv rows=20 entries=40" in output_of(capsys, ["run", spec, "--input", str(tmp_path / "spmv.npz")])


def test_a_wrong_function_of_inputs_is_blamed_in_the_spec(tmp_path, capsys):
    path = tmp_path / "spec.py"
    path.write_text(SPEC + INPUTS.replace("rng.integers", "rng.no_such"))
    assert "spec.py:30: AttributeError" in refusal_of(capsys, ["run", str(path)])


def permuted(dtype=i32, layout=None):
    layout = Row(16) if layout is None else layout

    @lego.kernel(grid=1, block=16)
    def permute(order: lego.Tensor(dtype, layout), y: lego.Tensor(dtype, Row(16))):
        t = lego.thread_id[0]
        y[t] = order[t]

    permute.reference(lambda order: order)
    return permute


def test_the_function_gets_a_seeded_generator_and_the_rest_stays_random():
    kernel = permuted()
    drawn = data.draw(kernel, {}, 0)
    kernel.inputs(lambda rng: {"order": rng.permutation(16)})
    first, again, other = (data.draw(kernel, {}, seed) for seed in (3, 3, 4))
    assert sorted(first["order"]) == list(range(16))
    assert first["order"].dtype == np.int32
    assert first["order"].tolist() == again["order"].tolist() != other["order"].tolist()
    assert data.draw(kernel, {}, 0)["y"].tolist() == drawn["y"].tolist()


def test_a_run_time_table_and_an_initial_value_may_be_given():
    reverse = gallery.table([8], [7, 6, 5, 4, 3, 2, 1, 0], name="perm", runtime=True)

    @lego.kernel(grid=1, block=4)
    def place(dst: lego.Tensor(f32, reverse)):
        dst[lego.thread_id[0]] = 1.0

    place.reference(lambda dst: np.where(np.arange(8) < 4, 1.0, dst))
    place.inputs(lambda: {"perm": np.arange(8)[::-1], "dst": np.full(8, 5.0)})
    arrays = data.check_data(place, {})
    assert arrays["place/perm"].tolist() == [7, 6, 5, 4, 3, 2, 1, 0]
    assert arrays["place/dst"].tolist() == [5.0] * 8
    assert arrays["place/dst/expected"].tolist() == [5.0] * 4 + [1.0] * 4


@pytest.mark.parametrize(
    ("dtype", "given", "message"),
    [
        (i32, np.zeros(8, np.int32), r"order has shape \(8,\); .* has the logical shape \(16,\)$"),
        (i32, np.zeros((4, 4), np.int32), r"order has shape \(4, 4\).*; give it as .reshape\(16,\)"),
        (i32, np.zeros(16), r"an array of float64, and its elements are i32; convert it: .astype\('int32'\)"),
        (i8, np.arange(16) * 20, r"order contains 300; i8 holds -128 .. 127"),
        (f32, np.zeros(16, complex), r"an array of complex128, and its elements are f32"),
        (f32, ["a"] * 16, r"an array of <U1"),
    ],
)
def test_arrays_that_do_not_fit(dtype, given, message):
    kernel = permuted(dtype)
    kernel.inputs(lambda: {"order": given})
    with pytest.raises(UsageError, match=r"test_inputs.py:\d+: the inputs of permute: " + "(?s:.*)" + message):
        data.check_data(kernel, {})


def test_a_scalar_is_one_number():
    @lego.kernel(grid=1, block=16)
    def scale(a: f32, y: lego.Tensor(f32, Row(16))):
        y[lego.thread_id[0]] = a

    scale.inputs(lambda: {"a": 3})
    assert data.draw(scale, {}, 0)["a"] == np.float32(3)
    scale.inputs(lambda: {"a": [3]})
    with pytest.raises(UsageError, match=r"a has shape \(1,\); a number of f32 has the logical shape \(\); give it as"):
        data.draw(scale, {}, 0)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ({"ordre": 1}, r"'ordre' is not a parameter of it; did you mean order\?; it has order, y"),
        (np.zeros(16), r"return a dict of arrays by parameter name, not array"),
        (None, r"return a dict of arrays by parameter name, not None"),
    ],
)
def test_names_that_are_no_parameters(returned, message):
    kernel = permuted()
    kernel.inputs(lambda: returned)
    with pytest.raises(UsageError, match=message):
        data.draw(kernel, {}, 0)


def test_what_a_function_of_inputs_may_take():
    kernel = permuted()
    with pytest.raises(TraceError, match=r"the inputs function of permute takes 'seed', which is not rng or a size"):
        kernel.inputs(lambda seed: {})
    with pytest.raises(TraceError, match=r"the inputs of permute must be a function that returns arrays by name, got"):
        kernel.inputs({"order": np.zeros(16)})


def saved(tmp_path, **arrays):
    path = tmp_path / "input.npz"
    np.savez(path, **arrays)
    return inputs.read(str(path))


@pytest.mark.parametrize("dtype", [f16, bf16, i8], ids=str)
def test_memory_order_and_logical_order_of_a_file_agree(tmp_path, dtype):
    @lego.kernel(grid=1, block=1)
    def copy(src: lego.Tensor(dtype, Col(4, 8)), dst: lego.Tensor(dtype, Row(4, 8))):
        dst[0, 0] = src[0, 0]

    copy.reference(lambda src: src)
    values = np.arange(32).reshape(4, 8).astype(dtype.numpy)
    logical = data.check_data(copy, {}, file=saved(tmp_path, src=values))
    stored = {"copy/src": logical["copy/src"]}
    physical = data.check_data(copy, {}, file=saved(tmp_path, **stored))
    assert logical["copy/dst/expected"].reshape(4, 8).tolist() == np.arange(32).reshape(4, 8).tolist()
    assert all(np.array_equal(logical[name], physical[name]) for name in logical)


def copying():
    @lego.kernel(grid=1, block=1)
    def copy(src: lego.Tensor(f32, Row(ROWS, ENTRIES)), dst: lego.Tensor(f32, Row(ROWS, ENTRIES))):
        dst[0, 0] = src[0, 0]

    return copy


@pytest.mark.parametrize(
    ("arrays", "given", "message"),
    [
        (
            {"src": np.zeros((2, 3)), "rows": 4},
            {},
            r"src of shape \(2, 3\) makes rows = 2, and the entry rows makes it 4",
        ),
        ({"src": np.zeros((2, 3))}, {"rows": 4}, r"makes rows = 2, and --size rows=4 makes it 4"),
        ({"src": np.zeros((2, 3)), "dst": np.zeros((2, 4))}, {}, r"dst of shape \(2, 4\) makes entries = 4, and src"),
        ({"rows": [2]}, {}, r"the size rows must be one integer, not int64 \(1,\)"),
        ({"copy/rows": 2.0}, {}, r"the size copy/rows must be one integer, not float64 \(\)"),
        ({"rows": 5000}, {}, r"rows = 5000: the kernel needs at least 1, at most 1000"),
        ({"copy/src": np.zeros(5), "rows": 2, "entries": 3}, {}, r"src has shape \(5,\); .* memory holds \(6,\)"),
    ],
)
def test_files_whose_sizes_disagree(tmp_path, arrays, given, message):
    with pytest.raises(UsageError, match=message):
        data.arguments(copying(), given, 0, saved(tmp_path, **arrays))


def test_names_in_a_file_that_no_kernel_has(tmp_path):
    file = saved(tmp_path, **{"src": np.zeros((1, 1)), "copy/dst/expected": np.zeros(1)})
    file.require_used([copying()])
    for name, message in [("sorce", r"'sorce' is not a parameter or size"), ("other/src", r"'other/src' is not a")]:
        with pytest.raises(UsageError, match=message + r".*; copy has src, dst, rows, entries"):
            saved(tmp_path, **{name: np.zeros(1)}).require_used([copying()])


def test_files_that_are_no_input(tmp_path):
    with pytest.raises(UsageError, match=r"--input .*none.npz: no such file; write one: numpy.savez"):
        inputs.read(str(tmp_path / "none.npz"))
    single, broken, objects = tmp_path / "one.npy", tmp_path / "broken.npz", tmp_path / "objects.npz"
    np.save(single, np.zeros(3))
    with pytest.raises(UsageError, match=r"one.npy: a single array; write an .npz file"):
        inputs.read(str(single))
    broken.write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(UsageError, match=r"broken.npz: not an .npz file of numbers"):
        inputs.read(str(broken))
    np.savez(objects, x=np.array([{}], object))
    with pytest.raises(UsageError, match=r"objects.npz: not an .npz file of numbers"):
        inputs.read(str(objects))
    buffer = io.BytesIO()
    np.savez(buffer, x=np.zeros(1))
    (tmp_path / "good.npz").write_bytes(buffer.getvalue())
    assert list(inputs.read(str(tmp_path / "good.npz")).arrays) == ["x"]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["compile", "SPEC", "--input", "x.npz"], r"--input x.npz is the input of the test data; add --with-data"),
        (["run", "MODULE", "--input", "x.npz"], r"--input x.npz applies to a spec, whose parameters have names"),
        (["analyze", "MODULE", "--input", "x.npz"], r"--input: .* is an MLIR file: it has kernels but no layouts"),
        (["run", "SPEC", "--input", "x.npz"], r"--input x.npz: no such file"),
    ],
)
def test_input_on_the_command_line(spec, tmp_path, capsys, command, message):
    module = tmp_path / "kernel.mlir"
    module.write_text("module {}")
    assert main([{"SPEC": spec, "MODULE": str(module)}.get(part, part) for part in command]) == 2
    import re

    assert re.search(message, capsys.readouterr().err)
