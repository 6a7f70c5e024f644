"""The products that are timed: sizes, layouts, types and epilogues, by suite of `products.py`."""

import os
import random
from dataclasses import dataclass
from itertools import product as every
from typing import Any

Size = tuple[int, int, int]


@dataclass(frozen=True)
class Product:
    """A product: its size, the layouts and types of its matrices, and the name of its epilogue.

    Sums are promoted after `exact` steps; with `positive` operands those of the units drift.
    """

    size: Size
    layouts: str = "NT"
    dtype: str = "f16"
    result: str = "f16"
    epilogue: str = ""
    exact: int = 0
    positive: bool = False

    def __str__(self) -> str:
        exact, positive = f"exact{self.exact}" * (self.exact > 0), "positive" * self.positive
        named = ("x".join(map(str, self.size)), self.layouts, self.dtype, self.result, self.epilogue, exact, positive)
        return "-".join(filter(None, named))

    @property
    def is_turned(self) -> bool:
        """Whether operands are copied along K before the product."""
        return self.dtype in ("i8", "f8e4m3fn", "f8e5m2") and self.layouts != "NT"


def square(*sides: int) -> tuple[Size, ...]:
    return tuple((n, n, n) for n in sides)


def of_types(size: Size, layouts: str, *types: Any, **more: Any) -> Product:
    """A product of one type, or of those of the operands and the result."""
    return Product(size, layouts, *(types if len(types) > 1 else types * 2), **more)


# -- squares and other sizes

SQUARES = square(512, 1024, 2048, 4096, 8192, 16384)
OTHERS: tuple[Size, ...] = (
    (1000, 1048, 520), (776, 1304, 1992), *square(1144, 1528), (1992, 2000, 2008),
    *square(2216, 2560, 2888, 3072, 3336, 3704, 4104, 4608, 5000, 5768, 6144, 7048, 7680), (4096, 11008, 4096),
    (2048, 4096, 11008),
)  # fmt: skip
RANDOM = square(*(8 * n for n in random.Random(17).sample(range(64, 1025), 60)))
"""Squares between 512 and 8192, drawn once: nothing is fitted to them."""
WEIGHTS = ((4096, 4096), (6144, 4096), (28672, 4096), (4096, 14336), (5120, 5120), (13824, 5120), (5120, 13824),
           (10240, 8192), (57344, 8192), (8192, 28672), (3584, 3584), (18944, 3584))  # fmt: skip
"""N and K of the products of large language models."""
MODELS: tuple[Size, ...] = tuple((m, *weights) for weights in WEIGHTS for m in (64, 128, 512, 2048, 8192))
HOPPER = [
    of_types(*case) for case in (
        *every(SQUARES, ("NT", "NN", "TN", "TT"), ("f16",)), *every(SQUARES, ("NT", "NN"), ("bf16",)),
        *every(OTHERS, ("NT", "NN"), ("f16",)), *every((*RANDOM, *MODELS), ("NT",), ("f16",)),
    )
]  # fmt: skip
STUDIED = square(512, 1024, 2048, 2216, 4096, 5000, 8192, 16384)

SYNC_SIZES: tuple[Size, ...] = (*SQUARES, (4096, 11008, 4096), (8192, 28672, 8192), (32, 4096, 4096))
"""The papers' sizes, for `mma.sync`."""

# -- types, epilogues, few rows and long sums

