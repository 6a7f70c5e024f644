"""Conversions: bits move between any formats of one logical array, casts round as the formats' own packages do."""

import gguf_oracle
import numpy as np
import pytest
from format_oracles import ORACLES
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_fields import made_up

import lego_mlir as lego
from lego_mlir import Col, Padded, RegP, Row, gallery
from lego_mlir.errors import LayoutError, UsageError
from lego_mlir.formats import FORMATS
from lego_mlir.formats.conversions import Conversion
from lego_mlir.formats.field_arrays import read, write
from lego_mlir.formats.field_moves import Move

from strategies import permutations

PAIRS = [
    ("vllm.gate_up", "gptoss.gate_up", {"rows": 12, "columns": 40}),
    ("flashinfer.up_gate", "vllm.gate_up", {"rows": 5, "columns": 3}),
    ("mixtral.experts", "vllm.moe_w13", {"experts": 3, "rows": 4, "columns": 8}),
    ("vllm.moe_w13", "llama4.experts", {"experts": 3, "rows": 4, "columns": 8}),
    ("hf.qkv", "vllm.qkv", {"groups": 3, "heads": 2, "depth": 4, "inputs": 8}),
    ("megatron.qkv", "hf.qkv", {"groups": 3, "heads": 2, "depth": 4, "inputs": 8}),
    ("hf.linear", "gguf.rope_rows", {"rows": 24, "columns": 8, "heads": 3, "depth": 8, "inputs": 8}),
    ("hf.linear", "conv1d.linear", {"rows": 24, "columns": 8}),
    ("kv.lbnhc", "kv.bhlnc", {"layers": 2, "blocks": 3, "heads": 4, "tokens": 5, "depth": 8}),
    ("kv.nhd", "kv.paged_x", {"blocks": 3, "heads": 4, "tokens": 5, "depth": 16}),
    ("kv.mla_separate", "kv.mla", {"tokens": 7}),
    ("hf.scales", "cutlass.scales_128x4", {"rows": 256, "groups": 8}),
    ("gptoss.mxfp4", "gguf.mxfp4", {"rows": 3, "columns": 96}),
]


def of(name, sizes):
    entry = FORMATS[name]
    return entry(**{n: v for n, v in sizes.items() if n in entry.parameters})


@pytest.mark.parametrize(("a", "b", "sizes"), PAIRS, ids=[f"{a} to {b}" for a, b, _ in PAIRS])
def test_bits_move_and_come_back(a, b, sizes):
    source, target = of(a, sizes), of(b, sizes)
    fields = made_up(source)
    plan = Conversion(source, target)
    assert plan.is_move and plan.is_exact
    found = plan.run(write(source, fields))
    if all(v in (3, None) for v in (sizes.get("groups"), sizes.get("heads") if "gguf" in b else None)):
        for name, array in ORACLES[b](fields).items():
            assert found[name].tobytes() == np.ascontiguousarray(array).tobytes()
    back = Conversion(target, source).run(found)
    assert all(back[name].tobytes() == array.tobytes() for name, array in write(source, fields).items())


@pytest.mark.parametrize("kind", ["q4_0", "q4_1", "q5_0", "q8_0", "mxfp4"])
def test_codes_are_those_that_gguf_computes(kind):
    gguf = pytest.importorskip("gguf")
    values = gguf_oracle.values((6, 128))
    expected = gguf.quants.quantize(values, getattr(gguf.GGMLQuantizationType, kind.upper()))
    found = lego.convert(
        values, source=FORMATS["hf.linear"](rows=6, columns=128, dtype="f32"), to=f"gguf.{kind}", rows=6, columns=128
    )
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("kind", ["q4_0", "q4_1", "q5_0", "q8_0", "q6_k", "mxfp4", "nvfp4"])
def test_values_are_those_that_gguf_reads(kind):
    gguf = pytest.importorskip("gguf")
    format_ = FORMATS[f"gguf.{kind}"](rows=3, columns=512)
    stored = gguf_oracle.records(format_, kind)
    expected = gguf.quants.dequantize(stored, getattr(gguf.GGMLQuantizationType, kind.upper()))
    found = lego.convert(stored, source=format_, to=FORMATS["hf.linear"](rows=3, columns=512, dtype="f32"))
    assert np.array_equal(found, expected)


