//===- TransformOps.cpp - Layouts in transform scripts ----------*- C++ -*-===//

#include "LegoMLIR/TransformOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace lego;

#define GET_OP_CLASSES
#include "LegoMLIR/LegoTransformOps.cpp.inc"

namespace {

class LegoTransforms
    : public transform::TransformDialectExtension<LegoTransforms> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LegoTransforms)

  void init() {
    declareDependentDialect<LegoDialect>();
    declareGeneratedDialect<LegoDialect>();
    declareGeneratedDialect<arith::ArithDialect>();
    declareGeneratedDialect<gpu::GPUDialect>();
    declareGeneratedDialect<memref::MemRefDialect>();
    registerTransformOps<
#define GET_OP_LIST
#include "LegoMLIR/LegoTransformOps.cpp.inc"
        >();
  }
};

} // namespace

void lego::registerLegoTransforms(DialectRegistry &registry) {
  registry.addExtensions<LegoTransforms>();
}

std::array<Value, 3> lego::getAxes(const gpu::KernelDim3 &values) {
  return {values.x, values.y, values.z};
}

SmallVector<int64_t> lego::getConstants(const gpu::KernelDim3 &values) {
  SmallVector<int64_t> constants;
  for (Value value : getAxes(values)) {
    APInt constant;
    if (!matchPattern(value, m_ConstantInt(&constant)))
      return {};
    constants.push_back(constant.getSExtValue());
  }
  return constants;
}

//===----------------------------------------------------------------------===//
// relayout
//===----------------------------------------------------------------------===//

std::string lego::findObstacle(memref::AllocOp alloc, LayoutAttr layout) {
  MemRefType type = alloc.getType();
  if (!type.hasStaticShape() || !type.getLayout().isIdentity())
    return "the allocation needs a static shape and the identity layout";
  if (layout) {
    auto sizes = layout.getConstantSizes();
    if (!sizes || ArrayRef<int64_t>(*sizes) != type.getShape()) {
      std::string text;
      llvm::raw_string_ostream os(text);
      os << "the sizes of the layout must be those of the allocation, [";
      llvm::interleaveComma(type.getShape(), os);
      os << ']';
      return text;
    }
  }
  auto isPlainVector = [&](VectorType vector) {
    return vector.getRank() == 1 && !vector.isScalable();
  };
  for (Operation *user : alloc->getUsers()) {
    bool supported =
        llvm::TypeSwitch<Operation *, bool>(user)
            .Case<memref::LoadOp, memref::DeallocOp>([](auto) { return true; })
            .Case([&](memref::StoreOp op) {
              return op.getValueToStore() != alloc.getResult();
            })
            .Case([&](vector::LoadOp op) {
              return isPlainVector(op.getVectorType());
            })
            .Case([&](vector::StoreOp op) {
              return isPlainVector(op.getVectorType());
            })
            .Default([](Operation *) { return false; });
    if (!supported)
      return ("it is used by " + user->getName().getStringRef() +
              ", which is not a load or store")
          .str();
  }
  return "";
}

