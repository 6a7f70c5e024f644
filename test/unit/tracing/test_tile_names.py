"""Names of shared tiles: in the trace, the module, reports and suggestions, before and after transform scripts."""

import json

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Col, Row, f16, f32, interp
from lego_mlir.cli.main import main
from lego_mlir.errors import TraceError
from lego_mlir.toolchain import compile_kernel

SIZE = 256


def product():
    @lego.kernel(grid=(1, 1), block=(32, 4))
    def matmul(
        a: lego.Tensor(f16, Row(64, SIZE)), b: lego.Tensor(f16, Col(SIZE, 64)), c: lego.Tensor(f32, Row(64, 64))
    ):
        lane, warp = lego.thread_id[:2]
        left, right = lego.shared(f16, Row(64, 32), name="As"), lego.shared(f16, Col(32, 64), name="Bs")
        out = lego.shared(f32, Row(64, 64), name="Cs")
        m, n = Row(2, 2).inv(warp)
        total = lego.accumulator(f32, 32, 32)
        for k in lego.range(SIZE // 32):
            lego.barrier()
            lego.stage(a, (0, k), left)
            lego.stage(b, (k, 0), right)
            lego.barrier()
            lego.mma(left.part((m * 32, 0), (32, 32)), right.part((0, n * 32), (32, 32)), total)
        total.store(out, (m * 32, n * 32))
        lego.barrier()
        for row in lego.range(0, 64, 4):
            c.store(out.load(row + warp, lane * 2, width=2), row + warp, lane * 2)

    return matmul


def test_a_race_is_reported_by_the_name_of_its_tile():
    @lego.kernel(grid=1, block=32)
    def racy(x: lego.Tensor(f32, Row(32)), y: lego.Tensor(f32, Row(32))):
        t = lego.thread_id[0]
        lego.shared(f32, Row(32))[t] = x[t]
        part = lego.shared(f32, Row(32), name="part")
        part[t // 2] = x[t]
        y[t] = part[t // 2]

    report = interp.run_kernel(racy, {"x": np.ones(32, np.float32), "y": np.zeros(32, np.float32)})
    assert {fault.buffer for fault in report.faults} == {"part"}
    assert all("part" in fault.message for fault in report.faults)
    assert {site.buffer for site in report.sites if site.space == "shared"} == {"shared0", "part"}


def test_analyze_names_the_tile_of_a_conflict_and_its_repair(tmp_path, capsys):
    spec = tmp_path / "spec.py"
    spec.write_text(
        "import lego_mlir as lego\n"
        "from lego_mlir import Row, f32\n"
        "@lego.kernel(grid=1, block=(32, 1))\n"
        "def turn(x: lego.Tensor(f32, Row(32, 32)), y: lego.Tensor(f32, Row(32, 32))):\n"
        "    t, tile = lego.thread_id[0], lego.shared(f32, Row(32, 32), name='square')\n"
        "    for r in lego.range(32):\n"
        "        tile[r, t] = x[r, t]\n"
        "    lego.barrier()\n"
        "    for r in lego.range(32):\n"
        "        y[r, t] = tile[t, r]\n"
    )
    assert main(["analyze", str(spec), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["kernels"][0]
    assert list(found["repairs"]) == ["square"]
    assert main(["analyze", str(spec)]) == 0
    assert "read of square" in capsys.readouterr().out


@pytest.mark.parametrize("stages", [3, 6])
def test_names_are_kept_through_scripts(stages):
    """Three stages fit static memory; with six, every tile is a view of one dynamic block."""
    kernel = product()
    compilation = compile_kernel(
        (kernel,), emit="transformed", transform="matmul_sm80.mlir", parameters={"stages": stages}, cache=None
    )
    module = compilation.stage("transformed", locations=True)
    assert ("gpu.dynamic_shared_memory" in module) == (stages == 6)
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal(64 * SIZE).astype(np.float16) for _ in range(2))
    c = np.zeros(64 * 64, np.float32)
    report = interp.run_kernel(kernel, {"a": a, "b": b, "c": c}, module=module)
    expected = a.reshape(64, SIZE).astype(np.float32) @ b.reshape(64, SIZE).T.astype(np.float32)
    assert report.clean
    np.testing.assert_allclose(c.reshape(64, 64), expected, rtol=1e-2, atol=1e-2)
    assert {site.buffer for site in report.sites if site.space == "shared"} == {"As", "Bs", "Cs"}


def test_a_name_that_is_used_twice_gets_a_number():
    def tile():
        return lego.shared(f32, Row(32), name="part")

    @lego.kernel(grid=1, block=32)
    def twice(x: lego.Tensor(f32, Row(32))):
        t, one, two = lego.thread_id[0], tile(), tile()
        one[t], two[t] = x[t], x[t]
        x[t] = one[t] + two[t]

    assert [buffer.name for buffer in twice.trace().shared] == ["part", "part2"]
    assert '"part2"' in twice.mlir()


def test_tiles_without_a_name_have_no_attribute():
    @lego.kernel(grid=1, block=32)
    def plain(x: lego.Tensor(f32, Row(32))):
        t, tile = lego.thread_id[0], lego.shared(f32, Row(32))
        tile[t] = x[t]
        x[t] = tile[t]

    assert "lego.name" not in plain.mlir()
    assert [buffer.name for buffer in plain.trace().shared] == ["shared0"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x", "the name 'x' is a parameter of named; give the tile another"),
        ("my tile", "the name of a tile is an identifier, such as 'As', got 'my tile'"),
        (3, "the name of a tile is an identifier, such as 'As', got 3"),
    ],
)
def test_names_that_are_refused(name, message):
    @lego.kernel(grid=1, block=32)
    def named(x: lego.Tensor(f32, Row(32))):
        lego.shared(f32, Row(32), name=name)

    with pytest.raises(TraceError, match=message):
        named.trace()


def test_names_do_not_change_the_ptx():
    def text(name):
        @lego.kernel(grid=1, block=32)
        def k(x: lego.Tensor(f32, Row(32))):
            t, tile = lego.thread_id[0], lego.shared(f32, Row(32), name=name)
            tile[t] = x[t]
            lego.barrier()
            x[t] = tile[31 - t]

        return compile_kernel((k,), emit="ptx", cache=None).text

    assert text("As") == text(None)
