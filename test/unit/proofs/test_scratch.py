"""Values spread over threads that change layouts through scratch memory: each barrier of a conversion is needed."""

import lego_mlir as lego
from lego_mlir import Row, f2, f32
from lego_mlir.expr.verdict import Proved
from lego_mlir.proofs.claims import kernel_claims
from lego_mlir.proofs.kernel_model import KernelModel
from lego_mlir.proofs.races import PairsInside, race_claims

ROWS = f2.Blocked((1, 4), (4, 8), (4, 1), order=(1, 0)).layout((64, 32))
COLUMNS = f2.Blocked((4, 1), (8, 4), (1, 4), order=(0, 1)).layout((64, 32))


@lego.kernel(grid=1, block=128)
def converted(x: lego.Tensor(f32, Row(64, 32)), y: lego.Tensor(f32, Row(64, 32)), z: lego.Tensor(f32, Row(64, 32))):
    for _ in lego.range(2):
        value = lego.convert(lego.load(x, ROWS), to=COLUMNS)
        value.store(z)
        lego.convert(value, to=ROWS).store(y)


def test_the_scratch_of_conversions_has_no_race_and_is_written_before_it_is_read():
    found = {text: verdict for text, verdict in kernel_claims(converted, tried=False) if "shared" in text}
    assert len(found) >= 2
    assert all(isinstance(verdict, Proved) for verdict in found.values()), found


def test_without_its_barriers_a_conversion_is_not_proved():
    model = KernelModel(converted.trace())
    lines = {sync.source for sync in model.reader.syncs}
    assert len(lines) >= 2
    for line in lines:
        left_out = frozenset(id(sync) for sync in model.reader.syncs if sync.source == line)
        claims = race_claims(model, PairsInside(model, left_out))
        assert not all(isinstance(claim.verdict, Proved) for claim in claims if not claim.across), line
