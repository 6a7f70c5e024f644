"""Indices outside a view: masked or mapped, on plain and tiled views, ints and symbols; against NumPy's padding."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launching import launch, launch_on_cpu

import lego_mlir as lego
from lego_mlir import Col, Padded, Row, f16, f32, gallery, size
from lego_mlir.cli.main import main
from lego_mlir.errors import LayoutError, TraceError
from lego_mlir.expr.verdict import Proved
from lego_mlir.toolchain import compile_kernel
from lego_mlir.tracing.checks.claims import access_verdicts

PAD = {"zero": "constant", "clamp": "edge", "mirror": "reflect", "wrap": "wrap"}
H, W = size("H", min=3), size("W", min=3)


def moved(boundary, by, dims=(H, W), tiled=True, layout=Row):
    """y[i, j] = x[i + by[0], j + by[1]]."""
    tiles = [lego.cdiv(n, t) for n, t in zip(dims, (4, 8), strict=True)]

    @lego.kernel(grid=tuple(reversed(tiles)), block=(8, 4))
    def moved(x: lego.Tensor(f32, layout(*dims)), y: lego.Tensor(f32, Row(*dims))):
        bx, by_, tx, ty = *lego.block_id[:2], *lego.thread_id[:2]
        source, result = x.halo(boundary), y.tile_by(tiles, [4, 8])
        if tiled:
            result[by_, bx, ty, tx] = source.tile_by(tiles, [4, 8])[by_, bx, ty + by[0], tx + by[1]]
        else:
            i, j = by_ * 4 + ty, bx * 8 + tx
            result[by_, bx, ty, tx] = source[i + by[0], j + by[1]]

    return moved


def expected(x, by, boundary):
    wide = np.pad(x, 2, mode=PAD[boundary])
    return wide[2 + by[0] : 2 + by[0] + x.shape[0], 2 + by[1] : 2 + by[1] + x.shape[1]]


@pytest.mark.parametrize("boundary", PAD)
@pytest.mark.parametrize("by", [(-1, 0), (0, -2), (2, 1), (-2, 2), (0, 0)])
@pytest.mark.parametrize("tiled", [False, True])
def test_every_boundary_agrees_with_numpy(boundary, by, tiled):
    kernel = moved(boundary, by, tiled=tiled)
    x = np.arange(9 * 13, dtype=np.float32).reshape(9, 13) + 1
    *_, result = launch(kernel, x, np.zeros_like(x), sizes={"H": 9, "W": 13})
    np.testing.assert_array_equal(result, expected(x, by, boundary))
    verdicts = [verdict for _, verdict in access_verdicts(kernel.trace(), 1000)]
    assert all(isinstance(verdict, Proved) for verdict in verdicts), verdicts


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(sorted(PAD)), st.tuples(st.integers(-2, 2), st.integers(-2, 2)), st.integers(3, 9),
    st.integers(3, 17), st.booleans(), st.sampled_from([Row, Col, lambda m, n: Padded(Row(m, n + 3), [m, n])]),
)  # fmt: skip
def test_fixed_sizes_and_layouts(boundary, by, rows, columns, tiled, layout):
    kernel = moved(boundary, by, (rows, columns), tiled, layout)
    x = np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)
    *_, result = launch(kernel, x, np.zeros_like(x))
    np.testing.assert_array_equal(result, expected(x, by, boundary))


@pytest.mark.parametrize("layout", [gallery.antidiagonal(8), gallery.morton(8), gallery.xor_swizzle(8, 8)])
@pytest.mark.parametrize("boundary", PAD)
def test_layouts_that_are_not_regular(layout, boundary):
    kernel = moved(boundary, (-1, 1), (8, 8), layout=lambda *_: layout)
    x = np.arange(64, dtype=np.float32).reshape(8, 8) + 1
    *_, result = launch(kernel, x, np.zeros_like(x))
    np.testing.assert_array_equal(result, expected(x, (-1, 1), boundary))


@pytest.mark.parametrize("boundary", PAD)
def test_the_cpu_and_ptx(boundary):
    kernel = moved(boundary, (-1, 1))
    x = np.arange(9 * 13, dtype=np.float32).reshape(9, 13) + 1
    *_, result = launch_on_cpu(kernel, x, np.zeros_like(x), sizes={"H": 9, "W": 13})
    np.testing.assert_array_equal(result, expected(x, (-1, 1), boundary))
    for target in ("sm_80", "sm_90"):
        assert ".entry moved" in compile_kernel((kernel,), emit="ptx", target=target, cache=None).text


def test_sides_that_no_index_leaves_take_no_operation():
    def text(boundary, by):
        return moved(boundary, by, (64, 64), layout=Row).mlir(locations=False)

    assert text("clamp", (0, 0)) == text("zero", (0, 0)) == text("mirror", (0, 0)).replace("mirror", "zero")
    assert "scf.if" not in text("wrap", (0, 0))
    assert "remsi" not in text("wrap", (-1, 1))
    position = str(moved("clamp", (-1, 0), (64, 64)).trace().body[0].access.position)
    assert "minimum" not in position
    assert "maximum" in position


def test_a_wide_wrap_takes_a_remainder():
    kernel = moved("wrap", (-2, 1000), (5, 8))
    x = np.arange(40, dtype=np.float32).reshape(5, 8)
    *_, result = launch(kernel, x, np.zeros_like(x))
    np.testing.assert_array_equal(result, np.roll(x, (2, -1000), (0, 1)))


@pytest.mark.parametrize("columns", [1, 2, 5])
def test_a_far_mirror_goes_back_and_forth(columns):
    n = size("N")

    @lego.kernel(grid=1, block=32)
    def k(x: lego.Tensor(f32, Row(n)), y: lego.Tensor(f32, Row(32))):
        t = lego.thread_id[0]
        y[t] = x.halo("mirror")[t - 16]

    x = np.arange(columns, dtype=np.float32)
    _, y = launch(k, x, np.zeros(32, np.float32), sizes={"N": columns})
    wide = np.pad(x, (16, 32), mode="reflect") if columns > 1 else np.zeros(48)
    np.testing.assert_array_equal(y, wide[:32])


def test_a_near_mirror_takes_no_remainder():
    def text(least):
        n = size("N", min=least)

        @lego.kernel(grid=lego.cdiv(n, 32), block=32)
        def k(x: lego.Tensor(f32, Row(n)), y: lego.Tensor(f32, Row(n))):
            i = lego.block_id[0] * 32 + lego.thread_id[0]
            with lego.when(i < n):
                y[i] = x.halo("mirror")[i - 2]

        return k.mlir("index", locations=False)

    assert "rem" in text(1)
    assert "rem" not in text(3)


def test_stores_are_masked_or_refused():
    @lego.kernel(grid=1, block=32)
    def shift(x: lego.Tensor(f32, Row(32)), y: lego.Tensor(f32, Row(32))):
        i = lego.thread_id[0]
        y.halo()[i + 3] = x[i]
        y.halo().store(x[i] * 2, i - 31)

    x = np.arange(32, dtype=np.float32)
    _, y = launch(shift, x, np.zeros(32, np.float32))
    assert y[3:].tolist() == x[:29].tolist()
    assert y[0] == 62

    def stored(boundary, use):
        @lego.kernel(grid=1, block=32)
        def k(x: lego.Tensor(f32, Row(32))):
            use(x.halo(boundary), lego.thread_id[0])

        return k

    for use in (lambda x, i: x.store(1.0, i + 1), lambda x, i: x.atomic_add(1.0, i + 1)):
        with pytest.raises(TraceError, match="would let several threads write one element; store through x itself"):
            stored("clamp", use).trace()
        stored("zero", use).trace()
    with pytest.raises(TraceError, match="the boundary is one of zero, clamp, mirror, wrap, got 'edge'"):
        stored("edge", lambda x, i: None).trace()


def test_other_and_vectors():
    @lego.kernel(grid=1, block=8)
    def k(x: lego.Tensor(f16, Row(4, 32)), y: lego.Tensor(f16, Row(4, 32))):
        t = lego.thread_id[0]
        wide = x.halo()
        for row in lego.unroll(4):
            y.store(wide.load(row + 2, t * 4, width=4, other=7.0), row, t * 4)

    x = np.arange(128, dtype=np.float16).reshape(4, 32)
    _, y = launch(k, x, np.zeros_like(x))
    np.testing.assert_array_equal(y, np.concatenate([x[2:], np.full((2, 32), 7)]))
    assert "vector.load" in k.mlir()

    @lego.kernel(grid=1, block=8)
    def unaligned(x: lego.Tensor(f16, Row(4, 32)), y: lego.Tensor(f16, Row(4, 32))):
        t = lego.thread_id[0]
        y.store(x.halo("clamp").load(0, t * 4 - 4, width=4), 0, t * 4)

    with pytest.raises(LayoutError, match="4 elements of f16 at once are not possible"):
        unaligned.trace()


@pytest.mark.parametrize("boundary", PAD)
def test_a_tile_with_a_halo_in_shared_memory(boundary):
    n = size("N", min=2)

    @lego.kernel(grid=lego.cdiv(n, 32), block=32)
    def smooth(x: lego.Tensor(f32, Row(n)), y: lego.Tensor(f32, Row(n))):
        b, t = lego.block_id[0], lego.thread_id[0]
        tile, source = lego.shared(f32, Row(34), name="tile"), x.halo(boundary).tile_by([lego.cdiv(n, 32)], [32])
        tile[t + 1] = source[b, t]
        with lego.when(t < 2):
            tile[t * 33] = source[b, t * 33 - 1]
        lego.barrier()
        y.tile_by([lego.cdiv(n, 32)], [32])[b, t] = tile[t] + tile[t + 1] + tile[t + 2]

    x = np.arange(75, dtype=np.float32) ** 2
    _, y = launch(smooth, x, np.zeros_like(x), sizes={"N": 75})
    wide = np.pad(x, 1, mode=PAD[boundary])
    np.testing.assert_array_equal(y, wide[:-2] + wide[1:-1] + wide[2:])


def test_staged_tiles_may_have_a_halo():
    @lego.kernel(grid=1, block=32)
    def k(x: lego.Tensor(f16, Row(40, 64)), y: lego.Tensor(f16, Row(64, 64))):
        t, tile = lego.thread_id[0], lego.shared(f16, Row(64, 64))
        lego.stage(x.halo(), (0, 0), tile)
        lego.barrier()
        for row in lego.range(64):
            y.store(tile.load(row, t * 2, width=2), row, t * 2)

    x = np.arange(40 * 64, dtype=np.float16).reshape(40, 64)
    _, y = launch(k, x, np.zeros((64, 64), np.float16))
    np.testing.assert_array_equal(y, np.pad(x, ((0, 24), (0, 0))))


def test_commands(tmp_path, capsys):
    spec = tmp_path / "spec.py"
    spec.write_text(
        "import numpy as np\nimport lego_mlir as lego\nfrom lego_mlir import Row, f32\n"
        "N = lego.size('N', min=2)\n"
        "@lego.kernel(grid=lego.cdiv(N, 32), block=32)\n"
        "def blur(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):\n"
        "    i, wide = lego.block_id[0] * 32 + lego.thread_id[0], x.halo('clamp')\n"
        "    with lego.when(i < N):\n"
        "        y[i] = wide[i - 1] + wide[i + 1]\n"
        "@blur.reference\ndef expected(x):\n    wide = np.pad(x, 1, mode='edge')\n    return wide[:-2] + wide[2:]\n"
    )
    for command in ("run", "check", "analyze", "explain"):
        assert main([command, str(spec)]) == 0, command
    assert "0 refuted, 0 unknown" in capsys.readouterr().out


@pytest.mark.parametrize("boundary", PAD)
def test_the_transpose_and_tables_have_the_halo_too(boundary):
    table = gallery.table([8, 8], np.random.default_rng(2).permutation(64).tolist())

    @lego.kernel(grid=1, block=(8, 8))
    def k(x: lego.Tensor(f32, table), y: lego.Tensor(f32, Row(8, 8))):
        j, i = lego.thread_id
        y[i, j] = x.halo(boundary).T[j + 1, i - 2] + x.T.halo(boundary)[j + 1, i - 2]

    x = np.arange(64, dtype=np.float32).reshape(8, 8) + 1
    _, y = launch(k, x, np.zeros_like(x))
    np.testing.assert_array_equal(y, 2 * expected(x, (-2, 1), boundary))
