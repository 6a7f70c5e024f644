"""Random layouts of values spread over threads: two dimensions, 32 lanes, 1 to 8 warps, with copies."""

from hypothesis import strategies as st

from lego_mlir import f2
from lego_mlir.f2.dims import split


@st.composite
def layouts(draw):
    """Linear layouts of two dimensions with 32 lanes: random columns, some of them copies, surjective."""
    shape = draw(st.tuples(st.integers(2, 5), st.integers(2, 5)))
    warps, bits = draw(st.integers(0, 3)), sum(shape)
    registers = max(0, bits - 5 - warps) + draw(st.integers(0, 2))
    free = registers + 5 + warps
    if draw(st.booleans()):
        columns = draw(st.permutations([1 << k for k in range(bits)] + [0] * (free - bits)))
    else:
        columns = list(draw(st.permutations([1 << k for k in range(bits)])))
        columns += draw(st.lists(st.integers(0, 2**bits - 1), min_size=free - bits, max_size=free - bits))
        for k, other in draw(st.lists(st.tuples(st.integers(0, bits - 1), st.integers(0, bits - 1)), max_size=4)):
            columns[k] ^= columns[other] if k != other else 0
    dims = (("dim0", shape[0]), ("dim1", shape[1]))
    parts = {"register": columns[:registers], "lane": columns[registers : registers + 5]}
    parts["warp"] = columns[registers + 5 :]
    bases = {name: [split(c, dims) for c in part] for name, part in parts.items()}
    return f2.LinearLayout(bases, {"dim0": 1 << shape[0], "dim1": 1 << shape[1]})
