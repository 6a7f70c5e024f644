"""A random kernel: its text, what NumPy says that it computes, and what differs from that."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from number_meaning import (
    FLOATS,
    INTEGERS,
    MANTISSA,
    STORED_ONLY,
)

import lego_mlir as lego
from lego_mlir import (
    i1,
)  # fmt: skip

GLOBALS = {"lego": lego, **{d.name: d for d in (*FLOATS, *INTEGERS, *STORED_ONLY, i1)}}


@dataclass(frozen=True)
class Node:
    """Text, and the value in every thread; `kind` is a DType, "index" or "condition"; a vector adds an axis."""

    text: str
    kind: Any
    value: Callable[[Any], np.ndarray] = field(repr=False)
    width: int | None = None


@dataclass
class Tensor:
    """A tensor of the signature: `dims` are its logical sizes, numbers also where the layout's are symbols."""

    name: str
    dtype: Any
    layout: Any
    dims: tuple
    array: np.ndarray
    ragged: tuple | None = None  # tiles of tile_by that reach past the end


class Run:
    """The state of a run in NumPy: arrays by name, and one number a thread for ids, loops and registers."""

    def __init__(self, case):
        self.memory = {t.name: t.array.copy() for t in case.tensors}
        self.block, self.thread = np.divmod(np.arange(case.blocks * case.threads), case.threads)
        gx, bx = case.grid[0], case.block[0]
        self.ids = {"bx": self.block % gx, "by": self.block // gx, "tx": self.thread % bx, "ty": self.thread // bx}
        self.count = self.block.size
        self.local = {}  # registers and loop variables
        self.active = np.ones(self.count, bool)
        self.blocks = case.blocks

    def spread(self, value):
        return np.broadcast_to(np.asarray(value), (self.count,))


@dataclass(repr=False)
class Case:
    """A drawn kernel: `kernel` builds it, `expected` runs it in NumPy. Hypothesis shows its text, not its arrays."""

    name: str
    grid: tuple
    block: tuple
    tensors: list = field(default_factory=list)
    scalars: list = field(default_factory=list)  # (name, dtype, number)
    body: list = field(default_factory=list)  # (lines, run)
    sizes: dict = field(default_factory=dict)
    tiles: dict = field(default_factory=dict)  # the layouts of shared tiles by name
    loose: set = field(default_factory=set)  # outputs that went through a function known to a few ulps only
    outputs: set = field(default_factory=set)
    cpu: bool = True
    form: str = "affine"

    def __repr__(self):
        return f"<{self.text()}>"

    @property
    def blocks(self):
        return math.prod(self.grid)

    @property
    def threads(self):
        return math.prod(self.block)

    def text(self):
        layouts = [f"# L{n} = {t.layout!r}" for n, t in enumerate(self.tensors)]
        sizes = [f'{name} = lego.size("{name}", min=1)' for name in self.sizes]
        declared = [f"{t.name}: lego.Tensor({t.dtype}, L{n})" for n, t in enumerate(self.tensors)]
        declared += [f"{name}: {dtype}" for name, dtype, _ in self.scalars]
        ids = [f"b{'xy'[a]} = lego.block_id[{a}]" for a in range(len(self.grid))]
        ids += [f"t{'xy'[a]} = lego.thread_id[{a}]" for a in range(len(self.block))]
        lines = [f"    {line}" for line in (*ids, *(line for lines, _ in self.body for line in lines))]
        launch = f"grid={self.grid}, block={self.block}, contract=False"  # NumPy rounds each operation
        head = [f"@lego.kernel({launch})", f"def {self.name}({', '.join(declared)}):"]
        return "\n".join([*layouts, *sizes, *head, *lines, ""])

    @cached_property
    def built(self):
        """The kernel, once: tracing costs more than most of what a test does with it."""
        names = {**GLOBALS, **self.tiles, **{f"L{n}": t.layout for n, t in enumerate(self.tensors)}}
        names |= {name: lego.size(name, min=1) for name in self.sizes}
        exec(compile(self.text(), f"<{self.name}>", "exec"), names)  # the text that a reader of the failure sees
        return names[self.name]

    def kernel(self):
        return self.built

    def expected(self):
        run = Run(self)
        with np.errstate(all="ignore"):
            for _, step in self.body:
                step(run)
        return [run.memory[t.name] for t in self.tensors]

    def arrays(self):
        return [t.array.copy() for t in self.tensors] + [number for _, _, number in self.scalars]


def wrong(case, found):
    """What differs from NumPy, in words, or nothing. NaNs are equal; functions of the hardware agree to a few ulps."""
    for tensor, got, wanted in zip(case.tensors, found, case.expected(), strict=False):
        with np.errstate(invalid="ignore"):  # of a signalling NaN, which becomes a quiet one
            a, b = (
                np.asarray(v).astype(np.float64) if tensor.dtype in FLOATS else np.asarray(v) for v in (got, wanted)
            )
        same = (a == b) & (np.signbit(a) == np.signbit(b)) if tensor.dtype in FLOATS else a == b
        if tensor.dtype in FLOATS:
            same |= np.isnan(a) & np.isnan(b)
            if tensor.name in case.loose:
                same |= np.isclose(
                    a, b, rtol=2.0 ** (4 - MANTISSA[tensor.dtype.name]), atol=2.0 ** -MANTISSA[tensor.dtype.name]
                )
        if not same.all():
            at = tuple(int(i) for i in np.argwhere(~same)[0])
            return f"{tensor.name}{list(at)} is {got[at]!r}, NumPy has {wanted[at]!r}"
    return ""
