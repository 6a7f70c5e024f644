"""Layouts by strides: one-to-one by proof, by comparison or by claim; in kernels, with strides as arguments."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lego_mlir as lego
from lego_mlir import Row, Strided, f32, interp, size
from lego_mlir.cli.main import main
from lego_mlir.errors import InterpreterError, LayoutError, UsageError
from lego_mlir.expr.verdict import Proved, Unknown
from lego_mlir.runtime import data
from lego_mlir.toolchain import compile_kernel

shapes = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 12)), min_size=1, max_size=3)


@given(shapes)
def test_a_layout_is_accepted_exactly_if_no_two_indices_collide(axes):
    dims, strides = zip(*axes, strict=True)
    indices = list(itertools.product(*map(range, dims)))
    positions = [sum(i * s for i, s in zip(index, strides, strict=True)) for index in indices]
    if len(set(positions)) < len(positions):
        with pytest.raises(LayoutError, match="are both at position"):
            Strided(dims, strides)
        return
    layout = Strided(dims, strides)
    assert isinstance(layout.check(), Proved)
    assert [layout.apply(*index) for index in indices] == positions
    assert layout.physical_size() == max(positions) + 1


@given(shapes)
def test_the_inverse_and_the_unused_positions(axes):
    dims = [n for n, _ in axes]
    strides, reach = [], 1
    for n, gap in reversed(axes):
        strides.insert(0, reach + gap - 1)
        reach = strides[0] * n
    layout = Strided(dims, strides)
    for index in itertools.product(*map(range, dims)):
        assert layout.inv(layout.apply(*index)) == index
    held = [bool(layout.holds(p)) for p in range(layout.physical_size())]
    assert sum(held) == layout.numel()
    assert [p for p, holds in enumerate(held) if holds] == sorted(
        layout.apply(*index) for index in itertools.product(*map(range, dims))
    )


def test_the_message_names_indices_that_collide():
    with pytest.raises(LayoutError, match=r"\[0, 2\] and \[1, 0\] are both at position 2"):
        Strided([2, 3], [2, 1])
    with pytest.raises(LayoutError, match=r"are both at position"):
        Strided([2, 2, 2], [1, 2, 3])  # 1 + 2 = 3, and no two axes collide


def test_symbolic_strides_are_proved_claimed_or_refused():
    m, k, sm, sk = size("M"), size("K"), size("sm"), size("sk")
    with pytest.raises(LayoutError, match=r"for M = 2, K = 2, sm = 1, sk = 1, the indices .* or claim that"):
        Strided([m, k], [sm, sk])
    claimed = Strided([m, k], [sm, sk], claim=True)
    assert isinstance(claimed.check(), Unknown)
    assert len(claimed.claims()) == 1
    pitch = size("pitch")
    proved = Strided([m, size("K", max=pitch)], [pitch, 1])
    assert isinstance(proved.check(), Proved)
    assert proved.claims() == ()
    assert isinstance(Strided([m, k], [k, 1]).check(), Proved)
    assert isinstance(Strided([m, k], [1, m]).check(), Proved)
    assert str(proved.physical_size()) == "K + pitch*(M - 1)"


def test_a_symbolic_inverse():
    m, k, p = size("M"), size("K"), lego.symbols("p")[0]
    assert [str(i) for i in Strided([m, k], [k, 1]).inv(p)] == ["p // K", "p % K"]
    with pytest.raises(LayoutError, match="has no inverse: the order of its strides is not known"):
        Strided([m, k], [size("sm"), size("sk")], claim=True).inv(p)


def test_it_behaves_as_a_layout():
    layout = Strided([4, 6], [8, 1])
    assert layout.strides() == (8, 1)
    assert layout == Strided([4, 6], [8, 1]) != Strided([4, 6], [9, 1])
    assert pickle.loads(pickle.dumps(layout)) == layout
    assert repr(layout) == "Strided([4, 6], [8, 1])"
    assert layout.tile_by([2, 2], [2, 4]).mask(0, 1, 0, 2) is False
    assert layout.equivalent(lego.Padded(Row(4, 8), [4, 6]))
    assert layout[1, ::2].positions().tolist() == [8, 10, 12]
    assert Strided([4, size("K", max=8)], [8, 1]).subs(K=6) == layout
    assert isinstance(Strided([1, 6], [1, 1]).check(), Proved)
    assert "apply" in Strided([4, 6], [size("s"), 1], claim=True).explain()
    with pytest.raises(LayoutError, match="takes one stride for each of the sizes"):
        Strided([4, 6], [8])
    with pytest.raises(LayoutError, match="Strided: a stride: a size is an int >= 1"):
        Strided([4, 6], [8, 0])
    with pytest.raises(LayoutError, match="are both at position"):
        Strided([4, size("K", max=8)], [size("s"), 1], claim=True).subs(K=6, s=3)


M, K, SM, SK = size("M"), size("K"), size("sm"), size("sk")


@lego.kernel(grid=(lego.cdiv(K, 16), lego.cdiv(M, 8)), block=(16, 8))
def add_one(x: lego.Tensor(f32, Strided([M, K], [SM, SK], claim=True)), y: lego.Tensor(f32, Row(M, K))):
    bx, by, tx, ty = *lego.block_id[:2], *lego.thread_id[:2]
    source, result = (v.tile_by([lego.cdiv(M, 8), lego.cdiv(K, 16)], [8, 16]) for v in (x, y))
    result[by, bx, ty, tx] = source[by, bx, ty, tx] + 1


@pytest.mark.parametrize("turned", [False, True])
def test_an_array_that_is_not_contiguous_is_an_argument(turned):
    whole = np.arange(40 * 30, dtype=np.float32).reshape(40, 30)
    part = whole[3:25, 2:20:2]
    part = part.T if turned else part
    steps = [s // 4 for s in part.strides]
    sizes = add_one.signature["x"].layout.sizes_of_array(part.shape, steps)
    assert sizes == {"M": part.shape[0], "K": part.shape[1], "sm": steps[0], "sk": steps[1]}
    reach = sum((n - 1) * s for n, s in zip(part.shape, steps, strict=True))
    memory = np.lib.stride_tricks.as_strided(part, (1 + reach,), (4,))
    y = np.zeros(part.size, np.float32)
    report = interp.run_kernel(add_one, {"x": np.ascontiguousarray(memory), "y": y}, sizes)
    assert report.clean
    np.testing.assert_array_equal(y.reshape(part.shape), part + 1)


def test_a_launch_checks_the_claim():
    sizes = {"M": 4, "K": 6, "sm": 5, "sk": 1}
    arrays = {"x": np.zeros(21, np.float32), "y": np.zeros(24, np.float32)}
    with pytest.raises(InterpreterError, match="requires that the strides of x are one-to-one, which fails for K = 6"):
        interp.run_kernel(add_one, arrays, sizes)


def test_run_chooses_strides_with_unused_elements():
    assert data.choose_sizes(add_one, {"K": 7, "M": 5}) == {"M": 5, "K": 7, "sm": 8, "sk": 1}


def test_an_array_of_another_shape_is_refused():
    layout = Strided([4, K], [K, 1])
    assert layout.sizes_of_array((4, 7), (7, 1)) == {"K": 7}
    with pytest.raises(LayoutError, match=r"needs strides with K = 7, and the array has \(8, 1\)"):
        layout.sizes_of_array((4, 7), (8, 1))
    with pytest.raises(LayoutError, match=r"needs shape with 4 = 4, and the array has \(5, 7\)"):
        layout.sizes_of_array((5, 7), (7, 1))
    with pytest.raises(LayoutError, match=r"has 2 axes, and the array has shape \(5,\)"):
        layout.sizes_of_array((5,), (1,))


def test_the_stride_of_one_row_may_have_any_value():
    pitch = size("pitch")
    layout = Strided([M, size("K", max=pitch)], [pitch, 1])
    assert layout.sizes_of_array((1, 7), (0, 1)) == {"M": 1, "K": 7, "pitch": 8}


def test_vectors_along_an_axis_of_stride_one():
    pitch = size("pitch", multiple_of=4)

    @lego.kernel(grid=1, block=8)
    def rows(x: lego.Tensor(f32, Strided([8, 4], [pitch + 4, 1])), y: lego.Tensor(f32, Row(8, 4))):
        t = lego.thread_id[0]
        y.store(x.load(t, 0, width=4), t, 0)

    assert "vector.load" in rows.mlir()
    assert "ld.global.v4" in compile_kernel((rows,), emit="ptx", cache=None).text.replace(".f32", "").replace(
        ".b32", ""
    )


def test_all_commands(tmp_path, capsys):
    spec = tmp_path / "spec.py"
    spec.write_text(
        "import lego_mlir as lego\nfrom lego_mlir import Row, Strided, f32, size\n"
        "M, pitch = size('M'), size('pitch')\nK = size('K', max=pitch)\n"
        "part = Strided([M, K], [pitch, 1])\n"
        "@lego.kernel(grid=(lego.cdiv(K, 32), M), block=32)\n"
        "def double(x: lego.Tensor(f32, part), y: lego.Tensor(f32, Row(M, K))):\n"
        "    i, j = lego.block_id[1], lego.block_id[0] * 32 + lego.thread_id[0]\n"
        "    with lego.when(j < K):\n"
        "        y[i, j] = x[i, j] * 2\n"
        "@double.reference\ndef expected(x):\n    return x * 2\n"
    )
    assert main(["run", str(spec), "--size", "K=70", "--size", "M=5"]) == 0
    assert main(["check", str(spec)]) == 0
    assert "0 refuted, 0 unknown" in capsys.readouterr().out
    for command in (["analyze", str(spec)], ["explain", str(spec)], ["compile", str(spec), "--emit", "ptx", "-o", "-"]):
        assert main(command) == 0, command


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_a_call_takes_the_strides_from_the_array(turned, check):
    whole = np.arange(40 * 30, dtype=np.float32).reshape(40, 30)
    part = whole[3:25, 2:20:2]
    part = part.T if turned else part
    result = np.zeros(part.shape, np.float32)
    add_one(part, result, check=check) if check else add_one(part, result)
    np.testing.assert_array_equal(result, part + 1)
    one = whole[7:8, ::2]
    np.testing.assert_array_equal(add_one(one), one + 1)


def test_a_call_checks_the_claim():
    array = np.lib.stride_tricks.as_strided(np.zeros(24, np.float32), (4, 6), (8, 4))
    with pytest.raises(UsageError, match="requires that the strides of x are one-to-one, which fails for"):
        add_one(array)


def test_sizes_and_strides_that_fit_must_span_a_number_of_positions_that_does():
    Strided([2**100, 2], [2**100, 1])
    with pytest.raises(LayoutError, match="the number of positions has at most 256 bits, got an int of 401"):
        Strided([2**200, 2**200], [2**200, 1])
