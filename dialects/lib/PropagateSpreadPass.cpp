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
  bool tieOperand(Operation *op);
  bool tieControlFlow(Operation *op);
  bool forward(Operation *op);
  bool backward(Operation *op);
  void propagate();
  SpreadAttr rowsOf(RankedTensorType type) const;
  LogicalResult anchorProducts();
  LogicalResult anchorOne(bool &anchored);
  FragmentLayouts fragmentsOf(MmaOp op) const;
  bool isMixed(linalg::ReduceOp op) const;
  LogicalResult checkChoice(Operation *op) const;

  void adapt(Operation *op);
  void adapt(OpOperand &operand, SpreadAttr wanted);
  void adaptReduction(linalg::ReduceOp op);
  void adaptProduct(MmaOp op);
  void convertAfter(Operation *op, Type type);

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

static bool isFree(Value value) {
  Operation *op = value.getDefiningOp();
  return op && fitsAnyLayout(op);
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
    llvm::for_each(op->getOperands(), see);
    llvm::for_each(op->getResults(), see);
    if (llvm::any_of(op->getResults(), [](Value v) { return isTile(v); }) ||
        llvm::any_of(op->getOperands(), [](Value v) { return isTile(v); }))
      ops.push_back(op);
  });
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

/// Whether a tile takes whatever layout reaches it. A splat is remade in each.
bool Propagation::isOpen(Value value) const {
  return isTile(value) && !getSpread(value.getType()) && !isFree(value) &&
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
  if (auto loop = dyn_cast<scf::WhileOp>(op)) {
    for (auto [init, before, yielded] :
         llvm::zip_equal(loop.getInits(), loop.getBeforeArguments(),
                         loop.getYieldOp().getResults()))
      changed |= tie({before, init, yielded});
    for (auto [passed, after, result] :
         llvm::zip_equal(loop.getConditionOp().getArgs(), loop.getAfterArguments(),
                         loop.getResults()))
      changed |= tie({after, result, passed});
  }
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
  if (op->getNumResults() != 1 || !isTile(op->getResult(0)) || fitsAnyLayout(op))
    return false;
  bool changed = false;
  if (auto reduce = dyn_cast<linalg::ReduceOp>(op))
    changed |= tie({reduce->getResult(0), reduce.getInits().front()});
  bool elementwise = isElementwise(op);
  if (!elementwise && !isShapeOp(op) && !isa<linalg::ReduceOp>(op))
    return changed;
  for (Value operand : op->getOperands().take_front(
           elementwise ? op->getNumOperands() : 1))
    if (isTile(operand) && layoutOf(operand))
      return changed | assign(op->getResult(0),
                              getForward(op, layoutOf(operand)));
  return changed;
}

/// A tile is where its mask is, and what is added to a product where its result
/// is.
bool Propagation::tieOperand(Operation *op) {
  if (auto mma = dyn_cast<MmaOp>(op))
    return tie({mma.getResult(), mma.getAcc()});
  if (auto load = dyn_cast<TileLoadOp>(op); load && load.getMask())
    return tie({load.getResult(), load.getMask()});
  if (auto store = dyn_cast<TileStoreOp>(op); store && store.getMask())
    return tie({store.getValue(), store.getMask()});
  return false;
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
  if (isElementwise(op))
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
      changed |= forward(op) | tieOperand(op) | tieControlFlow(op);
    for (Operation *op : llvm::reverse(ops))
      if (!changed)
        changed = backward(op);
  }
}