def test_codes_of_one_family_are_exchanged_without_rounding():
    rng = np.random.default_rng(1)
    sizes = {"rows": 64, "columns": 256}
    q, scale = rng.integers(0, 16, (64, 256)).astype(np.uint8), rng.random((64, 2)).astype(np.float16)
    zero = rng.integers(1, 16, (64, 2)).astype(np.uint8)
    awq = write(FORMATS["awq"](**sizes), {"q": q, "scale": scale, "zero": zero})
    gptq = lego.convert(awq, source="awq", to="gptq", **sizes)
    fields = read(FORMATS["gptq"](**sizes), gptq)
    assert np.array_equal(fields["q"], q) and np.array_equal(fields["zero_minus_1"], zero - 1)
    assert all(np.array_equal(a, awq[n]) for n, a in lego.convert(gptq, source="gptq", to="awq", **sizes).items())
    with pytest.raises(LayoutError, match=r"the zero point of group \[0, 0\] is \d+, and the format holds 8..8"):
        lego.convert(awq, source="awq", to="vllm.marlin", **sizes)
    symmetric = write(FORMATS["awq"](**sizes), {"q": q, "scale": scale, "zero": np.full((64, 2), 8, np.uint8)})
    marlin = lego.convert(symmetric, source="awq", to="vllm.marlin", **sizes)
    expected = ORACLES["vllm.marlin"]({"q": q, "scale": scale})
    assert all(marlin[n].tobytes() == a.tobytes() for n, a in expected.items())


def test_inputs_ordered_by_activation_are_sorted_with_their_permutation():
    rng = np.random.default_rng(3)
    sizes = {"rows": 64, "columns": 384}
    fields = {
        "q": rng.integers(0, 16, (64, 384)).astype(np.uint8), "scale": rng.random((64, 3)).astype(np.float16),
        "zero_minus_1": np.full((64, 3), 7, np.uint8), "group": rng.permutation(384).astype(np.int32) // 128,
    }  # fmt: skip
    gptq = write(FORMATS["gptq.act_order"](**sizes), fields)
    marlin = lego.convert(gptq, source="gptq.act_order", to="vllm.marlin_act_order", **sizes)
    order = sorted(range(384), key=lambda k: fields["group"][k])
    expected = ORACLES["vllm.marlin"]({"q": fields["q"][:, order], "scale": fields["scale"]})
    assert all(marlin[name].tobytes() == array.tobytes() for name, array in expected.items())
    assert marlin["g_idx_sort_indices"].tolist() == order and (np.diff(marlin["g_idx"]) >= 0).all()
    back = lego.convert(marlin, source="vllm.marlin_act_order", to="gptq.act_order", **sizes)
    assert all(back[name].tobytes() == array.tobytes() for name, array in gptq.items())
    values = lego.convert(gptq, source="gptq.act_order", to="hf.linear", **sizes).astype(np.float32)
    scale = np.take_along_axis(fields["scale"].astype(np.float32), np.tile(fields["group"], (64, 1)), 1)
    assert np.array_equal(values, ((fields["q"].astype(np.float32) - 8) * scale).astype(np.float16))


def test_what_is_no_order_of_activations_is_refused():
    sizes = {"rows": 64, "columns": 128}
    source = FORMATS["gptq.act_order"](**sizes)
    fields = made_up(source) | {"zero_minus_1": np.full((64, 1), 7, np.uint8), "group": np.zeros(128, np.int32)}
    marlin = lego.convert(write(source, fields), source=source, to="vllm.marlin_act_order", **sizes)
    marlin["g_idx_sort_indices"][5] = 9
    with pytest.raises(LayoutError, match=r"entries 5 and 9 are both 9; each of 0..127 appears once"):
        lego.convert(marlin, source="vllm.marlin_act_order", to=source, **sizes)
    fields["group"][7] = 1
    with pytest.raises(LayoutError, match=r"the group of input 7 is 1, and there are the groups 0..0"):
        lego.convert(write(source, fields), source=source, to="vllm.marlin_act_order", **sizes)


def test_a_cast_rounds_to_the_nearest_code():
    rng = np.random.default_rng(2)
    w = rng.standard_normal((128, 256)).astype(np.float16)
    for target in ("vllm.marlin", "awq", "gptq", "deepseek.fp8"):
        plan = Conversion(FORMATS["hf.linear"](rows=128, columns=256), FORMATS[target](rows=128, columns=256))
        assert not plan.is_exact
        back = Conversion(plan.target, plan.source).run(plan.run({"data": w}))["data"].astype(np.float32)
        step = {"deepseek.fp8": np.abs(w).max() / 16}.get(target, np.abs(w).max() * 2 / 15)
        assert np.abs(back - w.astype(np.float32)).max() <= step
    half = lego.convert(
        w, source="hf.linear", to=FORMATS["hf.linear"](rows=128, columns=256, dtype="bf16"), rows=128, columns=256
    )
    assert np.abs(half.astype(np.float32) - w.astype(np.float32)).max() <= 2**-8 * np.abs(w).max()


