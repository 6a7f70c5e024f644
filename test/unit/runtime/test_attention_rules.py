"""`lego_mlir.attention` with masks and scores of a user, against NumPy in f64, and the tables of tiles."""

import functools
import math
import re
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from attention_oracle import attended

import lego_mlir
from lego_mlir import i8, i32
from lego_mlir.errors import SymbolicBranchError, TraceError
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.kernels import fused_attention, rule_tiles
from lego_mlir.kernels.attention_forms import AttentionForm, AttentionTile
from lego_mlir.kernels.pair_rules import PairRule, PairRules, ReadArray
from lego_mlir.runtime import pair_rule_calls

pytestmark = pytest.mark.filterwarnings("ignore::lego_mlir.errors.ReferenceWarning")

BATCH, HEADS, SHARED, QUERIES, KEYS, FEATURES = 2, 2, 1, 100, 130, 64
RANDOM = np.random.default_rng(5)
IDS = np.sort(RANDOM.integers(0, 4, (BATCH, KEYS)), axis=1)
SLOPES = np.array([0.5, 0.125], np.float32)
STEPS = np.arange(QUERIES, dtype=np.int32) // 50
BIASES = RANDOM.normal(size=(HEADS, KEYS)).astype(np.float16)


def drawn():
    return [RANDOM.normal(size=(BATCH, heads, rows, FEATURES)).astype(np.float16)
            for heads, rows in ((HEADS, QUERIES), (SHARED, KEYS), (SHARED, KEYS))]  # fmt: skip


def expected(q, k, v, mask, score):
    """`mask` and `score` are functions of NumPy arrays."""
    pairs = np.ix_(*map(np.arange, (BATCH, HEADS, QUERIES, KEYS)))
    return attended(q, k, v, mask(*pairs), score=lambda s: (score(s, *pairs), np.nan)).o


def everything(b, h, i, j):
    return np.True_


def scaled(s, b, h, i, j):
    return s


