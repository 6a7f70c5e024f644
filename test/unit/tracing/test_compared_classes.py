"""Every class of values that a kernel holds: comparisons give values of the kernel or an error, never Python's answer.

The classes are found from the annotations of the public words, of what these return, and of subclasses. A new one has
to be given a pair of samples, or named among those that are known while tracing.
"""

import importlib
import inspect
import operator
import pkgutil
import re
from contextlib import suppress

import pytest

import lego_mlir as lego
import lego_mlir.tracing
from lego_mlir import Row, f2, f16, f32, i32, u4
from lego_mlir.errors import ExpressionError, LegoError, SymbolicBranchError, TraceError
from lego_mlir.expr.index import Condition, Index
from lego_mlir.tracing.definition.program import ProgramNumber
from lego_mlir.tracing.spread.distributed import Spread
from lego_mlir.tracing.words.scalar import Scalar

COMPUTED = (Index, Condition, Scalar, Spread)
"""What a comparison by value gives."""
KNOWN = {
    "declarations, which are Python values": (
        "DType DeviceFunction GenericKernel Kernel KernelProgram ProgramStep ProgramTensor Scheduled Tensor"
    ),
    "records of a finished trace, and parts of one": (
        "FunctionTrace KernelTrace Rectangle Register Roundings SpreadValue TensorAccess Value"
    ),
    "a base class": "ElementAccess",
}


def _tile():
    return lego.shared(f16, Row(64, 64))


def _packed():
    return lego.shared(u4, Row(64))


def _layout(each=1):
    return f2.Blocked((each,), (32,), (4,), order=(0,)).layout((128 * each,))


def _spread(x):
    return lego.load(x, _layout())


SAMPLES = {
    "Accumulator": lambda x, z: [lego.accumulator(f32, 16, 8) for _ in range(2)],
    "BarrierRing": lambda x, z: [lego.barriers(2) for _ in range(2)],
    "BarrierUse": lambda x, z: [lego.barriers(2)[k] for k in range(2)],
    "BlockInCluster": lambda x, z: [lego.block_in_cluster, lego.block_id],
    "Branch": lambda x, z: [lego.when(lego.lane_id < n) for n in (3, 4)],
    "Cell": lambda x, z: [lego.register(i32, n) for n in range(2)],
    "CellTuple": lambda x, z: [lego.register((x[n], z[n])) for n in range(2)],
    "ClusterRank": lambda x, z: [lego.cluster_rank, lego.lane_id],
    "Condition": lambda x, z: [lego.lane_id < 3, lego.lane_id < 4],
    "Extents": lambda x, z: [lego.block_dim, lego.grid_dim],
    "Ids": lambda x, z: [lego.thread_id, lego.block_id],
    "Index": lambda x, z: [lego.thread_id[0], lego.thread_id[0] + lego.block_id[0]],
    "Loop": lambda x, z: [lego.range(n) for n in (3, 4)],
    "OpenTile": lambda x, z: [lego.load(x, (128,)), lego.load(z, (128,))],
    "OpenVariable": lambda x, z: [lego.register(lego.load(x, (128,))), lego.register(lego.load(z, (128,)))],
    "PackedCell": lambda x, z: [lego.register(u4, n, width=8) for n in range(2)],
    "PackedVariable": lambda x, z: [lego.register(lego.full(f32, _layout(8), n).to(u4)) for n in range(2)],
    "PackedNumbers": lambda x, z: [_packed()[n] for n in range(2)],
    "PackedView": lambda x, z: [_packed() for _ in range(2)],
    "Part": lambda x, z: [_tile().part((0, 0), (16, 16)) for _ in range(2)],
    "PeerTile": lambda x, z: [_tile().of_block(n) for n in range(2)],
    "Place": lambda x, z: [x.place(0), z.place(0)],
    "RepeatedView": lambda x, z: [x.repeat(2), z.repeat(2)],
    "Scalar": lambda x, z: [x[0], z[0]],
    "Spread": lambda x, z: [_spread(x), _spread(z)],
    "SpreadVariable": lambda x, z: [lego.register(_spread(x)), lego.register(_spread(z))],
    "ThreadNumber": lambda x, z: [lego.lane_id, lego.warp_id],
    "View": lambda x, z: [x, z],
}
COMPARED = {
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "with an int": lambda a, b: a == 1,
    "with a tuple": lambda a, b: a == (0, 0),
}
DECIDED = {
    "bool": lambda a, b: bool(a),
    "and": lambda a, b: a and b,
    "not": lambda a, b: not a,
    "any": lambda a, b: any([a, b]),
    "min": lambda a, b: min(a, b),
    "sorted": lambda a, b: sorted([a, b]),
    "in a list": lambda a, b: a in [1, b],
    "in a set": lambda a, b: a in {1, 2},
    "a set": lambda a, b: {a, b},
    "a key": lambda a, b: {a: 1},
    "with a text": lambda a, b: a == "row",
}


