"""`matmul_sm90.mlir` schedules anybody's product, and has the parameters of its schedules."""

import pytest
from assembling import needs_ptxas
from tiled_products import PRODUCTS, Tile, emulated, interpreted, require

import lego_mlir as lego
from lego_mlir import Row, f32
from lego_mlir.errors import ScheduleError, UsageError
from lego_mlir.expr.verdict import Proved
from lego_mlir.hardware.targets import target_named
from lego_mlir.proofs.rings.claims import ring_claims, ring_proof
from lego_mlir.toolchain import compile_kernel, ptxas

T = Tile(64, 64, 16)


def compiled(given, **parameters):
    return compile_kernel(given, target="sm_90a", transform="matmul_sm90.mlir", parameters=parameters)


def made(name):
    m, t = (128, T) if name == "symmetric" else (128, Tile()) if name == "softmax" else (64, T)
    return PRODUCTS[name](m, t.n, 128, t)


def products(*pushed):
    """All names; those that are not `pushed` run with --long."""
    return pytest.mark.parametrize(
        "name", [pytest.param(n, marks=() if n in pushed else pytest.mark.long) for n in PRODUCTS]
    )


@products("row_maximum")
def test_every_product_is_compiled(name):
    kernel, reference = made(name)
    compilation = compiled(kernel, stages=2)
    assert "wgmma.mma_async" in compilation.text
    (source,) = compilation.sources
    assert source.schedules[-3:] == ("pipeline(stages=2)", "overlay(optional=True)", "roles")
    for machine in (interpreted, emulated):
        require(source, reference, machine)


@needs_ptxas
@products("gated", "symmetric")
def test_nothing_is_spilled_and_rings_are_proved(name):
    """In tiles of 128 x 128."""
    kernel, _ = PRODUCTS[name](
        256 if name == "symmetric" else 128, 128, 256, Tile(columns=32 if name == "gated" else 64)
    )
    compilation = compiled(kernel, stages=3)
    _, (resources,) = ptxas.assemble(compilation.text, target_named("sm_90a"))
    assert resources.spill_stores == resources.spill_loads == 0
    trace = compilation.sources[0].trace()
    proof = ring_proof(trace)
    (claim,) = ring_claims(trace, proof)
    assert isinstance(claim.verdict, Proved), claim.verdict
    stored_by_threads = {"doubled", "computed", "gathered"}
    assert not proof.unfilled or name in stored_by_threads


def test_results_leave_by_tile_copies_where_they_can():
    stored_once, by_threads = (compiled(made(name)[0], stages=2).sources[0] for name in ("plain", "row_maximum"))
    assert "copied_out(buffers=2, optional=True)" in stored_once.schedules
    assert not any(text.startswith("copied_out") for text in by_threads.schedules)


def test_parameters_are_those_of_schedules():
    (source,) = compiled(made("two_sums")[0], stages=3, exact=2, dependent=True, buffers=0).sources
    assert source.schedules == (
        "warpgroups", "exact(every=2)", "pipeline(stages=3)", "overlay(optional=True)", "roles", "dependent",
    )  # fmt: skip


def test_what_neither_takes():
    @lego.kernel(grid=1, block=128)
    def copied(a: lego.Tensor(f32, Row(128)), b: lego.Tensor(f32, Row(128))):
        b[lego.thread_id.x] = a[lego.thread_id.x]

    with pytest.raises(
        ScheduleError, match=r"\.py:\d+: no loop copies a tile and uses it in its body; write lego.stage"
    ):
        compiled(copied)


def test_the_text_of_a_module_is_refused():
    with pytest.raises(UsageError, match=r"matmul_sm90\.mlir names schedules .*, which rewrite a kernel"):
        compiled(made("two_sums")[0].mlir(), stages=2)
