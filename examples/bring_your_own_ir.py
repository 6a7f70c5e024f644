"""The printer alone: layouts in MLIR that is built by hand.

    python examples/bring_your_own_ir.py

This example has no kernel of lego-mlir. It builds a module with the MLIR bindings and an unregistered operation,
`mine.store`; the layout only computes the position of element (i, j). The printer takes a value for each symbol, emits
at the current insertion point, and returns the value of the position.
"""

from lego_mlir import bindings, gallery
from lego_mlir.expr.index import index_symbol
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.simplify import simplify
from lego_mlir.printers.mlir import MlirPrinter


def build() -> str:
    mlir = bindings.load()
    ir, func = mlir.ir, mlir.dialect("func")
    i, j = index_symbol("i"), index_symbol("j")
    ranges = {i: Range(0, 32), j: Range(0, 32)}
    position = simplify(gallery.xor_swizzle(32, 32).apply(i, j), ranges).expr

    context = ir.Context()
    context.allow_unregistered_dialects = True  # for `mine`, which is not registered here
    with context, ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            index = ir.IndexType.get()
            function = func.FuncOp("place", ([index, index, ir.F32Type.get()], []))
        with ir.InsertionPoint(function.add_entry_block()):
            row, column, element = function.arguments
            printer = MlirPrinter({i: row, j: column}, ranges, form="affine")
            ir.Operation.create("mine.store", operands=[element, printer.value(position)])
            func.ReturnOp([])
        module.operation.verify()
        return str(module)


if __name__ == "__main__":
    print(build())
