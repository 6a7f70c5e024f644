//===- Image.td - A user's dialect that addresses pixels by a layout ------===//

include "LegoMLIR/LegoAttrs.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Pass/PassBase.td"

def Image_Dialect : Dialect {
  let name = "image";
  let cppNamespace = "::image";
  let summary = "Images whose pixels are stored in the order of a layout";
}

def Image_ReadOp : Op<Image_Dialect, "read", [
    TypesMatchWith<"the result is an element of the memref", "pixels", "pixel",
                   "::llvm::cast<::mlir::MemRefType>($_self).getElementType()">]> {
  let summary = "The pixel at a row and a column";
  let arguments = (ins Arg<MemRefRankOf<[AnyType], [1]>, "", [MemRead]>:$pixels,
                       Index:$row, Index:$column, Lego_LayoutAttr:$layout);
  let results = (outs AnyType:$pixel);
  let assemblyFormat = [{
    $pixels `[` $row `,` $column `]` `stored` `as` `(` qualified($layout) `)`
    attr-dict `:` type($pixels)
  }];
}

def ImageToLego : Pass<"image-to-lego"> {
  let summary = "Replace image.read by lego.apply and memref.load";
  let dependentDialects = ["::lego::LegoDialect", "::mlir::memref::MemRefDialect"];
}
