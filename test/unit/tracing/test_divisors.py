"""Every divisor of a kernel's index arithmetic is proved not to be 0, refused with a counter-example, or left open."""

import pytest
from command_line import output_of

import lego_mlir as lego
from lego_mlir import OrderBy, RegP, Row, f32, i32
from lego_mlir.errors import LayoutError
from lego_mlir.expr.verdict import Proved, Refuted, Unknown

N = lego.size("N", min=0)


def divisions(body, grid=1, block=64, x=None):
    def run(x, order):
        body(x, order)

    run.__annotations__ = {"x": lego.Tensor(f32, Row(64) if x is None else x), "order": lego.Tensor(i32, Row(64))}
    return lego.kernel(grid=grid, block=block)(run).trace().divisions


def refuse(pattern, body, **launch):
    first = body.__code__.co_firstlineno
    with pytest.raises(LayoutError, match=pattern) as caught:
        divisions(body, **launch)
    assert str(caught.value).startswith(f"{__file__}:{first + 2}: "), caught.value


def test_a_divisor_that_some_thread_makes_zero():
    def body(x, order):
        t = lego.thread_id.x
        x[t // (t - 3) % 64] = 0.0

    refuse(r"the divisor tx - 3 is 0 for tx = 3; guard it with `with lego.when\(..\):`", body)


def test_a_remainder_by_a_size_that_may_be_zero():
    def body(x, order):
        t = lego.thread_id.x
        x[t] = f32(t % N)

    refuse(r"the divisor N is 0 for N = 0; declare lego.size\('N', min=1\)", body)


def test_a_divisor_in_a_condition():
    def body(x, order):
        t = lego.thread_id.x
        with lego.when(7 // (t - 5) > 1):
            x[t] = 0.0

    refuse("the divisor tx - 5 is 0 for tx = 5", body)


def test_a_divisor_in_the_bound_of_a_loop():
    def body(x, order):
        t = lego.thread_id.x
        for _ in lego.range(64 // t):
            x[t] = 0.0

    refuse("the divisor tx is 0 for tx = 0", body)


def test_both_sides_of_a_choice_are_computed():
    def body(x, order):
        t = lego.thread_id.x
        x[lego.where(t != 0, 63 // t, 0)] = 0.0

    refuse("the divisor tx is 0 for tx = 0; .*since lego.where computes both sides, or divide by lego.maximum", body)


def test_a_divisor_that_a_layout_brings():
    def body(x, order):
        t = lego.thread_id.x
        with lego.when(t < 4 * N):
            x[t] = 0.0

    (found,) = divisions(body, x=OrderBy(RegP([4, N], [2, 1])).GroupBy([4 * N]))
    assert str(found.divisor) == "N" and isinstance(found.verdict, Proved)


def test_a_guard_makes_it_right():
    def body(x, order):
        t = lego.thread_id.x
        with lego.when(t != 3):
            x[t // (t - 3) % 64] = 0.0
        with lego.when(N > 0):
            x[t] = f32(t % N)

    found = divisions(body)
    assert [str(d.divisor) for d in found] == ["tx - 3", "N"]
    assert all(isinstance(d.verdict, Proved) for d in found)


def test_a_guard_ends_with_its_branch():
    def body(x, order):
        t = lego.thread_id.x
        with lego.when(t != 3):
            x[t // (t - 3) % 64] = 0.0
        x[t // (t - 3) % 64] = 0.0

    with pytest.raises(LayoutError, match=rf":{body.__code__.co_firstlineno + 4}: the divisor tx - 3 is 0"):
        divisions(body)


def test_a_thread_of_a_grid_and_a_round_of_a_loop_are_proofs_that_there_is_one():
    def body(x, order):
        b, t = lego.block_id.x, lego.thread_id.x
        x[t] = f32(b % N)
        for k in lego.range(lego.size("M", min=0)):
            x[t] = f32(k % lego.size("M", min=0))

    found = divisions(body, grid=lego.cdiv(N, 64))
    assert [str(d.divisor) for d in found] == ["N", "M"] and all(isinstance(d.verdict, Proved) for d in found)


def test_the_grid_itself_is_computed_before_any_thread_runs():
    def body(x, order):
        x[0] = 0.0

    with pytest.raises(LayoutError, match="the divisor N is 0 for N = 0"):
        divisions(body, grid=lego.cdiv(lego.size("M"), N))


def test_data_as_a_divisor_is_open_until_it_is_guarded():
    def body(x, order):
        t = lego.thread_id.x
        i = lego.index(order[t])
        x[t] = f32(t // i)
        with lego.when(i != 0):
            x[t] = f32(t // i)

    loose, guarded = divisions(body)
    assert isinstance(loose.verdict, Unknown) and "it depends on the contents of memory; guard it" in str(loose.verdict)
    assert isinstance(guarded.verdict, Proved)


def test_data_in_a_guard_alone_excuses_nothing():
    def body(x, order):
        t = lego.thread_id.x
        with lego.when(lego.index(order[t]) > 4):
            x[t // (t - 3) % 64] = 0.0

    (found,) = divisions(body)
    assert isinstance(found.verdict, Refuted) and found.verdict.counter_example["tx"] == 3


def test_sizes_and_constants_need_no_proof():
    M = lego.size("M")

    def body(x, order):
        t = lego.thread_id.x
        x[t // 8 % 4] = f32(t // (8 * M + 3) + t % M)

    assert divisions(body) == ()


def test_check_lists_them(tmp_path, capsys):
    spec = tmp_path / "spec.py"
    spec.write_text(
        "import lego_mlir as lego\nfrom lego_mlir import Row, f32\n"
        "@lego.kernel(grid=1, block=64)\n"
        "def k(y: lego.Tensor(f32, Row(64))):\n"
        "    t = lego.thread_id.x\n"
        "    with lego.when(t != 3):\n"
        "        y[t] = f32(t // (t - 3))\n"
        "    with lego.otherwise():\n"
        "        y[t] = 0.0\n"
    )
    assert f"proved   {spec}:7: the divisor tx - 3 is not 0: " in output_of(capsys, ["check", str(spec)])
    spec.write_text(spec.read_text().replace("t != 3", "t != 4"))
    assert f"{spec}:7: the divisor tx - 3 is 0 for tx = 3" in output_of(capsys, ["check", str(spec)], 1)
