"""The epilogue's values for a thread's part of the sums, as lines of the new kernel.

Lane l of warp w holds elements of two rows, 16w + l/4 and 8 more, and of columns 2 (l mod 4) and the next of every 8.
An expression (`stored_values`) is evaluated per element, each node once for what it depends on: a number of a column
is loaded once for both rows, one of a row once for all columns. Loads of two neighbouring columns are one access.

Elements outside of C are not stored. There the indices are those of C's last row or column, so that every load is one
that the product needs anyway, and no branch is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir.transforms.warpgroups.module_text import ModuleText, operand_name
from lego_mlir.transforms.warpgroups.plan import ProductPlan
from lego_mlir.transforms.warpgroups.stored_values import (
    AppliedNode,
    LargestNode,
    LoadNode,
    PassedNode,
    StoredValue,
    SumNode,
    ValueNode,
)

LINES: Final = (0, 8)
"""The two rows of a thread in its warp's 16."""
GROUP: Final = 8
"""Columns of which a thread has two."""
ALIGNED: Final = 2


@dataclass(frozen=True, slots=True)
class FragmentPlace:
    """Element `lane` of the pair in a line and a group of columns; None where a value is the same for all."""

    line: int | None
    group: int | None
    lane: int | None


@dataclass(frozen=True, slots=True)
class FragmentFrame:
    """Names of i32 values: the thread's number, and the first row and column of C of its warpgroup's sums."""

    thread: str
    row: str
    column: str


