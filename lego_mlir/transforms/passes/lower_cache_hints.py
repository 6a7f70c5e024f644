"""Loads and stores with a hint to the caches, and prefetches, as the instructions that take one.

    %v = vector.load %x[%i] {lego.cache = "cs"} : vector<8xf16>     ld.global.cs.v4.b32 {..}, [p]
    memref.store %v, %y[%i] {lego.cache = "L1::evict_first"}        st.global.L1::evict_first.b32 [p], ..
    memref.prefetch %x[%i], read, locality<2>, data                 prefetch.global.L2 [p]

LLVM has no form for them, so they are inline assembly on words of up to 32 bits. PTX ISA, "ld", "st", "prefetch".
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Op, Type, Value
from lego_mlir.transforms.kernel_facts import element_bytes
from lego_mlir.transforms.modules import string_attribute, walk
from lego_mlir.transforms.passes.base import FunctionPass
from lego_mlir.transforms.passes.element_pointers import pointer_to
from lego_mlir.transforms.passes.operations import create, is_shared

HINT: Final = "lego.cache"
LOADS: Final = ("memref.load", "vector.load")
STORES: Final = ("memref.store", "vector.store")
PREFETCH: Final = "memref.prefetch"
PRIORITIES: Final = 74
"""The PTX version that has eviction priorities, times ten."""
_WORD: Final = 4
_REGISTERS: Final = {1: "h", 2: "h", 4: "r"}
"""LLVM's register class of a word: 8 bits are in a register of 16."""


@dataclass(frozen=True, slots=True)
class LowerCacheHints(FunctionPass):
    """Replaces the accesses with a hint; without `priorities` those that have an eviction priority lose it."""

    priorities: bool = True
    name = "lego-lower-cache-hints"

    def run_on(self, function: Op) -> None:
        for operation in list(walk(function)):
            if operation.name == PREFETCH:
                with operation.location, bindings.load().ir.InsertionPoint(operation):
                    _prefetch(operation)
                operation.erase()
            elif HINT in operation.attributes and (operation.name in LOADS or operation.name in STORES):
                hint = string_attribute(operation, HINT)
                if hint.startswith("L1") and not self.priorities:
                    del operation.attributes[HINT]
                    continue
                with operation.location, bindings.load().ir.InsertionPoint(operation):
                    (_load if operation.name in LOADS else _store)(operation, hint)
                operation.erase()


def _address(memref: Value, indices: list[Value]) -> Value:
    """The address in global memory."""
    there = bindings.load().ir.Type.parse("!llvm.ptr<1>")
    return create("llvm.addrspacecast", [there], [pointer_to(memref, indices)]).results[0]


def _prefetch(operation: Op) -> None:
    memref, *indices = operation.operands
    if is_shared(memref.type):
        return
    level = "L1" if str(operation.attributes["localityHint"]).startswith("3") else "L2"
    facts = {"asm_string": f'"prefetch.global.{level} [$0];"', "constraints": '"l"', "has_side_effects": "unit"}
    create("llvm.inline_asm", [], [_address(memref, indices)], facts)


@dataclass(frozen=True, slots=True)
class AccessWords:
    """A number or vector as the words of an access."""

    type_: Type
    size: int
    count: int

    @classmethod
    def of(cls, type_: Type) -> AccessWords:
        is_vector = isinstance(type_, bindings.load().ir.VectorType)
        element = type_.element_type if is_vector else type_
        size = element_bytes(element) * (prod(type_.shape) if is_vector else 1)
        return cls(type_, min(size, _WORD), max(size // _WORD, 1))

    @property
    def suffix(self) -> str:
        vector = f".v{self.count}" if self.count > 1 else ""
        return f"{vector}.b{8 * self.size}"

    @property
    def register(self) -> str:
        return _REGISTERS[self.size]

    @property
    def word(self) -> Type:
        """The type of a register."""
        return bindings.load().ir.IntegerType.get_signless(8 * max(self.size, 2))

    @property
    def bits(self) -> Type:
        return bindings.load().ir.IntegerType.get_signless(8 * self.size)

    @property
    def whole(self) -> Type:
        """All words as one type of LLVM."""
        return self.bits if self.count == 1 else bindings.load().ir.VectorType.get([self.count], self.bits)

    def listed(self, first: int) -> str:
        """The operands of the assembly from the number `first` on."""
        names = ", ".join(f"${first + n}" for n in range(self.count))
        return f"{{{names}}}" if self.count > 1 else names


def _load(operation: Op, hint: str) -> None:
    ir, words = bindings.load().ir, AccessWords.of(operation.results[0].type)
    memref, *indices = operation.operands
    kinds = ", ".join([str(words.word)] * words.count)
    result = words.word if words.count == 1 else ir.Type.parse(f"!llvm.struct<({kinds})>")
    constraints = [*[f"={words.register}"] * words.count, "l", "~{memory}"]
    facts = {
        "asm_string": f'"ld.global.{hint}{words.suffix} {words.listed(0)}, [${words.count}];"',
        "constraints": f'"{",".join(constraints)}"',
        "has_side_effects": "unit",
    }
    made = create("llvm.inline_asm", [result], [_address(memref, indices)], facts).results[0]
    if words.count > 1:
        parts = [
            create("llvm.extractvalue", [words.word], [made], {"position": f"array<i64: {n}>"}).results[0]
            for n in range(words.count)
        ]
        made = create("vector.from_elements", [words.whole], parts).results[0]
    elif words.word != words.bits:
        made = create("arith.trunci", [words.bits], [made]).results[0]
    operation.results[0].replace_all_uses_with(_cast(made, words.type_))


def _store(operation: Op, hint: str) -> None:
    value, memref, *indices = operation.operands
    words = AccessWords.of(value.type)
    made = _cast(value, words.whole)
    if words.count > 1:
        parts = [
            create("vector.extract", [words.bits], [made], {"static_position": f"array<i64: {n}>"}).results[0]
            for n in range(words.count)
        ]
    else:
        parts = [made if words.word == words.bits else create("arith.extui", [words.word], [made]).results[0]]
    constraints = ["l", *[words.register] * words.count, "~{memory}"]
    facts = {
        "asm_string": f'"st.global.{hint}{words.suffix} [$0], {words.listed(1)};"',
        "constraints": f'"{",".join(constraints)}"',
        "has_side_effects": "unit",
    }
    create("llvm.inline_asm", [], [_address(memref, indices), *parts], facts)


def _cast(value: Value, to: Type) -> Value:
    return value if value.type == to else create("llvm.bitcast", [to], [value]).results[0]
