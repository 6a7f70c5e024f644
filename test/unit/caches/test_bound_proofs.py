"""The steps of docs/reference/cache-bounds.md in Z3, over all integers: extents, windows, line sizes, alignments.

A column of W tasks a row reads rows of W + S_w - 1 elements. Task x of pass y reads row y + dy, element x + dx, in the
order (y, x, dy, dx). A line covers elements p to q of a row; at the ends of a row it covers less than L elements.
"""

import pytest
import z3

W, S_W, S_H, L = z3.Ints("W S_w S_h L")
SIZES = [W >= 1, S_W >= 1, S_H >= 1, L >= 1]
LAST = W + S_W - 2
Y, R, P, Q = z3.Ints("y r p q")
LINE = [P >= 0, P <= Q, Q <= LAST]


def proved(claim, *given):
    solver = z3.Solver()
    solver.set("timeout", 20_000)
    solver.add(*SIZES, *given, z3.Not(claim))
    return solver.check() == z3.unsat


def reads(x, y, row, element):
    """Task (x, y) reads this element of this row."""
    return z3.And(x >= 0, x < W, y <= row, row < y + S_H, x <= element, element < x + S_W)


def before(one, other):
    """Reads (y, x, row, element) in the order of execution: dy = row - y orders as row does within a task."""
    return z3.Or(
        one[0] < other[0],
        z3.And(one[0] == other[0], z3.Or(one[1] < other[1], z3.And(one[1] == other[1], z3.Or(
            one[2] < other[2], z3.And(one[2] == other[2], one[3] < other[3]))))),
    )  # fmt: skip


def at_most(a, b):
    return z3.If(a <= b, a, b)


def at_least(a, b):
    return z3.If(a >= b, a, b)


LAST_READ = (Y, at_most(Q, W - 1), R, Q)
"""The last read of the line in pass y: the last task whose window meets it."""
FIRST_READ = (Y + 1, at_least(P - S_W + 1, 0), R, P)
"""The first read of the line in pass y + 1."""
X, ROW, ELEMENT, PASS = z3.Ints("x row element pass")
READ = (PASS, X, ROW, ELEMENT)
TWICE = [Y <= R - 1, R < Y + S_H]  # passes y and y + 1 read row r


def is_read(read):
    y, x, row, element = read
    return reads(x, y, row, element)


def test_the_last_and_the_first_read_are_what_they_are_called():
    inside = [P <= ELEMENT, ELEMENT <= Q, ROW == R, is_read(READ)]
    assert proved(z3.And(is_read(LAST_READ), is_read(FIRST_READ)), *LINE, *TWICE)
    assert proved(z3.Not(before(LAST_READ, READ)), *LINE, *TWICE, *inside, PASS == Y)
    assert proved(z3.Not(before(READ, FIRST_READ)), *LINE, *TWICE, *inside, PASS == Y + 1)


def test_between_two_passes_the_outer_rows_are_read_beside_the_line_only():
    """Between its last read in pass y and its first in y + 1: rows y + 1 to y + S_h - 1, and of the two outer rows the
    elements after the line in row y, before the line in row y + S_h."""
    between = [is_read(READ), before(LAST_READ, READ), before(READ, FIRST_READ)]
    inner = z3.And(Y < ROW, ROW < Y + S_H)
    above = z3.And(ROW == Y, ELEMENT > Q, Q < W - 1)
    below = z3.And(ROW == Y + S_H, ELEMENT < P, P >= S_W)
    claim = z3.Or(inner, above, below)
    assert proved(claim, *LINE, *TWICE, *between)
    assert not proved(z3.Or(inner, above), *LINE, *TWICE, *between)
    assert not proved(z3.Or(inner, below), *LINE, *TWICE, *between)


def test_within_a_pass_the_tasks_that_read_a_line_are_consecutive():
    x, later, mine, theirs = z3.Ints("x later mine theirs")
    meets = [z3.And(reads(task, Y, R, at), at >= P, at <= Q) for task, at in ((x, mine), (later, theirs))]
    next_one = z3.And(at_least(x + 1, P) <= at_most(x + S_W, Q), x + 1 < W)
    assert proved(next_one, *LINE, *meets, x < later)


