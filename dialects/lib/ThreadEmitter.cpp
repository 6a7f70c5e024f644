//===- ThreadEmitter.cpp - Code of the threads of a kernel ------*- C++ -*-===//

#include "LegoMLIR/ThreadEmitter.h"
#include "LegoMLIR/TransformOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <map>

using namespace mlir;
using namespace lego;

/// Bytes of the widest access.
static constexpr int64_t kAccessBytes = 16;

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

Operation *lego::getKernelOf(Operation *op) {
  while (op && !isa<gpu::LaunchOp, gpu::GPUFuncOp>(op))
    op = op->getParentOp();
  return op;
}

SmallVector<int64_t> lego::getBlockSize(Operation *kernel) {
  if (auto launch = dyn_cast_or_null<gpu::LaunchOp>(kernel))
    return getConstants(launch.getBlockSizeOperandValues());
  auto function = dyn_cast_or_null<gpu::GPUFuncOp>(kernel);
  auto known = function ? function.getKnownBlockSize() : std::nullopt;
  return known ? SmallVector<int64_t>(known->begin(), known->end())
               : SmallVector<int64_t>();
}

bool lego::isFromOutside(Value tile) {
  Operation *origin = tile.getDefiningOp();
  if (auto argument = dyn_cast<BlockArgument>(tile)) {
    origin = argument.getOwner()->getParentOp();
    if (!isa<scf::ForOp, scf::WhileOp>(origin))
      return true;
  }
  return !getKernelOf(origin);
}

Value Kernel::getScratch(Type element, int64_t count) {
  BlockArgument &buffer = scratch[element];
  if (buffer && cast<MemRefType>(buffer.getType()).getNumElements() >= count)
    return buffer;
  auto space = gpu::AddressSpaceAttr::get(op->getContext(),
                                          gpu::AddressSpace::Workgroup);
  auto type = MemRefType::get({count}, element, MemRefLayoutAttrInterface(), space);
  if (buffer)
    buffer.setType(type);
  else if (auto launch = dyn_cast<gpu::LaunchOp>(op))
    buffer = launch.addWorkgroupAttribution(type, op->getLoc());
  else
    buffer = cast<gpu::GPUFuncOp>(op).addWorkgroupAttribution(type, op->getLoc());
  return buffer;
}

//===----------------------------------------------------------------------===//
// Numbers that are linear in the thread
//===----------------------------------------------------------------------===//

static Values selected(const Values &values, ArrayRef<Bits> registers) {
  return llvm::map_to_vector(registers, [&](Bits x) { return values[x]; });
}

Value ThreadEmitter::constant(int64_t value) {
  return arith::ConstantIndexOp::create(b, value);
}

static Bits imageOf(ArrayRef<Bits> columns) {
  Bits image = 0;
  for (Bits column : columns)
    image |= column;
  return image;
}

/// Bits of the thread's number that move by the same distance move together.
Value ThreadEmitter::linear(ArrayRef<Bits> columns) {
  std::map<int, Bits> masks;
  for (auto [k, column] : llvm::enumerate(columns))
    for (unsigned j = 0; column >> j; ++j)
      if (column & bit(j))
        masks[int(j) - int(k)] |= bit(k);
  Value sum;
  Bits image = 0;
  for (auto [distance, mask] : masks) {
    Value part = kernel.thread;
    if (mask != bit(threadBits) - 1)
      part = arith::AndIOp::create(b, part, constant(mask));
    if (distance > 0)
      part = arith::ShLIOp::create(b, part, constant(distance));
    else if (distance < 0)
      part = arith::ShRUIOp::create(b, part, constant(-distance));
    Bits here = distance > 0 ? mask << distance : mask >> -distance;
    if (!sum)
      sum = part;
    else if (image & here)
      sum = arith::XOrIOp::create(b, sum, part);
    else
      sum = arith::AddIOp::create(b, sum, part);
    image |= here;
  }
  return sum ? sum : constant(0);
}

