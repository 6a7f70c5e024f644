//===- Spread.cpp - Spread tiles as matrices of bits ------------*- C++ -*-===//

#include "LegoMLIR/Spread.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace lego;

//===----------------------------------------------------------------------===//
// Vectors over F2
//===----------------------------------------------------------------------===//

Bits lego::multiply(ArrayRef<Bits> columns, Bits vector) {
  Bits sum = 0;
  for (auto [k, column] : llvm::enumerate(columns))
    if (vector & bit(k))
      sum ^= column;
  return sum;
}

void Span::reduce(ArrayRef<Row> rows, Row &row) {
  for (const Row &other : rows)
    if (row.vector & bit(llvm::Log2_64(other.vector))) {
      row.vector ^= other.vector;
      row.label ^= other.label;
    }
}

std::optional<Bits> Span::add(Bits vector, Bits label) {
  Row row{vector, label};
  reduce(rows, row);
  if (!row.vector)
    return row.label ^ label;
  rows.push_back(row);
  return std::nullopt;
}

std::optional<Bits> Span::solve(Bits vector) const {
  Row row{vector, 0};
  reduce(rows, row);
  return row.vector ? std::nullopt : std::optional(row.label);
}

//===----------------------------------------------------------------------===//
// Encodings and matrices
//===----------------------------------------------------------------------===//

SpreadAttr lego::getSpread(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? dyn_cast_or_null<SpreadAttr>(tensor.getEncoding())
                : SpreadAttr();
}

RankedTensorType lego::withSpread(Type type, Attribute spread) {
  return cast<RankedTensorType>(type).cloneWithEncoding(spread);
}

SmallVector<int64_t> lego::split(Bits element, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> index(shape.size());
  for (size_t k = shape.size(); k-- > 0;) {
    index[k] = element % shape[k];
    element /= shape[k];
  }
  return index;
}

Bits lego::join(ArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  Bits element = 0;
  for (auto [i, n] : llvm::zip_equal(index, shape))
    element = element * n + i;
  return element;
}

SmallVector<int64_t> lego::getPaddedShape(ArrayRef<int64_t> shape) {
  return llvm::map_to_vector(
      shape, [](int64_t n) { return int64_t(llvm::PowerOf2Ceil(n)); });
}

llvm::BitVector lego::getInsideRegisters(RankedTensorType type) {
  SpreadAttr spread = getSpread(type);
  SpreadMap map = getMap(type);
  auto padded = getPaddedShape(type.getShape());
  llvm::BitVector inside(bit(map.registers));
  for (Bits x = 0; x < inside.size(); ++x)
    inside[x] = spread.isInside(split(multiply(map.ofRegisters(), x), padded));
  return inside;
}

int64_t lego::getWholeRun(ArrayRef<int64_t> shape) {
  int64_t run = 1;
  for (int64_t n : llvm::reverse(shape)) {
    run *= n & -n;
    if (!llvm::isPowerOf2_64(n))
      return run;
  }
  return int64_t(1) << 62;
}

SpreadMap lego::getMap(SpreadAttr spread, ArrayRef<int64_t> shape) {
  auto padded = getPaddedShape(shape);
  SpreadMap map{spread.getRegisterBits(), spread.getLaneBits(),
                spread.getWarpBits(), {}};
  for (unsigned k = 0; k < spread.getNumBits(); ++k)
    map.columns.push_back(join(spread.getBasis(k), padded));
  return map;
}

SpreadMap lego::getMap(Type type) {
  return getMap(getSpread(type), cast<RankedTensorType>(type).getShape());
}

SpreadAttr lego::getAttr(MLIRContext *context, const SpreadMap &map,
                         ArrayRef<int64_t> shape) {
  SmallVector<int64_t> bases, padded = getPaddedShape(shape);
  Span span;
  int64_t copies = 1;
  for (Bits column : map.columns) {
    llvm::append_range(bases, split(column, padded));
    if (span.add(column, 0))
      copies *= 2;
  }
  return SpreadAttr::get(context, map.registers, map.lanes, map.warps, bases,
                         copies,
                         shape == ArrayRef(padded) ? ArrayRef<int64_t>() : shape);
}

//===----------------------------------------------------------------------===//
// Shape operations
//===----------------------------------------------------------------------===//

SpreadMap lego::renumber(const SpreadMap &map, ArrayRef<int64_t> shape,
                         ArrayRef<int64_t> axes,
                         ArrayRef<int64_t> resultShape, bool keepCopies) {
  SpreadMap result{0, map.lanes, map.warps, {}};
  for (auto [k, column] : llvm::enumerate(map.columns)) {
    SmallVector<int64_t> from = split(column, shape), to;
    for (int64_t axis : axes)
      to.push_back(axis < 0 ? 0 : from[axis]);
    Bits element = join(to, resultShape);
    if (k < map.registers && !element && !keepCopies)
      continue;
    result.registers += k < map.registers;
    result.columns.push_back(element);
  }
  return result;
}

/// The axes of the result of a broadcast or the operand of a reduction, as
/// numbers of the other's axes; -1 for those that only the longer one has.
static SmallVector<int64_t> shorterAxes(ArrayRef<int64_t> dimensions,
                                        unsigned rank) {
  SmallVector<int64_t> axes;
  int64_t next = 0;
  for (int64_t axis = 0; axis < rank; ++axis)
    axes.push_back(llvm::is_contained(dimensions, axis) ? -1 : next++);
  return axes;
}