/// The elements in row-major order over a thread's access, lanes, warps and the
/// other registers.
SpreadAttr Propagation::rowsOf(RankedTensorType type) const {
  // The bits of an element's number that threads may have, and those that end a
  // box.
  SmallVector<Bits> whole, ending;
  unsigned next = 0;
  for (int64_t n : llvm::reverse(type.getShape()))
    for (int64_t size = 1; size < n; size *= 2)
      (llvm::isPowerOf2_64(n) || size < (n & -n) ? whole : ending)
          .push_back(bit(next++));
  unsigned threads = laneBits + *warpBits, access = 0;
  int64_t width = type.getElementType().isIntOrFloat()
                      ? llvm::divideCeil(type.getElementTypeBitWidth(), 8)
                      : 8;
  int64_t row = type.getRank() ? type.getShape().back() : 1;
  while (access + threads < whole.size() &&
         (width << (access + 1)) <= kAccessBytes && int64_t(bit(access + 1)) <= (row & -row))
    ++access;
  SpreadMap map{0, laneBits, *warpBits, {}};
  auto inThreads = ArrayRef<Bits>(whole).drop_front(access).take_front(threads);
  llvm::append_range(map.columns, ArrayRef<Bits>(whole).take_front(access));
  llvm::append_range(map.columns,
                     ArrayRef<Bits>(whole).drop_front(access + inThreads.size()));
  llvm::append_range(map.columns, ending);
  map.registers = map.columns.size();
  llvm::append_range(map.columns, inThreads);
  map.columns.append(threads - inThreads.size(), 0);
  return getAttr(type.getContext(), map, type.getShape());
}

/// Lets the results of products that have no layout yet start in one of the
/// matrix unit.
LogicalResult Propagation::anchorProducts() {
  for (Operation *op : ops) {
    auto mma = dyn_cast<MmaOp>(op);
    if (!mma || !isOpen(mma.getResult()) || getSpread(mma.getAcc().getType()))
      continue;
    RankedTensorType type = mma.getType();
    auto kind = getMmaKind(mma.getA().getType().getElementType(),
                           type.getElementType());
    if (!warpBits)
      return op->emitOpError()
             << "is a product whose layout is open; give its result one by "
                "lego.convert, or the pass the number of 'warps'";
    SpreadAttr layout = getMmaResult(*kind, type, laneBits, *warpBits);
    if (!layout)
      return op->emitOpError() << "is a product of a warp of 32 lanes, got "
                               << bit(laneBits);
    assign(mma.getResult(), layout);
    propagate();
  }
  return success();
}

/// Lets the first tile that nothing reaches start in rows: one that is loaded, or
/// else a function of constants and indices.
LogicalResult Propagation::anchorOne(bool &anchored) {
  for (bool loads : {true, false})
    for (Operation *op : ops)
      for (Value result : op->getResults()) {
        if (!isOpen(result) || isa<TileLoadOp>(op) != loads)
          continue;
        if (!warpBits || !(loads || isElementwise(op) || isShapeOp(op)))
          return op->emitOpError()
                 << "has a tile that no layout reaches; give one to a tile_load "
                    "or lego.convert, or the pass the number of 'warps'";
        assign(result, rowsOf(cast<RankedTensorType>(result.getType())));
        anchored = true;
        return success();
      }
  return success();
}

/// Whether an operation and its tiles can be spread.
static LogicalResult checkOperation(Operation *op) {
  auto reduce = dyn_cast<linalg::ReduceOp>(op);
  if (!fitsAnyLayout(op) && !isShapeOp(op) &&
      !isElementwise(op) && !(reduce && reduce.getInputs().size() == 1) &&
      !isa<ConvertOp, TileLoadOp, TileStoreOp, MmaOp, scf::ForOp, scf::WhileOp,
           scf::IfOp, scf::YieldOp, scf::ConditionOp>(op))
    return op->emitOpError() << "is not supported on spread tiles";
  if (!keepsNumbers(op))
    return op->emitOpError() << "divides a size that is no power of two";
  SmallVector<Type> types(op->getOperandTypes());
  llvm::append_range(types, op->getResultTypes());
  for (Type type : types) {
    if (!isTile(type))
      continue;
    auto shape = cast<RankedTensorType>(type).getShape();
    unsigned bits = 0, most = kMaxRegisterBits + kMaxThreadBits;
    for (int64_t n : shape)
      bits += n > 0 ? std::min(llvm::Log2_64_Ceil(n), most + 1) : most + 1;
    if (bits > most || shape.size() > kMaxRank)
      return op->emitOpError()
             << "has a tile whose sizes are not known, or too large: " << type;
  }
  for (Value operand : op->getOperands())
    if (isTile(operand) && !isFree(operand) && isFromOutside(operand))
      return op->emitOpError() << "has a tile from outside of the kernel; load it "
                                  "by lego.tile_load";
  return success();
}

