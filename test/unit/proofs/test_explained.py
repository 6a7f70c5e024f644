"""`explain` shows the equations of each claim, and what follows from them."""

import json

import lego_mlir as lego
from lego_mlir import Row, f32
from lego_mlir.cli.main import DONE, main
from lego_mlir.proofs.explained import MOST_ALIKE, digits_of, explanations
from lego_mlir.proofs.kernel_model import KernelModel

SPEC = """
import lego_mlir as lego
from lego_mlir import Row, f32
N = lego.size("N")

@lego.kernel(grid=lego.cdiv(N, 64), block=64)
def reverse(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
    b, t, tile = lego.block_id[0], lego.thread_id[0], lego.shared(f32, Row(64), name="tile")
    tile[t] = x.halo()[b * 64 + t]
    lego.barrier()
    y.halo()[b * 64 + t] = tile[63 - t]
"""


def test_a_claim_is_explained_by_the_equations_of_its_accesses(tmp_path, capsys):
    path = tmp_path / "spec.py"
    path.write_text(SPEC)
    assert main(["explain", str(path)]) == DONE
    out = capsys.readouterr().out
    assert "  no race for tile between two threads of a block\n" in out
    assert "    write of tile in line 9 and itself: tx - tx' = 0\n      tx' = tx: mixed radix\n" in out
    assert "write of y in line 11 and itself: 64*bx - 64*bx' + tx - tx' = 0" in out


def test_the_proofs_are_part_of_the_json(tmp_path, capsys):
    path = tmp_path / "spec.py"
    path.write_text(SPEC)
    assert main(["explain", str(path), "--json"]) == DONE
    claims = {c["claim"]: c["proof"] for c in json.loads(capsys.readouterr().out)["kernels"][0]["claims"]}
    assert claims["every element of y is written"][0].startswith("proved: its block, thread and round follow from it")


def test_digits_and_open_claims_are_shown():
    @lego.kernel(grid=1, block=64)
    def kernel(x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(8, 16))):
        t = lego.thread_id[0]
        y[t // 8, t % 8] = 1.0
        y[t % 8, t // 8 + 8] = 1.0
        y[0, 8] = x[0]

    model = KernelModel(kernel.trace())
    assert digits_of(model) == ["tx = tx.0 + 8*tx.1"]
    found = {explanation.claim: explanation.lines for explanation in explanations(model)}
    assert any("unknown" in line for line in found["no race for y between two threads of a block"])


def test_of_many_pairs_of_two_lines_the_first_are_written_out():
    @lego.kernel(grid=1, block=32)
    def kernel(y: lego.Tensor(f32, Row(32 * 50))):
        for part in range(8):
            y[part * part * 32 + lego.thread_id[0]] = 1.0

    found = {e.claim: e.lines for e in explanations(KernelModel(kernel.trace()))}
    lines = found["no race for y between two threads of a block"]
    write = lines[-1].partition(" and the ")[0]
    pairs = [line for line in lines if line.startswith(f"{write} and the {write}: ") and line.endswith(" = 0")]
    assert len(pairs) == MOST_ALIKE
    assert lines[-1] == f"{write} and the {write}: {8 * 7 - MOST_ALIKE} more pairs"
