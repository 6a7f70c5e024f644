"""What cannot be traced is refused with the file and line of the spec, the values and the remedy."""

import inspect
import math

import pytest

import lego_mlir as lego
from lego_mlir import GenP, Padded, Row, f16, f32, gallery, i32
from lego_mlir.errors import (
    BudgetError,
    ExpressionError,
    LayoutError,
    LegoError,
    RefutedAccessError,
    SymbolicBranchError,
    TraceError,
    UsageError,
)
from lego_mlir.expr.index import index_symbol


def refuse(kind, pattern, body, x=None, grid=1, block=32):
    """Trace `body(x, y)`; the error is of this kind, matches, and names the line of the body that is marked HERE."""
    source, first = inspect.getsourcelines(body)
    marked = [first + k for k, line in enumerate(source) if "# HERE" in line]

    def run(x, y):
        body(x, y)

    run.__annotations__ = {"x": lego.Tensor(f32, Row(32, 32) if x is None else x), "y": lego.Tensor(f16, Row(32))}
    with pytest.raises(LegoError, match=pattern) as caught:
        lego.kernel(grid=grid, block=block)(run).trace()
    assert type(caught.value) is kind, caught.value
    if marked:
        assert str(caught.value).startswith(f"{__file__}:{marked[0]}: "), caught.value


