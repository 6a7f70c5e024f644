"""A barrier is named as unneeded only if every proof is kept without it."""

import lego_mlir as lego
from lego_mlir import Row, f32
from lego_mlir.cli.main import DONE, main
from lego_mlir.kernels import transpose
from lego_mlir.proofs.barriers import unneeded_barriers


def exchange(*barriers):
    """One exchange through a tile; the flags are barriers before, between and after."""

    @lego.kernel(grid=1, block=64)
    def kernel(x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(64))):
        t, tile = lego.thread_id[0], lego.shared(f32, Row(64), name="tile")
        if barriers[0]:
            lego.barrier()
        tile[t] = x[t]
        if barriers[1]:
            lego.barrier()
        y[t] = tile[63 - t]
        if barriers[2]:
            lego.barrier()

    return [source.line - kernel.source.line for source in unneeded_barriers(kernel.trace())]


def test_the_barrier_between_a_write_and_a_read_is_needed_and_no_other():
    assert exchange(False, True, False) == []
    assert exchange(True, True, True) == [4, 10]
    assert exchange(True, False, True) == []  # there is a race, so nothing is proved without a barrier


def test_a_loop_needs_both_of_its_barriers_and_either_of_three():
    def looped(extra):
        @lego.kernel(grid=1, block=64)
        def kernel(x: lego.Tensor(f32, Row(8, 64)), y: lego.Tensor(f32, Row(64))):
            t, tile, total = lego.thread_id[0], lego.shared(f32, Row(64), name="tile"), lego.register(f32, 0.0)
            for k in lego.range(8):
                lego.barrier()
                tile[t] = x[k, t]
                lego.barrier()
                total += tile[63 - t]
                if extra:
                    lego.barrier()
            y[t] = total

        return [source.line - kernel.source.line for source in unneeded_barriers(kernel.trace())]

    assert looped(False) == []
    assert looped(True) == [4, 9]  # one of the two, at the end or at the start of a round


def test_shipped_transposes_need_their_barrier():
    kernel = transpose.build("swizzled", 128, 128, f32)
    assert unneeded_barriers(kernel.trace()) == []


def test_a_barrier_is_not_judged_where_data_is_published_to_other_blocks():
    @lego.kernel(grid=2, block=32)
    def kernel(y: lego.Tensor(f32, Row(64))):
        y[lego.block_id[0] * 32 + lego.thread_id[0]] = 1.0
        lego.fence()
        lego.barrier()

    assert unneeded_barriers(kernel.trace()) == []


def test_analyze_names_an_unneeded_barrier(tmp_path, capsys):
    path = tmp_path / "spec.py"
    path.write_text("""
import lego_mlir as lego
from lego_mlir import Row, f32

@lego.kernel(grid=1, block=64)
def scaled(x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(64))):
    t, tile = lego.thread_id[0], lego.shared(f32, Row(64))
    tile[t] = x[t]
    lego.barrier()
    y[t] = 2 * tile[t]
""")
    assert main(["analyze", str(path)]) == DONE
    assert f"{path}:9: removing this barrier keeps every proof" in capsys.readouterr().out
