"""Import circles: none but those closed by the listed imports, each inside a function and for a reason.

Counted are imports at module level and inside functions, not those under TYPE_CHECKING. Removing the listed imports
leaves no circle, and each of them is part of one.
"""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CREATES = "a method of every layout returns a layout of another kind"
OPEN = "a word takes a tile without a layout, too"
SPREAD = "a method of a spread value is a function of its family, defined beside the others"
CLOSING = {
    ("lego_mlir", "lego_mlir.notebook"): "a session of IPython gets displays, which load what they draw when they draw",
    (
        "lego_mlir.tracing.words.tensor",
        "lego_mlir.tracing.words.clustered_blocks",
    ): "a shared tile names the same tile of a peer",
    ("lego_mlir.tracing.words.tensor", "lego_mlir.tracing.spread.indexed_accesses"): "an index may be a tile",
    ("lego_mlir.tracing.words.atomics", "lego_mlir.tracing.spread.indexed_accesses"): "an index may be a tile",
    ("lego_mlir.expr.sizes", "lego_mlir.expr.intervals"): "a size equal to other sizes has their bounds",
    ("lego_mlir.expr.solver", "lego_mlir.expr.intervals"): "operations that Z3 lacks are bounded",
    ("lego_mlir.layout.base", "lego_mlir.layout.equivalence"): CREATES,
    ("lego_mlir.layout.base", "lego_mlir.layout.group"): CREATES,
    ("lego_mlir.layout.base", "lego_mlir.layout.notation"): "the text of a layout depends on its kind",
    ("lego_mlir.layout.base", "lego_mlir.layout.slices"): CREATES,
    ("lego_mlir.layout.base", "lego_mlir.layout.substitute"): CREATES,
    ("lego_mlir.layout.base", "lego_mlir.layout.tiled"): CREATES,
    ("lego_mlir.layout.permutations", "lego_mlir.layout.checking"): "a GenP is checked on first use",
    ("lego_mlir.distributions.base", "lego_mlir.distributions.combined"): CREATES,
    ("lego_mlir.distributions.base", "lego_mlir.distributions.comparison"): CREATES,
    ("lego_mlir.cute.layout", "lego_mlir.cute.layout"): "the constructor takes notation",
    ("lego_mlir.tracing.trace.dtypes", "lego_mlir.tracing.words.scalar"): "calling an element type converts a value",
    (
        "lego_mlir.tracing.emit.emit_module",
        "lego_mlir.tracing.emit.emit_calls",
    ): "a kernel emits its functions, whose emitter is a subclass",
    (
        "lego_mlir.tracing.emit.emit_module",
        "lego_mlir.tracing.emit.emit_wgmma",
    ): "for sm_90a a kernel is emitted by a subclass",
    (
        "lego_mlir.tracing.words.mma",
        "lego_mlir.tracing.spread.multiplication",
    ): "lego.mma takes spread values and parts of tiles",
    (
        "lego_mlir.tracing.words.control",
        "lego_mlir.tracing.spread.variables",
    ): "lego.register holds a spread value, too",
    (
        "lego_mlir.tracing.words.packed_variables",
        "lego_mlir.tracing.words.control",
    ): "packed numbers are kept in a register of words",
    (
        "lego_mlir.tracing.words.scalar",
        "lego_mlir.tracing.words.packed_values",
    ): "data is converted from and to packed types",
    (
        "lego_mlir.tracing.words.tensor",
        "lego_mlir.tracing.words.packed_views",
    ): "a tensor of a packed type is one of bytes",
    (
        "lego_mlir.tracing.spread.accesses",
        "lego_mlir.tracing.spread.packed_tiles",
    ): "lego.load takes packed memory, too",
    ("lego_mlir.tracing.spread.accesses", "lego_mlir.tracing.spread.repeated_tiles"): "lego.load takes scales, too",
    ("lego_mlir.tracing.spread.distributed", "lego_mlir.tracing.spread.packed_tiles"): SPREAD,
    ("lego_mlir.tracing.spread.accesses", "lego_mlir.tracing.spread.open_tiles"): OPEN,
    ("lego_mlir.tracing.spread.filled", "lego_mlir.tracing.spread.open_tiles"): OPEN,
    ("lego_mlir.tracing.spread.multiplication", "lego_mlir.tracing.spread.open_tiles"): OPEN,
    (
        "lego_mlir.tracing.spread.multiplication",
        "lego_mlir.tracing.spread.two_of_four_products",
    ): "lego.mma takes metadata, too",
    ("lego_mlir.tracing.spread.axis_exchange", "lego_mlir.tracing.spread.open_orders"): OPEN,
    ("lego_mlir.tracing.spread.gather", "lego_mlir.tracing.spread.open_orders"): OPEN,
    ("lego_mlir.tracing.spread.indexed_accesses", "lego_mlir.tracing.spread.open_orders"): OPEN,
    ("lego_mlir.tracing.spread.scans", "lego_mlir.tracing.spread.open_orders"): OPEN,
    ("lego_mlir.tracing.spread.sorts", "lego_mlir.tracing.spread.open_orders"): OPEN,
    ("lego_mlir.tracing.spread.open_layouts", "lego_mlir.tracing.spread.open_tiles"): "a node is made with its tile",
    ("lego_mlir.tracing.spread.distributed", "lego_mlir.tracing.spread.accesses"): SPREAD,
    ("lego_mlir.tracing.spread.distributed", "lego_mlir.tracing.spread.copied_stores"): SPREAD,
    ("lego_mlir.tracing.spread.distributed", "lego_mlir.tracing.spread.filled"): SPREAD,
    ("lego_mlir.tracing.spread.distributed", "lego_mlir.tracing.spread.folds"): SPREAD,
    ("lego_mlir.tracing.spread.distributed", "lego_mlir.tracing.spread.index_comparisons"): SPREAD,
    ("lego_mlir.tracing.spread.distributed", "lego_mlir.tracing.spread.reshaping"): SPREAD,
    ("lego_mlir.tracing.spread.distributed", "lego_mlir.tracing.spread.axis_exchange"): SPREAD,
    ("lego_mlir.tracing.spread.distributed", "lego_mlir.tracing.spread.histograms"): SPREAD,
    ("lego_mlir.tracing.spread.distributed", "lego_mlir.tracing.spread.scans"): SPREAD,
    ("lego_mlir.tracing.spread.distributed", "lego_mlir.tracing.spread.sorts"): SPREAD,
    (
        "lego_mlir.tracing.definition.kernel",
        "lego_mlir.tracing.schedules.composition",
    ): "a schedule of a kernel is another one",
    ("lego_mlir.structured.build", "lego_mlir.structured.tuning"): "variant='tune' builds every variant",
    ("lego_mlir.runtime.data", "lego_mlir.runtime.tolerance"): "bounds of errors come from inputs made by data",
    ("lego_mlir.runtime.arrays", "lego_mlir.runtime.dlpack"): "arrays of unknown types come through DLPack",
    ("lego_mlir.runtime.calls", "lego_mlir.runtime.program_calls"): "calls of a program are a kind of calls",
    ("lego_mlir.runtime.calls", "lego_mlir.runtime.routed_calls"): "calls of several kernels are a kind of calls",
}