REFUSED = {
    "i = lego.thread_id[0]\nx[i, i + 1] = 0.0":
        (RefutedAccessError, r"x\[tx, tx \+ 1\]: index 1 of \[32, 32\] leaves 0 \.\. 31: for tx = 31; guard it"),
    "y[32] = f16(0)": (RefutedAccessError, r"y\[32\]: index 0 of \[32\] leaves 0 \.\. 31"),
    "x[lego.thread_id[0]] = 0.0": (LayoutError, r"x takes 2 indices for its logical sizes \[32, 32\], got 1: \[tx\]"),
    "x[0, :]": (TraceError, r"a kernel's index is one integer for each dimension, got slice"),
    "x[0, x[0, 0]]": (TraceError, "cannot be used as an index; an index is one integer"),
    "x[0, lego.thread_id[0] / 2]": (ExpressionError, "an index has no fractions; write integer division as //"),
    "if lego.thread_id[0] < 4: y[0] = f16(0)":
        (SymbolicBranchError, r"the truth of 'tx < 4' depends on symbols.*a branch is `with lego.when\("),
    "if x[0, 0] > 1: y[0] = f16(0)": (TraceError, r"use `with lego.when\(condition\):`"),
    "range(i32(4))": (TraceError, "lego.range takes it as a bound"),
    "x[0, 0] + y[0]":
        (TraceError, r"add of different element types \(f32, f16\); convert one, for example with .to\(lego.f32\)"),
    "y[0] = x[0, 0]": (TraceError, r"a value of type f16 is needed here, got <f32 %\d+>; convert it with .to\(f16\)"),
    "x[0, 0] * lego.thread_id[0]":
        (TraceError, r"the index tx cannot be combined with <f32 %\d+>; convert the index, for example lego.f32\(i\)"),
    "x[0, 0] = lego.thread_id[0]": (TraceError, r"the index tx is not data; convert it, for example lego.f32\(tx\)"),
    'x[0, 0] = "one"': (TraceError, "'one' of type str cannot be a value of type f32 in a kernel"),
    "i32(7) / i32(2)": (TraceError, "truediv is not defined for i32; integers divide with //"),
    "x[0, 0] // 2": (TraceError, "floordiv is not defined for f32; floats divide with /"),
    "i32(1) + 2**31": (TraceError, r"2147483648 does not fit i32, which holds -2147483648\.\.2147483647"),
    "i32(1) + 0.5": (TraceError, "0.5 is not a value of i32"),
    "lego.where(x[0, 0] > 0, 1.0, 2.0)":
        (TraceError, r"where of 1.0 and 2.0: give one of them an element type, for example lego.f32\(1.0\)"),
    "lego.exp(1.0)": (TraceError, r"exp takes data of a kernel, got 1.0"),
    "lego.exp(lego.thread_id[0])":
        (TraceError, r"exp takes data of a kernel, got tx; convert the index, for example lego.f32\(i\)"),
    "for k in lego.range(4): value = x[0, k]\nx[0, 0] = value":
        (TraceError, r"is used after its end; keep it in lego.register\(f32, ..\)"),
    "for k in lego.range(4): x[0, k] = 0.0\nx[0, k] = 0.0":
        (TraceError, r"k0 in the index k0 is the variable of a loop or branch that has ended"),
    "with lego.when(lego.thread_id[0] < 4): i = i32(x[0, 0]) + lego.thread_id[0]\nx[0, i] = 0.0":
        (TraceError, r"in the index .* is the variable of a loop or branch that has ended"),
    'x[0, index_symbol("q")] = 0.0':
        (TraceError, "q in the index q is the variable of no loop, id or size of this kernel"),
    "with lego.when(lego.thread_id[0] < 4): r = lego.register(f32, 0)\nr += 1":
        (TraceError, "a register is used after the end of the loop or branch that defined it"),
    "for _ in lego.range(4): break": (TraceError, "the body of lego.range was left by break or return"),
    "for _ in lego.range(4, 0, lego.thread_id[0] - 1): pass":
        (TraceError, "the step must be positive or negative for all values, got tx - 1"),
    "lego.match_any(x[0, 0])": (TraceError, "lego.match_any takes one integer, got <.*>; convert it"),
    "for _ in lego.unroll(lego.thread_id[0]): pass": (TraceError, "lego.unroll takes ints, got"),
    "with lego.otherwise(): pass": (TraceError, "must directly follow the body of a `with lego.when"),
    "with lego.when(x[0, 0]): pass": (TraceError, "lego.when takes a condition, got <f32"),
    "with lego.when(lego.thread_id[0] < 4): lego.shared(f32, Row(4))":
        (TraceError, "allocate the tile before it, since every thread shares it"),
    'lego.shared(f32, Row(lego.size("M")))':
        (LayoutError, "lego.shared needs sizes that are ints, got .* of M elements"),
    "lego.shared(f32, GenP([8], lambda i: i // 2, lambda p: p))": (LayoutError, "is not a bijection"),
    "lego.thread_id[1]": (TraceError, r"lego.thread_id\[1\]: the block has 1 dimensions, in x, y, z order"),
    "x.load(0, lego.thread_id[0], width=2)": (LayoutError, "not inside, for tx = 31"),
    "_, _ = x[0, 0]": (TraceError, "is one number, not a vector"),
    "if lego.when(lego.thread_id[0] < 4): y[0] = f16(0)":
        (TraceError, r"lego\.when\(\.\.\) cannot be used as a Python condition.*a branch is `with lego.when\("),
    "while lego.range(4): y[0] = f16(0)":
        (TraceError, r"lego\.range\(\.\.\) cannot be used as a Python condition.*a loop `for i in lego.range\("),
    "y[0] = f16(0)\nlego.range(4)":
        (TraceError, r"lego\.range\(\.\.\) alone has no effect; write `for i in lego\.range\(\.\.\):`"),
    "y[0] = y[1] + 1e6": (TraceError, r"1000000\.0 is beyond f16, where it would be inf"),
    "math.sqrt(x[0, 0])": (TraceError, "cannot become a Python float, .* use lego.sqrt"),
    "lego.register(f32)": (TraceError, r"lego.register needs an initial value: write lego.register\(lego.f32, 0.0\)"),
    "lego.shared(f16, Row(64, 65536))":
        (TraceError, "lego.shared of 4194304 elements of f16 takes 8388608 bytes, and GPUs have at most 23"),
    "k = lego.thread_id[0]\nfor step in range(900): k = (k * 3 + step) % (step + 7)\ny[k % 32] = 0.0":
        (BudgetError, r"tracing run exceeds Python's recursion limit \(\d+\): an index is nested too deeply"),
}  # fmt: skip