/// Whether an odd number of these bits of the thread's number is set.
Value ThreadEmitter::isOdd(Bits mask) {
  Value parity;
  if (llvm::isPowerOf2_64(mask)) {
    parity = arith::AndIOp::create(b, kernel.thread, constant(mask));
  } else {
    SmallVector<Bits> columns;
    for (unsigned k = 0; k < threadBits; ++k)
      columns.push_back(mask >> k & 1);
    parity = linear(columns);
  }
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, parity, constant(0));
}

/// The exclusive or of a number within `image` and an offset; an addition,
/// which later passes understand better, where that is the same.
Value ThreadEmitter::moved(Value base, Bits image, Bits offset) {
  if (!offset)
    return base;
  if (image & offset)
    return arith::XOrIOp::create(b, base, constant(offset));
  return arith::AddIOp::create(b, base, constant(offset));
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

namespace {

/// The accesses of each thread: runs of registers whose elements are
/// consecutive.
struct Accesses {
  SmallVector<SmallVector<Bits>> runs;
  SmallVector<Bits> represent; // the registers with the element of each bit
  Bits copies = 0;             // bits of threads that only repeat elements

  Accesses(const SpreadMap &map, int64_t longest);
};

} // namespace

Accesses::Accesses(const SpreadMap &map, int64_t longest) {
  Span span;
  SmallVector<unsigned> distinct;
  for (auto [k, element] : llvm::enumerate(map.ofRegisters())) {
    auto others = span.add(element, bit(k));
    represent.push_back(others.value_or(bit(k)));
    if (!others)
      distinct.push_back(k);
  }
  for (auto [k, element] : llvm::enumerate(map.ofThreads()))
    if (span.add(element, 0))
      copies |= bit(k);
  // The registers of the low bits of an element, if nothing else has these.
  SmallVector<unsigned> inRun;
  for (unsigned j = 0; int64_t(bit(j + 1)) <= longest; ++j) {
    unsigned users = 0, found = 0;
    for (auto [k, element] : llvm::enumerate(map.columns))
      if (element & bit(j)) {
        ++users;
        found = k;
      }
    if (users != 1 || found >= map.registers || map.columns[found] != bit(j))
      break;
    inRun.push_back(found);
  }
  llvm::erase_if(distinct, [&](unsigned k) { return llvm::is_contained(inRun, k); });
  auto spreadBits = [](Bits number, ArrayRef<unsigned> bits) {
    Bits x = 0;
    for (auto [j, k] : llvm::enumerate(bits))
      if (number & bit(j))
        x |= bit(k);
    return x;
  };
  for (Bits n = 0; n < bit(distinct.size()); ++n) {
    auto &run = runs.emplace_back();
    for (Bits i = 0; i < bit(inRun.size()); ++i)
      run.push_back(spreadBits(n, distinct) | spreadBits(i, inRun));
  }
}

/// Conditions are bytes in workgroup memory.
static Type storedType(Type element) {
  return element.isInteger(1) ? IntegerType::get(element.getContext(), 8)
                              : element;
}

static int64_t longestRun(const ThreadEmitter::Place &place) {
  auto memref = cast<MemRefType>(place.memref.getType());
  if (place.shape.empty() || !memref.isLastDimUnitStride() ||
      !memref.getElementType().isIntOrFloat())
    return 1;
  int64_t bits = memref.getElementTypeBitWidth();
  return bits < 8 ? 1
                  : std::min({place.shape.back(), place.run, kAccessBytes * 8 / bits});
}

/// The indices of elements whose numbers have these parts that do not depend on
/// the thread.
SmallVector<Values> ThreadEmitter::indicesOf(ArrayRef<Bits> firsts,
                                             ValueRange base,
                                             ArrayRef<int64_t> shape,
                                             const SpreadMap &map) {
  SmallVector<Values> indices(firsts.size());
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    SmallVector<Bits> columns;
    for (Bits element : map.ofThreads())
      columns.push_back(split(element, shape)[axis]);
    Bits image = imageOf(columns);
    Value own = linear(columns);
    for (auto [k, first] : llvm::enumerate(firsts)) {
      Value index = moved(own, image, split(first, shape)[axis]);
      if (!base.empty())
        index = arith::AddIOp::create(b, base[axis], index);
      indices[k].push_back(index);
    }
  }
  return indices;
}