def modules(folder, package):
    """The modules of a folder by name."""
    found = {}
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder).with_suffix("").parts
        found[".".join((*package, *parts)).removesuffix(".__init__")] = path
    return found


def imports(tree, names):
    """The modules among `names` that a syntax tree imports, other than for type checkers."""
    rest = [tree]
    while rest:
        node = rest.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            rest += node.orelse
            continue
        rest += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in names or node.module in names:
                    yield whole if whole in names else node.module


def graph(names):
    return {name: set(imports(ast.parse(path.read_text()), names)) - {name} for name, path in names.items()}


@pytest.fixture(scope="module")
def package():
    return graph(modules(ROOT / "lego_mlir", ("lego_mlir",)))


def circle(edges):
    """A circle, or nothing."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return error.args[1][::-1]
    return []


def test_only_the_listed_imports_close_circles(package):
    opened = {name: {other for other in others if (name, other) not in CLOSING} for name, others in package.items()}
    assert circle(opened) == []


@pytest.mark.parametrize("edge", CLOSING, ids=" -> ".join)
def test_a_listed_import_closes_a_circle_and_is_inside_a_function(edge, package):
    source, target = edge
    reached, rest = set(), [target]
    while rest:
        reached.add(name := rest.pop())
        rest += package[name] - reached
    assert target in package[source]
    assert source in reached
    path = modules(ROOT / "lego_mlir", ("lego_mlir",))[source]
    top = [node for node in ast.parse(path.read_text()).body if isinstance(node, (ast.Import, ast.ImportFrom))]
    assert target not in set(imports(ast.Module(top, []), package))


def test_benchmarks_have_no_circles():
    bench = graph(modules(ROOT / "bench", ()))
    assert bench["nw"] >= {"harness", "runner"}
    assert circle(bench) == []


def test_a_circle_is_found():
    tree = ast.parse("import b\nif TYPE_CHECKING:\n    import c\ndef f():\n    from d import x")
    assert set(imports(tree, {"b", "c", "d"})) == {"b", "d"}
    assert sorted(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})[:-1]) == ["a", "b", "c"]