TYPED, RAGGED, LONG = square(2048, 4096, 8192), (1000, 1048, 1040), (512, 512, 65536)
FEW: tuple[Size, ...] = tuple(
    (m, n, k) for n, k in ((4096, 4096), (6144, 4096), (4096, 14336), (28672, 4096)) for m in (16, 64, 128)
)
"""Few rows of the weights of language models."""
F8 = ("f8e4m3fn", "bf16", "scale")
TYPES = [
    *(of_types(size, "NT", "bf16", epilogue="bias_gelu") for size in TYPED),
    *(of_types(size, "NT", "f16", epilogue="bias_relu") for size in TYPED[1:]),
    *(of_types(size, "NT", "bf16", epilogue=name) for name in ("residual", "gate") for size in TYPED[1:]),
    *(of_types(size, "NT", "f16", "f32") for size in TYPED[1:]),
    *(of_types(size, "NT", *F8) for size in TYPED),
    of_types(TYPED[1], "NT", "f8e5m2", "bf16", "scale"),
    *(of_types(size, "NT", "f8e4m3fn", "bf16", "scales") for size in TYPED[1:]),
    *(of_types(size, "NT", *types) for types in (("i8", "i32"), ("f32",)) for size in TYPED[1:]),
    *(of_types(RAGGED, "NT", *types) for types in (
        ("bf16", "bf16", "gate"), ("f16", "f32", "bias_gelu"), ("f8e4m3fn", "bf16", "scales"), ("i8", "i32", ""),
        ("f32", "f32", ""))),
    of_types(RAGGED, "TN", "bf16", "f32", "residual"),
    *(of_types(size, way, *types) for types in (F8, ("i8", "i32")) for size in TYPED[1:] for way in ("NN", "TN", "TT")),
    *(of_types(TYPED[2], "NT", *F8, exact) for exact in (1, 2, 4, 8)),
    *(of_types(TYPED[1], "NT", "bf16", exact=exact) for exact in (0, 4, 8)),
    *(of_types(size, "NT", "f8e4m3fn", "f8e4m3fn", "scale") for size in TYPED),
    *(of_types(size, "NT", *F8) for size in (*FEW, (1, 4096, 4096), (8, 1024, 8192))),
    *(of_types(size, "NT", "f8e4m3fn", "bf16", "scales") for size in FEW[1:9:3]),
    *(of_types(size, "NT", "i8", "i32") for size in (*FEW[1:9:3], *FEW[2:9:3])),
    *(of_types(LONG, "NT", *types) for types in (F8, ("i8", "i32"))),
    *(of_types(LONG, "NT", "f16", "f32", "", exact, positive=True) for exact in (0, 4, 8, 32)),
    *(of_types(LONG, "NT", "f8e4m3fn", "f32", "scale", exact, positive=True) for exact in (0, 1, 2, 4)),
]  # fmt: skip
ROWS: tuple[Size, ...] = (
    (1, 2560, 8192), (8, 4096, 4096), (16, 1280, 8192), (24, 1536, 8960), (16, 2112, 7168), (64, 2112, 7168),
    (16, 3584, 18944), (32, 8192, 1024), (16, 7168, 8192), (1, 4608, 4096), (24, 10240, 8192), (48, 2048, 2048),
    (64, 2304, 5760), (56, 12288, 4096), (512, 1024, 16384), (256, 256, 16384), (768, 768, 16384), (1, 768, 12288),
    (384, 640, 24576),
)  # fmt: skip
DIVIDED = [
    *(Product(size) for size in ROWS),
    *(Product(size, "NN") for size in ((48, 2560, 8192), (40, 3072, 3072), (64, 1024, 8192), LONG, (128, 1024, 8192))),
    *(Product(LONG, result="f32", exact=exact) for exact in (0, 4)), Product((320, 320, 40000), "TT"),
    Product((512, 512, 8192), "TN", result="f32"), Product((1024, 1024, 32768), result="f32"),
    of_types((256, 256, 16384), "NT", "bf16", epilogue="bias_gelu"),
]  # fmt: skip

# -- odd sizes, few rows by mma.sync, classes, and choices of the model

ODD_SQUARES, LINES = square(513, 1001, 1537, 2047, 2500, 3001, 4097, 5555, 8191), square(2216, 5000)
ODD_FEW: tuple[Size, ...] = ((16, 4097, 4097), (64, 4097, 4097))
ODD = [of_types(*case) for case in (
    *every(ODD_SQUARES, ("NN", "NT", "TN", "TT"), ("f16",)), *every(ODD_SQUARES, ("NN",), ("bf16",)),
    *every(LINES, ("NN",), ("f16",)),
    *every(((1023, 4099, 2049), (4096, 4095, 4096), (777, 5001, 3003), *ODD_FEW), ("NN", "NT"), ("f16",)),
)]  # fmt: skip
SYNC = {*square(513, 1001, 2047, 4097), *ODD_FEW}
"""Sizes at which the kernels of mma.sync are timed, for NN and NT in f16."""
LINE = 64  # elements of 128 bytes
SMALL = [
    Product((m, n, k), layouts)
    for m in (1, 16, 32, 64)
    for n, k in ((4096, 4096), (1024, 8192), (11008, 4096), (4096, 11008), (8192, 28672))
    for layouts in (("NT", "NN") if m in (16, 64) else ("NT",))
]  # fmt: skip
CLASSED = [Product(size, layouts) for size, layouts in (
    *((n, layouts) for n, layouts in zip(square(512, 1024, 2048, 4096, 4096, 8192, 8192, 4104, 3704),
                                         ["NT", "NN", "NT", "NT", "NN", "NN", "NT", "NN", "TT"], strict=True)),
    ((300, 4096, 4096), "NT"), ((777, 4096, 4096), "NT"), ((1500, 11008, 4096), "NT"), ((3000, 4096, 11008), "NN"),
    ((4095, 4096, 4096), "NT"), ((6000, 4096, 4096), "TN"), ((1176,) * 3, "NT"), ((1144,) * 3, "NN"),
    ((904, 2056, 1096), "NT"), ((1352, 872, 2200), "NN"),
)]  # fmt: skip
CLASS_CHOICES = [Product(size, layouts) for size, layouts in (
    ((777, 4096, 4096), "NT"), ((4104, 4104, 4104), "NN"), ((2500, 4096, 11008), "NT"))]  # fmt: skip
