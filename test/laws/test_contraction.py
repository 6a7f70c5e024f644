"""Contraction: the documented rule on random programs, with the same bits on every backend.

A drawn program is a list of rows (operation, operands), whose values are numbered. The oracle applies the rule to these
rows and computes with fractions; it knows nothing of traces.
"""

import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launching import launch, launch_emulated, launch_on_cpu
from number_meaning import fused, narrowed

import lego_mlir as lego
from lego_mlir import Row, bf16, f16, f32, f64, interp
from lego_mlir.tracing.trace.contraction import MOST_USES, contracted
from lego_mlir.tracing.trace.trace import Compute, Value, statements_in

N, INPUTS, MOST = 64, 4, 12


@st.composite
def programs(draw):
    """Rows (operation, operands), then the numbers of the values that are stored."""
    rows = []
    for n in range(draw(st.integers(2, MOST))):
        values = st.integers(0, INPUTS + n - 1)
        operation = draw(st.sampled_from(("mul", "mul", "add", "add", "sub", "neg")))
        rows.append((operation, tuple(draw(values) for _ in range(1 if operation == "neg" else 2))))
    unused = set(range(INPUTS, INPUTS + len(rows))) - {v for _, operands in rows for v in operands}
    return rows, sorted(unused | draw(st.sets(st.integers(INPUTS, INPUTS + len(rows) - 1), max_size=1)))


def taken(rows, stored):
    """For each row of a sum that is fused: the operands of the product, and whether it is negated."""
    uses = {
        n: [k for k, (_, operands) in enumerate(rows) for v in operands if v == n] for n in range(INPUTS + len(rows))
    }

    def sums(n, sign):
        if n in stored:
            return None
        found = []
        for k in uses[n]:
            operation, operands = rows[k]
            if operation == "neg":
                inner = sums(INPUTS + k, -sign)
                if inner is None:
                    return None
                found += inner
            elif operation == "mul" or operands[0] == operands[1]:
                return None
            else:
                found.append((k, n, sign))
        return found

    candidates = []
    for k, (operation, _) in enumerate(rows):
        found = sums(INPUTS + k, 1) if operation == "mul" else None
        if found is not None and len(found) <= MOST_USES and len({s[0] for s in found}) == len(found):
            candidates.append((len(found), k, found))
    chosen = {}
    for _, k, found in sorted(candidates):
        if not any(total in chosen for total, _, _ in found):
            chosen |= {total: (k, n, sign) for total, n, sign in found}
    return chosen


def expected(rows, stored, inputs, dtype):
    """The stored values, each fused sum in fractions."""
    chosen, values = taken(rows, stored), list(inputs)
    for k, (operation, operands) in enumerate(rows):
        a, *rest = (values[n] for n in operands)
        if k in chosen:
            product, n, sign = chosen[k]
            left, right = (values[m] for m in rows[product][1])
            at = operands.index(n)
            other = values[operands[1 - at]]
            minus = operation == "sub"
            left = -left if (sign < 0) != (minus and at == 1) else left
            values.append(fused(left, right, -other if minus and at == 0 else other, dtype))
        elif operation == "neg":
            values.append(-a)
        else:
            function = {"mul": np.multiply, "add": np.add, "sub": np.subtract}[operation]
            wide = a.astype(np.float64), rest[0].astype(np.float64)
            exact = function(*wide) if dtype is not f64 else function(a, rest[0])
            values.append(narrowed(exact, dtype) if dtype is not f32 else function(a, rest[0]))
    return np.stack([values[n] for n in stored])


def kernel_of(rows, stored, dtype, contract=True):
    def program(x: lego.Tensor(dtype, Row(INPUTS, N)), y: lego.Tensor(dtype, Row(len(stored), N))):
        t = lego.thread_id[0]
        values = [x[n, t] for n in range(INPUTS)]
        for operation, operands in rows:
            a, *rest = (values[n] for n in operands)
            values.append(getattr(operator, operation)(a, *rest))
        for place, n in enumerate(stored):
            y[place, t] = values[n]

    return lego.kernel(grid=1, block=N, contract=contract)(program)