class FragmentValues:
    """The values of one tile, written to `text` when they are first needed."""

    def __init__(self, text: ModuleText, plan: ProductPlan, sums: str, struct: str, frame: FragmentFrame) -> None:
        self.text, self.plan, self.sums, self.struct, self.frame = text, plan, sums, struct, frame
        self.value = value = plan.unrounded
        self.known: dict[tuple[int, FragmentPlace], str] = {}
        self.numbers: dict[tuple[str, int], str] = {}
        self.depends = _dependences(value)
        self.types: list[str] = []
        for node in value:
            self.types.append(_type_of(node, plan.sums, self.types))

    @property
    def type(self) -> str:
        """The type of what is stored."""
        return self.types[-1]

    def load_ahead(self, groups: range, whole: bool) -> None:
        """Load what the groups of columns need: numbers of rows and columns, and with `whole` those of matrices."""
        for number, node in enumerate(self.value):
            if isinstance(node, LoadNode) and (whole or not all(self.depends[number])):
                for group in groups:
                    for line in range(len(LINES)):
                        self._name(number, FragmentPlace(line, group, 0))

    def element(self, line: int, group: int, lane: int, number: int = -1) -> str:
        """The value of a node, of the stored one if not given, for one element."""
        return self._name(number % len(self.value), FragmentPlace(line, group, lane))

    def _name(self, number: int, place: FragmentPlace) -> str:
        by_row, by_column = self.depends[number]
        seen = FragmentPlace(
            place.line if by_row else None, place.group if by_column else None, place.lane if by_column else None
        )
        if (number, seen) not in self.known:
            self.known[number, seen] = self._written(number, place, seen)
        return self.known[number, seen]

    def _written(self, number: int, place: FragmentPlace, seen: FragmentPlace) -> str:
        node, t = self.value[number], self.text
        match node:
            case SumNode():
                assert place.line is not None and place.group is not None and place.lane is not None
                return t.value(f"llvm.extractvalue {self.sums}[{4 * place.group + 2 * place.line + place.lane}] : "
                               f"{self.struct}")  # fmt: skip
            case PassedNode(argument):
                return operand_name(argument)
            case LoadNode():
                return self._loaded(number, node, place, seen)
            case LargestNode(operands=(counted,)):
                return self._name(counted, place)
        operands = ", ".join(self._name(operand, place) for operand in node.operands)
        attributes = ", ".join(f"{name} = {value}" for name, value in node.attributes)
        given, made = ", ".join(node.types[:-1]), node.types[-1]
        return t.value(f'"{node.name}"({operands}) {{{attributes}}} : ({given}) -> {made}')

    def _loaded(self, number: int, node: LoadNode, place: FragmentPlace, seen: FragmentPlace) -> str:
        """One element, or both of a pair at once."""
        t, name = self.text, operand_name(node.argument)
        index = self._index(node, place)
        if node.column != 1 or self.plan.transposed:
            return t.value(f"memref.load {name}[{index}] : {node.memref}")
        pitch = 0 if node.in_rows else node.row  # rows of C are multiples of 16 bytes, so N is even
        whole = pitch % ALIGNED == node.constant % ALIGNED == self.plan.b.rows % ALIGNED == 0
        mark = f" {{alignment = {ALIGNED * _bytes(node.element)} : i64}}" if whole else ""
        vector = f"vector<{ALIGNED}x{node.element}>"
        both = t.value(f"vector.load {name}[{index}]{mark} : {node.memref}, {vector}")
        for lane in range(ALIGNED):
            made = t.value(f"vector.extract {both}[{lane}] : {node.element} from {vector}")
            self.known[number, FragmentPlace(seen.line, seen.group, lane)] = made
        return self.known[number, seen]

    def _index(self, node: LoadNode, place: FragmentPlace) -> str:
        """row * i + column * j + constant, for a pair the place of its first element."""
        t, terms = self.text, []
        if node.row:
            line = self._times(self._line(place.line or 0), node.row)
            terms.append(line if not node.in_rows or self.plan.transposed else self._in_rows(line))
        if node.column:
            lane = 0 if node.column == 1 and not self.plan.transposed else place.lane or 0
            column = self._times(self._column(place.group or 0, lane), node.column)
            terms.append(self._in_rows(column) if node.in_rows and self.plan.transposed else column)
        if node.constant or not terms:
            terms.append(t.value(f"arith.constant {node.constant} : index"))
        index = terms[0]
        for term in terms[1:]:
            index = t.op("addi", index, term, type_="index")
        return index

    def _times(self, value: str, factor: int) -> str:
        t = self.text
        if factor == 1:
            return value
        return t.op("muli", value, t.value(f"arith.constant {factor} : index"), type_="index")

    def _line(self, line: int) -> str:
        """The row of C of a line."""
        if ("line", line) not in self.numbers:
            self.numbers["line", line] = self._clipped(self._row(line), "m", 1)
        return self.numbers["line", line]

    def _row(self, line: int) -> str:
        """The row of a line, an i32 that may be past the end of C."""
        t, frame = self.text, self.frame
        warp = t.op("andi", t.op("shrui", frame.thread, t.i32(5)), t.i32(3))
        inside = t.op("andi", t.op("shrui", frame.thread, t.i32(2)), t.i32(7))
        first = t.op("addi", t.op("muli", warp, t.i32(16)), t.op("addi", inside, t.i32(LINES[line])))
        return t.op("addi", frame.row, first)

    def row_inside(self, line: int) -> str | None:
        """Whether a line is inside of C, an i1; None where all are."""
        if ("row inside", line) not in self.numbers and self._ends_inside("m"):
            self.numbers["row inside", line] = self._below(self._row(line), "m")
        return self.numbers.get(("row inside", line))

    def column_inside(self, group: int, lane: int) -> str | None:
        """Whether an element's column is inside of C, an i1; None where all are."""
        lane = lane if self.plan.transposed else 0
        key = f"column inside {group}"
        if (key, lane) not in self.numbers and self._ends_inside("n"):
            column = self.text.op("addi", self._first_column(), self.text.i32(GROUP * group + lane))
            self.numbers[key, lane] = self._below(column, "n")
        return self.numbers.get((key, lane))

    def _ends_inside(self, size: str) -> bool:
        """Whether C may end inside of a tile, along m or n."""
        return self.plan.launch_sizes is not None or self.plan.ragged[size == "n"]

    def _below(self, value: str, size: str) -> str:
        """Whether an i32 is less than M or N."""
        t, plan = self.text, self.plan
        if plan.launch_sizes is None:
            extent = t.i32((plan.b if size == "n" else plan.a).rows)
        else:
            extent = t.value(f"arith.index_cast {self._size(size)} : index to i32")
        return t.value(f"arith.cmpi ult, {value}, {extent} : i32")

    def _column(self, group: int, lane: int) -> str:
        """The column of C of an element of a group; of lane 0, both columns of the pair are inside of C."""
        t, known = self.text, self.numbers
        key = f"column {group}"
        if (key, lane) not in known:
            column = t.op("addi", self._first_column(), t.i32(GROUP * group + lane))
            known[key, lane] = self._clipped(column, "n", 1 if self.plan.transposed else ALIGNED - lane)
        return known[key, lane]

    def _first_column(self) -> str:
        """The first column of the thread's pair in the first group, an i32."""
        t, known = self.text, self.numbers
        if ("first", 0) not in known:
            twice = t.op("muli", t.op("andi", self.frame.thread, t.i32(3)), t.i32(2))
            known["first", 0] = t.op("addi", self.frame.column, twice)
        return known["first", 0]

    def _clipped(self, value: str, size: str, before: int) -> str:
        """An i32 as an index, at most that number `before` the end of C along m or n."""
        t, plan, along_n = self.text, self.plan, size == "n"
        if plan.launch_sizes is not None:
            extent = t.value(f"arith.index_cast {self._size(size)} : index to i32")
            value = t.op("minui", value, t.op("subi", extent, t.i32(before)))
        elif plan.ragged[along_n]:
            value = t.op("minui", value, t.i32((plan.b if along_n else plan.a).rows - before))
        return t.value(f"arith.index_cast {value} : i32 to index")

    def _in_rows(self, number: str) -> str:
        """A number of rows of C, in elements."""
        return self.text.op("muli", number, self._size("m" if self.plan.transposed else "n"), type_="index")

    def _size(self, size: str) -> str:
        """M or N of the plan as a value of the launch, an index."""
        assert self.plan.launch_sizes is not None
        return operand_name(getattr(self.plan.launch_sizes, size))


def _dependences(value: StoredValue) -> list[tuple[bool, bool]]:
    """Of each node, whether it depends on the row and on the column."""
    found: list[tuple[bool, bool]] = []
    for node in value:
        match node:
            case SumNode():
                found.append((True, True))
            case LoadNode():
                found.append((node.row != 0, node.column != 0))
            case AppliedNode() | LargestNode():
                rows, columns = ([found[i][axis] for i in node.operands] for axis in range(2))
                found.append((any(rows), any(columns)))
            case _:
                found.append((False, False))
    return found


def _type_of(node: ValueNode, sums: str, known: list[str]) -> str:
    """The type of a node's value; of a scalar argument, which no product stores as it is, that of the sums."""
    match node:
        case LargestNode(operands=(counted,)):
            return known[counted]
        case LoadNode(element=element):
            return element
        case AppliedNode(types=types):
            return types[-1]
    return sums


def _bytes(element: str) -> int:
    """Bytes of an element by its MLIR type."""
    return max(1, int("".join(c for c in element.split("E")[0] if c.isdigit())) // 8)