def test_between_neighbouring_tasks_other_rows_are_read_in_one_window_each():
    """From a read of the line by task x to its next by task x + 1: S_w consecutive elements of each row, and row r
    beside the line only where task x, or task x + 1, reads it."""
    x, mine, theirs = z3.Ints("x mine theirs")
    ends = [z3.And(is_read((Y, task, R, at)), at >= P, at <= Q) for task, at in ((x, mine), (x + 1, theirs))]
    between = [is_read(READ), PASS == Y, before((Y, x, R, mine), READ), before(READ, (Y, x + 1, R, theirs))]
    window = z3.If(
        ROW > R,
        z3.And(x <= ELEMENT, x + S_W > ELEMENT),
        z3.If(
            ROW < R,
            z3.And(x + 1 <= ELEMENT, x + 1 + S_W > ELEMENT),
            z3.Or(z3.And(x <= ELEMENT, x + S_W > ELEMENT), z3.And(P <= ELEMENT, ELEMENT <= Q)),
        ),
    )
    assert proved(window, *LINE, *ends, *between)


def lines_of(name, elements):
    """A variable for the most lines that `elements` touch, floor((n - 2) / L) + 2, with what defines it."""
    most, quotient, rest = z3.Ints(f"{name} {name}_quotient {name}_rest")
    defined = z3.And(elements - 2 == quotient * L + rest, rest >= 0, rest < L, most == quotient + 2)
    return most, z3.If(elements >= 1, defined, most == 0)


def test_the_most_lines_of_a_segment():
    """n elements from element s of a line on touch floor((s + n - 1) / L) + 1 lines."""
    n, s, quotient, rest = z3.Ints("n s quotient rest")
    most, defined = lines_of("most", n)
    end = z3.And(s + n - 1 == quotient * L + rest, rest >= 0, rest < L)
    excess = quotient - z3.Int("most_quotient") - 1
    assert proved(quotient + 1 <= most, defined, end, n >= 1, s >= 0, s < L, _multiple(excess))


def _multiple(times):
    """What a product of `times` and L is, for the cases that the linear proof needs."""
    return z3.Implies(times >= 1, times * L >= L)


@pytest.mark.parametrize("extra", [1, 0])
def test_the_ends_of_two_rows_touch_one_line_more_than_a_row(extra):
    """a + b = n - L elements in two segments touch at most one line more than n elements in one."""
    n, a, b = z3.Ints("n a b")
    parts = {"whole": n, "end": a, "start": b}
    counted = {name: lines_of(name, elements) for name, elements in parts.items()}
    whole, end, start = (most for most, _ in counted.values())
    quotients = [z3.Int(f"{name}_quotient") for name in parts]
    over = quotients[1] + quotients[2] + 1 - quotients[0]
    given = [a + b == n - L, a >= 1, b >= 1, *(defined for _, defined in counted.values()), _multiple(over)]
    found = proved(end + start <= whole + extra, *given) if extra else refuted_by_a_value(end + start <= whole, given)
    assert found


def refuted_by_a_value(claim, given):
    solver = z3.Solver()
    solver.add(*SIZES, *given, L == 3, z3.Not(claim))
    return solver.check() == z3.sat


def test_one_end_alone_touches_no_more_lines_than_a_row():
    n, a = z3.Ints("n a")
    whole, of_whole = lines_of("whole", n)
    end, of_end = lines_of("end", a)
    over = z3.Int("end_quotient") - z3.Int("whole_quotient")
    assert proved(end <= whole, a >= 0, a < n, of_whole, of_end, _multiple(over))


def test_ends_aligned_alike_touch_the_lines_beside_the_line():
    """With one alignment, the end and the beginning touch the row's lines other than the one used twice."""
    start, lines, own, number = z3.Ints("start lines own number")
    row = z3.And(number >= start, number < start + lines)
    beside = z3.Or(z3.And(number > own, number < start + lines), z3.And(number < own, number >= start))
    assert proved(beside == z3.And(row, number != own), own >= start, own < start + lines)


def test_between_uses_in_a_product():
    """Reads (x, k, matrix), A before B: between uses of an element of A's line p to q by tasks x and x + 1, each row of
    B is read once at most, and so between uses of an element of B."""
    x, k, depth, task = z3.Ints("x k depth task")

    def order(one, other):
        return z3.Or(one[0] < other[0], z3.And(one[0] == other[0], z3.Or(
            one[1] < other[1], z3.And(one[1] == other[1], one[2] < other[2]))))  # fmt: skip

    def between(a, read, b):
        return z3.And(order(a, read), order(read, b))

    other = z3.Int("other")
    rows = [k >= 0, k < depth, P >= 0, P <= Q, depth > Q, x <= task, task < other, other <= x + 1]
    of_a = [between((x, Q, 0), (t, k, 1), (x + 1, P, 0)) for t in (task, other)]
    assert proved(z3.BoolVal(False), *rows, *of_a)
    row = z3.Int("row")
    of_b = [between((x, row, 1), (t, k, 1), (x + 1, row, 1)) for t in (task, other)]
    assert proved(z3.BoolVal(False), *rows, *of_b, row >= 0, row < depth)