memref::AllocOp lego::relayout(RewriterBase &rewriter, memref::AllocOp alloc,
                               LayoutAttr layout) {
  MemRefType type = alloc.getType();
  auto flat = MemRefType::get(
      ArrayRef<int64_t>{*layout.getConstantPositions()}, type.getElementType(),
      MemRefLayoutAttrInterface(), type.getMemorySpace());
  rewriter.setInsertionPoint(alloc);
  auto replacement = memref::AllocOp::create(rewriter, alloc.getLoc(), flat,
                                             alloc.getAlignmentAttr());
  replacement->setDiscardableAttrs(alloc->getDiscardableAttrDictionary());
  auto viewType = ViewType::get(alloc.getContext(), flat, layout);
  Value view = ViewOp::create(rewriter, alloc.getLoc(), viewType, replacement,
                              ValueRange());
  for (Operation *user : llvm::make_early_inc_range(alloc->getUsers())) {
    rewriter.setInsertionPoint(user);
    Location loc = user->getLoc();
    llvm::TypeSwitch<Operation *>(user)
        .Case([&](memref::LoadOp op) {
          rewriter.replaceOpWithNewOp<LoadOp>(op, op.getType(), view,
                                              op.getIndices());
        })
        .Case([&](memref::StoreOp op) {
          StoreOp::create(rewriter, loc, op.getValueToStore(), view,
                          op.getIndices());
          rewriter.eraseOp(op);
        })
        .Case([&](vector::LoadOp op) {
          rewriter.replaceOpWithNewOp<VectorLoadOp>(op, op.getVectorType(),
                                                    view, op.getIndices());
        })
        .Case([&](vector::StoreOp op) {
          VectorStoreOp::create(rewriter, loc, op.getValueToStore(), view,
                                op.getIndices());
          rewriter.eraseOp(op);
        })
        .Case([&](memref::DeallocOp op) {
          rewriter.replaceOpWithNewOp<memref::DeallocOp>(op, replacement);
        });
  }
  rewriter.replaceOp(alloc, replacement);
  return replacement;
}

static memref::AllocOp asAllocation(Operation *target) {
  return dyn_cast<memref::AllocOp>(target);
}

DiagnosedSilenceableFailure
lego::RelayoutOp::applyToOne(transform::TransformRewriter &rewriter,
                             Operation *target,
                             transform::ApplyToEachResultList &results,
                             transform::TransformState &) {
  auto alloc = asAllocation(target);
  std::string obstacle = alloc ? findObstacle(alloc, getLayout())
                               : "the target must be a memref.alloc";
  if (!obstacle.empty()) {
    auto error = emitSilenceableError() << "cannot relay: " << obstacle;
    error.attachNote(target->getLoc()) << "the target";
    return error;
  }
  results.push_back(relayout(rewriter, alloc, getLayout()));
  return DiagnosedSilenceableFailure::success();
}

//===----------------------------------------------------------------------===//
// swizzle
//===----------------------------------------------------------------------===//

DiagnosedSilenceableFailure
lego::SwizzleOp::applyToOne(transform::TransformRewriter &rewriter,
                            Operation *target,
                            transform::ApplyToEachResultList &results,
                            transform::TransformState &) {
  auto alloc = asAllocation(target);
  auto space = alloc ? dyn_cast_or_null<gpu::AddressSpaceAttr>(
                           alloc.getType().getMemorySpace())
                     : gpu::AddressSpaceAttr();
  bool shared = space && space.getValue() == gpu::AddressSpace::Workgroup;
  std::string obstacle =
      shared ? findObstacle(alloc, {})
             : "the target must be a memref.alloc in "
               "#gpu.address_space<workgroup>";
  SharedLayout chosen;
  if (obstacle.empty())
    chosen = chooseSharedLayout(alloc, obstacle);
  if (!obstacle.empty()) {
    auto error = emitSilenceableError() << "cannot choose a layout: " << obstacle;
    error.attachNote(target->getLoc()) << "the target";
    return error;
  }
  if (!chosen.layout) {
    results.push_back(alloc);
    return DiagnosedSilenceableFailure::success();
  }
  alloc.emitRemark() << "relaid by " << chosen.layout << ": "
                     << chosen.wavefronts << " wavefronts of a warp, in rows "
                     << chosen.rowMajor;
  results.push_back(relayout(rewriter, alloc, chosen.layout));
  return DiagnosedSilenceableFailure::success();
}

//===----------------------------------------------------------------------===//
// order
//===----------------------------------------------------------------------===//

/// The constant grid of a launch or a kernel; empty if it is not known.
static SmallVector<int64_t> gridOf(Operation *target) {
  if (auto launch = dyn_cast<gpu::LaunchOp>(target))
    return getConstants(launch.getGridSizeOperandValues());
  auto function = dyn_cast<gpu::GPUFuncOp>(target);
  auto known = function ? function.getKnownGridSize() : std::nullopt;
  return known ? SmallVector<int64_t>(known->begin(), known->end())
               : SmallVector<int64_t>();
}

