//===- PropagateSpreadPass.cpp - lego-propagate-spread ----------*- C++ -*-===//
//
// Two steps. The first finds a layout for each tile that has none, and changes
// nothing; the second writes the layouts into the types, and makes each operand
// be in the layout that its operation needs.
//
//===----------------------------------------------------------------------===//

#include "LegoMLIR/Limits.h"
#include "LegoMLIR/Passes.h"
#include "LegoMLIR/ThreadEmitter.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

namespace lego {
#define GEN_PASS_DEF_LEGOPROPAGATESPREAD
#include "LegoMLIR/LegoPasses.h.inc"
} // namespace lego

using namespace mlir;
using namespace lego;

/// Bytes that a thread loads at once in a layout of rows.
static constexpr int64_t kAccessBytes = 16;

namespace {

/// The layouts of the tiles of one kernel.
class Propagation {
public:
  Propagation(Operation *kernel, unsigned laneBits,
              std::optional<unsigned> warpBits);

  LogicalResult choose();
  void rewrite();

  int64_t numTiles = 0, numConversions = 0;

private:
  bool isOpen(Value value) const;
  SpreadAttr layoutOf(Value value) const;
  bool assign(Value value, SpreadAttr layout);
  bool tie(ArrayRef<Value> values);
  bool tieControlFlow(Operation *op);
  bool forward(Operation *op);
  bool backward(Operation *op);
  void propagate();
  SpreadAttr rowsOf(RankedTensorType type) const;
  LogicalResult anchorOne(bool &anchored);

  void adapt(Operation *op);
  void adapt(OpOperand &operand, SpreadAttr wanted);
  void adaptReduction(linalg::ReduceOp op);

  Operation *kernel;
  unsigned laneBits;
  std::optional<unsigned> warpBits; // if tiles may be loaded in rows
  SmallVector<Operation *> ops;     // those with tiles, in order
  DenseMap<Value, SpreadAttr> found;
  DenseMap<std::pair<Value, Attribute>, Value> converted;
};

struct LegoPropagateSpread
    : lego::impl::LegoPropagateSpreadBase<LegoPropagateSpread> {
  using LegoPropagateSpreadBase::LegoPropagateSpreadBase;

  void runOnOperation() override;
};

} // namespace

static bool isTile(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && (!tensor.getEncoding() || getSpread(tensor));
}

static bool isTile(Value value) { return isTile(value.getType()); }

static bool isSplatValue(Value value) {
  Operation *op = value.getDefiningOp();
  return op && isSplat(op);
}