def bits(array):
    wide = np.asarray(array)
    return np.where(np.isnan(wide.astype(np.float64)), 0, wide.view(f"u{wide.dtype.itemsize}"))


def agree_on(rows, stored, dtype, seed):
    kernel = kernel_of(rows, stored, dtype)
    rng = np.random.default_rng(seed)
    x = rng.choice([1.0, -1.0, 1.5, 3.0, 0.1], (INPUTS, N)) * rng.choice([1, 1 + 2.0**-7, 1 / 3], (INPUTS, N))
    x[:, :4] = [[0.0, -0.0, np.inf, np.nan]]
    x = x.astype(dtype.numpy)
    empty = np.zeros((len(stored), N), dtype.numpy)
    with np.errstate(all="ignore"):
        right = expected(rows, stored, x, dtype)
    for run in (launch, launch_on_cpu, launch_emulated):
        found = run(kernel, x.copy(), empty.copy())[-1]
        np.testing.assert_array_equal(bits(found), bits(right.astype(dtype.numpy)), run.__name__)


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=str)
def test_the_rule_on_all_backends(dtype):
    settings(max_examples=15)(given(programs(), st.integers(0, 99))(lambda p, seed: agree_on(*p, dtype, seed)))()


@pytest.mark.long
@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=str)
def test_the_rule_on_all_backends_for_long(dtype):
    settings(max_examples=300)(given(programs(), st.integers(0, 99))(lambda p, seed: agree_on(*p, dtype, seed)))()


@settings(max_examples=60)
@given(programs())
def test_laws_of_the_rewrite(program):
    """Contracted twice is contracted once; no product that is fused is left; nothing changes without it."""
    rows, stored = program
    body = kernel_of(rows, stored, f32).trace().body
    again, _ = contracted(body, lambda v: pytest.fail("a second contraction makes a value"))
    assert again == body
    assert len(operations(kernel_of(rows, stored, f32), "fma")) == len(taken(rows, stored))
    plain = operations(kernel_of(rows, stored, f32, contract=False), "fma", "mul", "add", "sub")
    assert plain == [operation for operation, _ in rows if operation != "neg"]


def operations(kernel, *names):
    return [s.operation for s in statements_in(kernel.trace().body) if isinstance(s, Compute) and s.operation in names]


def of(body, inputs=4, dtype=f32):
    """A kernel of one thread's numbers."""

    def run(x: lego.Tensor(dtype, Row(inputs, 8, 4)), y: lego.Tensor(dtype, Row(4, 8, 4))):
        t = lego.thread_id[0]
        body([x[n, t, 0] for n in range(inputs)], lambda v, n=0: y.__setitem__((n, t, 0), v), x, y)

    return lego.kernel(grid=1, block=8)(run)


def outside(v, store, x, y):
    product = v[0] * v[1]
    with lego.when(lego.thread_id[0] < 4):
        store(product + v[2])


def stored_too(v, store, x, y):
    product = v[0] * v[1]
    store(product)
    store(product + v[2], 1)


def rounded(v, store, x, y):
    with lego.rounded():
        store(v[0] * v[1] + v[2])


def half_rounded(v, store, x, y):
    with lego.rounded():
        product = v[0] * v[1]
    store(product + v[2])


def many_uses(v, store, x, y):
    product = v[0] * v[1]
    total = v[2]
    for n in range(MOST_USES + 1):
        total = total / (product + float(n))
    store(total)


def doubled(v, store, x, y):
    product = v[0] * v[1]
    store(product - product)


def in_a_register(v, store, x, y):
    acc = lego.register(f32, 1.0)
    for _ in lego.range(3):
        acc *= v[0]
        with lego.when(v[1] > 0):
            acc += v[2]
    store(acc)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (outside, "the product is made outside"),
        (stored_too, "the product is also used otherwise"),
        (rounded, "lego.rounded"),
        (half_rounded, "lego.rounded"),
        (many_uses, f"the product is in more than {MOST_USES} sums"),
        (doubled, None),
        (in_a_register, None),
    ],
)
def test_not_fused(body, reason):
    kernel = of(body)
    assert not operations(kernel, "fma")
    assert {c.reason for c in kernel.trace().contractions} == ({reason} if reason else set())