/// The values of block ids in a launch or a kernel, one list for each axis.
static SmallVector<SmallVector<Value>> blockIdsOf(Operation *target) {
  SmallVector<SmallVector<Value>> ids(3);
  if (auto launch = dyn_cast<gpu::LaunchOp>(target))
    for (auto [axis, id] : llvm::zip(ids, getAxes(launch.getBlockIds())))
      axis.push_back(id);
  target->walk([&](gpu::BlockIdOp op) {
    ids[unsigned(op.getDimension())].push_back(op.getResult());
  });
  return ids;
}

/// Why changing the block ids is not enough to reorder a kernel; empty if it
/// is.
static std::string findOrderObstacle(Operation *target) {
  auto launch = dyn_cast<gpu::LaunchOp>(target);
  auto function = dyn_cast<gpu::GPUFuncOp>(target);
  bool clusters = launch ? launch.hasClusterSize()
                         : function.getKnownClusterSize().has_value();
  if (clusters)
    return "the blocks of a cluster must stay together";
  std::string obstacle;
  target->walk([&](Operation *op) {
    if (isa<gpu::GlobalIdOp, gpu::ClusterIdOp, gpu::ClusterBlockIdOp>(op))
      obstacle = (op->getName().getStringRef() +
                  " is not reordered; compute it from gpu.block_id")
                     .str();
  });
  return obstacle;
}

DiagnosedSilenceableFailure
lego::OrderOp::applyToOne(transform::TransformRewriter &rewriter,
                          Operation *target,
                          transform::ApplyToEachResultList &results,
                          transform::TransformState &) {
  SmallVector<int64_t> grid = gridOf(target);
  auto sizes = getLayout().getConstantSizes();
  bool fits = !grid.empty() && sizes && sizes->size() <= 3;
  for (unsigned axis = 0; fits && axis < 3; ++axis)
    fits = grid[axis] == (axis < sizes->size() ? (*sizes)[axis] : 1);
  // The product of a layout's sizes does not overflow; that of a grid may.
  int64_t blocks = 1;
  for (int64_t n : fits ? *sizes : SmallVector<int64_t>())
    blocks *= n;
  if (!fits || getLayout().getConstantPositions() != blocks) {
    auto error = emitSilenceableError()
                 << "the target must be a gpu.launch with constant grid sizes or "
                    "a gpu.func with known_grid_size, and the layout must have "
                    "its sizes (x, y, z) and one position for each block";
    error.attachNote(target->getLoc()) << "the target, whose grid is [" << grid
                                       << "]";
    return error;
  }
  std::string obstacle = findOrderObstacle(target);
  if (!obstacle.empty()) {
    auto error = emitSilenceableError() << "cannot reorder the blocks: " << obstacle;
    error.attachNote(target->getLoc()) << "the target";
    return error;
  }
  auto ids = blockIdsOf(target);
  rewriter.setInsertionPointToStart(&target->getRegion(0).front());
  Location loc = target->getLoc();
  unsigned rank = sizes->size();
  Value number;
  for (unsigned axis = rank; axis-- > 0;) {
    Value id = gpu::BlockIdOp::create(rewriter, loc,
                                      static_cast<gpu::Dimension>(axis));
    if (!number) {
      number = id;
      continue;
    }
    Value n = arith::ConstantIndexOp::create(rewriter, loc, grid[axis]);
    number = arith::MulIOp::create(rewriter, loc, number, n);
    number = arith::AddIOp::create(rewriter, loc, number, id);
  }
  auto inv = InvOp::create(rewriter, loc, getLayout(), number, ValueRange());
  for (unsigned axis = 0; axis < rank; ++axis)
    for (Value id : ids[axis])
      rewriter.replaceAllUsesWith(id, inv.getResult(axis));
  results.push_back(target);
  return DiagnosedSilenceableFailure::success();
}
