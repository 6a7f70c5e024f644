//===- LegoTypes.td - A memref under a layout --------------*- tablegen -*-===//

#ifndef LEGO_TYPES_TD
#define LEGO_TYPES_TD

include "LegoMLIR/LegoAttrs.td"
include "mlir/IR/BuiltinTypes.td"

def Lego_ViewType : TypeDef<Lego_Dialect, "View"> {
  let mnemonic = "view";
  let summary = "A contiguous memref whose elements a layout addresses";
  let parameters = (ins "::mlir::MemRefType":$memref,
                        "::lego::LayoutAttr":$layout);
  let assemblyFormat = "`<` $memref `,` qualified($layout) `>`";
  let genVerifyDecl = 1;
}

#endif // LEGO_TYPES_TD
