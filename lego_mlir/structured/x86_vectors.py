"""Vector intrinsics of x86 as C expressions, for registers of 128, 256 and 512 bits.

A vector of `width` elements occupies the smallest register that holds it. A shuffle is printed as the first form that
gives its lanes: a blend, a shuffle within 128-bit lanes, an exchange of halves, a permutation of one register, and
where none does, the general one of the instruction set.

>>> avx2 = Vectors("avx2", "f64")
>>> print(avx2.shuffle("a", "b", (0, 4, 2, 6), 4))
_mm256_shuffle_pd(a, b, 0)
>>> print(avx2.shuffle("a", "b", (0, 5, 2, 7), 4), avx2.shuffle("a", "b", (2, 3, 6, 7), 4))
_mm256_blend_pd(a, b, 10) _mm256_permute2f128_pd(a, b, 49)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lego_mlir.hardware.isa import BYTES_OF, ISAS

REQUIRED: Final[dict[str, tuple[str, ...]]] = {
    "sse2": ("__SSE2__",),
    "avx2": ("__AVX2__", "__FMA__"),
    "avx512": ("__AVX512F__", "__AVX512VL__", "__AVX512DQ__"),
}
"""The macros that a compiler defines where the intrinsics of an instruction set exist."""
Lanes = tuple[int | None, ...]  # of the concatenation of two registers; None: any


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors of one element type in one instruction set, a key of `REQUIRED`."""

    isa: str
    element: str

    @property
    def size(self) -> int:
        return BYTES_OF[self.element]

    def holds(self, width: int) -> bool:
        """Whether a register can hold this number of elements."""
        return width * self.size <= ISAS[self.isa].register_bytes

    def bits(self, width: int) -> int:
        return max(8 * self.size * width, 128)

    def lanes(self, width: int) -> int:
        """The elements of the register of a vector of this width."""
        return self.bits(width) // (8 * self.size)

    def type(self, width: int) -> str:
        return f"__m{self.bits(width)}{'d' if self.size == 8 else ''}"

    def call(self, name: str, width: int, *arguments: object) -> str:
        """The intrinsic `name` on registers of this width."""
        prefix = "_mm" if self.bits(width) == 128 else f"_mm{self.bits(width)}"
        return f"{prefix}_{name}_{'pd' if self.size == 8 else 'ps'}({', '.join(map(str, arguments))})"

    # values
    def zero(self, width: int) -> str:
        return self.call("setzero", width)

    def splat(self, scalar: str, width: int) -> str:
        return self.call("set1", width, scalar)

    def of(self, scalars: Sequence[str], width: int) -> str:
        """A vector of these scalars; lanes beyond its width are zero."""
        rest = ["0"] * (self.lanes(width) - len(scalars))
        return self.call("setr", width, *scalars, *rest)

    def negated(self, value: str, width: int) -> str:
        return self.call("xor", width, value, self.splat("-0.0" if self.size == 8 else "-0.0f", width))

    def multiply_add(self, a: str, b: str, c: str, width: int, negative: bool) -> str:
        """a * b + c, or c - a * b if `negative`."""
        if self.isa != "sse2":
            return self.call("fnmadd" if negative else "fmadd", width, a, b, c)
        return self.call("sub" if negative else "add", width, c, self.call("mul", width, a, b))

    # memory
    def load(self, place: str, width: int) -> str:
        if 8 * self.size * width == 64:
            return f"_mm_loadl_pi(_mm_setzero_ps(), (const __m64 *){place})"
        return self.call("loadu", width, place)

    def store(self, place: str, value: str, width: int) -> str:
        if 8 * self.size * width == 64:
            return f"_mm_storel_pi((__m64 *){place}, {value})"
        return self.call("storeu", width, place, value)

    def masked_load(self, places: Sequence[str], mask: Sequence[bool], rest: str | None, width: int) -> str:
        """The set lanes from their places, the others from `rest`, or zero."""
        if self.isa == "avx512":
            bits = hex(sum(1 << lane for lane, one in enumerate(mask) if one))
            if rest is None:
                return self.call("maskz_loadu", width, bits, places[0])
            return self.call("mask_loadu", width, rest, bits, places[0])
        if self.isa == "avx2":
            loaded = self.call("maskload", width, places[0], self._mask(mask, width))
        else:
            loaded = self.of([f"*({place})" if one else "0" for place, one in zip(places, mask, strict=True)], width)
        if rest is None:
            return loaded
        return self.shuffle(loaded, rest, [lane if one else width + lane for lane, one in enumerate(mask)], width)

    def masked_store(self, places: Sequence[str], mask: Sequence[bool], value: str, width: int) -> list[str]:
        """Statements that store the set lanes."""
        if self.isa == "avx512":
            bits = hex(sum(1 << lane for lane, one in enumerate(mask) if one))
            return [self.call("mask_storeu", width, places[0], bits, value)]
        if self.isa == "avx2":
            return [self.call("maskstore", width, places[0], self._mask(mask, width), value)]
        return [f"*({places[lane]}) = {self.lane(value, lane, width)}" for lane, one in enumerate(mask) if one]

    def _mask(self, mask: Sequence[bool], width: int) -> str:
        """A mask of AVX2: the sign of each lane."""
        return self._integers([-int(one) for one in mask] + [0] * (self.lanes(width) - width), width)

    def _integers(self, values: Sequence[int], width: int) -> str:
        bits = self.bits(width)
        if bits == 128 and self.size == 8:
            return f"_mm_set_epi64x({values[1]}, {values[0]})"
        suffix = "epi32" if self.size == 4 else "epi64" if bits == 512 else "epi64x"
        return f"_mm{'' if bits == 128 else bits}_setr_{suffix}({', '.join(map(str, values))})"

    # lanes
    def lane(self, value: str, lane: int, width: int) -> str:
        low = value if lane == 0 else self.shuffle(value, value, [lane] * width, width)
        return f"{'_mm_cvtsd_f64' if self.size == 8 else '_mm_cvtss_f32'}({self._resized(low, width, 1)})"

    def _resized(self, value: str, width: int, to: int) -> str:
        """The low part of a register, or a larger register with undefined lanes above."""
        old, new = self.bits(width), self.bits(to)
        letter = "d" if self.size == 8 else "s"
        prefix = f"_mm{max(old, new)}"
        return value if old == new else f"{prefix}_castp{letter}{old}_p{letter}{new}({value})"

    def extract(self, value: str, first: int, length: int, width: int) -> str:
        chosen = [*range(first, first + length), *[None] * (width - length)]
        return self._resized(self.shuffle(value, value, chosen, width), width, length)

    def insert(self, part: str, whole: str, first: int, length: int, width: int) -> str:
        wide = self.splat(part, width) if length == 1 else self._resized(part, length, width)
        lanes = [width + lane - first if first <= lane < first + length else lane for lane in range(width)]
        return self.shuffle(whole, wide, lanes, width)

    def shuffle(self, a: str, b: str, lanes: Sequence[int | None], width: int) -> str:
        """The lanes of the concatenation of two vectors."""
        count = self.lanes(width)
        wanted = [lane if lane is None or lane < width else count + lane - width for lane in lanes]
        return self._shuffle(a, b, (*wanted, *[None] * (count - width)), width)

    def _shuffle(self, a: str, b: str, wanted: Lanes, width: int) -> str:
        count, bits = len(wanted), self.bits(width)
        source = [None if lane is None else lane // count for lane in wanted]
        if _matches(wanted, range(count)):
            return a
        if _matches(wanted, range(count, 2 * count)):
            return b
        if self.isa != "sse2" and all(lane is None or lane % count == at for at, lane in enumerate(wanted)):
            chosen = sum(1 << at for at, one in enumerate(source) if one)
            return self.call("mask_blend", width, hex(chosen), a, b) if bits == 512 else self.call(
                "blend", width, a, b, chosen
            )  # fmt: skip
        within = self._within_lanes((a, b), wanted, width)
        if within is not None:
            return within
        if bits == 128:  # four floats from both registers: two pairs, then their even lanes
            pairs = [
                self._within_lanes((a, b), (pair[0], pair[0], pair[1], pair[1]), width)
                for pair in (wanted[:2], wanted[2:])
            ]
            return self.call("shuffle", width, *pairs, 0b1000_1000)
        halves = _halves(wanted) if bits == 256 else None
        if halves is not None:
            return self.call("permute2f128", width, a, b, halves[0] | halves[1] << 4)
        used = {one for one in source if one is not None}
        if len(used) == 1:
            return self._permuted((a, b)[used.pop()], [0 if lane is None else lane % count for lane in wanted], width)
        if bits == 512:
            positions = [0 if lane is None else lane for lane in wanted]
            return self.call("permutex2var", width, a, self._integers(positions, width), b)
        first = tuple(lane if one == 0 else None for lane, one in zip(wanted, source, strict=True))
        second = tuple(lane if one == 1 else None for lane, one in zip(wanted, source, strict=True))
        chosen = sum(1 << at for at, one in enumerate(source) if one)
        return self.call("blend", width, self._shuffle(a, b, first, width), self._shuffle(a, b, second, width), chosen)

    def _within_lanes(self, given: tuple[str, str], wanted: Lanes, width: int) -> str | None:
        """One shuffle within lanes of 128 bits; None if it takes more. The even lanes of doubles (of floats, the lower
        pair) come from one register, the others from one, too; floats do the same in each 128 bits."""
        count, each = len(wanted), 16 // self.size
        first = [at for at in range(count) if at % each < each // 2]
        operands = []
        for side in (first, [at for at in range(count) if at not in first]):
            found = {wanted[at] // count for at in side if wanted[at] is not None}  # type: ignore[operator]
            if len(found) > 1:
                return None
            operands.append(given[found.pop() if found else 0])
        immediate: dict[int, int] = {}  # by position: floats have one for all lanes
        for at, lane in enumerate(wanted):
            if lane is None:
                continue
            if (
                lane % count // each != at // each
                or immediate.setdefault(at % (each if each == 4 else count), lane % each) != lane % each
            ):
                return None
        return self.call("shuffle", width, *operands, sum(lane << (at * (each // 2)) for at, lane in immediate.items()))

    def _permuted(self, value: str, lanes: Sequence[int], width: int) -> str:
        """Any permutation of one register, across its lanes of 128 bits."""
        if self.bits(width) == 256 and self.size == 8:
            return f"_mm256_permute4x64_pd({value}, {sum(lane << (2 * at) for at, lane in enumerate(lanes))})"
        indices = self._integers(lanes, width)
        if self.bits(width) == 256:
            return f"_mm256_permutevar8x32_ps({value}, {indices})"
        return self.call("permutexvar", width, indices, value)


def _matches(wanted: Lanes, lanes: Sequence[int]) -> bool:
    return all(lane is None or lane == one for lane, one in zip(wanted, lanes, strict=True))


def _halves(wanted: Lanes) -> tuple[int, int] | None:
    """The halves of two registers, numbered from 0, of which the lanes are a pair; None if they are not."""
    half = len(wanted) // 2
    found = []
    for part in (wanted[:half], wanted[half:]):
        fitting = [at for at in range(4) if _matches(part, range(at * half, (at + 1) * half))]
        if not fitting:
            return None
        found.append(fitting[0])
    return found[0], found[1]
