"""Random kernels for `fuzz.py`: drawn layouts, element types and operations, each with a recipe of what must come out.

A recipe is plain data that a machine without lego_mlir's compiler can replay: the element type, the operation, and for
each tensor how many elements it has in memory and where each logical element is ("rows" and "columns" where it is that,
else an array of positions). Operations round once, so that every bit of the result is known.
"""

import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

import lego_mlir as lego
from lego_mlir import Col, GroupBy, Row, Tensor
from lego_mlir.errors import LayoutError, UsageError
from lego_mlir.kernels import copy, transpose
from lego_mlir.runtime.data import concrete, positions
from lego_mlir.tracing.trace.dtypes import dtype_named

sys.path.insert(0, str(Path(__file__).parents[1]))

import strategies  # the tests' layouts

FLOATS, INTEGERS = ("f16", "bf16", "f32", "f64"), ("i8", "i32", "i64")
UNARY = {"copy": FLOATS + INTEGERS, "neg": FLOATS + INTEGERS, "abs": FLOATS}
BINARY = {"add": FLOATS + INTEGERS, "sub": FLOATS + INTEGERS, "mul": FLOATS + INTEGERS, "minimum": FLOATS + INTEGERS,
          "maximum": FLOATS + INTEGERS, "xor": INTEGERS, "select": FLOATS + INTEGERS}  # fmt: skip
MOST_IN_A_TILE = 512


@dataclass(frozen=True)
class Drawn:
    """A kernel, and its recipe but for the positions: logical shape by tensor, sizes, operation."""

    kernel: Any
    kind: str
    dtype: str
    operation: str
    sizes: dict[str, int]
    transposed: bool = False


def draw(count: int, seed: int) -> Iterator[Drawn]:
    """That many kernels, numbered; a layout that a kernel refuses, for a width or a tile, is drawn again."""
    generator = random.Random(seed)
    pairs = iter(_layouts(3 * count, seed))
    made = 0
    while made < count:
        kind = generator.choice([*KINDS, "pointwise"])
        try:
            drawn = KINDS[kind](generator, pairs)
            drawn.kernel.name = f"k{made}"
            drawn.kernel.trace()
        except (LayoutError, UsageError) as error:
            if "at once" not in str(error) and "width" not in str(error):
                raise
            continue
        made += 1
        yield drawn


def _layouts(count: int, seed: int) -> list[tuple[Any, ...]]:
    """Triples of layouts over the same logical index, as Hypothesis draws them."""
    found: list[tuple[Any, ...]] = []

    @st.composite
    def triples(draw_one: Callable[[Any], Any]) -> tuple[Any, ...]:
        first = draw_one(strategies.layouts(max_elements=900))
        dims = first.dims()
        others = [GroupBy(dims, orders=(draw_one(strategies.orders(prod(dims))),)) for _ in range(2)]
        return tuple(draw_one(st.permutations([first, *others])))

    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]

    @seeded(seed)
    @settings(max_examples=count, database=None, phases=[Phase.generate], deadline=None, suppress_health_check=checks)
    @given(triples())
    def collect(triple: tuple[Any, ...]) -> None:
        found.append(triple)

    collect()
    return found


def _operation(generator: random.Random, table: dict[str, Any]) -> tuple[str, str]:
    operation = generator.choice(list(table))
    return operation, generator.choice(table[operation])


def _pointwise(generator: random.Random, triples: Iterator[Any]) -> Drawn:
    """One thread an element, the logical index made of its number."""
    first, second, target = next(triples)
    total, threads = prod(target.dims()), generator.choice([1, 32, 64, 100])
    binary = generator.random() < 0.5
    operation, name = _operation(generator, BINARY if binary else UNARY)
    dtype = dtype_named(name)

    if binary:

        @lego.kernel(grid=lego.cdiv(total, threads), block=threads)
        def kernel(x: Tensor(dtype, first), z: Tensor(dtype, second), y: Tensor(dtype, target)):
            i = lego.block_id[0] * threads + lego.thread_id[0]
            with lego.when(i < total):
                at = Row(*target.dims()).inv(i)
                y[at] = applied(operation, x[at], z[at])
    else:

        @lego.kernel(grid=lego.cdiv(total, threads), block=threads)
        def kernel(x: Tensor(dtype, first), y: Tensor(dtype, target)):
            i = lego.block_id[0] * threads + lego.thread_id[0]
            with lego.when(i < total):
                at = Row(*target.dims()).inv(i)
                y[at] = applied(operation, x[at])

    return Drawn(kernel, "pointwise", name, operation, {})


def applied(operation: str, *values: Any) -> Any:
    """The operation on values of the kernel language."""
    a, b = (*values, None)[:2]
    match operation:
        case "copy":
            return a
        case "neg":
            return -a
        case "abs":
            return abs(a)
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "minimum":
            return lego.minimum(a, b)
        case "maximum":
            return lego.maximum(a, b)
        case "xor":
            return a ^ b
        case _:
            return lego.where(a < b, b, a)


