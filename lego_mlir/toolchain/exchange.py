"""Pass LLVM IR from one LLVM to another: the MLIR bindings write it, and llvmlite, of another version, reads it.

The two exchange text, with constants spelled by `literals`. Before the first module, one probe checks that the two
versions are compatible: every kind of constant must come out of llvmlite with the bits that went in.

>>> from lego_mlir.transforms import modules
>>> with modules.session():
...     module = modules.parse("llvm.func @f() -> f32 { %0 = llvm.mlir.constant(0.1 : f32) : f32 llvm.return %0 : f32}")
...     print(translate(module.operation).splitlines()[4])
  ret float 0x3FB99999A0000000
"""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from typing import TYPE_CHECKING, Final

from lego_mlir import bindings
from lego_mlir.errors import DependencyError
from lego_mlir.toolchain import literals, llvm
from lego_mlir.transforms import modules

if TYPE_CHECKING:
    from lego_mlir.aliases import Op

# Type, bits as MLIR writes them, and what llvmlite must have read: a number that no decimal gives exactly, a signaling
# NaN with a payload, infinity, negative zero, the smallest denormal.
_CONSTANTS: Final = {
    "f16": ("half", ("2E66", "7C01", "FC00", "8000", "0001")),
    "bf16": ("bfloat", ("3DCD", "FF81", "7F80", "8000", "0001")),
    "f32": ("float", ("3DCCCCCD", "3FB504F3", "7FA00001", "FF800000", "80000000", "00000001")),
    "f64": ("double", ("3FB999999999999A", "7FF0000000000001", "8000000000000000", "0000000000000001")),
}


def translate(operation: Op) -> str:
    """The LLVM IR text of a module in the LLVM dialect, for any version of LLVM. Raises DependencyError where the
    llvmlite that is installed would read other constants in it. Runs inside a `modules.session`."""
    if importlib.util.find_spec("llvmlite") is not None:
        _check_constants()
    return _text(operation)


def _text(operation: Op) -> str:
    return literals.portable(bindings.load().dialect("llvm").translate_module_to_llvmir(operation))


@cache
def _check_constants() -> None:
    """Send every kind of constant from the bindings to llvmlite. Raises DependencyError if one does not arrive."""
    for mlir, (kind, constants) in _CONSTANTS.items():
        elements = ", ".join(f"0x{bits}" for bits in constants)
        count = len(constants)
        with modules.session():
            module = modules.parse(
                f"llvm.mlir.global @each(dense<[{elements}]> : tensor<{count}x{mlir}>) : !llvm.array<{count} x {mlir}>"
            )
            text = _text(module.operation)
        try:
            read = str(llvm.parse(text))
        except llvm.LLVMError as error:
            raise _incompatible(f"{kind} constants: {error}") from error
        found = re.search(r"@each = .*?\[(?:.*?)\] \[(.*)\]", read)
        expected = [literals.TYPES[kind].spelled(int(bits, 16)) for bits in constants]
        arrived = [_bits(word, kind) for word in found[1].split(", ")] if found else []
        if arrived != expected:
            raise _incompatible(f"{kind} constants {expected} arrive as {arrived}")


def _bits(typed: str, kind: str) -> str:
    """A constant as llvmlite printed it, `float 1.000000e+00`, by its bits."""
    word = literals.portable(typed).split()[-1]
    return word if word.startswith("0x") else literals.TYPES[kind].spelled(literals.TYPES[kind].nearest(word))


def _incompatible(what: str) -> DependencyError:
    return DependencyError(
        f"the LLVM IR that the MLIR bindings write ({bindings.load().version}) is not what llvmlite reads "
        f"({llvm.version()}, LLVM {llvm.llvm_version()}): {what}\n"
        "install a pair of neighbouring LLVM versions: pip install --upgrade torch-mlir llvmlite"
    )
