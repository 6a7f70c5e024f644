"""A refutation names both threads with their blocks, both lines, the element, the sizes and the rounds of loops."""

import inspect
import json

import lego_mlir as lego
from lego_mlir import Row, f32, i32
from lego_mlir.cli.main import CHECK_FAILED, main
from lego_mlir.expr.verdict import Proved, Refuted, Unknown
from lego_mlir.proofs.claims import kernel_claims
from lego_mlir.proofs.confirm import launched

M, N = lego.size("M"), lego.size("N")


def refuted(kernel, start):
    found = next(verdict for text, verdict in kernel_claims(kernel) if start in text)
    assert isinstance(found, Refuted)
    return found


def line_of(kernel, text):
    """The line of the kernel's source that contains this text."""
    lines, first = inspect.getsourcelines(kernel.function)
    (number,) = (first + k for k, line in enumerate(lines) if text in line)
    return number


@lego.kernel(grid=1, block=64)
def next_round(x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(N, 64))):
    t, tile, total = lego.thread_id[0], lego.shared(f32, Row(64), name="tile"), lego.register(f32, 0.0)
    for k in lego.range(N):
        for _ in lego.range(2):
            tile[t] = x[t] + total
            lego.barrier()
            total += tile[63 - t]
        lego.barrier()
        y[k, t] = total


def test_a_race_between_two_rounds_names_both():
    found = refuted(next_round, "no race for tile")
    outer, inner = line_of(next_round, "in lego.range(N)"), line_of(next_round, "in lego.range(2)")
    assert found.counter_example == {
        "N": 200, "block": (0, 0, 0), "thread": (0, 0, 0), "element": 0, "line": line_of(next_round, "tile[t] ="),
        f"round of line {outer}": 0, f"round of line {inner}": 1,
        "other block": (0, 0, 0), "other thread": (63, 0, 0), "other line": line_of(next_round, "total += tile"),
        f"other round of line {outer}": 0, f"other round of line {inner}": 0,
    }  # fmt: skip
    both = f"round 0 of the loop of line {outer}, round 1 of the loop of line {inner}; thread (63, 0, 0) in round 0 of"
    assert both in found.explanation


def test_one_of_several_threads_is_named():
    @lego.kernel(grid=1, block=64)
    def kernel(y: lego.Tensor(f32, Row(64))):
        t, tile = lego.thread_id[0], lego.shared(f32, Row(64), name="tile")
        tile[t] = 0.0
        lego.barrier()
        y[t] = tile[7]
        tile[t] = 1.0

    found = refuted(kernel, "no race for tile")
    assert "read by several threads" in found.explanation
    assert found.counter_example["thread"] == (7, 0, 0)
    other = found.counter_example["other thread"]
    assert other != (7, 0, 0)
    assert f"one of them is thread {other} of block (0, 0, 0)" in found.explanation


def test_the_block_of_the_other_thread_is_named():
    @lego.kernel(grid=4, block=32)
    def kernel(y: lego.Tensor(f32, Row(128))):
        for i in lego.range(lego.block_id[0] * 16 + lego.thread_id[0], 128, 64):
            y[i] = 1.0

    found = refuted(kernel, "no race for y between two blocks")
    one, other = (found.counter_example[name] for name in ("block", "other block"))
    assert one != other
    assert found.counter_example["element"] < 128
    loop = line_of(kernel, "in lego.range")
    rounds = [found.counter_example[f"{which}round of line {loop}"] for which in ("", "other ")]
    for (block, thread), number in zip(((one, "thread"), (other, "other thread")), rounds, strict=True):
        assert 16 * block[0] + found.counter_example[thread][0] + 64 * number == found.counter_example["element"]


