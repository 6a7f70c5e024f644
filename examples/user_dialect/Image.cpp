//===- Image.cpp - The image dialect, its lowering and its plugin ---------===//

#include "LegoMLIR/Lego.h"
#include "LegoMLIR/Passes.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"

#include "ImageDialect.h.inc"

#define GET_OP_CLASSES
#include "ImageOps.h.inc"

namespace image {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#define GEN_PASS_DEF_IMAGETOLEGO
#include "ImagePasses.h.inc"
} // namespace image

#include "ImageDialect.cpp.inc"

void image::ImageDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "ImageOps.cpp.inc"
      >();
}

#define GET_OP_CLASSES
#include "ImageOps.cpp.inc"

namespace {

struct ImageToLego : image::impl::ImageToLegoBase<ImageToLego> {
  void runOnOperation() override {
    getOperation()->walk([](image::ReadOp op) {
      mlir::OpBuilder builder(op);
      mlir::Value position = lego::ApplyOp::create(
          builder, op.getLoc(), builder.getIndexType(), op.getLayout(),
          mlir::ValueRange{op.getRow(), op.getColumn()}, mlir::ValueRange{});
      mlir::Value pixel = mlir::memref::LoadOp::create(builder, op.getLoc(),
                                                       op.getPixels(), position);
      op.replaceAllUsesWith(pixel);
      op.erase();
    });
  }
};

} // namespace

// One plugin registers both dialects and their passes.
extern "C" LLVM_ATTRIBUTE_WEAK ::mlir::DialectPluginLibraryInfo
mlirGetDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "image", "0.1.0",
          [](mlir::DialectRegistry *registry) {
            registry->insert<image::ImageDialect, lego::LegoDialect>();
            image::registerImagePasses();
            lego::registerLegoPasses();
          }};
}
