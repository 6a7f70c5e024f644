//===- LowerSpreadPass.cpp - lego-lower-spread ------------------*- C++ -*-===//
//
// First every operation on tiles is checked, with a message that says what to
// do; then the dialect conversion, which cannot fail any more, replaces tiles
// by vectors.
//
//===----------------------------------------------------------------------===//

#include "LegoMLIR/Passes.h"
#include "LegoMLIR/ThreadEmitter.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/Transforms/Patterns.h"
#include "mlir/Transforms/DialectConversion.h"
#include "llvm/Support/MathExtras.h"

namespace lego {
#define GEN_PASS_DEF_LEGOLOWERSPREAD
#include "LegoMLIR/LegoPasses.h.inc"
} // namespace lego

using namespace mlir;
using namespace lego;

/// The kernels of a module, and how its conversions are made.
namespace {
struct SpreadLowering {
  DenseMap<Operation *, std::unique_ptr<Kernel>> kernels;
  bool shuffles = true;
  int64_t inThread = 0, shuffled = 0, throughMemory = 0;

  ThreadEmitter emitterFor(ConversionPatternRewriter &rewriter, Operation *op,
                           Type tile) {
    SpreadAttr spread = getSpread(tile);
    return ThreadEmitter(rewriter, op->getLoc(), *kernels.at(getKernelOf(op)),
                         spread.getLaneBits(),
                         spread.getLaneBits() + spread.getWarpBits());
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

static bool isControlFlow(Operation *op) {
  return isa<scf::ForOp, scf::IfOp, scf::WhileOp, scf::YieldOp,
             scf::ConditionOp>(op);
}

/// The sizes of some axes.
static SmallVector<int64_t> sizesOf(ArrayRef<int64_t> shape,
                                    ArrayRef<int64_t> axes) {
  return llvm::map_to_vector(axes, [&](int64_t axis) { return shape[axis]; });
}

/// The rows of a matrix for some axes, as one of the shape of these.
static SpreadMap ofAxes(const SpreadMap &map, ArrayRef<int64_t> shape,
                        ArrayRef<int64_t> axes) {
  SpreadMap result{map.registers, map.lanes, map.warps, {}};
  SmallVector<int64_t> sizes = sizesOf(shape, axes);
  for (Bits element : map.columns) {
    SmallVector<int64_t> index = split(element, shape), kept;
    for (int64_t axis : axes)
      kept.push_back(index[axis]);
    result.columns.push_back(join(kept, sizes));
  }
  return result;
}

/// The matrices of a reduction's axes, those that are kept first.
static std::pair<SpreadMap, SpreadMap> partsOf(linalg::ReduceOp op) {
  auto type = cast<RankedTensorType>(op->getOperand(0).getType());
  SmallVector<int64_t> kept;
  for (int64_t axis = 0; axis < type.getRank(); ++axis)
    if (!llvm::is_contained(op.getDimensions(), axis))
      kept.push_back(axis);
  SpreadMap map = getMap(type);
  auto shape = getPaddedShape(type.getShape());
  return {ofAxes(map, shape, kept), ofAxes(map, shape, op.getDimensions())};
}

/// The vector of a tile's registers.
static VectorType registersOf(RankedTensorType type) {
  return VectorType::get({int64_t(getInsideRegisters(type).count())},
                         type.getElementType());
}

static LogicalResult checkReduction(linalg::ReduceOp op) {
  Block *body = &op.getCombiner().front();
  Operation *combine = &body->front();
  auto isArgument = [&](Value value) {
    return is_contained(body->getArguments(), value);
  };
  bool plain = op.getInputs().size() == 1 && body->getOperations().size() == 2 &&
               combine->hasTrait<OpTrait::IsCommutative>() &&
               combine->getNumOperands() == 2 &&
               combine->getOperand(0) != combine->getOperand(1) &&
               llvm::all_of(combine->getOperands(), isArgument) &&
               body->getTerminator()->getOperand(0) == combine->getResult(0);
  if (!plain)
    return op.emitOpError() << "reduces a spread tile by other than one "
                               "commutative operation";
  auto [kept, reduced] = partsOf(op);
  for (auto [left, right] : llvm::zip_equal(kept.columns, reduced.columns))
    if (left && right)
      return op.emitOpError()
             << "needs bases that move along the axes that are reduced or along "
                "those that are kept, not both: "
             << getSpread(op->getOperand(0).getType());
  return success();
}

static LogicalResult checkTiles(Operation *op) {
  SmallVector<Type> types(op->getOperandTypes());
  llvm::append_range(types, op->getResultTypes());
  Type tile;
  bool open = false;
  for (Type type : types) {
    open |= isa<RankedTensorType>(type) && !getSpread(type);
    if (!getSpread(type))
      continue;
    tile = type;
    auto block = getBlockSize(getKernelOf(op));
    int64_t threads = block.empty() ? 0 : 1;
    for (int64_t n : block)
      threads *= std::clamp<int64_t>(n, 0, 4096);
    std::string misfit = getSpread(type).getMisfit(threads);
    if (!misfit.empty())
      return op->emitOpError()
             << misfit
             << "; it must be in a gpu.launch or gpu.func whose known block size "
                "is as many, got "
             << threads;
  }
  if (open && (tile || isa<TileLoadOp, TileStoreOp>(op)))
    return op->emitOpError() << "has a tile without a layout; run "
                                "lego-propagate-spread right before this pass";
  for (Value operand : op->getOperands())
    if (getSpread(operand.getType()) && isFromOutside(operand))
      return op->emitOpError() << "has a tile from outside of the kernel; load it "
                                  "by lego.tile_load";
  if (!tile || fitsAnyLayout(op) || isControlFlow(op) || isa<ConvertOp>(op))
    return success();
  if (auto mma = dyn_cast<MmaOp>(op)) {
    std::string reason;
    if (!planMma(*getMmaKind(mma.getA().getType().getElementType(),
                             mma.getType().getElementType()),
                 mma.getA().getType(), mma.getB().getType(), mma.getType(),
                 reason))
      return op->emitOpError() << "has operands in other layouts than those of "
                                  "fragments: "
                               << reason << "; run lego-propagate-spread first";
    return success();
  }
  if (auto cast = dyn_cast<UnrealizedConversionCastOp>(op)) {
    VectorType registers = registersOf(mlir::cast<RankedTensorType>(tile));
    if (types.size() == 2 && llvm::is_contained(types, registers))
      return success();
    return op->emitOpError() << "is of a tile, and of the vector of its "
                                "registers, "
                             << registers;
  }
  if (auto reduce = dyn_cast<linalg::ReduceOp>(op)) {
    if (failed(checkReduction(reduce)))
      return failure();
  } else if (isElementwise(op) || isa<TileLoadOp, TileStoreOp>(op)) {
    for (Type type : types)
      if (getSpread(type) && getSpread(type) != getSpread(tile))
        return op->emitOpError() << "has operands in two layouts; run "
                                    "lego-propagate-spread first";
    return success();
  } else if (!isShapeOp(op)) {
    return op->emitOpError() << "is not supported on spread tiles";
  } else if (!keepsNumbers(op)) {
    return op->emitOpError() << "divides a size that is no power of two";
  }
  if (!isInThread(op))
    return op->emitOpError()
           << "moves no elements between threads, but its result is wanted in "
           << getSpread(op->getResult(0).getType())
           << "; convert, or run lego-propagate-spread first";
  return success();
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

namespace {

template <typename OpT>
struct TilePattern : OpConversionPattern<OpT> {
  TilePattern(const TypeConverter &types, MLIRContext *context,
              SpreadLowering &lowering)
      : OpConversionPattern<OpT>(types, context), lowering(lowering) {}

  SpreadLowering &lowering;
};

struct LowerConvert : TilePattern<ConvertOp> {
  using TilePattern::TilePattern;

  LogicalResult
  matchAndRewrite(ConvertOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    RankedTensorType type = op.getType();
    SpreadMap source = getMap(op.getSource().getType()), target = getMap(type);
    ExchangePlan plan = planExchange(source, target);
    auto emitter = lowering.emitterFor(rewriter, op, type);
    Values values = emitter.unpack(adaptor.getSource(), op.getSource().getType());
    if (plan.kind == ExchangePlan::InThread ||
        (plan.kind == ExchangePlan::Shuffles && lowering.shuffles)) {
      ++(plan.kind == ExchangePlan::InThread ? lowering.inThread
                                             : lowering.shuffled);
      values = emitter.exchange(values, plan);
    } else {
      ++lowering.throughMemory;
      values = emitter.exchangeThroughMemory(values, op.getSource().getType(), type);
    }
    rewriter.replaceOp(op, emitter.pack(values, type));
    return success();
  }
};

struct LowerTileLoad : TilePattern<TileLoadOp> {
  using TilePattern::TilePattern;

  LogicalResult
  matchAndRewrite(TileLoadOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    RankedTensorType type = op.getType();
    auto emitter = lowering.emitterFor(rewriter, op, type);
    auto shape = getPaddedShape(type.getShape());
    Values mask;
    if (op.getMask())
      mask = emitter.unpack(adaptor.getMask(), op.getMask().getType());
    Values loaded = emitter.load({adaptor.getMemref(), adaptor.getIndices(), shape,
                                  getWholeRun(type.getShape())},
                                 getMap(type), getInsideRegisters(type), mask,
                                 adaptor.getOther());
    rewriter.replaceOp(op, emitter.pack(loaded, type));
    return success();
  }
};

struct LowerTileStore : TilePattern<TileStoreOp> {
  using TilePattern::TilePattern;

  LogicalResult
  matchAndRewrite(TileStoreOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    RankedTensorType type = op.getValue().getType();
    auto emitter = lowering.emitterFor(rewriter, op, type);
    auto shape = getPaddedShape(type.getShape());
    Values mask;
    if (op.getMask())
      mask = emitter.unpack(adaptor.getMask(), op.getMask().getType());
    emitter.store(emitter.unpack(adaptor.getValue(), type),
                  {adaptor.getMemref(), adaptor.getIndices(), shape,
                   getWholeRun(type.getShape())},
                  getMap(type), mask);
    rewriter.eraseOp(op);
    return success();
  }
};

/// The same registers under other numbers.
template <typename OpT>
struct LowerShape : TilePattern<OpT> {
  using TilePattern<OpT>::TilePattern;

  LogicalResult
  matchAndRewrite(OpT op, typename OpT::Adaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    auto given = cast<RankedTensorType>(op->getOperand(0).getType());
    auto emitter = this->lowering.emitterFor(rewriter, op, type);
    SpreadMap source = getMapInResult(op);
    ExchangePlan plan = planExchange(source, getMap(type));
    SpreadMap own = getMap(given);
    Values values = emitter.unpack(adaptor.getOperands().front(), given), kept;
    // getMapInResult leaves out registers of copies.
    for (Bits x = 0; x < values.size(); ++x)
      if (llvm::all_of(llvm::seq(own.registers), [&](unsigned k) {
            return own.columns[k] || !(x & bit(k));
          }))
        kept.push_back(values[x]);
    // A broadcast adds registers above them.
    for (Bits x = kept.size(); x < bit(source.registers); ++x)
      kept.push_back(kept[x - bit(llvm::Log2_64(x))]);
    rewriter.replaceOp(op, emitter.pack(emitter.exchange(kept, plan), type));
    return success();
  }
};

struct LowerReduce : TilePattern<linalg::ReduceOp> {
  using TilePattern::TilePattern;

  LogicalResult
  matchAndRewrite(linalg::ReduceOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    auto emitter = lowering.emitterFor(rewriter, op, type);
    Block *body = &op.getCombiner().front();
    auto combine = [&](Value left, Value right) -> Value {
      IRMapping mapping;
      mapping.map(body->getArgument(0), left);
      mapping.map(body->getArgument(1), right);
      return rewriter.clone(body->front(), mapping)->getResult(0);
    };
    auto given = cast<RankedTensorType>(op->getOperand(0).getType());
    auto [kept, reduced] = partsOf(op);
    auto axes = op.getDimensions();
    SmallVector<int64_t> sizes = sizesOf(given.getShape(), axes);
    auto isInside = [&](Bits element) {
      SmallVector<int64_t> index(given.getRank());
      for (auto [axis, i] :
           llvm::zip_equal(axes, split(element, getPaddedShape(sizes))))
        index[axis] = i;
      return getSpread(given).isInside(index);
    };
    int64_t elements = 1;
    for (int64_t n : getPaddedShape(type.getShape()))
      elements *= n;
    Values sums = emitter.reduce(
        emitter.unpack(adaptor.getInputs().front(), given),
        {kept, reduced, isInside, elements, getWholeRun(type.getShape())}, combine);
    sums = emitter.exchange(sums, planExchange(getMapInResult(op), getMap(type)));
    for (auto [sum, init] : llvm::zip_equal(
             sums, emitter.unpack(adaptor.getInits().front(), type)))
      if (sum && init)
        sum = combine(sum, init);
    rewriter.replaceOp(op, emitter.pack(sums, type));
    return success();
  }
};

struct LowerMma : TilePattern<MmaOp> {
  using TilePattern::TilePattern;

  LogicalResult
  matchAndRewrite(MmaOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    RankedTensorType a = op.getA().getType(), b = op.getB().getType();
    RankedTensorType type = op.getType();
    MmaKind kind = *getMmaKind(a.getElementType(), type.getElementType());
    std::string reason;
    auto emitter = lowering.emitterFor(rewriter, op, type);
    Values sums = emitter.multiply(kind, *planMma(kind, a, b, type, reason),
                                   emitter.unpack(adaptor.getA(), a),
                                   emitter.unpack(adaptor.getB(), b),
                                   emitter.unpack(adaptor.getAcc(), type));
    rewriter.replaceOp(op, emitter.pack(sums, type));
    return success();
  }
};

struct LowerTileIndex : TilePattern<TileIndexOp> {
  using TilePattern::TilePattern;

  LogicalResult
  matchAndRewrite(TileIndexOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto emitter = lowering.emitterFor(rewriter, op, op.getType());
    rewriter.replaceOp(
        op, emitter.pack(emitter.indices(op.getAxis(), op.getType()), op.getType()));
    return success();
  }
};

/// The region of a linalg.map for each register.
struct LowerMap : TilePattern<linalg::MapOp> {
  using TilePattern::TilePattern;

  LogicalResult
  matchAndRewrite(linalg::MapOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    auto emitter = lowering.emitterFor(rewriter, op, type);
    SmallVector<Values> given;
    for (Value operand : adaptor.getOperands())
      given.push_back(emitter.unpack(operand));
    Block *body = &op.getMapper().front();
    Values results;
    for (int64_t x = 0; x < registersOf(type).getNumElements(); ++x) {
      IRMapping mapping;
      for (auto [argument, values] : llvm::zip_equal(body->getArguments(), given))
        mapping.map(argument, values[x]);
      for (Operation &inner : body->without_terminator())
        rewriter.clone(inner, mapping);
      results.push_back(
          mapping.lookupOrDefault(body->getTerminator()->getOperand(0)));
    }
    rewriter.replaceOp(op, emitter.pack(results));
    return success();
  }
};

/// A tile as the vector of its registers, for code of each thread, and back.
struct LowerCast : TilePattern<UnrealizedConversionCastOp> {
  using TilePattern::TilePattern;

  LogicalResult
  matchAndRewrite(UnrealizedConversionCastOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOp(op, adaptor.getInputs());
    return success();
  }
};

/// Constants, splats, fills and empty tiles.
struct LowerSplat : ConversionPattern {
  LowerSplat(const TypeConverter &types, MLIRContext *context)
      : ConversionPattern(types, MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult
  matchAndRewrite(Operation *op, ArrayRef<Value> operands,
                  ConversionPatternRewriter &rewriter) const override {
    if (!fitsAnyLayout(op) || isa<TileIndexOp>(op))
      return failure();
    auto type = getTypeConverter()->convertType<VectorType>(
        op->getResult(0).getType());
    if (isa<tensor::SplatOp, linalg::FillOp>(op)) {
      rewriter.replaceOpWithNewOp<vector::BroadcastOp>(op, type,
                                                       operands.front());
      return success();
    }
    SplatElementsAttr value;
    Attribute element = rewriter.getZeroAttr(type.getElementType());
    if (matchPattern(op, m_Constant(&value)))
      element = value.getSplatValue<Attribute>();
    rewriter.replaceOpWithNewOp<arith::ConstantOp>(
        op, DenseElementsAttr::get(type, element));
    return success();
  }
};

struct LowerElementwise : ConversionPattern {
  LowerElementwise(const TypeConverter &types, MLIRContext *context)
      : ConversionPattern(types, MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult
  matchAndRewrite(Operation *op, ArrayRef<Value> operands,
                  ConversionPatternRewriter &rewriter) const override {
    if (!OpTrait::hasElementwiseMappableTraits(op))
      return failure();
    IRMapping mapping;
    mapping.map(op->getOperands(), operands);
    Operation *copy = op->clone(mapping);
    for (OpResult result : copy->getResults())
      result.setType(getTypeConverter()->convertType(result.getType()));
    rewriter.replaceOp(op, rewriter.insert(copy));
    return success();
  }
};

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

struct LegoLowerSpread : lego::impl::LegoLowerSpreadBase<LegoLowerSpread> {
  using LegoLowerSpreadBase::LegoLowerSpreadBase;

  void runOnOperation() override;
};

} // namespace

/// The number of a thread, counted with x fastest.
static Value numberOf(OpBuilder &builder, Operation *kernel) {
  auto block = getBlockSize(kernel);
  Location loc = kernel->getLoc();
  builder.setInsertionPointToStart(&kernel->getRegion(0).front());
  Value number;
  for (unsigned axis = 3; axis-- > 0;) {
    if (axis && block[axis] == 1)
      continue;
    Value id = gpu::ThreadIdOp::create(builder, loc, gpu::Dimension(axis));
    if (number) {
      Value n = arith::ConstantIndexOp::create(builder, loc, block[axis]);
      number = arith::MulIOp::create(builder, loc, number, n);
      id = arith::AddIOp::create(builder, loc, number, id);
    }
    number = id;
  }
  return number;
}

void LegoLowerSpread::runOnOperation() {
  SpreadLowering lowering;
  lowering.shuffles = shuffles;
  OpBuilder builder(&getContext());
  auto walked = getOperation()->walk([&](Operation *op) {
    if (failed(checkTiles(op)))
      return WalkResult::interrupt();
    bool tiles = llvm::any_of(op->getOperandTypes(), getSpread) ||
                 llvm::any_of(op->getResultTypes(), getSpread);
    if (tiles) {
      Operation *kernel = getKernelOf(op);
      lowering.kernels.try_emplace(kernel);
    }
    return WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return signalPassFailure();
  for (auto &[op, kernel] : lowering.kernels)
    kernel = std::make_unique<Kernel>(Kernel{op, numberOf(builder, op), {}});

  TypeConverter types;
  types.addConversion([](Type type) { return type; });
  types.addConversion([](RankedTensorType type) -> std::optional<Type> {
    if (!getSpread(type))
      return std::nullopt;
    return registersOf(type);
  });
  RewritePatternSet patterns(&getContext());
  patterns.add<LowerConvert, LowerTileLoad, LowerTileStore, LowerReduce,
               LowerMma, LowerTileIndex, LowerMap, LowerCast, LowerShape<linalg::TransposeOp>,
               LowerShape<linalg::BroadcastOp>, LowerShape<tensor::ExpandShapeOp>,
               LowerShape<tensor::CollapseShapeOp>>(types, &getContext(),
                                                    lowering);
  patterns.add<LowerSplat, LowerElementwise>(types, &getContext());
  ConversionTarget target(getContext());
  scf::populateSCFStructuralTypeConversionsAndLegality(types, patterns, target);
  target.markUnknownOpDynamicallyLegal(
      [&](Operation *op) { return types.isLegal(op); });
  if (failed(applyPartialConversion(getOperation(), target, std::move(patterns))))
    return signalPassFailure();
  numInThread += lowering.inThread;
  numShuffled += lowering.shuffled;
  numThroughMemory += lowering.throughMemory;
}
