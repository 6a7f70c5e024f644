"""st.async to the next block of a cluster, st.bulk and brx.idx: values, and what is planted."""

import shutil
import subprocess

import numpy as np
import pytest

from lego_mlir.interp.ptx import emulate
from lego_mlir.interp.report import Kind

STORE = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%to], {%a, %b}, [%there];"
WAIT = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0; @!%p bra WAIT;"
SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"


def ring(store=STORE, wait=WAIT, expected=256, last=SYNC):
    """Each thread of a block stores a pair of words to the other block, which waits and copies them out."""
    lines = [
        "mov.u32 %me, %tid.x; mov.u32 %rank, %cluster_ctarank; xor.b32 %other, %rank, 1; mov.u32 %base, place;",
        "mov.u32 %bar, barrier; setp.ne.u32 %q, %me, 0;",
        "@!%q mbarrier.init.shared::cta.b64 [%bar], 1; @!%q fence.mbarrier_init.release.cluster;",
        f"@!%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {expected};",
        SYNC,
        "mapa.shared::cluster.u32 %to, %base, %other; mad.lo.u32 %to, %me, 8, %to;",
        "mapa.shared::cluster.u32 %there, %bar, %other; mad.lo.u32 %a, %rank, 100, %me; add.u32 %b, %a, 1000;",
        store,
        wait,
        "mad.lo.u32 %x, %me, 8, %base; ld.shared.v2.b32 {%a, %b}, [%x];",
        "ld.param.u64 %out, [out]; mad.lo.u32 %x, %rank, 32, %me; mul.wide.u32 %off, %x, 8; add.u64 %out, %out, %off;",
        "st.global.v2.b32 [%out], {%a, %b};",
        last,
    ]
    body = "\n".join(lines)
    return (
        ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 out)\n.maxntid 32, 1, 1\n"
        ".explicitcluster\n.reqnctapercluster 2, 1, 1\n{\n.reg .pred %p, %q; .reg .b64 %out, %off;\n"
        ".reg .b32 %me, %rank, %other, %base, %bar, %to, %there, %a, %b, %x;\n"
        f".shared .align 16 .b8 place[256]; .shared .align 8 .b8 barrier[8];\n{body}\nret;\n}}\n"
    )


def assembled(text, folder, arch):
    path = folder / "k.ptx"
    path.write_text(text)
    command = ["ptxas", f"-arch={arch}", "-o", str(folder / "k.cubin"), str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def test_a_pair_of_blocks_exchanges_words(tmp_path):
    for seed in range(3):
        out = np.zeros((2, 32, 2), np.uint32)
        report = emulate(ring(), args=[out], grid=(2, 1, 1), seed=seed)
        assert report.clean, report.faults
        wanted = np.arange(32) + 100 * np.array([1, 0])[:, None]
        assert np.array_equal(out, np.stack([wanted, wanted + 1000], axis=2))
    if shutil.which("ptxas") is not None:
        assert not assembled(ring(), tmp_path, "sm_90a")


@pytest.mark.parametrize(
    ("changes", "kind", "at", "words"),
    [
        ({"wait": ""}, Kind.PENDING, "ld.shared.v2", "whose completion was not waited for"),
        ({"expected": 264}, Kind.DEADLOCK, "try_wait", "8 bytes missing"),
        ({"store": STORE.replace("[%there]", "[%bar]")}, Kind.MBARRIER, "st.async", "in another block"),
        (
            {"store": STORE + " st.shared.b32 [%base], 77; // HERE"},
            Kind.PENDING,
            "HERE",
            "races with the write of a bulk copy or st.async",
        ),
        ({"store": "add.u32 %to, %to, 4;\n" + STORE}, Kind.MISALIGNED, "st.async", "not a multiple"),
    ],
)
def test_what_is_wrong_with_a_store_is_reported_at_its_line(changes, kind, at, words):
    text = ring(**changes)
    report = emulate(text, args=[np.zeros((2, 32, 2), np.uint32)], grid=(2, 1, 1))
    lines = text.splitlines()
    assert any(f.kind is kind and at in lines[f.place.line - 1] and words in f.message for f in report.faults), (
        report.faults
    )


def one_block(body, arch="sm_100a"):
    return (
        f".version 8.7\n.target {arch}\n.address_size 64\n.visible .entry k(.param .u64 out)\n.maxntid 32, 1, 1\n"
        "{\n.reg .pred %p; .reg .b64 %out, %off, %n; .reg .b32 %me, %x, %base;\n.shared .align 16 .b8 place[256];\n"
        "mov.u32 %me, %tid.x; mul.wide.u32 %off, %me, 4; ld.param.u64 %out, [out]; add.u64 %out, %out, %off;\n"
        f"mov.u32 %base, place; mad.lo.u32 %x, %me, 4, %base;\n{body}\nst.global.b32 [%out], %x;\nret;\n}}\n"
    )


def test_a_range_is_set_to_zero(tmp_path):
    clear = "setp.eq.u32 %p, %me, 0; @%p st.bulk.weak.shared::cta [%base], SIZE, 0;\n"
    text = one_block("st.shared.b32 [%x], %me;\nbar.sync 0;\n" + clear + "bar.sync 0;\nld.shared.b32 %x, [%x];")
    for size, left in ((64, range(16, 32)), (128, ())):
        out = np.full(32, 7, np.uint32)
        assert emulate(text.replace("SIZE", str(size)), args=[out]).clean
        assert np.array_equal(np.flatnonzero(out), left)
    assert Kind.OUT_OF_BOUNDS in emulate(text.replace("SIZE", "512"), args=[out]).kinds()
    assert Kind.MISALIGNED in emulate(text.replace("SIZE", "20"), args=[out]).kinds()
    if shutil.which("ptxas") is not None:
        assert not assembled(text.replace("SIZE", "64"), tmp_path, "sm_100a")


def test_a_branch_by_table(tmp_path):
    body = (
        "and.b32 %x, %me, 3;\ntable: .branchtargets A, B, C, B;\nbrx.idx %x, table;\n"
        "A: mov.u32 %x, 10; bra END;\nB: mov.u32 %x, 20; bra END;\nC: mov.u32 %x, 30;\nEND:"
    )
    out = np.zeros(32, np.uint32)
    assert emulate(one_block(body, "sm_90a"), args=[out]).clean
    assert np.array_equal(out, np.tile([10, 20, 30, 20], 8))
    if shutil.which("ptxas") is not None:
        assert not assembled(one_block(body, "sm_90a"), tmp_path, "sm_90a")