FragmentLayouts Propagation::fragmentsOf(MmaOp op) const {
  auto chosen = [&](Value value) {
    return withSpread(value.getType(), layoutOf(value));
  };
  return getFragments(chosen(op.getA()), chosen(op.getB()), chosen(op.getResult()));
}

/// Whether a basis of what is reduced moves along axes that are reduced and
/// along others.
bool Propagation::isMixed(linalg::ReduceOp op) const {
  auto type = cast<RankedTensorType>(op.getInputs().front().getType());
  SmallVector<int64_t> shape = getPaddedShape(type.getShape());
  SpreadMap map = getMap(layoutOf(op.getInputs().front()), type.getShape());
  return llvm::any_of(map.columns, [&](Bits element) {
    bool kept = false, reduced = false;
    for (auto [axis, i] : llvm::enumerate(split(element, shape)))
      (llvm::is_contained(op.getDimensions(), int64_t(axis)) ? reduced : kept) |=
          i != 0;
    return kept && reduced;
  });
}

/// That layouts fit into registers, and those of products exist.
LogicalResult Propagation::checkChoice(Operation *op) const {
  SmallVector<SpreadAttr> layouts;
  for (Value result : op->getResults())
    if (isTile(result))
      layouts.push_back(layoutOf(result));
  if (auto mma = dyn_cast<MmaOp>(op)) {
    FragmentLayouts fragments = fragmentsOf(mma);
    if (!fragments.result)
      return op->emitOpError() << "is a product of a warp of 32 lanes, got "
                               << bit(layouts.front().getLaneBits());
    llvm::append_values(layouts, fragments.a, fragments.b, fragments.result);
  }
  if (auto reduce = dyn_cast<linalg::ReduceOp>(op)) {
    Value source = reduce.getInputs().front();
    if (!layoutOf(source) || isMixed(reduce))
      layouts.push_back(rowsOf(cast<RankedTensorType>(source.getType())));
  }
  for (SpreadAttr layout : layouts)
    if (layout && layout.getRegisterBits() > kMaxRegisterBits)
      return op->emitOpError() << "has a tile with more than "
                               << (1 << kMaxRegisterBits)
                               << " elements in one thread";
  if (auto store = dyn_cast<TileStoreOp>(op))
    if (isFree(store.getValue()) && !warpBits)
      return op->emitOpError() << "stores a tile that no layout reaches; give "
                                  "the pass the number of 'warps'";
  return success();
}