Propagation::Propagation(Operation *kernel, unsigned laneBits,
                         std::optional<unsigned> warpBits)
    : kernel(kernel), laneBits(laneBits), warpBits(warpBits) {
  bool first = true;
  kernel->walk<WalkOrder::PreOrder>([&](Operation *op) {
    auto see = [&](Value value) {
      SpreadAttr layout = getSpread(value.getType());
      if (!layout || !first)
        return;
      this->laneBits = layout.getLaneBits();
      this->warpBits = layout.getWarpBits();
      first = false;
    };
    llvm::for_each(op->getResults(), see);
    if (llvm::any_of(op->getResults(), [](Value v) { return isTile(v); }) ||
        llvm::any_of(op->getOperands(), [](Value v) { return isTile(v); }))
      ops.push_back(op);
  });
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

/// Whether a tile takes whatever layout reaches it. A splat has none of its own.
bool Propagation::isOpen(Value value) const {
  return isTile(value) && !getSpread(value.getType()) && !isSplatValue(value) &&
         !found.contains(value);
}

SpreadAttr Propagation::layoutOf(Value value) const {
  if (SpreadAttr layout = getSpread(value.getType()))
    return layout;
  return found.lookup(value);
}

bool Propagation::assign(Value value, SpreadAttr layout) {
  if (!layout || !isOpen(value))
    return false;
  found[value] = layout;
  ++numTiles;
  return true;
}

/// Values that are one variable: the first layout is that of all.
bool Propagation::tie(ArrayRef<Value> values) {
  SpreadAttr layout;
  for (Value value : values)
    if (!layout && isTile(value))
      layout = layoutOf(value);
  bool changed = false;
  for (Value value : values)
    changed |= assign(value, layout);
  return changed;
}

bool Propagation::tieControlFlow(Operation *op) {
  bool changed = false;
  if (auto loop = dyn_cast<scf::ForOp>(op))
    for (auto [init, argument, result, yielded] :
         llvm::zip_equal(loop.getInitArgs(), loop.getRegionIterArgs(),
                         loop.getResults(), loop.getYieldedValues()))
      changed |= tie({argument, result, init, yielded});
  if (auto branch = dyn_cast<scf::IfOp>(op); branch && branch.getNumResults())
    for (auto [result, left, right] : llvm::zip_equal(
             branch.getResults(), branch.thenYield().getResults(),
             branch.elseYield().getResults()))
      changed |= tie({result, left, right});
  return changed;
}

bool Propagation::forward(Operation *op) {
  if (auto convert = dyn_cast<ConvertOp>(op))
    return assign(convert.getResult(), layoutOf(convert.getSource()));
  if (op->getNumResults() != 1 || !isTile(op->getResult(0)) || isSplat(op))
    return false;
  bool changed = false;
  if (auto reduce = dyn_cast<linalg::ReduceOp>(op))
    changed |= tie({reduce->getResult(0), reduce.getInits().front()});
  bool elementwise = OpTrait::hasElementwiseMappableTraits(op);
  if (!elementwise && !isShapeOp(op) && !isa<linalg::ReduceOp>(op))
    return changed;
  for (Value operand : op->getOperands().take_front(
           elementwise ? op->getNumOperands() : 1))
    if (isTile(operand) && layoutOf(operand))
      return changed | assign(op->getResult(0),
                              getForward(op, layoutOf(operand)));
  return changed;
}

bool Propagation::backward(Operation *op) {
  if (auto convert = dyn_cast<ConvertOp>(op))
    return assign(convert.getSource(), layoutOf(convert.getResult()));
  if (op->getNumResults() != 1 || !layoutOf(op->getResult(0)))
    return false;
  SpreadAttr layout = layoutOf(op->getResult(0));
  if (isShapeOp(op))
    return assign(op->getOperand(0), getBackward(op, layout));
  bool changed = false;
  if (OpTrait::hasElementwiseMappableTraits(op))
    for (Value operand : op->getOperands())
      changed |= assign(operand, layout);
  return changed;
}

/// Forward in the order of the program until nothing changes, then one step
/// backward, and again.
void Propagation::propagate() {
  bool changed = true;
  while (changed) {
    changed = false;
    for (Operation *op : ops)
      changed |= forward(op) | tieControlFlow(op);
    for (Operation *op : llvm::reverse(ops))
      if (!changed)
        changed = backward(op);
  }
}

/// The elements in row-major order over a thread's access, lanes, warps and the
/// other registers.
SpreadAttr Propagation::rowsOf(RankedTensorType type) const {
  unsigned bits = llvm::Log2_64(type.getNumElements());
  unsigned threads = laneBits + *warpBits, access = 0;
  int64_t width = type.getElementType().isIntOrFloat()
                      ? llvm::divideCeil(type.getElementTypeBitWidth(), 8)
                      : 8;
  while (access + threads < bits && (width << (access + 1)) <= kAccessBytes &&
         type.getRank() && int64_t(bit(access + 1)) <= type.getShape().back())
    ++access;
  SpreadMap map{std::max(access, bits > threads ? bits - threads : 0), laneBits,
                *warpBits, {}};
  for (unsigned k = 0; k < map.registers; ++k)
    map.columns.push_back(bit(k < access ? k : k + threads));
  for (unsigned k = 0; k < threads; ++k)
    map.columns.push_back(access + k < bits ? bit(access + k) : 0);
  return getAttr(type.getContext(), map, type.getShape());
}

/// Lets the first tile that nothing reaches start in rows.
LogicalResult Propagation::anchorOne(bool &anchored) {
  for (Operation *op : ops)
    for (Value result : op->getResults()) {
      if (!isOpen(result))
        continue;
      auto type = cast<RankedTensorType>(result.getType());
      if (!isa<TileLoadOp>(op) || !warpBits)
        return op->emitOpError()
               << "has a tile that no layout reaches; give one to a tile_load or "
                  "lego.convert, or the pass the number of 'warps'";
      assign(result, rowsOf(type));
      anchored = true;
      return success();
    }
  return success();
}

/// Whether an operation and its tiles can be spread.
static LogicalResult checkOperation(Operation *op) {
  auto reduce = dyn_cast<linalg::ReduceOp>(op);
  if (!isSplat(op) && !isShapeOp(op) &&
      !OpTrait::hasElementwiseMappableTraits(op) &&
      !(reduce && reduce.getInputs().size() == 1) &&
      !isa<ConvertOp, TileLoadOp, TileStoreOp, scf::ForOp, scf::IfOp,
           scf::YieldOp>(op))
    return op->emitOpError() << "is not supported on spread tiles";
  SmallVector<Type> types(op->getOperandTypes());
  llvm::append_range(types, op->getResultTypes());
  for (Type type : types) {
    if (!isTile(type))
      continue;
    auto shape = cast<RankedTensorType>(type).getShape();
    bool whole = llvm::all_of(
        shape, [](int64_t n) { return n > 0 && llvm::isPowerOf2_64(n); });
    unsigned bits = 0;
    for (int64_t n : whole ? shape : ArrayRef<int64_t>())
      bits += llvm::Log2_64(n);
    if (!whole || bits > kMaxRegisterBits + kMaxThreadBits)
      return op->emitOpError()
             << "has a tile whose sizes are not powers of two, or too large: "
             << type;
  }
  return success();
}

LogicalResult Propagation::choose() {
  for (Operation *op : ops)
    if (failed(checkOperation(op)))
      return failure();
  bool anchored = true;
  while (anchored) {
    anchored = false;
    propagate();
    if (failed(anchorOne(anchored)))
      return failure();
  }
  for (Operation *op : ops) {
    for (Value result : op->getResults())
      if (isTile(result) && layoutOf(result) &&
          layoutOf(result).getRegisterBits() > kMaxRegisterBits)
        return op->emitOpError() << "has a tile with more than "
                                 << (1 << kMaxRegisterBits)
                                 << " elements in one thread";
    if (auto store = dyn_cast<TileStoreOp>(op))
      if (isSplatValue(store.getValue()) && !warpBits)
        return op->emitOpError() << "stores a tile that no layout reaches; give "
                                    "the pass the number of 'warps'";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Rewriting
//===----------------------------------------------------------------------===//

/// The same number in every element, in the layout of a type.
static Value splatAs(Operation *op, RankedTensorType type, OpBuilder &builder) {
  Location loc = op->getLoc();
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](tensor::SplatOp splat) -> Value {
        return tensor::SplatOp::create(builder, loc, splat.getInput(), type);
      })
      .Case([&](linalg::FillOp fill) -> Value {
        return tensor::SplatOp::create(builder, loc, fill.getInputs().front(), type);
      })
      .Case([&](tensor::EmptyOp) -> Value {
        return tensor::EmptyOp::create(builder, loc, type.getShape(),
                                       type.getElementType(), type.getEncoding());
      })
      .Default([&](Operation *) -> Value {
        SplatElementsAttr value;
        matchPattern(op, m_Constant(&value));
        return arith::ConstantOp::create(builder, loc, value.resizeSplat(type));
      });
}

void Propagation::adapt(OpOperand &operand, SpreadAttr wanted) {
  Value value = operand.get();
  auto type = withSpread(value.getType(), wanted);
  if (value.getType() == type)
    return;
  OpBuilder builder(operand.getOwner());
  if (isSplatValue(value)) {
    operand.set(splatAs(value.getDefiningOp(), type, builder));
    return;
  }
  Value &result = converted[{value, wanted}];
  if (!result) {
    builder.setInsertionPointAfterValue(value);
    result = ConvertOp::create(builder, value.getLoc(), type, value);
    ++numConversions;
  }
  operand.set(result);
}

/// A reduction's result is where its operand's layout puts it; a wanted layout
/// is converted to afterwards.
void Propagation::adaptReduction(linalg::ReduceOp op) {
  Value source = op.getInputs().front(), result = op->getResult(0);
  auto sourceType = cast<RankedTensorType>(source.getType());
  SpreadMap map = getMap(sourceType);
  SmallVector<int64_t> reducedShape(sourceType.getShape());
  bool mixed = llvm::any_of(map.columns, [&](Bits element) {
    bool kept = false, reduced = false;
    for (auto [axis, i] : llvm::enumerate(split(element, reducedShape)))
      (llvm::is_contained(op.getDimensions(), int64_t(axis)) ? reduced : kept) |=
          i != 0;
    return kept && reduced;
  });
  if (mixed)
    adapt(op->getOpOperand(0), rowsOf(sourceType));
  SpreadAttr natural =
      getForward(op, getSpread(op.getInputs().front().getType()));
  SpreadAttr wanted = getSpread(result.getType());
  adapt(op->getOpOperand(1), natural);
  if (natural == wanted)
    return;
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  Type type = result.getType();
  result.setType(withSpread(type, natural));
  auto convert = ConvertOp::create(builder, op.getLoc(), type, result);
  ++numConversions;
  result.replaceAllUsesExcept(convert, convert);
}

void Propagation::adapt(Operation *op) {
  if (isSplat(op))
    return;
  if (auto reduce = dyn_cast<linalg::ReduceOp>(op))
    return adaptReduction(reduce);
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    for (auto [init, result] :
         llvm::zip_equal(loop.getInitArgsMutable(), loop.getResults()))
      if (isTile(result))
        adapt(init, getSpread(result.getType()));
  } else if (auto yield = dyn_cast<scf::YieldOp>(op)) {
    for (auto [operand, result] :
         llvm::zip_equal(yield->getOpOperands(), yield->getParentOp()->getResults()))
      if (isTile(result))
        adapt(operand, getSpread(result.getType()));
  } else if (auto store = dyn_cast<TileStoreOp>(op)) {
    if (isSplatValue(store.getValue()))
      adapt(op->getOpOperand(0), rowsOf(store.getValue().getType()));
  } else if (auto convert = dyn_cast<ConvertOp>(op)) {
    if (isSplatValue(convert.getSource()))
      adapt(op->getOpOperand(0), getSpread(convert.getType()));
  } else if (op->getNumResults() == 1 && isTile(op->getResult(0))) {
    SpreadAttr result = getSpread(op->getResult(0).getType());
    if (OpTrait::hasElementwiseMappableTraits(op)) {
      for (OpOperand &operand : op->getOpOperands())
        if (isTile(operand.get()))
          adapt(operand, result);
    } else if (isShapeOp(op)) {
      SpreadAttr source = getSpread(op->getOperand(0).getType());
      if (!source || !isInThread(op))
        adapt(op->getOpOperand(0), getBackward(op, result));
      if (!isa<linalg::TransposeOp, linalg::BroadcastOp>(op))
        return;
      // The destination's elements are not read.
      OpBuilder builder(op);
      auto type = cast<RankedTensorType>(op->getResult(0).getType());
      op->setOperand(1, tensor::EmptyOp::create(builder, op->getLoc(),
                                                type.getShape(),
                                                type.getElementType(), result));
    }
  }
}