Values ThreadEmitter::indices(unsigned axis, RankedTensorType tile) {
  SpreadMap map = getMap(tile);
  SmallVector<Bits> elements;
  for (Bits x = 0; x < bit(map.registers); ++x)
    elements.push_back(lego::multiply(map.ofRegisters(), x));
  auto shape = getPaddedShape(tile.getShape());
  return llvm::map_to_vector(indicesOf(elements, {}, shape, map),
                             [&](const Values &index) { return index[axis]; });
}

Values ThreadEmitter::load(const Place &place, const SpreadMap &map,
                           const llvm::BitVector &wanted, const Values &mask,
                           Value other) {
  auto type = cast<MemRefType>(place.memref.getType());
  Accesses accesses(map, longestRun(place));
  llvm::erase_if(accesses.runs,
                 [&](const auto &run) { return !wanted[run.front()]; });
  SmallVector<Bits> firsts;
  for (const auto &run : accesses.runs)
    firsts.push_back(lego::multiply(map.ofRegisters(), run.front()));
  Values loaded(bit(map.registers)), values;
  for (auto [run, index] :
       llvm::zip_equal(accesses.runs,
                       indicesOf(firsts, place.base, place.shape, map))) {
    if (run.size() == 1) {
      loaded[run.front()] = loadOne(place.memref, index,
                                    mask.empty() ? Value() : mask[run.front()],
                                    other);
      continue;
    }
    auto wide = VectorType::get({int64_t(run.size())}, type.getElementType());
    Value vector;
    if (mask.empty()) {
      vector = vector::LoadOp::create(b, wide, place.memref, index);
    } else {
      Value instead = vector::BroadcastOp::create(b, wide, other);
      vector = vector::MaskedLoadOp::create(b, wide, place.memref, index,
                                            pack(selected(mask, run)), instead);
    }
    for (auto [x, element] : llvm::zip_equal(run, unpack(vector)))
      loaded[x] = element;
  }
  for (Bits x = 0; x < loaded.size(); ++x)
    values.push_back(wanted[x] ? loaded[lego::multiply(accesses.represent, x)]
                               : Value());
  return values;
}

Value ThreadEmitter::loadOne(Value memref, const Values &index, Value condition,
                             Value other) {
  if (!condition)
    return memref::LoadOp::create(b, memref, index);
  auto branch = scf::IfOp::create(b, other.getType(), condition,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  Value read = memref::LoadOp::create(b, memref, index);
  scf::YieldOp::create(b, read);
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, other);
  return branch.getResult(0);
}

void ThreadEmitter::store(const Values &values, const Place &place,
                          const SpreadMap &map, const Values &mask) {
  Accesses accesses(map, longestRun(place));
  llvm::erase_if(accesses.runs,
                 [&](const auto &run) { return !values[run.front()]; });
  OpBuilder::InsertionGuard guard(b);
  auto enter = [&](Value condition) {
    auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
    b.setInsertionPointToStart(branch.thenBlock());
  };
  if (accesses.copies) {
    Value rest = arith::AndIOp::create(b, kernel.thread, constant(accesses.copies));
    enter(arith::CmpIOp::create(b, arith::CmpIPredicate::eq, rest, constant(0)));
  }
  SmallVector<Bits> firsts;
  for (const auto &run : accesses.runs)
    firsts.push_back(lego::multiply(map.ofRegisters(), run.front()));
  for (auto [run, index] :
       llvm::zip_equal(accesses.runs,
                       indicesOf(firsts, place.base, place.shape, map))) {
    OpBuilder::InsertionGuard each(b);
    if (run.size() == 1) {
      if (!mask.empty())
        enter(mask[run.front()]);
      memref::StoreOp::create(b, values[run.front()], place.memref, index);
    } else if (mask.empty()) {
      vector::StoreOp::create(b, pack(selected(values, run)), place.memref, index);
    } else {
      vector::MaskedStoreOp::create(b, place.memref, index,
                                    pack(selected(mask, run)),
                                    pack(selected(values, run)));
    }
  }
}

