"""`lego_mlir.attention` on arrays: in the interpreter, without a GPU, and what it refuses."""

import numpy as np
import pytest
from attention_oracle import attended

import lego_mlir
from lego_mlir.errors import UsageError
from lego_mlir.kernels import fused_attention
from lego_mlir.kernels.attention_forms import AttentionForm, HeadSizes, fastest
from lego_mlir.runtime import attention_calls, attention_plans
from lego_mlir.runtime.attention_plans import BoundAttention

HEADS, SHARED, POSITIONS, FEATURES = 2, 1, 70, 64


def drawn(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float16)


def expected(q, k, v):
    """The causal result."""
    return attended(q, k, v, np.tri(q.shape[-2], k.shape[-2])).o


@pytest.mark.parametrize("batch", [(), (1,)])
def test_arrays_with_and_without_a_batch(batch):
    q, k, v = (drawn(*batch, heads, POSITIONS, FEATURES) for heads in (HEADS, SHARED, SHARED))
    found = lego_mlir.attention(q, k, v, causal=True, check=True)
    assert found.shape == q.shape
    np.testing.assert_allclose(found, expected(q, k, v), atol=2e-3)


@pytest.mark.parametrize("scale", [0.3, np.float32(4)])
def test_scales(scale):
    q, k, v = (drawn(heads, POSITIONS, FEATURES) for heads in (HEADS, SHARED, SHARED))
    found = lego_mlir.attention(q, k, v, causal=True, scale=scale, check=True)
    np.testing.assert_allclose(found, expected(q * np.float64(scale) * FEATURES**0.5, k, v), atol=4e-3)


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.filterwarnings("ignore::lego_mlir.errors.ReferenceWarning")
def test_values_of_fewer_features(check):
    """As in latent attention without absorption: the result has the features of v, in the order of axes of q."""
    q, k = (drawn(1, POSITIONS, heads, 192).swapaxes(1, 2) for heads in (HEADS, SHARED))
    v = drawn(1, POSITIONS, SHARED, 256).swapaxes(1, 2)[..., 128:]
    found = lego_mlir.attention(q, k, v, causal=True, check=check)
    assert found.shape == (1, HEADS, POSITIONS, 128)
    np.testing.assert_allclose(found, expected(q, k, v), atol=2e-3)


def test_values_of_fewer_features_have_no_gradients():
    torch = pytest.importorskip("torch")
    q, k, v = (torch.zeros(1, 8, n, dtype=torch.float16, requires_grad=True) for n in (192, 192, 128))
    with pytest.raises(UsageError, match="192 features with values of 128: its gradients are not computed; pad"):
        lego_mlir.attention(q, k, v)


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 2, 1)])
def test_arrays_in_other_orders(order):
    given = [drawn(heads, POSITIONS, FEATURES) for heads in (HEADS, SHARED, SHARED)]
    q, k, v = (x.transpose(order).copy().transpose(np.argsort(order)) for x in given)
    found = lego_mlir.attention(q, np.broadcast_to(k, (2, *k.shape))[1], v[:, ::-1][:, ::-1], causal=True, check=True)
    np.testing.assert_allclose(found, expected(*given), atol=2e-3)


def test_packed_arrays_are_read_where_they_are(monkeypatch):
    packed = drawn(2, POSITIONS, 4, HEADS, FEATURES)[:, :, :3]
    q, k, v = (packed[:, :, part].swapaxes(1, 2) for part in range(3))
    monkeypatch.setattr(attention_plans, "in_rows", lambda x: pytest.fail("copied"))
    found = lego_mlir.attention(q, k, v, check=True, causal=True)
    assert found.swapaxes(1, 2).flags.c_contiguous  # as q: heads of a position are neighbours
    np.testing.assert_allclose(found, expected(q, k, v), atol=2e-3)