LogicalResult Propagation::choose() {
  for (Operation *op : ops)
    if (failed(checkOperation(op)))
      return failure();
  bool anchored = true;
  propagate();
  if (failed(anchorProducts()))
    return failure();
  while (anchored) {
    anchored = false;
    propagate();
    if (failed(anchorOne(anchored)))
      return failure();
  }
  for (Operation *op : ops)
    if (failed(checkChoice(op)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Rewriting
//===----------------------------------------------------------------------===//

/// A tile that fits any layout, in that of a type.
static Value remadeAs(Operation *op, RankedTensorType type, OpBuilder &builder) {
  Location loc = op->getLoc();
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](TileIndexOp index) -> Value {
        return TileIndexOp::create(builder, loc, type, index.getAxis());
      })
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
  if (isFree(value)) {
    operand.set(remadeAs(value.getDefiningOp(), type, builder));
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

/// Gives the result of an operation another type, and converts it back.
void Propagation::convertAfter(Operation *op, Type type) {
  Value result = op->getResult(0);
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  Type wanted = result.getType();
  result.setType(type);
  auto convert = ConvertOp::create(builder, op->getLoc(), wanted, result);
  ++numConversions;
  result.replaceAllUsesExcept(convert, convert);
}

/// A reduction's result is where its operand's layout puts it; a wanted layout
/// is converted to afterwards.
void Propagation::adaptReduction(linalg::ReduceOp op) {
  Value source = op.getInputs().front(), result = op->getResult(0);
  auto sourceType = cast<RankedTensorType>(source.getType());
  if (!getSpread(source.getType()) || isMixed(op))
    adapt(op->getOpOperand(0), rowsOf(sourceType));
  SpreadAttr natural =
      getForward(op, getSpread(op.getInputs().front().getType()));
  SpreadAttr wanted = getSpread(result.getType());
  adapt(op->getOpOperand(1), natural);
  if (natural == wanted)
    return;
  convertAfter(op, withSpread(result.getType(), natural));
}

/// The operands of a product are converted to the layouts of fragments. A result
/// that is wanted in no layout of the matrix unit is converted afterwards.
void Propagation::adaptProduct(MmaOp op) {
  FragmentLayouts fragments = fragmentsOf(op);
  adapt(op->getOpOperand(0), fragments.a);
  adapt(op->getOpOperand(1), fragments.b);
  adapt(op->getOpOperand(2), fragments.result);
  if (fragments.result != getSpread(op.getType()))
    convertAfter(op, withSpread(op.getType(), fragments.result));
}

void Propagation::adapt(Operation *op) {
  if (fitsAnyLayout(op))
    return;
  if (auto reduce = dyn_cast<linalg::ReduceOp>(op))
    return adaptReduction(reduce);
  if (auto mma = dyn_cast<MmaOp>(op))
    return adaptProduct(mma);
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    for (auto [init, result] :
         llvm::zip_equal(loop.getInitArgsMutable(), loop.getResults()))
      if (isTile(result))
        adapt(init, getSpread(result.getType()));
  } else if (auto loop = dyn_cast<scf::WhileOp>(op)) {
    for (auto [init, argument] :
         llvm::zip_equal(loop.getInitsMutable(), loop.getBeforeArguments()))
      if (isTile(argument))
        adapt(init, getSpread(argument.getType()));
  } else if (isa<scf::YieldOp, scf::ConditionOp>(op)) {
    Operation *parent = op->getParentOp();
    ValueRange targets = parent->getResults();
    if (auto loop = dyn_cast<scf::WhileOp>(parent); loop && isa<scf::YieldOp>(op))
      targets = loop.getBeforeArguments();
    auto operands = op->getOpOperands().take_back(targets.size());
    for (auto [operand, target] : llvm::zip_equal(operands, targets))
      if (isTile(target))
        adapt(operand, getSpread(target.getType()));
  } else if (auto store = dyn_cast<TileStoreOp>(op)) {
    if (isFree(store.getValue()) && store.getMask() && !isFree(store.getMask()))
      adapt(op->getOpOperand(0), getSpread(store.getMask().getType()));
    else if (isFree(store.getValue()))
      adapt(op->getOpOperand(0), rowsOf(store.getValue().getType()));
    for (OpOperand &mask : store.getMaskMutable())
      adapt(mask, getSpread(store.getValue().getType()));
  } else if (auto convert = dyn_cast<ConvertOp>(op)) {
    if (isFree(convert.getSource()))
      adapt(op->getOpOperand(0), getSpread(convert.getType()));
  } else if (op->getNumResults() == 1 && isTile(op->getResult(0))) {
    SpreadAttr result = getSpread(op->getResult(0).getType());
    if (auto load = dyn_cast<TileLoadOp>(op)) {
      for (OpOperand &mask : load.getMaskMutable())
        adapt(mask, result);
    } else if (isElementwise(op)) {
      for (OpOperand &operand : op->getOpOperands())
        if (isTile(operand.get()))
          adapt(operand, result);
    } else if (isShapeOp(op)) {
      SpreadAttr source = getSpread(op->getOperand(0).getType());
      if (!source || mayFoldToOperand(op) || !isInThread(op))
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
    if ((convert || fitsAnyLayout(op)) && op->use_empty())
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