def _classes():
    rooms = [
        importlib.import_module(m.name) for m in pkgutil.walk_packages(lego_mlir.tracing.__path__, "lego_mlir.tracing.")
    ]
    defined = (c for room in rooms for c in vars(room).values() if inspect.isclass(c))
    return {
        c.__name__: c
        for c in [*defined, Index, Condition]
        if c.__module__.startswith(("lego_mlir.tracing", "lego_mlir.expr.index"))
    }


def _returned(function):
    return re.findall(r"\w+", str(getattr(function, "__annotations__", {}).get("return", "")))


def _returned_by_methods(of):
    for name, member in vars(of).items():
        if not name.startswith("_") or name.endswith("__"):
            yield from _returned(member.fget if isinstance(member, property) else member)


def held():
    """The names of the classes that the words of the language give, and their methods in turn."""
    classes, found, left = _classes(), set(), []
    for name, (module, _) in lego._NAMES.items():
        if module.startswith("lego_mlir.tracing"):
            word = getattr(lego, name)
            left += (
                _returned(word)
                if inspect.isfunction(word)
                else [(word if inspect.isclass(word) else type(word)).__name__]
            )
    while left:
        name = left.pop()
        if name in classes and name not in found:
            found.add(name)
            of = classes[name]
            left += [*_returned_by_methods(of), *(c for c in classes if issubclass(classes[c], of))]
    return found - {"PerElement"}


def test_each_class_has_samples_or_is_known_while_tracing():
    known = {name for listed in KNOWN.values() for name in listed.split()}
    assert held() == known | SAMPLES.keys()


@pytest.mark.parametrize("name", SAMPLES)
def test_a_comparison_gives_a_value_of_the_kernel_or_an_error(name):
    answers = {}

    @lego.kernel(grid=4, block=128, cluster=(2,))
    def k(x: lego.Tensor(i32, Row(128)), z: lego.Tensor(i32, Row(128))):
        a, b = SAMPLES[name](x, z)
        assert type(a).__name__ == name
        for written, compare in {**COMPARED, **DECIDED}.items():
            with suppress(LegoError):
                answers[written] = compare(a, b)
        raise TraceError("all are compared")

    with pytest.raises(TraceError, match="all are compared"):
        k.trace()
    for written, answer in answers.items():
        assert written in COMPARED and isinstance(answer, COMPUTED), (written, answer)


MESSAGES = {
    "x == y": ("View", lambda a, b: a == b, TraceError, r"compare elements, such as x\[i\] == y\[i\].*`a is b`"),
    "if x": ("View", lambda a, b: bool(a), TraceError, "the truth of <x: i32, .*> is not known while tracing"),
    "thread_id == (0, 0)": ("Ids", lambda a, b: a == (0, 0), TraceError, r"its entries, such as lego.thread_id"),
    "part": ("Part", lambda a, b: a != b, TraceError, r"compare elements of the tile"),
    "accumulator": ("Accumulator", lambda a, b: a == b, TraceError, "store it, and compare elements"),
    "ring": ("BarrierRing", lambda a, b: a == b, TraceError, "compare the numbers of uses"),
    "in a ring": ("BarrierRing", lambda a, b: 1 in a, TraceError, r"without an end: write `for k in lego.range"),
    "branch": ("Branch", lambda a, b: a == b, TraceError, "open it with `with` or `for`"),
    "place": ("Place", lambda a, b: a == b, TraceError, "compare indices"),
    "in {0, 1}": ("Index", lambda a, b: a in {0, 1}, SymbolicBranchError, r"'tx' depends .* combine .* with \|"),
    "data in {0, 1}": ("Scalar", lambda a, b: a in {0, 1}, SymbolicBranchError, r"compare with .*combine with \|"),
    "a tile as a key": ("Spread", lambda a, b: {a: 1}, SymbolicBranchError, "cannot be in a set or a key"),
    "a text": ("Index", lambda a, b: a == "row", ExpressionError, "the text 'row' cannot be compared with an index"),
}  # fmt: skip


@pytest.mark.parametrize("written", MESSAGES)
def test_errors_name_the_remedy(written):
    name, compare, kind, text = MESSAGES[written]

    @lego.kernel(grid=4, block=128, cluster=(2,))
    def k(x: lego.Tensor(i32, Row(128)), z: lego.Tensor(i32, Row(128))):
        compare(*SAMPLES[name](x, z))

    with pytest.raises(kind, match=text):
        k.trace()


def test_numbers_of_a_program_are_not_compared():
    n = ProgramNumber("n", i32)
    with pytest.raises(TraceError, match="the program's sizes, or in a kernel"):
        n == 3  # noqa: B015
    with pytest.raises(TraceError, match="the truth of"):
        bool(n)