def _tile(generator: random.Random, triples: Iterator[Any]) -> Drawn:
    """Through a shared tile whose layout is drawn, and out of it in the opposite order of the threads."""
    source, stage, target = next(triples)
    while prod(target.dims()) > MOST_IN_A_TILE or stage.physical_size() > 2 * MOST_IN_A_TILE:
        source, stage, target = next(triples)
    total, dtype = prod(target.dims()), dtype_named(generator.choice(FLOATS + INTEGERS))

    @lego.kernel(grid=1, block=total)
    def kernel(x: Tensor(dtype, source), y: Tensor(dtype, target)):
        t = lego.thread_id[0]
        shared, logical = lego.shared(dtype, stage), Row(*target.dims())
        at, back = logical.inv(t), logical.inv(total - 1 - t)
        shared[at] = x[at]
        lego.barrier()
        y[back] = shared[back]

    return Drawn(kernel, "tile", dtype.name, "copy", {})


def _ragged(generator: random.Random, _: Iterator[Any]) -> Drawn:
    """A copy or a transpose by tiles that do not divide the sizes, which are in the code or come with the launch."""
    symbolic = generator.random() < 0.5
    width = generator.choice([1, 1, 2, 4])
    m, n = (width * generator.randint(1, 150 // width) for _ in range(2))
    sizes = {"M": m, "N": n} if symbolic else {}
    M, N = (lego.size(name, multiple_of=width) for name in "MN") if symbolic else (m, n)
    name = generator.choice(FLOATS + INTEGERS)
    dtype, orders = dtype_named(name), (Row, Row, Col)
    if generator.random() < 0.4:
        source, target = (generator.choice(orders)(M, N) for _ in range(2))
        return Drawn(copy.build(M, N, dtype, source, target, width), "ragged", name, "copy", sizes)
    variant = generator.choice(list(transpose.VARIANTS))
    options = {"width": width} if variant == "vectorised" and width > 1 else {}
    kernel = transpose.build(variant, M, N, dtype, **options)
    return Drawn(kernel, "ragged", name, "copy", sizes, transposed=True)


KINDS = {"pointwise": _pointwise, "tile": _tile, "ragged": _ragged}


def recipe(drawn: Drawn) -> tuple[dict[str, Any], dict[str, Any]]:
    """What replays the kernel on another machine: plain data, and the arrays of positions by tensor."""
    tensors, arrays = [], {}
    for parameter in drawn.kernel.params:
        size = concrete(parameter.size, drawn.sizes)
        at = positions(parameter.layout, drawn.sizes)
        tensor = {"name": parameter.name, "elements": size, "shape": list(at.shape), "written": parameter.written}
        rows = np.arange(at.size).reshape(at.shape)
        if at.size == size and np.array_equal(at, rows):
            tensor["order"] = "rows"
        elif at.size == size and np.array_equal(at, np.arange(at.size).reshape(at.shape[::-1]).T):
            tensor["order"] = "columns"
        else:
            arrays[parameter.name] = at.astype(np.uint16 if size <= 2**16 else np.uint32)
        tensors.append(tensor)
    facts = {"kind": drawn.kind, "dtype": drawn.dtype, "operation": drawn.operation, "sizes": drawn.sizes}
    layouts = {p.name: repr(p.layout) for p in drawn.kernel.params}
    named = {"name": drawn.kernel.name, "transposed": drawn.transposed, "layouts": layouts}
    return {**named, **facts, "tensors": tensors}, arrays


ODD = ((1, 1), (33, 100), (127, 65), (96, 200))
PRODUCTS = ((100, 77, 50), (129, 136, 72), (64, 200, 136), (1, 1, 1))


def shipped(target: str) -> Iterator[tuple[str, Any, bytes]]:
    """The shipped kernels at odd sizes, compiled, with data to check with; `refused` is for launches that must fail."""
    from lego_mlir.kernels import matmul
    from lego_mlir.kernels.aligned_products import LEAST_COPY
    from lego_mlir.runtime import data, data_files
    from lego_mlir.runtime.products.kernels import NOT_AHEAD, PIPELINED
    from lego_mlir.toolchain import compile_kernel

    def made(name: str, kernel: Any, sizes: dict[str, int], script: str | None = None, **options: int) -> Any:
        compilation = compile_kernel(
            kernel, target=target, emit="ptx", transform=script, parameters=options, cache=None
        )
        return name, compilation, data_files.to_npz(data.check_data(kernel, sizes))

    M, N = (lego.size(name) for name in "MN")
    yield made("refused", transpose.build("vectorised", 64, 128, dtype_named("f32"), width=4), {})
    for m, n in ODD:
        for variant, name in product(transpose.VARIANTS, ("f16", "f32", "f64", "i8")):
            yield made(f"transpose-{variant}-{name}-{m}x{n}", transpose.build(variant, m, n, dtype_named(name)), {})
        yield made(f"copy-{m}x{n}", copy.build(m, n, dtype_named("f32"), destination=Col(m, n)), {})
        symbolic = transpose.build("padded", M, N, dtype_named("f32"))
        yield made(f"transpose-symbolic-{m}x{n}", symbolic, {"M": m, "N": n})
    for (m, n, k), a, b in product(PRODUCTS, (Row, Col), (Row, Col)):
        kernel = matmul.build(m, n, k, dtype_named("f16"), a=a(m, k), b=b(k, n), result=dtype_named("f32"))
        accesses = [x for _, x in kernel.trace().accesses() if x.buffer.name in ("a", "b")]
        ahead = all(x.width * x.buffer.dtype.bytes >= LEAST_COPY for x in accesses)
        script, options = (PIPELINED, {"stages": 3}) if ahead else (NOT_AHEAD, {})
        yield made(f"matmul-{m}x{n}x{k}-{a.__name__}-{b.__name__}", kernel, {}, script, **options)