def accumulated(v, store, x, y):
    acc = lego.register(f32, 1.0)
    for k in lego.range(4):
        acc *= v[0]
        acc += x[1, lego.thread_id[0], k]
    store(acc)


def elements(v, store, x, y):
    t = lego.thread_id[0]
    p = x.load(0, t, 0, width=4) * x.load(1, t, 0, width=4)
    store(p[0] + p[1] + p[2] + p[3])


def vectors(v, store, x, y):
    t = lego.thread_id[0]
    y.store(x.load(0, t, 0, width=4) * x.load(1, t, 0, width=4) + x.load(2, t, 0, width=4), 0, t, 0)


def two_products(v, store, x, y):
    often, once = v[0] * v[1], v[2] * v[3]
    store(often + once)
    store(often + v[0], 1)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (two_products, ["mul", "fma", "add"]),
        (accumulated, ["fma"]),
        (elements, ["mul", "fma", "fma", "fma"]),
        (vectors, ["fma"]),
    ],
)
def test_fused(body, found):
    kernel = of(body)
    assert operations(kernel, "fma", "mul", "add") == found
    x = np.random.default_rng(1).standard_normal((4, 8, 4)).astype(np.float32)
    results = [
        run(kernel, x, np.zeros((4, 8, 4)))[-1].view(np.uint32) for run in (launch, launch_on_cpu, launch_emulated)
    ]
    assert (results[0] == results[1]).all()
    assert (results[0] == results[2]).all()


def test_every_sum_shows_its_line(capsys, tmp_path):
    from lego_mlir.cli.main import main

    path = tmp_path / "k.py"
    path.write_text(
        "import lego_mlir as lego\nfrom lego_mlir import Row, f32\n\n\n"
        "@lego.kernel(grid=1, block=8)\ndef k(x: lego.Tensor(f32, Row(8))):\n    t = lego.thread_id[0]\n"
        "    p = x[t] * 2\n    q = x[t] * 3\n    x[t] = (p + 1) / q\n    x[t] = x[t] + q\n"
    )
    assert main(["explain", str(path)]) == 0
    lines = [line.split("k.py:")[1] for line in capsys.readouterr().out.splitlines() if "a sum and its product" in line]
    assert lines == [
        "10: a sum and its product in line 8: one rounding, fma",
        "11: a sum and its product in line 9: two roundings, the product is also used otherwise",
    ]


def test_the_interpreter_rounds_many_sums_as_few():
    """Arrays above the interpreter's threshold take another path through f64: equal to fractions on both."""
    rng = np.random.default_rng(3)
    a, b = (rng.integers(0, 2**32, 4096, dtype=np.uint32).view(np.float32) for _ in range(2))
    with np.errstate(all="ignore"):
        c = -(a * b) * rng.choice(np.float32([1, 1 + 2**-23, 2**-25, 0.5, 2**-60]), 4096)
        c[::7] = np.float32(2**-149)
        found = interp.rounding.fma(a, b, c)
        few = np.concatenate([interp.rounding.fma(*(v[k : k + 64] for v in (a, b, c))) for k in range(0, 4096, 64)])
        right = fused(a, b, c, f32)
    np.testing.assert_array_equal(bits(found), bits(few))
    np.testing.assert_array_equal(bits(found), bits(right))


def test_a_new_value_is_made_for_a_negative():
    made = []

    def value(like):
        made.append(like)
        return Value(1000 + len(made), like.dtype, like.width)

    plain = kernel_of([("mul", (0, 1)), ("sub", (2, 4))], [5], f32, contract=False).trace().body
    body, found = contracted(plain, value)
    assert [s.operation for s in body if isinstance(s, Compute)] == ["neg", "fma"]
    assert len(made) == len(found) == 1
