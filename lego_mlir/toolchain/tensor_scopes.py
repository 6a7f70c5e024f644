"""Scopes of loads and stores, from a promise of the kernel that its tensors are apart.

The launch of a kernel that was traced refuses a tensor that is written and shares memory with another one. Its
`gpu.func` carries the unit attribute `lego.apart`, which a module written by hand may have too. In the stage `nvvm`
each load and store whose address is computed from a tensor gets the scope of that tensor, and is said to touch no scope
of the others: LLVM then keeps what it loaded in a loop over the stores to another tensor, and `early_loads` moves loads
above such stores.

`llvm.noalias` of the arguments would promise more: nobody else changes the memory while the kernel runs, so a barrier
would no longer order what threads of a block exchange through a tensor. Barriers, fences and atomic updates have no
scope and are not passed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Op, Value
from lego_mlir.transforms.kernel_facts import APART_ATTRIBUTE
from lego_mlir.transforms.modules import string_attribute, walk

_DERIVED: Final = frozenset({"llvm.getelementptr", "llvm.addrspacecast"})
_ACCESSES: Final = {"llvm.load": 0, "llvm.store": 1}  # the operand that is the address


def scope_accesses(gpu_module: Op) -> None:
    """Give the accesses of the kernels that promise it the scopes of their tensors."""
    for function in gpu_module.regions[0].blocks[0].operations:
        if function.operation.name == "llvm.func" and APART_ATTRIBUTE in function.operation.attributes:
            _scope(function.operation)


def _scope(function: Op) -> None:
    ir = bindings.load().ir
    arguments = list(function.regions[0].blocks[0].arguments)
    roots: dict[Value, int] = {a: n for n, a in enumerate(arguments) if str(a.type).startswith("!llvm.ptr")}
    accesses: list[tuple[Op, int]] = []
    for operation in walk(function):
        if operation.name in _DERIVED and operation.operands[0] in roots:
            roots[operation.results[0]] = roots[operation.operands[0]]
        elif (position := _ACCESSES.get(operation.name)) is not None and operation.operands[position] in roots:
            accesses.append((operation, roots[operation.operands[position]]))
    touched = sorted({root for _, root in accesses})
    if len(touched) < 2:
        return
    scopes = _scopes(string_attribute(function, "sym_name"), touched)
    for operation, root in accesses:
        others = ", ".join(text for other, text in scopes.items() if other != root)
        operation.attributes["alias_scopes"] = ir.Attribute.parse(f"[{scopes[root]}]")
        operation.attributes["noalias_scopes"] = ir.Attribute.parse(f"[{others}]")


def _scopes(kernel: str, roots: list[int]) -> Mapping[int, str]:
    """The scope of each argument, as text."""
    domain = f'#llvm.alias_scope_domain<id = "{kernel}">'
    return {n: f'#llvm.alias_scope<id = "{kernel}, argument {n}", domain = {domain}>' for n in roots}