@pytest.mark.parametrize("code", REFUSED)
def test_a_statement_that_is_refused_with_its_line(code):
    kind, pattern = REFUSED[code]
    compiled = compile(code, "statements.py", "exec")

    def body(x, y):
        exec(compiled, {**globals(), "math": math, "x": x, "y": y})

    refuse(kind, rf"statements.py:{len(code.splitlines())}: .*{pattern}", body)


def test_a_guard_makes_it_right():
    @lego.kernel(grid=1, block=32)
    def guarded(x: lego.Tensor(f32, Row(32, 32))):
        i = lego.thread_id[0]
        with lego.when(i < 31):
            x[i, i + 1] = 0.0

    ((_, access),) = guarded.trace().accesses()
    assert not access.is_masked


def test_the_other_branch_has_the_opposite_guard():
    def body(x, y):
        i = lego.thread_id[0]
        with lego.when(i < 31):
            x[i, i + 1] = 0.0
        with lego.otherwise():
            x[0, i - 31] = 0.0
            x[0, i - 30] = 0.0
            x[0, i + 1] = 0.0  # HERE

    refuse(RefutedAccessError, r"x\[0, tx \+ 1\].*for tx = 31", body)


def test_more_shared_memory_than_there_is():
    def body(x, y):
        lego.shared(f32, Row(64, 64))
        lego.shared(f32, Row(300, 192))  # HERE
        x[0, 0] = 0.0

    refuse(
        TraceError,
        r"with shared1, Row\(300, 192\) of f32, the shared tiles of run take 246784 bytes; GPUs have at most 232448",
        body,
    )


def test_a_kernel_that_writes_nothing():
    def body(x, y):
        tile = lego.shared(f32, Row(32))
        tile[0] = x[0, 0]

    refuse(TraceError, r"kernel run writes no tensor; a store is written y\[i, j\] = value", body)