def shifted(x):
    """The same array with the same strides, from an address on that no kernel reads."""
    base = np.zeros(x.size + 64, x.dtype)
    first = -(base.ctypes.data // 2) % 8 + 1
    found = np.lib.stride_tricks.as_strided(base[first:], x.shape, x.strides)
    found[...] = x
    return found


def test_plans_are_of_arrays_that_are_read_where_they_are():
    q, k, v = (drawn(1, POSITIONS, heads, FEATURES).swapaxes(1, 2) for heads in (HEADS, SHARED, SHARED))
    wanted = expected(q, k, v)
    for given in (shifted(q), q, shifted(q)):
        found = lego_mlir.attention(given, k, v, causal=True, check=True)
        np.testing.assert_allclose(found, wanted, atol=2e-3)


def test_arrays_of_more_dimensions_in_another_order():
    q, k, v = (drawn(1, 2, POSITIONS, heads, FEATURES).swapaxes(2, 3) for heads in (HEADS, SHARED, SHARED))
    found = lego_mlir.attention(q, k, v, causal=True, check=True)
    np.testing.assert_allclose(found, expected(q, k, v), atol=2e-3)


@pytest.mark.parametrize("cut", [np.s_[..., 1:65], np.s_[..., ::2], np.s_[..., 4:68]])
def test_arrays_that_kernels_cannot_read_are_copied(cut):
    given = drawn(1, SHARED, POSITIONS, 2 * FEATURES)[cut]
    assert attention_plans.by_strides(given).flags.c_contiguous and not given.flags.c_contiguous


def test_rows_that_overlap_are_copied():
    given = np.lib.stride_tricks.as_strided(drawn(POSITIONS * 8 + FEATURES), (1, POSITIONS, FEATURES), (8, 16, 2))
    assert attention_plans.by_strides(given).flags.c_contiguous


def test_a_head_of_an_array_that_is_turned_around():
    q, k, v = (drawn(1, POSITIONS, FEATURES) for _ in "qkv")
    turned = [x[::-1] for x in (q, k, v)]
    np.testing.assert_allclose(lego_mlir.attention(*turned, causal=True, check=True), expected(q, k, v), atol=2e-3)


@pytest.mark.parametrize(("queries", "keys"), [((2, 0), (1, 0)), ((2, 0), (1, 5)), ((2, 3), (1, 0))])
def test_no_queries_or_no_keys(queries, keys):
    q, k = np.ones((*queries, FEATURES), np.float16), np.ones((*keys, FEATURES), np.float16)
    found = lego_mlir.attention(q, k, k, check=True)
    assert found.shape == q.shape and not found.any()
    batch = [np.ones((0, *x.shape), np.float16) for x in (q, k, k)]
    assert lego_mlir.attention(*batch, check=True).shape == (0, *q.shape)


def test_no_keys_in_torch_have_gradients_of_zero():
    torch = pytest.importorskip("torch")
    q, k, v = (torch.full((1, n, FEATURES), torch.nan, dtype=torch.float16, requires_grad=True) for n in (3, 0, 0))
    lego_mlir.attention(q, k, v, check=True).sum().backward()
    assert not q.grad.any() and k.grad.shape == k.shape and v.grad.shape == v.shape


@pytest.mark.parametrize(("deterministic", "scale"), [(False, None), (True, None), (False, 0.3), (True, 0.02)])
def test_gradients_of_torch(deterministic, scale):
    torch = pytest.importorskip("torch")
    shapes = [(heads, POSITIONS, FEATURES) for heads in (HEADS, SHARED, SHARED, HEADS)]
    torch.manual_seed(0)
    *given, gradient = (torch.randn(shape, dtype=torch.float16) for shape in shapes)
    leaves = [x.clone().requires_grad_() for x in given]
    lego_mlir.attention(*leaves, causal=True, scale=scale, deterministic=deterministic, check=True).backward(gradient)
    exact = [x.double().requires_grad_() for x in given]
    q, k, v = exact
    later = torch.ones(POSITIONS, POSITIONS).triu(1).bool()
    scores = (q @ k.mT * (scale or FEATURES**-0.5)).masked_fill(later, -torch.inf)
    (torch.softmax(scores, -1) @ v).backward(gradient.double())
    for leaf, wanted in zip(leaves, exact, strict=True):
        assert (leaf.grad.double() - wanted.grad).abs().max() < 2**-9 * wanted.grad.abs().max()


def test_second_derivatives_are_refused():
    """They would be without the part of the kernels."""
    torch = pytest.importorskip("torch")
    q, k, v = (torch.randn(1, 4, FEATURES, dtype=torch.float16, requires_grad=True) for _ in "qkv")
    result = lego_mlir.attention(q, k, v, check=True).float().square().sum()
    plain = torch.autograd.grad(result, (q, k, v), retain_graph=True)
    recorded = torch.autograd.grad(result, (q, k, v), create_graph=True)
    for x, y in zip(plain, recorded, strict=True):
        assert torch.equal(x, y.detach())
    with pytest.raises(UsageError, match="attention has first derivatives alone"):
        torch.autograd.grad((recorded[1].float() * k.float()).sum(), q)


def test_gradients_follow_the_setting_of_torch(monkeypatch):
    torch = pytest.importorskip("torch")
    added = []

    def differentiated(self, saved, do, deterministic):
        added.append(self.gradients(deterministic).add)
        return [torch.zeros_like(x) for x in saved[:3]]

    monkeypatch.setattr(BoundAttention, "differentiated", differentiated)
    leaves = [torch.ones(1, 4, FEATURES, dtype=torch.float16, requires_grad=True) for _ in "qkv"]
    try:
        for setting in (False, True):
            torch.use_deterministic_algorithms(setting)
            lego_mlir.attention(*leaves, check=True).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert added == [True, False]


@pytest.mark.parametrize("adds", [False, True])
def test_gradients_of_arrays(adds):
    q, k, v, do = (drawn(heads, POSITIONS, FEATURES) for heads in (HEADS, SHARED, SHARED, HEADS))
    form = AttentionForm(FEATURES, causal=True, group=HEADS, scale=0.3)
    bound = attention_calls._bound(form, HeadSizes(1, SHARED, POSITIONS, POSITIONS), (q, k, v), True)
    o, lse = bound.forward((q, k, v), None)
    found = bound.differentiated((q, k, v, o, lse), do, not adds)
    wanted = attended(q, k, v, np.tri(POSITIONS), form.factor).gradients(do)
    for gradient, exact in zip(found, wanted, strict=True):
        assert np.abs(gradient.reshape(exact.shape) - exact).max() < 2**-8 * np.abs(exact).max()


def test_plans_of_gradients_are_of_arrays_that_are_read_where_they_are():
    """By types, shapes and strides of the gradient that comes; one that is copied takes the plan of its copy."""
    q, k, v, do = (drawn(heads, POSITIONS, FEATURES) for heads in (HEADS, SHARED, SHARED, HEADS))
    form = AttentionForm(FEATURES, causal=True, group=HEADS, scale=0.3)
    bound = attention_calls._bound(form, HeadSizes(1, SHARED, POSITIONS, POSITIONS), (q, k, v), True)
    saved = (q, k, v, *bound.forward((q, k, v), None))
    memory = np.zeros(do.nbytes + 32, np.uint8)
    begin = -memory.ctypes.data % 16 + 2
    moved = memory[begin : begin + do.nbytes].view(np.float16).reshape(do.shape)
    moved[...] = do
    turned = np.ascontiguousarray(do.swapaxes(0, 1)).swapaxes(0, 1)
    apart = np.zeros((*do.shape[:-1], 2 * FEATURES), np.float16)[..., ::2]
    apart[...] = do
    first, plans = bound.differentiated(saved, do, True), []
    for given in (do, moved, apart, turned, do):
        for found, wanted in zip(bound.differentiated(saved, given, True), first, strict=True):
            np.testing.assert_array_equal(found, wanted)
        plans.append(len(bound._plans))
    assert plans == [1, 1, 1, 2, 2]
    bound.differentiated(saved, do, False)
    assert len(bound._plans) == 3


@pytest.mark.parametrize(("shapes", "options", "words"), [
    ([(70, 64)] * 3, {}, r"q is an array of \[.., heads, positions, features\], got \(70, 64\)"),
    ([(2, 70, 64), (1, 70, 64), (1, 71, 64)], {}, "k and v have one shape"),
    ([(3, 70, 64), (2, 70, 64), (2, 70, 64)], {}, "a divisor of its heads"),
    ([(3, 70, 64), (0, 70, 64), (0, 70, 64)], {}, "a divisor of its heads"),
    ([(1, 70, 80)] * 3, {}, "heads of 64, 96, 128, 192, 256 features"),
    ([(1, 70, 64)] * 3, {"window": 5}, "with causal=True"),
    (
        [(1, 70, 64), (1, 60, 64), (1, 60, 64)], {"window": 10, "causal": True},
        "the last 1 queries would attend to no key; pass at most 69 queries, or a window of at least 11",
    ),
    ([(1, 70, 64)] * 3, {"window": 5.0, "causal": True}, "window=5.0 is a number of keys"),
    ([(1, 70, 64)] * 3, {"scale": -0.1}, "scale=-0.1 is a positive number; for a negative one, negate q"),
    ([(1, 70, 64)] * 3, {"scale": float("nan")}, "scale=nan is a positive number"),
    ([(1, 70, 64)] * 3, {"scale": "0.1"}, "scale='0.1' is a positive number"),
])  # fmt: skip
def test_arrays_that_are_refused(shapes, options, words):
    with pytest.raises(UsageError, match=words):
        lego_mlir.attention(*(drawn(*shape) for shape in shapes), check=True, **options)


def test_other_types_are_refused():
    with pytest.raises(UsageError, match="all are float16 or bfloat16"):
        lego_mlir.attention(*(drawn(1, 70, 64).astype(np.float32) for _ in "qkv"), check=True)


def test_a_cpu_has_no_roles_of_warps():
    kernel = fused_attention.build(AttentionForm(64), sizes=HeadSizes(1, 1, 70, 70))
    with pytest.raises(UsageError, match="run it in the interpreter, with check=True, or on CUDA arrays"):
        kernel(*(drawn(1, 1, 70, 64) for _ in "qkv"))


def test_arrays_off_the_gpu_have_a_block_for_each_part():
    assert attention_calls.multiprocessors_of(drawn(1, POSITIONS, FEATURES), False) is None


@pytest.mark.parametrize(("features", "causal", "sizes", "keys_of_a_tile", "blocks"), [
    (128, True, (256, 1024, 1024), 128, 132),
    (128, False, (128, 2048, 2048), 128, 132),
    (128, True, (32, 8192, 8192), 128, 132),
    (128, True, (16, 16384, 16384), 128, None),
    (128, True, (8, 1024, 1024), 128, None),  # fewer parts than multiprocessors
    (64, True, (512, 1024, 1024), 64, 132),
    (64, False, (256, 2048, 2048), 64, 132),
    (64, True, (32, 16384, 16384), 64, 132),
    (96, True, (160, 2048, 2048), 64, 132),
    (96, True, (80, 4096, 4096), 64, 132),
    (96, True, (21, 16384, 16384), 64, None),
    (96, False, (160, 2048, 2048), 64, 132),
    (192, False, (16, 16384, 16384), 64, 132),
    (256, True, (32, 4096, 4096), 64, 132),
    (256, True, (16, 8192, 8192), 64, 132),
    (192, True, (10, 16384, 16384), 64, None),  # as many parts of a head as blocks: shares would differ
    (256, False, (64, 2048, 2048), 64, 132),
])  # fmt: skip
def test_parts_share_blocks_where_shares_are_alike(features, causal, sizes, keys_of_a_tile, blocks):
    tile, found = fastest(AttentionForm(features, causal=causal), HeadSizes(1, *sizes), 132)
    assert (tile.keys, found) == (keys_of_a_tile, blocks)


@pytest.mark.parametrize(("features", "length", "skips", "sections", "several"), [
    (64, 1024, False, 0, 132), (64, 16384, False, 0, 132), (192, 1024, False, 0, 132),
    (96, 4096, False, 0, 132), (96, 6100, False, 0, None), (128, 8192, False, 0, 132), (128, 16384, False, 0, None),
    (256, 4096, True, 0, 132), (256, 6100, False, 8, 132),
])  # fmt: skip
def test_causal_blocks_skip_tiles_or_take_parts_by_length(features, length, skips, sections, several):
    form = AttentionForm(features, causal=True)
    tile, blocks = fastest(form, HeadSizes(1, 512, length, length), 132)
    assert (tile.skips, tile.sections, blocks) == (skips, sections, several)
    alone, blocks = fastest(form, HeadSizes(1, 1, length, length), 132)
    assert (alone.skips, alone.sections, blocks) == (False, 0, None)


@pytest.mark.parametrize(("causal", "length", "groups"), [(True, 16384, 4), (False, 4096, 4), (False, 8192, 3)])
def test_four_groups_of_64_features(causal, length, groups):
    tile, found = fastest(AttentionForm(causal=causal), HeadSizes(1, 128, length, length), 132)
    assert (tile.groups, tile.keys, found) == (groups, 64, 132)


def test_a_window_keeps_the_tile_of_long_parts():
    tile, found = fastest(AttentionForm(causal=True, window=512), HeadSizes(1, 128, 4096, 4096), 132)
    assert (tile.groups, tile.keys, found) == (3, 64, None)


@pytest.mark.parametrize("enabled", [True, False])
def test_gradients_beyond_the_kernels_sizes_are_refused_at_the_call(enabled, monkeypatch):
    """.. and the result alone is computed."""
    monkeypatch.setattr(attention_plans, "gradients_enabled", lambda: enabled)
    sizes = HeadSizes(1, 1, 2**20 + 1, 4)
    bound = BoundAttention(
        lambda arrays, stream: ["result"], id, attention_plans.HeadAxes(packed=True), None, (), (), False, True,
        attention_calls._without_gradients(AttentionForm(), sizes),
    )  # fmt: skip
    q, k, v = (np.zeros((4, 1, 64), np.float16) for _ in "qkv")
    if enabled:
        with pytest.raises(UsageError, match=r"1048577 queries, 4 keys: gradients .* at most .* 1048576 queries"):
            bound((q, k, v))
    else:
        assert bound((q, k, v)) == "result"
    assert not attention_calls._without_gradients(AttentionForm(), HeadSizes(1, 1, 2**20, 4))
