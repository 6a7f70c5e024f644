//===- Lowering.cpp - The walk that both lowerings share --------*- C++ -*-===//
//
// Three steps. Loops over layouts become scf.for, with lego.inv inside, so that
// upstream's range analysis sees their bounds. Then every operation is read as
// sums, before anything is changed. Last, each is replaced by what an emitter
// makes of its sums.
//
//===----------------------------------------------------------------------===//

#include "LegoMLIR/Lowering.h"
#include "LegoMLIR/IndexReader.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace lego;

namespace {

/// What one operation computes: its results, or the address it accesses.
struct Planned {
  Operation *op;
  SmallVector<Sum> results;        // of apply and inv
  Comparison condition;            // of mask
  SmallVector<SmallVector<Sum>> at; // memref indices of each access
  bool consecutive = false;        // one vector access at at.front()
};

class Lowering {
public:
  Lowering(Operation *root, MakeEmitter makeEmitter, bool partial)
      : root(root), makeEmitter(makeEmitter), partial(partial) {}

  LogicalResult run();

private:
  LogicalResult lowerLoops();
  LogicalResult plan(IndexReader &reader, Operation *op);
  LogicalResult planAccess(IndexReader &reader, Operation *op, Value view,
                           ValueRange indices, int64_t count);
  SmallVector<Sum> memrefIndex(IndexReader &reader, ViewOp view,
                               const Sum &position);
  LogicalResult replace(IndexReader &reader, Planned &planned);
  LogicalResult replaceAccess(OpBuilder &builder, Planned &planned,
                              ArrayRef<SmallVector<Value>> at);
  LogicalResult eraseViews();

  Operation *root;
  MakeEmitter makeEmitter;
  bool partial;
  std::vector<Planned> planned;
  DenseMap<std::pair<Value, unsigned>, Value> dims;
  // Replaced operations are erased last: leaves of sums may be their results.
  SmallVector<Operation *> dead;
  DenseMap<Value, Value> replaced;
};

} // namespace

LogicalResult Lowering::run() {
  if (failed(lowerLoops()))
    return failure();
  IndexReader reader(root);
  WalkResult walked = root->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa<GenPOp>(op))
      return WalkResult::skip();
    return failed(plan(reader, op)) ? WalkResult::interrupt()
                                    : WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  for (Planned &each : planned)
    if (failed(replace(reader, each)) && !partial)
      return failure();
  for (Operation *op : llvm::reverse(dead))
    op->erase();
  return eraseViews();
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// for_each over a layout -> scf.for over its positions.
static LogicalResult lowerLoop(ForEachOp op, OpBuilder &builder,
                               IndexReader *sizes, MakeEmitter makeEmitter) {
  builder.setInsertionPoint(op);
  Location loc = op.getLoc();
  LayoutAttr layout = op.getLayout();
  sizes->bindSizes(layout, op.getSizes());
  Evaluator<Algebra> evaluator(sizes->getAlgebra());
  Sum end = evaluator.size(
      getViewPositions(layout.getView(), op.getContext()));
  auto emitter = makeEmitter(builder, op, sizes->getAlgebra());
  Value last = emitter->emit(end);
  if (!last)
    return failure();
  Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
  Value one = arith::ConstantIndexOp::create(builder, loc, 1);
  auto loop = scf::ForOp::create(builder, loc, zero, last, one, op.getInits());
  builder.setInsertionPointToStart(loop.getBody());
  auto inv = InvOp::create(builder, loc, layout, loop.getInductionVar(),
                           op.getSizes());
  SmallVector<Value> arguments(inv.getResults());
  llvm::append_range(arguments, loop.getRegionIterArgs());
  Block *target = loop.getBody();
  Comparison held = sizes->readHolds(layout, loop.getInductionVar(),
                                     op.getSizes());
  scf::IfOp guard;
  if (held.never || !held.less.empty()) {
    auto inside = makeEmitter(builder, inv, sizes->getAlgebra());
    builder.setInsertionPointAfter(inv);
    Value condition = inside->emit(held);
    if (!condition)
      return failure();
    guard = scf::IfOp::create(builder, loc, op.getInits().getTypes(), condition,
                              /*withElseRegion=*/!op.getInits().empty());
    target = guard.thenBlock();
  }
  Block &body = op.getBody().front();
  Operation *yield = body.getTerminator();
  for (auto [argument, value] : llvm::zip_equal(body.getArguments(), arguments))
    argument.replaceAllUsesWith(value);
  SmallVector<Value> results(yield->getOperands());
  yield->erase();
  // Blocks of operations without results have a terminator already.
  if (target->mightHaveTerminator())
    target->getOperations().splice(target->getTerminator()->getIterator(),
                                   body.getOperations());
  else
    target->getOperations().splice(target->end(), body.getOperations());
  if (guard && !results.empty()) {
    builder.setInsertionPointToEnd(guard.thenBlock());
    scf::YieldOp::create(builder, loc, results);
    builder.setInsertionPointToEnd(guard.elseBlock());
    scf::YieldOp::create(builder, loc, loop.getRegionIterArgs());
    results.assign(guard.getResults().begin(), guard.getResults().end());
  }
  if (!results.empty()) {
    builder.setInsertionPointToEnd(loop.getBody());
    scf::YieldOp::create(builder, loc, results);
  }
  op->replaceAllUsesWith(loop.getResults());
  op->erase();
  return success();
}