void Propagation::rewrite() {
  for (auto [value, layout] : found)
    value.setType(withSpread(value.getType(), layout));
  for (Operation *op : ops)
    adapt(op);
  for (Operation *op : llvm::reverse(ops)) {
    auto convert = dyn_cast<ConvertOp>(op);
    if (convert && convert.getSource().getType() == convert.getType())
      convert.getResult().replaceAllUsesWith(convert.getSource());
    if ((convert || isSplat(op)) && op->use_empty())
      op->erase();
  }
}

void LegoPropagateSpread::runOnOperation() {
  if (!llvm::isPowerOf2_32(lanes) || lanes > bit(kMaxLaneBits) ||
      (warps && !llvm::isPowerOf2_32(warps)) ||
      uint64_t(lanes) * warps > bit(kMaxThreadBits)) {
    emitError(getOperation()->getLoc())
        << "lego-propagate-spread: lanes and warps are powers of two, at most 64 "
           "lanes and 1024 threads, got "
        << lanes.getValue() << " and " << warps.getValue();
    return signalPassFailure();
  }
  SmallVector<Operation *> kernels;
  getOperation()->walk([&](Operation *op) {
    if (isa<gpu::LaunchOp, gpu::GPUFuncOp>(op))
      kernels.push_back(op);
  });
  for (Operation *kernel : kernels) {
    std::optional<unsigned> warpBits;
    if (warps)
      warpBits = llvm::Log2_32(warps);
    Propagation propagation(kernel, llvm::Log2_32(lanes), warpBits);
    if (failed(propagation.choose()))
      return signalPassFailure();
    propagation.rewrite();
    numTiles += propagation.numTiles;
    numConversions += propagation.numConversions;
  }
}