def test_formats_without_common_values_are_refused():
    with pytest.raises(LayoutError, match="no coding gives their values"):
        Conversion(FORMATS["vllm.gate_up"].example(), FORMATS["hf.linear"].example())
    with pytest.raises(LayoutError, match="decodes only"):
        lego.convert(
            np.zeros((1, 256), np.float32),
            source=FORMATS["hf.linear"](rows=1, columns=256, dtype="f32"),
            to="gguf.q6_k",
            rows=1,
            columns=256,
        )
    with pytest.raises(UsageError, match="arrays of NumPy"):
        lego.convert("x", source="hf.linear", to="conv1d.linear", rows=2, columns=2)


@given(st.data())
@settings(max_examples=60)
def test_any_two_layouts_of_a_box_convert(data):
    n = data.draw(st.sampled_from([4, 8, 12, 16, 24, 36]))
    a = data.draw(permutations(n))
    b = data.draw(permutations(n)).reshape(*a.dims())
    x = np.arange(n, dtype=data.draw(st.sampled_from(["u1", "u2", "f4", "f8"])))
    found = lego.convert(x, source=a, to=b)
    for k in range(n):
        index = tuple(map(int, np.unravel_index(k, a.dims())))
        assert found[b.apply(*index)] == x[a.apply(*index)]


def test_padding_is_zero_and_layouts_of_other_sizes_are_refused():
    found = lego.convert(np.arange(1, 7.0), source=Row(2, 3), to=Padded(Row(2, 4), [2, 3]))
    assert found.tolist() == [1, 2, 3, 0, 4, 5, 6, 0]
    with pytest.raises(LayoutError, match="other logical sizes"):
        lego.convert(np.arange(8), source=gallery.morton(2, 4), to=Row(8))
    with pytest.raises(UsageError, match="has 16 positions, and the array 8 elements"):
        lego.convert(np.arange(8), source=gallery.morton(4, 4), to=Row(4, 4))


def test_in_place_takes_one_block_of_the_cycles():
    x = np.arange(3 * 4 * 6 * 8, dtype=np.float32)
    source, target = Row(3, 4, 6, 8), RegP([3, 4, 6, 8], [1, 3, 2, 4])
    expected = x.reshape(3, 4, 6, 8).transpose(0, 2, 1, 3).ravel()
    y = x.copy()
    assert lego.convert(y, source=source, to=target, in_place=True) is y and np.array_equal(y, expected)
    from lego_mlir.formats.convert_calls import format_of

    plan = Conversion(format_of(source, {}, x), format_of(target, {}, x))
    assert plan.run_in_place(x.copy()) == 4 * 6 * 8 * 4
    with pytest.raises(LayoutError, match="reach over 768 bytes"):
        plan.run_in_place(x.copy(), most_bytes=512)
    whole = Conversion(format_of(Row(6, 4), {}, x), format_of(Col(6, 4), {}, x))
    with pytest.raises(UsageError, match="is C-contiguous; pass a copy"):
        plan.run_in_place(x.copy()[::-1])
    z = np.arange(24, dtype=np.float32)
    assert whole.run_in_place(z) == 96 and np.array_equal(z, np.arange(24).reshape(6, 4).T.ravel())


def test_a_move_and_its_inverse_are_the_identity():
    plan = Conversion(FORMATS["awq"](rows=64, columns=128), FORMATS["awq"](rows=64, columns=128)).moves[0][2]
    assert plan == Move((), 128, (0, 0)) or plan.digits[-1][1:] == (128, 128)
    turned = Conversion(*(of(n, {"rows": 12, "columns": 40}) for n in ("vllm.gate_up", "gptoss.gate_up"))).moves[0][2]
    assert turned.inverse().inverse() == turned and turned.inverse() != turned


@pytest.mark.parametrize("kind", ["f16", "f32", "e4m3"])
def test_a_large_transposition_is_done_in_blocks_on_two_threads(kind):
    format_ = FORMATS["hf.linear"](rows=1000, columns=1300, dtype=kind)
    w = made_up(format_)["weight"]
    found = Conversion(format_, FORMATS["conv1d.linear"](rows=1000, columns=1300, dtype=kind)).run({"data": w})["data"]
    assert found.tobytes() == np.ascontiguousarray(w.T).tobytes()