def test_the_rounds_of_a_while_and_of_a_barrier_are_named():
    @lego.kernel(grid=1, block=32)
    def kernel(y: lego.Tensor(i32, Row(32))):
        t, count, running = lego.thread_id[0], lego.register(i32, 0), lego.register(lego.i1, True)
        with lego.while_(running):
            lego.barrier()
            count += 1
            running.set(count < 2 + i32(t))
        y[t] = count

    found = refuted(kernel, "reaches the barrier")
    loop = line_of(kernel, "lego.while_")
    assert found.counter_example[f"round of line {loop}"] == 2  # thread 0 leaves after two
    assert found.explanation.endswith(f"round 2 of the loop of line {loop}")


def test_a_copy_in_flight_names_the_round_of_its_issue():
    @lego.kernel(grid=1, block=32)
    def kernel(x: lego.Tensor(f32, Row(64, 32)), y: lego.Tensor(f32, Row(32))):
        t, total, tile = lego.thread_id[0], lego.register(f32, 0.0), lego.shared(f32, Row(16, 32), name="tile")
        for k in lego.range(4):
            lego.copy_async(x, tile.part((4 * k, 0), (4, 32)), at=(4 * k, 0))
            lego.commit_copies()
            lego.wait_copies(2)  # one too many
            lego.barrier()
            with lego.when(k > 0):
                total += tile[4 * k - 4, t]
        y[t] = total

    found = refuted(kernel, "no race for tile").counter_example
    loop = line_of(kernel, "lego.range")
    assert (found[f"round of line {loop}"], found[f"other round of line {loop}"]) == (1, 0)
    assert found["other line"] == line_of(kernel, "copy_async")


def test_text_json_and_picture_have_the_rounds(tmp_path, capsys):
    path = tmp_path / "spec.py"
    head = "import lego_mlir as lego\nfrom lego_mlir import Row, f32\nN = lego.size('N')\n"
    path.write_text(head + inspect.getsource(next_round.function))
    assert main(["check", str(path)]) == CHECK_FAILED
    (told,) = (line for line in capsys.readouterr().out.splitlines() if "REFUTED" in line)
    assert "round 0 of the loop of line 7, round 1 of the loop of line 8; thread (63, 0, 0) in round 0 of the" in told
    assert "other thread =" not in told  # the sentence has all values
    assert main(["check", str(path), "--json"]) == CHECK_FAILED
    (line,) = (
        claim
        for group in json.loads(capsys.readouterr().out)["groups"]
        for claim in group["claims"]
        if claim.get("verdict") == "refuted"
    )
    found = line["counter_example"]
    assert (found["round of line 8"], found["other round of line 8"], found["other line"]) == (1, 0, 11)
    assert "other round of line" in str(lego.show(refuted(next_round, "no race for tile")))


def test_a_run_reports_the_rounds_as_json():
    faults = launched(next_round, {"N": 3}).report.faults
    (fault,) = (f for f in faults if f.buffer == "tile")
    assert [r["round"] for r in fault.to_dict()["rounds"]] == [0, 1]


