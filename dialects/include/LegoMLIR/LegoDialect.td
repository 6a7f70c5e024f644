//===- LegoDialect.td - The lego dialect -------------------*- tablegen -*-===//

#ifndef LEGO_DIALECT_TD
#define LEGO_DIALECT_TD

include "mlir/IR/OpBase.td"

def Lego_Dialect : Dialect {
  let name = "lego";
  let cppNamespace = "::lego";
  let summary = "Data layouts as bijections between indices and positions";
  let description = [{
    A layout maps the logical index of an element to its position in memory. It
    is an attribute, `#lego.layout<...>`, composed of permutations of tiles as
    in the LEGO paper; `lego.apply` and `lego.inv` evaluate it, and the passes
    lower both to arithmetic that is simplified with the ranges of the indices.
  }];
  let hasConstantMaterializer = 1;
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

#endif // LEGO_DIALECT_TD
