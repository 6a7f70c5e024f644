"""A function that kernels call, as a `func.func` beside the kernel.

    func.func private @<kernel>_<function>(values and indices, then memrefs, then sizes) -> (values and indices)

The trace of a function names the memory and the sizes of its kernel. So both become arguments here, after those of the
function itself, and a call passes what the function uses. Ids of threads and blocks are read again.
"""

from __future__ import annotations

from lego_mlir.expr.nodes import tables_of
from lego_mlir.printers.mlir import MlirPrinter
from lego_mlir.tracing.emit.emit_atomics import AtomicEmitter
from lego_mlir.tracing.emit.emit_module import KernelEmitter, location_of, memref_type
from lego_mlir.tracing.emit.emit_values import ValueEmitter
from lego_mlir.tracing.trace.symbols import expressions, symbols
from lego_mlir.tracing.trace.trace import Buffer, FunctionTrace, Return, Value, accesses_in
from lego_mlir.transforms.called_functions import CALLED


class FunctionEmitter(KernelEmitter):
    """Emits a function that is called, before the kernel that contains the insertion point.

    Its arguments are those of the trace, then the memory that it accesses and the sizes that it uses.
    """

    def __init__(self, caller: KernelEmitter, function: FunctionTrace) -> None:
        trace = caller.trace
        super().__init__(trace, caller.form, caller.tiles_of)
        self.function, self.functions = function, caller.functions
        found = list(expressions(function.body))
        tables = {name for expr in found for name in (table.name for table in tables_of(expr))}
        buffers = [*(p for p in trace.parameters if isinstance(p, Buffer)), *trace.shared]
        used = {access.buffer.name for access in accesses_in(function)} | tables
        self.buffers = [buffer for buffer in buffers if buffer.name in used]
        self.sizes = [size for size in trace.sizes if any(size in expr.free_symbols for expr in found)]
        end = function.body[-1]
        assert isinstance(end, Return)
        self.result_types = [value.mlir if isinstance(value, Value) else "index" for value in end.values]
        self._emit_function()

    def _emit_function(self) -> None:
        ir, function = self.ir, self.function
        types = [p.mlir if isinstance(p, Value) else "index" for p in function.parameters]
        types += [memref_type(b, self.rows.get(b.name)) for b in self.buffers] + ["index"] * len(self.sizes)
        attributes = {
            "sym_name": ir.StringAttr.get(function.name),
            "sym_visibility": ir.StringAttr.get("private"),
            "function_type": ir.TypeAttr.parse(f"({', '.join(types)}) -> ({', '.join(self.result_types)})"),
            "llvm.linkage": ir.Attribute.parse("#llvm.linkage<internal>"),
            CALLED: ir.UnitAttr.get(),
        }
        kernel = ir.InsertionPoint.current.block.owner
        while kernel.operation.parent.name != "gpu.module":
            kernel = kernel.operation.parent
        with ir.InsertionPoint(kernel), location_of(ir, function.source):
            made = ir.Operation.create("func.func", attributes=attributes, regions=1)
            parsed = [ir.Type.parse(t) for t in types]
            entry = made.regions[0].blocks.append(*parsed, arg_locs=[made.location] * len(parsed))
        values = list(entry.arguments)
        count, memory = len(function.parameters), len(function.parameters) + len(self.buffers)
        self._memrefs = {b.name: value for b, value in zip(self.buffers, values[count:memory], strict=True)}
        with ir.InsertionPoint(entry), location_of(ir, function.source):
            sizes = dict(zip(self.sizes, values[memory:], strict=True))
            self.printer = MlirPrinter(sizes, self.trace.ranges, form=self.form, tables=self._memrefs)
            self.compute = ValueEmitter(self.printer.build)
            self.tiles = self.tiles_of(self.printer, self.rows, self.trace.ranges)
            self.atomics = AtomicEmitter(self.printer.build, lambda value: self._values[value.number])
            self._emit_ids(symbols(function.body))
            for parameter, value in zip(function.parameters, values, strict=False):
                if isinstance(parameter, Value):
                    self._values[parameter.number] = value
                else:
                    self.printer.bind(parameter, value)
            self._emit_body(function.body)