/// The axes that are left when some go.
static SmallVector<int64_t> keptAxes(ArrayRef<int64_t> dimensions,
                                     unsigned rank) {
  SmallVector<int64_t> axes;
  for (int64_t axis = 0; axis < rank; ++axis)
    if (!llvm::is_contained(dimensions, axis))
      axes.push_back(axis);
  return axes;
}

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

static SmallVector<int64_t> paddedOf(Value value) {
  return getPaddedShape(shapeOf(value));
}

static bool isReshape(Operation *op) {
  return isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op);
}

bool lego::isShapeOp(Operation *op) {
  return isReshape(op) || isa<linalg::TransposeOp, linalg::BroadcastOp>(op);
}

bool lego::fitsAnyLayout(Operation *op) {
  SplatElementsAttr value;
  return isa<tensor::SplatOp, tensor::EmptyOp, linalg::FillOp, TileIndexOp>(op) ||
         (isa<arith::ConstantOp>(op) && matchPattern(op, m_Constant(&value)));
}

bool lego::isElementwise(Operation *op) {
  return isa<linalg::MapOp>(op) || OpTrait::hasElementwiseMappableTraits(op);
}

bool lego::keepsNumbers(Operation *op) {
  if (!isReshape(op))
    return true;
  auto expand = dyn_cast<tensor::ExpandShapeOp>(op);
  auto groups = expand ? expand.getReassociationIndices()
                       : cast<tensor::CollapseShapeOp>(op).getReassociationIndices();
  auto shape = shapeOf(expand ? op->getResult(0) : op->getOperand(0));
  for (const ReassociationIndices &group : groups) {
    bool first = true;
    for (int64_t axis : group) {
      if (!first && !llvm::isPowerOf2_64(shape[axis]))
        return false;
      first &= shape[axis] == 1;
    }
  }
  return true;
}

/// The elements that a broadcast adds, in new registers of the same threads.
static SpreadMap grown(const SpreadMap &map, ArrayRef<int64_t> shape,
                       ArrayRef<int64_t> dimensions) {
  SpreadMap result = map;
  for (int64_t axis : llvm::reverse(dimensions)) {
    Bits stride = 1;
    for (int64_t n : shape.drop_front(axis + 1))
      stride *= n;
    for (int64_t i = 1; i < shape[axis]; i *= 2)
      result.columns.insert(result.columns.begin() + result.registers++,
                            i * stride);
  }
  return result;
}

static std::optional<SpreadMap> mapInResult(Operation *op, SpreadAttr operand) {
  auto shape = paddedOf(op->getOperand(0)), wanted = paddedOf(op->getResult(0));
  auto axesOf = [&](ArrayRef<int64_t> axes) {
    return renumber(getMap(operand, shape), shape, axes, wanted);
  };
  return llvm::TypeSwitch<Operation *, std::optional<SpreadMap>>(op)
      .Case([&](linalg::TransposeOp transpose) {
        return axesOf(transpose.getPermutation());
      })
      .Case([&](linalg::BroadcastOp broadcast) {
        auto dimensions = broadcast.getDimensions();
        return grown(axesOf(shorterAxes(dimensions, wanted.size())), wanted,
                     dimensions);
      })
      .Case([&](linalg::ReduceOp reduce) {
        return axesOf(keptAxes(reduce.getDimensions(), shape.size()));
      })
      .Default([&](Operation *other) -> std::optional<SpreadMap> {
        SmallVector<int64_t> flat{int64_t(ShapedType::getNumElements(shape))};
        if (isReshape(op))
          return renumber(getMap(operand, shape), flat, {0}, flat);
        if (isElementwise(op))
          return getMap(operand, shape);
        return std::nullopt;
      });
}

SpreadAttr lego::getForward(Operation *op, SpreadAttr operand) {
  auto map = mapInResult(op, operand);
  return map ? getAttr(op->getContext(), *map, shapeOf(op->getResult(0)))
             : SpreadAttr();
}

SpreadAttr lego::getBackward(Operation *op, SpreadAttr result) {
  auto shape = paddedOf(op->getResult(0)), wanted = paddedOf(op->getOperand(0));
  auto axesOf = [&](ArrayRef<int64_t> axes) {
    return getAttr(op->getContext(),
                   renumber(getMap(result, shape), shape, axes, wanted,
                            mayFoldToOperand(op)),
                   shapeOf(op->getOperand(0)));
  };
  return llvm::TypeSwitch<Operation *, SpreadAttr>(op)
      .Case([&](linalg::TransposeOp transpose) {
        return axesOf(invertPermutationVector(transpose.getPermutation()));
      })
      .Case([&](linalg::BroadcastOp broadcast) {
        return axesOf(keptAxes(broadcast.getDimensions(), shape.size()));
      })
      .Default([&](Operation *other) -> SpreadAttr {
        if (isReshape(op) || isElementwise(op))
          return getAttr(op->getContext(), getMap(result, shape),
                         shapeOf(op->getOperand(0)));
        return {};
      });
}

SpreadMap lego::getMapInResult(Operation *op) {
  return *mapInResult(op, getSpread(op->getOperand(0).getType()));
}

bool lego::isInThread(Operation *op) {
  SpreadMap source = getMapInResult(op), target = getMap(op->getResult(0).getType());
  return source.lanes == target.lanes && source.warps == target.warps &&
         planExchange(source, target).kind == ExchangePlan::InThread;
}

bool lego::mayFoldToOperand(Operation *op) {
  auto broadcast = dyn_cast<linalg::BroadcastOp>(op);
  return isa<linalg::TransposeOp>(op) ||
         (broadcast && broadcast.getDimensions().empty());
}
