"""Queries of a code generator to a linear layout: contiguity, copies, family, canonical form (sections 4.3, 5.1).

>>> from lego_mlir.f2.linear import LinearLayout
>>> L = LinearLayout({"register": [(0, 1), (1, 0)], "lane": [(2, 0), (0, 0)]}, {"dim0": 4, "dim1": 2})
>>> contiguous(L), copies(L)
(4, {'lane': 2})

The four registers are consecutive in memory although a row has two elements only: contiguity is a property of the flat
number, across dimensions.
"""

from __future__ import annotations

from functools import lru_cache

from lego_mlir.expr.verdict import Proved, Refuted, Verdict
from lego_mlir.f2.dims import offsets, split
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.matrix import BitMatrix, Echelon


def contiguous(layout: LinearLayout, source: str = "register") -> int:
    """The number of consecutive elements, in row-major order, that one place holds in consecutive registers.

    The largest u with inverse(i) = i on the registers for all i < u; the last output counts fastest.
    """
    flat = layout.with_outs(layout.outs[::-1])
    count = 0
    while count < len(flat.columns_of(source)) and flat.columns_of(source)[count] == 1 << count:
        count += 1
    return 1 << count


def copies(layout: LinearLayout) -> dict[str, int]:
    """For each input the number of its values that hold one element, where more than one: free bits of the map.

    A bit is free if its basis is in the span of those before it, in the order of inputs; a zero basis always is.
    """
    echelon = Echelon()
    found: dict[str, int] = {}
    for name, _ in layout.ins:
        repeated = sum(1 for column in layout.columns_of(name) if echelon.add(column))
        if repeated:
            found[name] = 1 << repeated
    return found


def free_bits(layout: LinearLayout) -> dict[str, int]:
    """For each input the mask of its zero bases: values that differ in these bits hold the same elements."""
    return {
        name: sum(1 << k for k, column in enumerate(layout.columns_of(name)) if column == 0) for name, _ in layout.ins
    }


def is_distributed(layout: LinearLayout) -> Verdict:
    """Whether a layout is distributed (definition 4.10): surjective, columns of at most one bit, none repeated."""
    seen: dict[int, str] = {}
    for name, _ in layout.ins:
        for k, column in enumerate(layout.columns_of(name)):
            at = f"{name}={1 << k}"
            if column & (column - 1):
                return Refuted({name: 1 << k}, f"{at} is mapped to {split(column, layout.outs)}, more than one bit")
            if column and column in seen:
                return Refuted(
                    {name: 1 << k}, f"{at} and {seen[column]} are both mapped to {split(column, layout.outs)}"
                )
            seen[column] = at
    return _surjective(layout)


def is_memory(layout: LinearLayout) -> Verdict:
    """Whether a layout is a memory layout (definition 4.14): invertible, columns of one or two bits."""
    for name, _ in layout.ins:
        for k, column in enumerate(layout.columns_of(name)):
            if not 1 <= column.bit_count() <= 2:
                image = split(column, layout.outs)
                return Refuted({name: 1 << k}, f"{name}={1 << k} is mapped to {image}, {column.bit_count()} bits")
    kernel = layout.matrix.kernel()
    if kernel:
        values = split(kernel[0], layout.ins)
        named = dict(zip(layout.in_sizes, values, strict=True))
        return Refuted(named, f"{named} is mapped to 0, as 0 is")
    return _surjective(layout)


def _surjective(layout: LinearLayout) -> Verdict:
    matrix: BitMatrix = layout.matrix
    if matrix.rank() == layout.out_bits:
        return Proved("elimination")
    missing = split(matrix.complement()[0], layout.outs)
    named = dict(zip(layout.out_sizes, missing, strict=True))
    return Refuted(named, f"no input is mapped to {named}")


@lru_cache(maxsize=16384)
def canonical(layout: LinearLayout) -> LinearLayout:
    """The representative of all layouts that differ by the order of registers, and by registers that hold copies.

    Outputs are in the order `dim0, dim1, ..`; registers are independent and sorted by row-major flat number. Neither
    costs an instruction, so equality of representatives is equality up to what is free.
    """
    outs = tuple(sorted(layout.outs, key=lambda out: (len(out[0]), out[0])))
    rows = layout if outs == layout.outs else layout.with_outs(outs)
    places = [(start, bits) for start, (_, bits) in zip(offsets(outs), outs, strict=True)]

    def row_major(column: int) -> int:
        flat = 0
        for start, bits in places:
            flat = flat << bits | column >> start & ((1 << bits) - 1)
        return flat

    echelon = Echelon()
    kept = [c for c in sorted(filter(None, rows.columns_of("register")), key=row_major) if not echelon.add(c)]
    threads = {name: rows.columns_of(name) for name in ("lane", "warp")}
    ins = (("register", len(kept)), *((name, len(columns)) for name, columns in threads.items()))
    return LinearLayout.of(ins, outs, (*kept, *threads["lane"], *threads["warp"]))