CHOICES = [
    *(Product(size, layouts) for size, layouts in (
        ((128, 4096, 4096), "NN"), ((128, 4608, 12288), "NT"), ((128, 4608, 12288), "NN"), ((256, 3072, 8192), "NN"),
        ((64, 4096, 4096), "NN"), ((64, 2048, 8192), "NN"), (LONG, "NN"), (LONG, "NT"), ((200, 200, 8192), "TT"),
        ((256, 256, 16384), "TN"), ((1024, 1024, 32768), "NN"), ((300, 4096, 4096), "NT"), ((128, 6144, 6144), "NT"),
        ((1, 4608, 4608), "NT"), ((16, 4096, 4096), "NT"), ((16, 6144, 4096), "NN"), ((32, 5120, 5120), "NT"),
        ((48, 2048, 8192), "NT"), ((8, 8192, 8192), "NN"))),
    *map(Product, ((256, 256, 256), (384, 384, 384), (128, 128, 2048), (304, 400, 504), (96, 768, 768))),
    *map(Product, square(2216, 3000, 5000)), *CLASS_CHOICES, Product((2560,) * 3, "NN"),
    *(Product((8 * n,) * 3, layouts) for i, n in enumerate(random.Random(18).sample(range(64, 1025), 30)[:15])
      for layouts in ("NT", "NN")[: 1 + (i % 3 == 0)]),
]  # fmt: skip
"""None of these sizes is in the suite `hopper`: they take part in the next fit, and `hopper` judges it."""

TUNED: tuple[Size, ...] = (
    # between powers of two
    *square(448), (576, 576, 2304), *square(896, 1152, 1408, 1664, 1920, 2176, 2816, 3328, 4352), (704, 1408, 2816),
    (1344, 1344, 4032), (2304, 4608, 1152), (2688, 896, 6144), (5376, 5376, 1792), (6656, 6656, 832), (3456, 6912, 576),
    # odd numbers of rows, and rows that are not whole lines of 128 bytes
    (1111, 2200, 3304), (777, 1000, 1288), (1777, 1784, 5000), (3999, 4000, 2000), (3000, 3000, 3000),
    (1640, 3280, 656), (7000, 1400, 1400), (1200, 6400, 800),
    # skinny and deep
    (72, 5120, 5120), (24, 6144, 6144), (48, 14336, 4096), (200, 10240, 4096), (264, 3080, 1032), (333, 5120, 2560),
    (12288, 96, 4096), (9216, 40, 3072), (200, 200, 8192), (384, 640, 10240),
    # rows that are not whole words of 16 bytes
    (1234, 1234, 1234), (500, 700, 900), (3006, 1002, 2002), (1002, 2004, 1502),
)  # fmt: skip

# -- sizes between those of tables

SEED = int(os.environ.get("SEED", "35"))
AROUND = (1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40, 48, 56, 63, 64, 65, 66, 72, 73, 80, 88, 96, 97, 100, 104, 112,
          120, 127, 128, 129, 136, 144, 160, 176, 191, 192, 193, 200, 224, 248, 255, 256, 257, 270, 288,
          300)  # fmt: skip
"""Every residue near the edges of tiles of 64, 128 and 192 rows."""


def drawn(count: int, stream: str, least: int = 64) -> list[Product]:
    """Sizes whose logarithms are uniform: any M, N and K multiples of 8; two of three with K contiguous.

    M and N are `least` or more, N at least 512.
    """
    source = random.Random(f"{SEED} {stream}")

    def one(low: int, high: int) -> int:
        return round(low * (high / low) ** source.random())

    sizes = [(one(least, 8192), one(max(64, least // 8), 1024) * 8, one(64, 1024) * 8) for _ in range(count)]
    return [of_types(size, "NN" if k % 3 == 2 else "NT", "bf16") for k, size in enumerate(sizes)]


WEIGHTS = (3584, 3584), (5120, 5120), (4096, 4096), (10240, 8192)
ROWS = [of_types((m, n, k), "NT", "bf16") for n, k in WEIGHTS for m in AROUND] + drawn(40, "drawn")  # fmt: skip
FEW_TILES = [of_types((m, n, k), "NT", "bf16") for n, k in (*WEIGHTS, (1024, 4096))
             for m in (72, 88, 104, 128, 129, 144, 176, 200, 256, 300)]  # fmt: skip
KINDS = [
    *(of_types(size, "NT", "bf16") for size in (
        (129, 3584, 3584), (200, 3584, 3584), (232, 3584, 3584), (136, 5120, 5120), (176, 5120, 5120),
        (208, 5120, 5120), (300, 5120, 5120), (144, 10240, 8192), (300, 10240, 8192), (200, 4096, 4096),
        (144, 6144, 4096), (280, 2560, 6144))),
    *(of_types(size, "NT", *F8) for size in (
        (64, 5120, 5120), (144, 4096, 14336), (200, 5120, 5120), (300, 6144, 4096), *square(1552, 3344))),
]  # fmt: skip
THREE_GROUPS = [
    *(of_types(size, layouts, "bf16") for size in square(5928) for layouts in ("NN", "NT")),
    *drawn(200, "three groups", 1504),
]  # fmt: skip
CANDIDATES = drawn(100, "candidates")