@pytest.mark.parametrize(
    ("width", "layout", "pattern"),
    [
        (3, None, "a width is a power of two of at most 16 bytes, that is 4 elements"),
        (8, None, "a width is a power of two of at most 16 bytes, that is 4 elements"),
        (4, lego.Col(32, 32), "not aligned, for tx = .*; the widest proved is 1, which width=None takes"),
        (4, gallery.padded(32, 32), "not aligned, for .*; the widest proved is 1"),
        (4, gallery.xor_swizzle(32, 32), "not (aligned|contiguous), for .*; the widest proved is 1"),
        (4, gallery.xor_swizzle(32, 32, vec=2), "not (aligned|contiguous), for .*; the widest proved is 2"),
    ],
)
def test_a_width_that_is_not_proved(width, layout, pattern):
    def body(x, y):
        x.load(lego.thread_id[0] // 8, lego.thread_id[0] % 8 * 4, width=width)  # HERE

    refuse(LayoutError, rf"{width} elements of f32 at once are not possible: {pattern}", body, x=layout)


def test_a_width_across_the_edge_of_a_mask():
    def body(x, y):
        x.tile_by([1, 1], [32, 32]).load(0, 0, 0, lego.thread_id[0] * 4, width=4)  # HERE

    refuse(
        LayoutError,
        "not under one mask, for lane = 3, tx = 7; the widest proved is 2",
        body,
        x=Padded(Row(32, 32), [32, 31]),
        block=8,
    )


def test_returning_a_value():
    def body(x, y):
        pass

    def run(x: lego.Tensor(f32, Row(4))):
        return 1

    with pytest.raises(TraceError, match="a kernel returns nothing; it stores into its tensors, got 1"):
        lego.kernel(grid=1, block=4)(run).trace()


def test_names_of_kernels_outside_of_one():
    for use in (lambda: lego.thread_id[0], lego.barrier, lambda: lego.shared(f32, Row(4)), lambda: f32(1)):
        with pytest.raises(TraceError, match=r"can be used only inside a function decorated with @lego\.kernel"):
            use()


def test_calling_a_kernel_in_a_kernel():
    @lego.kernel(grid=1, block=4)
    def inner(x: lego.Tensor(f32, Row(4))):
        x[lego.thread_id.x] = 1.0

    @lego.kernel(grid=1, block=4)
    def outer(x: lego.Tensor(f32, Row(4))):
        inner(x)

    with pytest.raises(UsageError, match=r"test_trace_errors.py:\d+: kernel inner: x is a tensor of f32; pass an"):
        outer.trace()


@pytest.mark.parametrize(
    ("grid", "block", "pattern"),
    [
        (1, (32, 64), r"block \(32, 64\) has 2048 threads: a block has at most 1024 threads; do more work per thread"),
        (1, 0, r"block x = 0: a launch takes at least 1"),
        (1, (1, 1, 65), r"block z = 65: a launch takes at most 64 threads along z, and 1024 along x; put"),
        ((1, 70000), 1, r"grid y = 70000: a launch takes at most 65535 blocks along y, and 2147483647 along x; put"),
        ((lego.size("M"), 70000), 1, r"grid y = 70000: a launch takes at most 65535"),
        (2**31, 1, r"grid x = 2147483648: a launch takes at most 2147483647 blocks along x; let each block do several"),
        (2.0, 1, r"grid x must be an int"),
        ((1, 1, 1, 1), 1, r"must have one to three sizes, in x, y, z order"),
    ],
)
def test_a_launch_that_no_gpu_has(grid, block, pattern):
    def run(x: lego.Tensor(f32, Row(4))):
        pass

    with pytest.raises(TraceError, match=pattern):
        lego.kernel(grid=grid, block=block)(run)


def test_parameters_without_declarations():
    def run(x):
        pass

    with pytest.raises(TraceError, match=r"parameter 'x' of run needs the annotation lego.Tensor\(dtype, layout\)"):
        lego.kernel(grid=1, block=4)(run)


def test_an_annotation_that_cannot_be_evaluated():
    def run(x):
        pass

    run.__annotations__ = {"x": "lego.Tensor(f32, Row(nowhere))"}
    with pytest.raises(TraceError, match=r"cannot be evaluated \(name 'nowhere' is not defined\)"):
        lego.kernel(grid=1, block=4)(run)


def test_a_refuted_layout_of_a_tensor():
    with pytest.raises(LayoutError, match="is not a bijection"):
        lego.Tensor(f32, GenP([8], lambda i: i // 2, lambda p: p))


def test_an_element_type_that_is_none():
    with pytest.raises(TraceError, match=r"the first argument is an element type such as lego\.f32, got 'f32'"):
        lego.Tensor("f32", Row(4))


@pytest.mark.parametrize("name", ["tx", "x"])
def test_a_size_with_a_name_that_is_taken(name):
    n = lego.size(name)

    @lego.kernel(grid=1, block=4)
    def run(x: lego.Tensor(f32, Row(n))):
        with lego.when(lego.thread_id[0] < n):
            x[lego.thread_id[0]] = 1.0

    with pytest.raises(TraceError, match=f"the size {name} of run needs another name"):
        run.trace()


def test_two_sizes_of_one_name():
    @lego.kernel(grid=1, block=4)
    def run(x: lego.Tensor(f32, Row(lego.size("n"))), y: lego.Tensor(f32, Row(lego.size("n", min=8)))):
        pass

    with pytest.raises(TraceError, match="another size with different facts"):
        run.trace()


def test_a_reference_of_other_parameters():
    @lego.kernel(grid=1, block=4)
    def run(x: lego.Tensor(f32, Row(lego.size("n")))):
        pass

    with pytest.raises(
        TraceError, match="the reference of run takes 'z', which is not a parameter or size of it; it has n, x"
    ):
        run.reference(lambda x, n, z: x)


@pytest.mark.parametrize("where", ["grid", "layout"])
def test_a_size_that_is_a_plain_symbol(where):
    q = index_symbol("q")
    layout = Row(q) if where == "layout" else Row(4)

    @lego.kernel(grid=q if where == "grid" else 1, block=4)
    def run(x: lego.Tensor(f32, layout)):
        pass

    with pytest.raises(TraceError, match=r"q in q is not a size; make one with lego.size\('q'\)"):
        run.trace()


def test_an_index_or_a_python_type_as_a_parameter():
    for kind in (lego.index, int):

        def run(n):
            pass

        run.__annotations__ = {"n": kind}
        with pytest.raises(TraceError, match=f"an element type such as lego.f32 for a number, got {kind}"):
            lego.kernel(grid=1, block=4)(run)


def test_a_branch_without_with():
    def body(x, y):
        lego.when(lego.thread_id[0] < 4)  # HERE
        for _ in range(8):  # what takes the place of the branch in Python's memory does not hide it
            with lego.when(lego.thread_id[0] < 4):
                y[0] = f16(0)

    refuse(TraceError, r"lego\.when\(\.\.\) alone has no effect; write `with lego\.when\(\.\.\):`", body)


def test_an_otherwise_without_with():
    def body(x, y):
        with lego.when(lego.thread_id[0] < 4):
            y[0] = f16(0)
        lego.otherwise()  # HERE
        y[1] = f16(0)

    refuse(TraceError, r"lego\.otherwise\(\) alone has no effect; write `with lego\.otherwise\(\):`", body)


@pytest.mark.parametrize("number", [1e40, -1e40])
def test_a_float_that_becomes_infinite(number):
    def body(x, y):
        x[0, 0] += number  # HERE

    refuse(TraceError, r"1e\+40 is beyond f32, where it would be -?inf; compute in a wider type", body)


def test_infinity_is_one_that_was_meant():
    @lego.kernel(grid=1, block=1)
    def lowest(x: lego.Tensor(f32, Row(2)), y: lego.Tensor(f16, Row(2))):
        x[0] = float("-inf")
        x[1] = 3.4028235e38
        y[0] = 65504.0

    assert "0xFF800000" in lowest.mlir()


@pytest.mark.parametrize(("one", "kind"), [(1.0, "f32"), (2.5, "f32")])
def test_a_choice_between_numbers_suggests_their_type(one, kind):
    def body(x, y):
        lego.where(x[0, 0] > 0, one, 0)  # HERE

    refuse(TraceError, rf"give one of them an element type, for example lego\.{kind}\({one}\)", body)


def test_an_unknown_argument_of_the_decorator():
    with pytest.raises(
        TraceError, match=r"@lego.kernel takes grid, block, name, .* and specialise, not blok; did you mean block\?"
    ):
        lego.kernel(grid=1, block=64, blok=3)
    with pytest.raises(TraceError, match=r"contract='no' is True or False: whether a \* b \+ c is one fma"):
        lego.kernel(grid=1, block=64, contract="no", name="plain")(lambda: None)


def test_a_function_that_calls_itself_without_end():
    def body(x, y):
        again(lego.thread_id[0])

    def again(i):
        return again(i + 1)

    refuse(BudgetError, "or a function recurses without end", body)


@pytest.mark.parametrize(
    ("word", "pattern"),
    [
        (lambda v: lego.exp(v.to(lego.f64), fast=True), r"exp\(.., fast=True\) of f64: .* leave fast out, or convert"),
        (lambda v: lego.divide(1.0, v, fast="ftz"), "truediv: fast='ftz' is True, False, or None"),
        (lambda v: lego.divide(v.to(i32), 2, fast=True), "truediv is not defined for i32; integers divide with //"),
    ],
)
def test_a_function_that_has_no_approximate_form(word, pattern):
    def body(x, y):
        word(x[0, 0])

    refuse(TraceError, pattern, body)


def test_a_fast_kernel_is_fast_or_not():
    def k(x: lego.Tensor(f32, Row(32))):
        x[0] = 1.0

    with pytest.raises(TraceError, match="fast='exp' is True or False: whether division, roots, exp"):
        lego.kernel(grid=1, block=32, fast="exp")(k)
