//===- Plugin.cpp - Entry points for mlir-opt -------------------*- C++ -*-===//
//
// The dialect's callback registers the passes as well, so that one flag is
// enough: mlir-opt --load-dialect-plugin=libLegoMLIR.so
//
//===----------------------------------------------------------------------===//

#include "LegoMLIR/Lego.h"
#include "LegoMLIR/Passes.h"
#include "LegoMLIR/TransformOps.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

using namespace mlir;

extern "C" LLVM_ATTRIBUTE_WEAK DialectPluginLibraryInfo
mlirGetDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "lego", LEGO_VERSION,
          [](DialectRegistry *registry) {
            registry->insert<lego::LegoDialect>();
            lego::registerLegoTransforms(*registry);
            lego::registerLegoPasses();
          }};
}

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "lego", LEGO_VERSION,
          [] { lego::registerLegoPasses(); }};
}