Values ThreadEmitter::unpack(Value vector) {
  return Values(vector::ToElementsOp::create(b, vector).getResults());
}

Value ThreadEmitter::pack(const Values &values) {
  auto type = VectorType::get({int64_t(values.size())}, values.front().getType());
  return vector::FromElementsOp::create(b, type, values);
}

Values ThreadEmitter::unpack(Value vector, RankedTensorType tile) {
  llvm::BitVector inside = getInsideRegisters(tile);
  Values values(inside.size());
  for (auto [x, element] : llvm::zip_equal(inside.set_bits(), unpack(vector)))
    values[x] = element;
  return values;
}

Value ThreadEmitter::pack(const Values &values, RankedTensorType tile) {
  llvm::BitVector inside = getInsideRegisters(tile);
  Values made;
  for (unsigned x : inside.set_bits())
    made.push_back(values[x]);
  return pack(made);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

Values ThreadEmitter::multiply(const MmaKind &kind, const MmaPlan &plan,
                               const Values &a, const Values &b_, Values acc) {
  auto fragment = [&](const Values &values, ArrayRef<Bits> registers,
                      int64_t elements) -> Value {
    Values taken = selected(values, registers);
    auto type = VectorType::get({int64_t(taken.size()) / elements, elements},
                                taken.front().getType());
    return vector::FromElementsOp::create(b, type, taken);
  };
  int64_t perRegister = bit(kind.neighbours);
  // Fragments are made where they are first multiplied.
  llvm::MapVector<Bits, Value> lefts, rights;
  for (const auto &each : plan.instructions) {
    Value &left = lefts[each.a.front()], &right = rights[each.b.front()];
    if (!left)
      left = fragment(a, each.a, perRegister);
    if (!right)
      right = fragment(b_, each.b, perRegister);
    Value sum = fragment(acc, each.c, 2);
    sum = nvgpu::MmaSyncOp::create(
        b, left, right, sum,
        ArrayRef<int64_t>{kind.rows(), kind.columns(), kind.depth()},
        /*tf32Enabled=*/left.getType() ==
            VectorType::get({4, 1}, b.getF32Type()));
    for (auto [x, element] : llvm::zip_equal(each.c, unpack(sum)))
      acc[x] = element;
  }
  return acc;
}

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

/// The registers under other numbers: x ^ the thread's image.
Values ThreadEmitter::permute(const Values &values, ArrayRef<Bits> columns) {
  Values result = values;
  for (unsigned j = 0; bit(j) < values.size(); ++j) {
    Bits mask = 0;
    for (auto [k, column] : llvm::enumerate(columns))
      if (column & bit(j))
        mask |= bit(k);
    if (!mask)
      continue;
    Value crossed = isOdd(mask);
    Values before = result;
    for (Bits x = 0; x < values.size(); ++x) {
      Value own = before[x], other = before[x ^ bit(j)];
      // A thread never uses the one that is outside of the tile.
      result[x] = own && other ? Value(arith::SelectOp::create(b, crossed, other, own))
                  : own        ? own
                               : other;
    }
  }
  return result;
}

/// Shuffles move words of 32 bits; other types are made of them.
Value ThreadEmitter::shuffle(Value value, gpu::ShuffleMode mode, Value lane) {
  Type type = value.getType();
  Type word = b.getI32Type();
  if (type.isIndex()) {
    value = arith::IndexCastOp::create(b, b.getI64Type(), value);
    return arith::IndexCastOp::create(b, type, shuffle(value, mode, lane));
  }
  unsigned bits = type.getIntOrFloatBitWidth();
  if (isa<FloatType>(type) && bits != 32) {
    value = arith::BitcastOp::create(b, b.getIntegerType(bits), value);
    return arith::BitcastOp::create(b, type, shuffle(value, mode, lane));
  }
  if (bits % 32) {
    Type words = b.getIntegerType(llvm::alignTo(bits, 32));
    value = arith::ExtUIOp::create(b, words, value);
    return arith::TruncIOp::create(b, type, shuffle(value, mode, lane));
  }
  if (bits == 32)
    return shuffleWord(value, mode, lane);
  Value result;
  for (unsigned first = 0; first < bits; first += 32) {
    Value part = value, distance;
    if (first) {
      distance = arith::ConstantIntOp::create(b, type, first);
      part = arith::ShRUIOp::create(b, value, distance);
    }
    part = arith::TruncIOp::create(b, word, part);
    part = arith::ExtUIOp::create(b, type, shuffleWord(part, mode, lane));
    if (first)
      part = arith::ShLIOp::create(b, part, distance);
    result = first ? Value(arith::OrIOp::create(b, result, part)) : part;
  }
  return result;
}

Value ThreadEmitter::shuffleWord(Value value, gpu::ShuffleMode mode, Value lane) {
  Value width = arith::ConstantIntOp::create(b, b.getI32Type(), 1 << laneBits);
  return gpu::ShuffleOp::create(b, value, lane, width, mode).getShuffleResult();
}

Values ThreadEmitter::exchange(const Values &values, const ExchangePlan &plan) {
  Values sent = permute(values, plan.send), read, result;
  bool ownLane = true; // but for a constant
  for (auto [k, lane] : llvm::enumerate(plan.lane))
    ownLane &= lane == (k < laneBits ? bit(k) : 0);
  Value base = ownLane ? Value() : linear(plan.lane);
  Bits image = imageOf(plan.lane);
  for (auto round : plan.rounds) {
    Value value = sent[round.sent];
    if (!value) { // outside of the tile
      read.push_back(value);
    } else if (!ownLane) {
      Value lane = arith::IndexCastUIOp::create(b, b.getI32Type(),
                                                moved(base, image, round.lane));
      read.push_back(shuffle(value, gpu::ShuffleMode::IDX, lane));
    } else if (round.lane) {
      Value lane = arith::ConstantIntOp::create(b, b.getI32Type(), round.lane);
      read.push_back(shuffle(value, gpu::ShuffleMode::XOR, lane));
    } else {
      read.push_back(value);
    }
  }
  Values kept = permute(read, plan.place);
  for (Bits x = 0; x < bit(plan.repeat.size()); ++x)
    result.push_back(kept[lego::multiply(plan.repeat, x)]);
  return result;
}

Values ThreadEmitter::exchangeThroughMemory(const Values &values,
                                            RankedTensorType source,
                                            RankedTensorType target) {
  Type type = source.getElementType(), stored = storedType(type);
  Values written = values;
  for (Value &value : written)
    if (value && stored != type)
      value = arith::ExtUIOp::create(b, stored, value);
  int64_t elements = 1;
  for (int64_t n : getPaddedShape(source.getShape()))
    elements *= n;
  Place scratch{kernel.getScratch(stored, elements), {},
                ArrayRef<int64_t>(elements), getWholeRun(source.getShape())};
  // What was in it before may still be read by other threads.
  gpu::BarrierOp::create(b);
  store(written, scratch, getMap(source));
  gpu::BarrierOp::create(b);
  Values result = load(scratch, getMap(target), getInsideRegisters(target));
  for (Value &value : result)
    if (value && stored != type)
      value = arith::TruncIOp::create(b, type, value);
  return result;
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

Values ThreadEmitter::reduce(Values values, const Parts &parts,
                             Combine combine) {
  const SpreadMap &kept = parts.kept, &reduced = parts.reduced;
  // Bits that count each element once.
  Span span;
  SmallVector<unsigned> summed;
  for (auto [k, element] : llvm::enumerate(reduced.columns))
    if (!span.add(element, 0))
      summed.push_back(k);
  SmallVector<unsigned> warpBits;
  for (unsigned k : summed) {
    if (k < reduced.registers) {
      for (Bits x = 0; x < values.size(); ++x) {
        Value &own = values[x];
        if (Value other = values[x | bit(k)]; other && !(x & bit(k)))
          own = own ? combine(own, other) : other;
      }
    } else if (k >= reduced.registers + reduced.lanes) {
      warpBits.push_back(k);
    }
  }
  // Registers whose bits number elements of the result.
  SpreadMap result{0, kept.lanes, kept.warps, {}};
  Values sums{values.front()};
  for (Bits k = 0, filled = 1; k < kept.registers; ++k) {
    if (!kept.columns[k])
      continue;
    result.columns.push_back(kept.columns[k]);
    ++result.registers;
    for (Bits x = 0; x < filled; ++x) {
      Bits from = 0;
      for (Bits j = 0, next = 0; j <= k; ++j)
        if (kept.columns[j] && ((x | filled) & bit(next++)))
          from |= bit(j);
      sums.push_back(values[from]);
    }
    filled *= 2;
  }
  llvm::append_range(result.columns, kept.ofThreads());
  for (unsigned k : summed) {
    if (k < reduced.registers || k >= reduced.registers + reduced.lanes)
      continue;
    Value lane = arith::ConstantIntOp::create(b, b.getI32Type(),
                                              bit(k - reduced.registers));
    for (Value &sum : sums)
      if (sum)
        sum = combine(sum, shuffle(sum, gpu::ShuffleMode::XOR, lane));
  }
  if (warpBits.empty())
    return sums;
  // The parts of each warp, one behind the other.
  SpreadMap placed = result;
  int64_t count = 1;
  SmallVector<Bits> columns;
  for (auto [j, k] : llvm::enumerate(warpBits)) {
    placed.columns[k - kept.registers + result.registers] |= parts.elements << j;
    columns.push_back(reduced.columns[k]);
    count *= 2;
  }
  Type type = sums.front().getType(), stored = storedType(type);
  auto cast = [&](Value value) -> Value {
    return stored == type || !value ? value
                                    : arith::ExtUIOp::create(b, stored, value);
  };
  auto castBack = [&](Value value) -> Value {
    return stored == type ? value : arith::TruncIOp::create(b, type, value);
  };
  llvm::BitVector inside(sums.size());
  for (auto [x, sum] : llvm::enumerate(sums))
    inside[x] = bool(sum);
  int64_t whole = count * parts.elements;
  Value scratch = kernel.getScratch(stored, whole);
  gpu::BarrierOp::create(b);
  store(llvm::to_vector(llvm::map_range(sums, cast)),
        {scratch, {}, ArrayRef<int64_t>(whole), parts.run}, placed);
  gpu::BarrierOp::create(b);
  ArrayRef<int64_t> own(parts.elements);
  for (int64_t part = 0; part < count; ++part) {
    if (!parts.isInside(lego::multiply(columns, part)))
      continue; // no warp of the block has it
    Value first = constant(part * parts.elements);
    Values read = load({scratch, first, own, parts.run}, result, inside);
    for (auto [sum, value] : llvm::zip_equal(sums, read))
      if (sum)
        sum = part ? combine(sum, castBack(value)) : castBack(value);
  }
  return sums;
}