MASKS = {
    "window": (lambda batch, head, i, j: (j <= i) & (i - j < 20), None, {}),
    "later keys, and rows without any": (lambda batch, head, i, j: (j > i + 20) & (i < 90), None, {}),
    "strided": (lambda batch, head, i, j: (i - j) % 3 == head, None, {}),
    "causal documents": (
        lambda batch, head, i, j, ids: (ids[batch, i] == ids[batch, j]) & (j <= i),
        lambda b, h, i, j: (IDS[b, i] == IDS[b, j]) & (j <= i),
        {"ids": IDS.astype(np.int8)},
    ),
    "ranges, read in another order": (
        lambda batch, head, i, j, low, high: (low[i] <= j) & (j < high[i]),
        lambda b, h, i, j: (i // 50 * 50 <= j) & (j < i // 50 * 70 + 10),
        {"high": STEPS * 70 + 10, "low": STEPS * 50},
    ),
    "neighbours of either end": (
        lambda batch, head, i, j, ids: (ids[batch, i - 1] == ids[batch, j + 40]) & (j <= i),
        lambda b, h, i, j: (IDS[b, np.maximum(i - 1, 0)] == IDS[b, np.minimum(j + 40, KEYS - 1)]) & (j <= i),
        {"ids": IDS},
    ),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks(name):
    mask, oracle, reads = MASKS[name]
    q, k, v = drawn()
    wanted = expected(q, k, v, oracle or mask, scaled)
    for check in (True, False):
        found = lego_mlir.attention(q, k, v, mask=mask, reads=reads, check=check)
        np.testing.assert_allclose(found, wanted, atol=2e-3)


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("truth", [True, np.True_, np.False_])
def test_a_mask_may_be_one_truth_for_all(truth, check):
    q, k, v = drawn()
    wanted = expected(q, k, v, lambda b, h, i, j: bool(truth), scaled)
    found = lego_mlir.attention(q, k, v, mask=lambda batch, head, i, j: truth, check=check)
    np.testing.assert_allclose(found, wanted, atol=2e-3)


def branching(batch, head, i, j):
    if i < j:
        return j < 5
    return i < j


ONE_FOR_ALL = {
    "if": {"mask": branching},
    "and": {"mask": lambda batch, head, i, j: i < j and j < 5},
    "not": {"mask": lambda batch, head, i, j: not i < j},
    "max": {"score": lambda s, batch, head, i, j: s + max(i, j)},
    "of what is read": {"mask": lambda batch, head, i, j, steps: bool(steps[i] == 0), "reads": {"steps": STEPS}},
}


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("name", ONE_FOR_ALL)
def test_a_branch_on_a_pair_is_refused_at_its_line(name, check):
    """By the reference as by a kernel, also for a single pair, where NumPy would take the truth of an array."""
    for q, k, v in (drawn(), [x[:1, :1, :1] for x in drawn()]):
        with pytest.raises((SymbolicBranchError, TraceError), match=r"lego\.where") as refused:
            lego_mlir.attention(q, k, v, **ONE_FOR_ALL[name], check=check)
        shown = "" if check else "mask and score are computed for many pairs at once"
        assert re.match(rf"{re.escape(__file__)}:\d+: {shown}", str(refused.value))


def test_a_plain_number_of_a_pair_is_refused():
    with pytest.raises(SymbolicBranchError, match=rf"^{re.escape(__file__)}:\d+: mask and score .*lego's functions"):
        lego_mlir.attention(*drawn(), score=lambda s, batch, head, i, j: s * math.exp(i))


SCORES = {
    "alibi": (lambda s, batch, head, i, j, slopes: s + slopes[head] * lego_mlir.f32(j - i),
              lambda s, b, h, i, j: s + SLOPES[h] * (j - i), {"slopes": SLOPES}),
    "soft cap": (lambda s, batch, head, i, j: 3.0 * lego_mlir.tanh(s / 3.0),
                 lambda s, b, h, i, j: 3 * np.tanh(s / 3), {}),
    "biases": (lambda s, batch, head, i, j, biases: s + lego_mlir.f32(biases[head, j]),
               lambda s, b, h, i, j: s + BIASES[h, j].astype(float), {"biases": BIASES}),
}  # fmt: skip


@pytest.mark.parametrize(("name", "mask"), [
    ("alibi", "window"), ("alibi", "strided"), ("soft cap", None), ("biases", "later keys, and rows without any"),
])  # fmt: skip
def test_scores(name, mask):
    score, oracle, reads = SCORES[name]
    mask = None if mask is None else MASKS[mask][0]
    q, k, v = drawn()
    for check in (True, False):
        found = lego_mlir.attention(q, k, v, mask=mask, score=score, reads=reads, check=check)
        np.testing.assert_allclose(found, expected(q, k, v, mask or everything, oracle), atol=2e-3)


@pytest.mark.parametrize("check", [True, False])
def test_a_query_whose_scores_are_all_minus_infinity_has_no_keys(check):
    found = lego_mlir.attention(
        *drawn(), score=lambda s, batch, head, i, j: lego_mlir.where(i == 3, s - np.inf, s), check=check
    )
    assert np.isfinite(found.astype(float)).all() and not found[:, :, 3].any() and found[:, :, 4].any()


def form_with(mask, *reads):
    rule = PairRule.of("mask", mask, [x.name for x in reads])
    return pair_rule_calls.with_tables(AttentionForm(pairs=PairRules(rule, None, reads)))


@pytest.mark.parametrize("of_keys", [False, True])
@pytest.mark.parametrize("least", [0, 9], ids=["documents", "none"])
def test_tables_list_the_tiles_of_each_block(of_keys, least):
    """The oracle counts allowed pairs of each tile."""
    size, rows = 32, 16
    ids = np.where(RANDOM.random((1, KEYS)) < 0.3, -1, IDS[:1]).astype(np.int32)
    ids[:, :64] = 2
    form = form_with(
        lambda batch, head, i, j, ids: (ids[batch, i] == ids[batch, j]) & (ids[batch, j] >= least),
        ReadArray("ids", i32, 2),
    )
    i, j = np.ix_(range(QUERIES), range(KEYS))
    pairs = (ids[0, i] == ids[0, j]) & (ids[0, j] >= least)
    pairs = pairs.T if of_keys else pairs
    q, k = (np.zeros((1, 1, n, FEATURES), np.float16) for n in (QUERIES, KEYS))
    tiles = -(-pairs.shape[1] // size)
    table = np.full((1, 1, -(-pairs.shape[0] // rows), 2, tiles + 1), -1, np.int32)
    rule_tiles.build_table(form, rule_tiles.TableShape(rows, size, of_keys))(q, k, ids, table, check=True)
    for block, (masked, whole) in enumerate(table[0, 0]):
        parts = [pairs[rows * block : rows * (block + 1), size * t : size * (t + 1)] for t in range(tiles)]
        some = [t for t, part in enumerate(parts) if part.any()]
        every = [t for t in some if parts[t].all() and (of_keys or size * (t + 1) <= KEYS)]
        assert masked[0] >= 1
        assert sorted([*masked[1 : 1 + masked[0]], *whole[1 : 1 + whole[0]]]) == (some or [0])
        assert {*whole[1 : 1 + whole[0]]} <= {*every} and whole[0] >= len(every) - (every == some)


@pytest.mark.parametrize("name", ["window", "strided"])
def test_tiles_without_an_allowed_pair_are_not_visited(name):
    """Their values are NaN, of which one would reach the result of a block that multiplied them."""
    mask, tile = (
        (lambda batch, head, i, j: (j // 64 == i // 128) if name == "strided" else MASKS[name][0](0, 0, i, j)),
        AttentionTile(2, 64),
    )
    form = form_with(mask)
    assert form.pairs.listed == (name == "strided")
    q, k, v = (np.ones((1, 1, 256, FEATURES), np.float16) for _ in "qkv")
    i, j = np.ix_(range(128, 256), range(256))
    v[:, :, ~np.repeat(mask(0, 0, i, j).reshape(128, 4, 64).any((0, 2)), 64)] = np.nan
    assert np.isnan(v).any()
    table = np.zeros((1, 1, 2, 2, 5), np.int32)
    if form.pairs.listed:
        rule_tiles.build_table(form, rule_tiles.TableShape(tile.rows, tile.keys))(q, k, table, check=True)
    o, _ = fused_attention.build(form, tile)(q, k, v, *[table] * form.pairs.listed, check=True)
    assert np.isfinite(o[0, 0, 128:].astype(np.float32)).all()


@pytest.mark.parametrize("name", ["window", "causal documents"])
def test_by_wgmma(name):
    mask, oracle, reads = MASKS[name]
    q, k, v = drawn()
    arrays = [ReadArray(name, i8, 2) for name in reads]
    form, tile = form_with(mask, *arrays), AttentionTile(2, 64)
    sizes = {"B": BATCH, "H": SHARED, "M": QUERIES, "N": KEYS, "ids_0": BATCH, "ids_1": KEYS}
    form = replace(form, group=HEADS // SHARED)
    given = {"q": q, "k": k, "v": v, **reads, "o": np.full_like(q, 7), "lse": np.zeros(q.shape[:3], np.float32)}
    for name in "qkvo":
        steps = (n // 2 for n in given[name].strides)
        sizes |= {f"{name}_{axis}": n for axis, n in zip(("batch", "head", "row"), steps, strict=False)}
    kernels = [fused_attention.build(form, tile)]
    if form.pairs.listed:
        given["tiles"] = np.zeros((BATCH, 1, 1, 2, 4), np.int32)
        kernels.insert(0, rule_tiles.build_table(form, rule_tiles.TableShape(tile.rows, tile.keys)))
    for kernel in kernels:
        arrays = {p.name: given[p.name].reshape(-1) for p in kernel.params}
        assert PtxRun(target="sm_90a")(kernel, arrays, {s.name: sizes[s.name] for s in kernel.sizes}).clean
    np.testing.assert_allclose(given["o"], expected(q, k, v, oracle or mask, scaled), atol=2e-3)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("name", ["later keys, and rows without any", "strided", "causal documents"])
def test_gradients_of_torch(name, deterministic):
    torch = pytest.importorskip("torch")
    mask, oracle, reads = MASKS[name]
    q, k, v = (torch.tensor(x, requires_grad=True) for x in drawn())
    slope = torch.tensor(drawn()[0])
    reads = {name: torch.tensor(x) for name, x in reads.items()}
    lego_mlir.attention(q, k, v, mask=mask, reads=reads, deterministic=deterministic, check=True).backward(slope)
    exact = [x.detach().double().requires_grad_() for x in (q, k, v)]
    seen = (oracle or mask)(*np.ix_(*map(np.arange, (BATCH, HEADS, QUERIES, KEYS))))
    seen = torch.tensor(np.broadcast_to(seen, (BATCH, HEADS, QUERIES, KEYS)).copy())
    s = (exact[0] @ exact[1].mT / np.sqrt(FEATURES)).masked_fill(~seen, -1e30)
    (torch.softmax(s, -1) * seen @ exact[2]).backward(slope.double())
    for found, wanted in zip((q, k, v), exact, strict=True):
        assert (found.grad.double() - wanted.grad).abs().max() < 2**-8 * wanted.grad.abs().max()


@pytest.mark.parametrize(("features", "of_q"), [(64, True), (96, False)], ids=["added", "ordered"])
def test_gradients_of_arrays_that_a_score_reads(features, of_q):
    """A bias of f16 for each pair, slopes of f32, and numbers that have no gradient, against PyTorch's in f64."""
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(3)
    q, k, v, do = (torch.tensor(random.normal(size=(1, heads, rows, features)).astype(np.float16))
                   for heads, rows in ((2, 70), (1, 90), (1, 90), (2, 70)))  # fmt: skip
    bias = torch.tensor(random.normal(size=(2, 70, 90)).astype(np.float16), requires_grad=True)
    slopes = torch.tensor(SLOPES, requires_grad=True)
    steps = torch.tensor(random.normal(size=4).astype(np.float32))
    q.requires_grad_(of_q)

    def score(s, batch, head, i, j, slopes, bias, steps):
        return s * steps[j // 32] + lego_mlir.tanh(lego_mlir.f32(bias[head, i, j])) - slopes[head] * lego_mlir.f32(j)

    reads = {"bias": bias, "steps": steps, "slopes": slopes}
    lego_mlir.attention(q, k, v, score=score, reads=reads, check=True).backward(do)
    exact = [x.detach().double().requires_grad_() for x in (q, bias, slopes)]
    j = torch.arange(90)
    s = (exact[0] @ k.double().mT / np.sqrt(features)) * steps.double()[(j // 32)]
    s = s + torch.tanh(exact[1]) - exact[2][:, None, None] * j
    (torch.softmax(s, -1) @ v.double()).backward(do.double())
    assert (q.grad is not None) == of_q and steps.grad is None and bias.grad.dtype == torch.float16
    for found, wanted in zip((q, bias, slopes), exact, strict=True):
        if found.grad is not None:
            assert (found.grad.double() - wanted.grad).abs().max() < 2**-8 * wanted.grad.abs().max()


def test_a_decorated_mask_takes_batch_and_head():
    """Its tables would else be those of the first head."""
    mask = MASKS["strided"][0]
    decorated = functools.wraps(mask)(lambda *of_pair: mask(*of_pair))
    assert [PairRule.of("mask", f, ()).by for f in (mask, decorated)] == [("head",), ("batch", "head")]


def nearby(batch, head, i, j):
    return is_near(i - j)


def is_near(distance):
    return distance < WIDTH if callable(is_near) else None  # names itself


WIDTH = 3


def key_of_named(**values):
    """The key of a rule, with these values of the globals that its helper names."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setitem(globals(), name, value)
        return pair_rule_calls.key_of_rule(nearby)


def test_rules_with_one_code_are_one_rule():
    def made(width):
        return lambda batch, head, i, j: i - j < width

    keys = [pair_rule_calls.key_of_rule(made(n)) for n in (3, 3, 4, 3.0, True)]
    assert keys[0] == keys[1] and len({*keys[1:]}) == 4
    assert PairRule.of("mask", made(3), ()) == PairRule.of("mask", made(3), ()) != PairRule.of("mask", made(4), ())
    assert key_of_named(WIDTH=3) == key_of_named(WIDTH=3) != key_of_named(WIDTH=4)
    decorated = functools.wraps(nearby)(lambda *given: nearby(*given))
    assert PairRule.of("mask", decorated, ()).by == ("batch", "head") and not PairRule.of("mask", nearby, ()).by
    unknown = [pair_rule_calls.key_of_rule(made([width])) for width in (3, 3)]  # a list may change
    assert unknown[0] != unknown[1]


def test_tables_are_kept_while_arrays_are_unchanged():
    torch = pytest.importorskip("torch")
    q, ids, made = torch.zeros(1), torch.zeros(4), []
    table = pair_rule_calls.KeptTable(lambda arrays, stream: made.append(arrays) or f"table {len(made)}", [3])
    assert [table((q, q, q, ids)) for _ in range(2)] == ["table 1"] * 2
    ids[1] = 3
    assert table((q, q, q, ids)) == "table 2" == table((q, q, q, ids))
    assert table((q, q, q, ids.clone())) == "table 3"
    arrays = [np.zeros(3)] * 4
    assert table(arrays) != table(arrays)  # NumPy's have no versions


def test_a_captured_call_makes_its_own_table(monkeypatch):
    """Arrays may change between replays, and a graph's memory is its own: no table is shared, either way."""

    class OwnTensor:
        is_cuda, device, _version = True, "cuda", 0

        def is_inference(self):
            return False

    capturing, made, given = [True], [], [OwnTensor()] * 4
    stream = SimpleNamespace(cuda_stream=0)
    cuda = SimpleNamespace(current_stream=lambda _: stream, is_current_stream_capturing=lambda: capturing[0])
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=OwnTensor, cuda=cuda))
    table = pair_rule_calls.KeptTable(lambda arrays, stream: made.append(arrays) or len(made), [3])
    found = []
    for capturing[0] in (True, False, False, True, False):
        found.append(table(given))
    assert found == [1, 2, 2, 3, 2]
