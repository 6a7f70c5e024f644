//===- Dialect.cpp - Registration of the dialect ----------------*- C++ -*-===//

#include "LegoMLIR/Lego.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace lego;

#include "LegoMLIR/LegoDialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "LegoMLIR/LegoAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "LegoMLIR/LegoTypes.cpp.inc"

void LegoDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "LegoMLIR/LegoAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "LegoMLIR/LegoTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "LegoMLIR/LegoOps.cpp.inc"
      >();
}

/// Folded positions, indices and masks.
Operation *LegoDialect::materializeConstant(OpBuilder &builder, Attribute value,
                                            Type type, Location loc) {
  return arith::ConstantOp::materialize(builder, value, type, loc);
}

LogicalResult ViewType::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                               MemRefType memref, LayoutAttr layout) {
  if (!memref.getLayout().isIdentity())
    return emitError() << "a view needs a memref with the identity layout, got "
                       << memref;
  auto positions = layout.getConstantPositions();
  if (positions && memref.hasStaticShape() &&
      memref.getNumElements() < *positions)
    return emitError() << "the memref has " << memref.getNumElements()
                       << " elements, the layout needs " << *positions;
  return success();
}