LogicalResult Lowering::lowerLoops() {
  // Outer loops first: the indices of inner ones may be those of outer ones.
  SmallVector<ForEachOp> loops;
  root->walk<WalkOrder::PreOrder>([&](ForEachOp op) { loops.push_back(op); });
  OpBuilder builder(root->getContext());
  for (ForEachOp op : loops) {
    IndexReader reader(op);
    if (failed(lowerLoop(op, builder, &reader, makeEmitter)))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

LogicalResult Lowering::plan(IndexReader &reader, Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](ApplyOp apply) {
        planned.push_back({op, {reader.read(apply.getPosition())}});
        return success();
      })
      .Case([&](InvOp inv) {
        planned.push_back({op});
        for (Value index : inv.getResults())
          planned.back().results.push_back(reader.read(index));
        return success();
      })
      .Case([&](MaskOp mask) {
        planned.push_back({op});
        planned.back().condition = reader.readMask(
            mask.getLayout(), mask.getIndices(), mask.getSizes());
        return success();
      })
      .Case<LoadOp, StoreOp>([&](auto access) {
        return planAccess(reader, op, access.getView(), access.getIndices(), 0);
      })
      .Case([&](VectorLoadOp load) {
        return planAccess(reader, op, load.getView(), load.getIndices(),
                          load.getResult().getType().getNumElements());
      })
      .Case([&](VectorStoreOp store) {
        return planAccess(reader, op, store.getView(), store.getIndices(),
                          store.getValue().getType().getNumElements());
      })
      .Default([](Operation *) { return success(); });
}

LogicalResult Lowering::planAccess(IndexReader &reader, Operation *op,
                                   Value given, ValueRange indices,
                                   int64_t count) {
  auto view = given.getDefiningOp<ViewOp>();
  if (!view)
    return op->emitOpError() << "needs a view made by lego.view in the same "
                                "function";
  LayoutAttr layout = view.getType().getLayout();
  Planned access{op};
  if (count) {
    if (auto first =
            reader.readVector(layout, indices, view.getSizes(), count)) {
      access.consecutive = true;
      access.at.push_back({*first});
      planned.push_back(std::move(access));
      return success();
    }
  }
  Evaluator<Algebra> evaluator(reader.getAlgebra());
  auto index = reader.readIndex(layout, indices, view.getSizes(),
                                std::max<int64_t>(count - 1, 0));
  for (int64_t k = 0; k < std::max<int64_t>(count, 1); ++k) {
    auto element = index;
    element.back() = element.back() + Sum(k);
    access.at.push_back(memrefIndex(
        reader, view, evaluator.apply(layout.getView(), element)));
  }
  planned.push_back(std::move(access));
  return success();
}

/// The indices of a memref of any rank, for a position in row-major order.
SmallVector<Sum> Lowering::memrefIndex(IndexReader &reader, ViewOp view,
                                       const Sum &position) {
  MemRefType type = view.getType().getMemref();
  Algebra &algebra = reader.getAlgebra();
  unsigned rank = type.getRank();
  SmallVector<Sum> index(rank);
  if (!rank)
    return index;
  Sum rest = position;
  for (unsigned k = rank; --k > 0;) {
    Sum n = type.getDimSize(k);
    if (type.isDynamicDim(k)) {
      Value &dim = dims[{view.getSource(), k}];
      if (!dim) {
        // Another view of the source, where this one is not seen, shares it.
        OpBuilder builder(view);
        builder.setInsertionPointAfterValue(view.getSource());
        dim = memref::DimOp::create(builder, view.getLoc(), view.getSource(), k);
      }
      n = algebra.size(dim.getAsOpaquePointer(), {});
    }
    index[k] = algebra.rem(rest, n);
    rest = algebra.div(rest, n);
  }
  index[0] = rest;
  return index;
}

//===----------------------------------------------------------------------===//
// Replacing
//===----------------------------------------------------------------------===//