def test_persistent_blocks_are_run_until_they_repeat_their_loop():
    @lego.kernel(grid=8, block=64)
    def kernel(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
        b, t, tile = lego.block_id[0], lego.thread_id[0], lego.shared(f32, Row(64), name="tile")
        for j in lego.range(b, lego.cdiv(N, 64), 8):
            tile[t] = x.halo()[j * 64 + t]
            lego.barrier()
            y.halo()[j * 64 + t] = tile[63 - t]

    found = refuted(kernel, "no race for tile").counter_example
    loop = line_of(kernel, "in lego.range")
    assert found["N"] > 8 * 64
    assert (found[f"round of line {loop}"], found[f"other round of line {loop}"]) == (1, 0)


def test_races_within_a_block_do_not_hide_those_between_blocks():
    @lego.kernel(grid=(2, 2), block=(8, 8))
    def symmetrised(a: lego.Tensor(f32, Row(16, 16))):
        (bx, by), (tx, ty) = lego.block_id, lego.thread_id
        i, j = by * 8 + ty, bx * 8 + tx
        a[i, j] = a[i, j] + a[j, i]

    assert refuted(symmetrised, "between two threads").counter_example["other block"] == (0, 0, 0)
    across = refuted(symmetrised, "between two blocks").counter_example
    assert {across["block"], across["other block"]} == {(0, 1, 0), (1, 0, 0)}


def scatter(within):
    @lego.kernel(grid=1, block=64)
    def scattered(order: lego.Tensor(i32, Row(64), range=within), y: lego.Tensor(f32, Row(64))):
        y[lego.index(order[lego.thread_id[0]]) % 64] = 1.0

    return dict(kernel_claims(scattered))["no race for y between two threads of a block"]


def test_a_race_on_random_data_refutes_where_the_range_is_declared():
    found = scatter(within=None)
    assert isinstance(found, Unknown)
    assert "the index depends on the contents of memory; if no two elements of the tensor that it is" in found.reason
    assert "else update atomically; on random data it races, for block = (0, 0, 0)" in found.reason
    declared = scatter(within=(0, 64))
    assert isinstance(declared, Refuted)
    assert declared.counter_example["thread"] != declared.counter_example["other thread"]


def test_a_run_that_breaks_a_claimed_range_refutes_nothing():
    @lego.kernel(grid=1, block=32)
    def kernel(n: i32, y: lego.Tensor(f32, Row(32))):
        for _ in lego.range(lego.index(n, range=(0, 4))):
            y[lego.thread_id[0]] = 1.0

    assert isinstance(dict(kernel_claims(kernel))["no element of y is written twice"], Unknown)


def test_an_element_written_twice_names_both_writes():
    @lego.kernel(grid=1, block=32)
    def kernel(y: lego.Tensor(f32, Row(32))):
        t = lego.thread_id[0]
        y[t] = 0.0
        for _ in lego.range(2):
            with lego.when(t == 5):
                y[t + 1] = 1.0

    found = refuted(kernel, "no element of y is written twice")
    last, first = line_of(kernel, "y[t + 1]"), line_of(kernel, "y[t] = 0.0")
    assert (found.counter_example["line"], found.counter_example["other line"]) == (last, first)
    assert found.explanation.startswith("y[6] is written by thread (6, 0, 0) of block (0, 0, 0)")
    assert found.explanation.endswith("round 0 of the loop of line " + str(line_of(kernel, "lego.range")))


def test_a_thread_may_replace_what_it_wrote_by_a_later_statement():
    def once(body):
        @lego.kernel(grid=1, block=32)
        def kernel(x: lego.Tensor(i32, Row(32)), y: lego.Tensor(f32, Row(32))):
            body(x, y, lego.thread_id[0])

        return dict(kernel_claims(kernel))["no element of y is written twice"]

    def default(x, y, t):
        y[t] = 0.0
        with lego.when(x[t] > 0):
            y[t] = 1.0

    def either(x, y, t):
        with lego.when(x[t] > 0):
            y[t] = 0.0
        with lego.otherwise():
            y[t] = 1.0

    def of_another(x, y, t):
        y[t] = 0.0
        y[31 - t] = 1.0

    assert isinstance(once(default), Proved) and isinstance(once(either), Proved)
    assert isinstance(once(of_another), Refuted)


def test_of_two_reads_the_one_of_another_thread_is_named():
    """Each element is read by another thread, and then by the one that writes it, which races with the first only."""

    @lego.kernel(grid=1, block=64)
    def kernel(x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(64))):
        t, tile = lego.thread_id[0], lego.shared(f32, Row(64), name="tile")
        tile[t] = x[t]
        lego.barrier()
        other = tile[63 - t]
        own = tile[t]
        tile[t] = other + own
        y[t] = other

    found = refuted(kernel, "no race for tile")
    assert found.counter_example["other line"] == line_of(kernel, "tile[63 - t]")
    assert found.counter_example["other thread"] == (63 - found.counter_example["thread"][0], 0, 0)
    (fault,) = launched(kernel, {}).report.faults
    assert "read by several threads with no barrier" in fault.message  # and not the line of its own read