LogicalResult Lowering::replace(IndexReader &reader, Planned &planned) {
  Operation *op = planned.op;
  OpBuilder builder(op);
  auto emitter = makeEmitter(builder, op, reader.getAlgebra());
  emitter->replaced = &replaced;
  if (isa<MaskOp>(op)) {
    Value named = emitter->emit(planned.condition);
    if (!named)
      return failure();
    op->replaceAllUsesWith(ValueRange{named});
    dead.push_back(op);
    return success();
  }
  SmallVector<Value> values;
  for (const Sum &sum : planned.results) {
    // Unused results need no value.
    if (op->getResult(values.size()).use_empty()) {
      values.push_back({});
      continue;
    }
    values.push_back(emitter->emit(sum));
    if (!values.back())
      return failure();
  }
  if (isa<ApplyOp, InvOp>(op)) {
    for (auto [result, value] : llvm::zip_equal(op->getResults(), values))
      if (value)
        result.replaceAllUsesWith(value);
    dead.push_back(op);
    return success();
  }
  SmallVector<SmallVector<Value>> at;
  for (ArrayRef<Sum> index : planned.at) {
    at.emplace_back();
    for (const Sum &sum : index) {
      at.back().push_back(emitter->emit(sum));
      if (!at.back().back())
        return failure();
    }
  }
  return replaceAccess(builder, planned, at);
}

/// A memref of one dimension over the same elements.
static Value flattened(OpBuilder &builder, Location loc, Value memref) {
  unsigned rank = cast<MemRefType>(memref.getType()).getRank();
  if (rank == 1)
    return memref;
  SmallVector<ReassociationIndices> all(rank ? 1 : 0);
  for (unsigned k = 0; k < rank; ++k)
    all.front().push_back(k);
  if (rank)
    return memref::CollapseShapeOp::create(builder, loc, memref, all);
  auto type = cast<MemRefType>(memref.getType());
  auto flat = MemRefType::get(ArrayRef<int64_t>{1}, type.getElementType(),
                              MemRefLayoutAttrInterface(),
                              type.getMemorySpace());
  return memref::ExpandShapeOp::create(builder, loc, flat, memref, all);
}

LogicalResult Lowering::replaceAccess(OpBuilder &builder, Planned &planned,
                                      ArrayRef<SmallVector<Value>> at) {
  Operation *op = planned.op;
  Location loc = op->getLoc();
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](LoadOp load) {
        Value source = load.getView().getDefiningOp<ViewOp>().getSource();
        Value value = memref::LoadOp::create(builder, loc, source, at.front());
        replaced[load.getResult()] = value;
        load.replaceAllUsesWith(value);
      })
      .Case([&](StoreOp store) {
        Value source = store.getView().getDefiningOp<ViewOp>().getSource();
        memref::StoreOp::create(builder, loc, store.getValue(), source,
                                at.front());
      })
      .Case([&](VectorLoadOp load) {
        Value source = load.getView().getDefiningOp<ViewOp>().getSource();
        VectorType type = load.getResult().getType();
        Value value;
        if (planned.consecutive) {
          source = flattened(builder, loc, source);
          value = vector::LoadOp::create(builder, loc, type, source,
                                         at.front());
        } else {
          SmallVector<Value> elements;
          for (ArrayRef<Value> index : at)
            elements.push_back(
                memref::LoadOp::create(builder, loc, source, index));
          value = vector::FromElementsOp::create(builder, loc, type, elements);
        }
        load.replaceAllUsesWith(value);
      })
      .Case([&](VectorStoreOp store) {
        Value source = store.getView().getDefiningOp<ViewOp>().getSource();
        if (planned.consecutive) {
          source = flattened(builder, loc, source);
          vector::StoreOp::create(builder, loc, store.getValue(), source,
                                  at.front());
          return;
        }
        auto elements = vector::ToElementsOp::create(builder, loc,
                                                     store.getValue());
        for (auto [element, index] : llvm::zip_equal(elements.getResults(), at))
          memref::StoreOp::create(builder, loc, element, source, index);
      });
  dead.push_back(op);
  return success();
}

LogicalResult Lowering::eraseViews() {
  WalkResult walked = root->walk([&](ViewOp view) {
    if (view->use_empty()) {
      view.erase();
      return WalkResult::advance();
    }
    if (partial)
      return WalkResult::advance();
    view.emitOpError() << "is used by an operation that is not a lego access";
    return WalkResult::interrupt();
  });
  return failure(walked.wasInterrupted());
}

LogicalResult lego::lowerLego(Operation *root, MakeEmitter makeEmitter,
                              bool partial) {
  return Lowering(root, makeEmitter, partial).run();
}
