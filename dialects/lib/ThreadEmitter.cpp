//===- ThreadEmitter.cpp - Code of the threads of a kernel ------*- C++ -*-===//

#include "LegoMLIR/ThreadEmitter.h"
#include "LegoMLIR/TransformOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
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

static int64_t longestRun(MemRefType memref, ArrayRef<int64_t> shape) {
  if (shape.empty() || !memref.isLastDimUnitStride() ||
      !memref.getElementType().isIntOrFloat())
    return 1;
  int64_t bits = memref.getElementTypeBitWidth();
  return bits < 8 ? 1 : std::min(shape.back(), kAccessBytes * 8 / bits);
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

Values ThreadEmitter::load(Value memref, ValueRange base,
                           ArrayRef<int64_t> shape, const SpreadMap &map) {
  auto type = cast<MemRefType>(memref.getType());
  Accesses accesses(map, longestRun(type, shape));
  SmallVector<Bits> firsts;
  for (const auto &run : accesses.runs)
    firsts.push_back(multiply(map.ofRegisters(), run.front()));
  Values loaded(bit(map.registers)), values;
  for (auto [run, index] :
       llvm::zip_equal(accesses.runs, indicesOf(firsts, base, shape, map))) {
    if (run.size() == 1) {
      loaded[run.front()] = memref::LoadOp::create(b, memref, index);
      continue;
    }
    auto wide = VectorType::get({int64_t(run.size())}, type.getElementType());
    Values elements = unpack(vector::LoadOp::create(b, wide, memref, index));
    for (auto [x, element] : llvm::zip_equal(run, elements))
      loaded[x] = element;
  }
  for (Bits x = 0; x < loaded.size(); ++x)
    values.push_back(loaded[multiply(accesses.represent, x)]);
  return values;
}

void ThreadEmitter::store(const Values &values, Value memref, ValueRange base,
                          ArrayRef<int64_t> shape, const SpreadMap &map) {
  auto type = cast<MemRefType>(memref.getType());
  Accesses accesses(map, longestRun(type, shape));
  OpBuilder::InsertionGuard guard(b);
  if (accesses.copies) {
    Value rest = arith::AndIOp::create(b, kernel.thread, constant(accesses.copies));
    Value first = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, rest,
                                        constant(0));
    auto branch = scf::IfOp::create(b, first, /*withElseRegion=*/false);
    b.setInsertionPointToStart(branch.thenBlock());
  }
  SmallVector<Bits> firsts;
  for (const auto &run : accesses.runs)
    firsts.push_back(multiply(map.ofRegisters(), run.front()));
  for (auto [run, index] :
       llvm::zip_equal(accesses.runs, indicesOf(firsts, base, shape, map))) {
    if (run.size() == 1) {
      memref::StoreOp::create(b, values[run.front()], memref, index);
      continue;
    }
    Values elements;
    for (Bits x : run)
      elements.push_back(values[x]);
    vector::StoreOp::create(b, pack(elements), memref, index);
  }
}

Values ThreadEmitter::unpack(Value vector) {
  return Values(vector::ToElementsOp::create(b, vector).getResults());
}

Value ThreadEmitter::pack(const Values &values) {
  auto type = VectorType::get({int64_t(values.size())}, values.front().getType());
  return vector::FromElementsOp::create(b, type, values);
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
    for (Bits x = 0; x < values.size(); ++x)
      result[x] = arith::SelectOp::create(b, crossed, before[x ^ bit(j)],
                                          before[x]);
  }
  return result;
}

/// Shuffles move words of 32 bits; other types are made of them.
Value ThreadEmitter::shuffle(Value value, gpu::ShuffleMode mode, Value lane) {
  Type type = value.getType();
  Type word = b.getI32Type(), wide = b.getI64Type();
  if (type.isIndex()) {
    value = arith::IndexCastOp::create(b, wide, value);
    return arith::IndexCastOp::create(b, type, shuffle(value, mode, lane));
  }
  unsigned bits = type.getIntOrFloatBitWidth();
  if (isa<FloatType>(type) && bits != 32) {
    value = arith::BitcastOp::create(b, b.getIntegerType(bits), value);
    return arith::BitcastOp::create(b, type, shuffle(value, mode, lane));
  }
  if (bits < 32) {
    value = arith::ExtUIOp::create(b, word, value);
    return arith::TruncIOp::create(b, type, shuffleWord(value, mode, lane));
  }
  if (bits == 32)
    return shuffleWord(value, mode, lane);
  Value half = arith::ConstantIntOp::create(b, wide, 32);
  Value high = arith::ShRUIOp::create(b, value, half);
  Value parts[2] = {value, high};
  for (Value &part : parts) {
    part = arith::TruncIOp::create(b, word, part);
    part = arith::ExtUIOp::create(b, wide, shuffleWord(part, mode, lane));
  }
  return arith::OrIOp::create(b, parts[0],
                              arith::ShLIOp::create(b, parts[1], half));
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
    if (!ownLane) {
      Value lane = arith::IndexCastUIOp::create(b, b.getI32Type(),
                                                moved(base, image, round.lane));
      value = shuffle(value, gpu::ShuffleMode::IDX, lane);
    } else if (round.lane) {
      Value lane = arith::ConstantIntOp::create(b, b.getI32Type(), round.lane);
      value = shuffle(value, gpu::ShuffleMode::XOR, lane);
    }
    read.push_back(value);
  }
  Values kept = permute(read, plan.place);
  for (Bits x = 0; x < bit(plan.repeat.size()); ++x)
    result.push_back(kept[multiply(plan.repeat, x)]);
  return result;
}

Values ThreadEmitter::exchangeThroughMemory(const Values &values,
                                            const SpreadMap &source,
                                            const SpreadMap &target,
                                            int64_t elements) {
  Type type = values.front().getType(), stored = storedType(type);
  Values written = values;
  if (stored != type)
    for (Value &value : written)
      value = arith::ExtUIOp::create(b, stored, value);
  Value scratch = kernel.getScratch(stored, elements);
  // What was in it before may still be read by other threads.
  gpu::BarrierOp::create(b);
  store(written, scratch, {}, {elements}, source);
  gpu::BarrierOp::create(b);
  Values result = load(scratch, {}, {elements}, target);
  if (stored != type)
    for (Value &value : result)
      value = arith::TruncIOp::create(b, type, value);
  return result;
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

Values ThreadEmitter::reduce(Values values, const SpreadMap &kept,
                             const SpreadMap &reduced, int64_t elements,
                             Combine combine) {
  // Bits that count each element once.
  Span span;
  SmallVector<unsigned> summed;
  for (auto [k, element] : llvm::enumerate(reduced.columns))
    if (!span.add(element, 0))
      summed.push_back(k);
  SmallVector<unsigned> warpBits;
  for (unsigned k : summed) {
    if (k < reduced.registers) {
      for (Bits x = 0; x < values.size(); ++x)
        if (!(x & bit(k)))
          values[x] = combine(values[x], values[x | bit(k)]);
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
      sum = combine(sum, shuffle(sum, gpu::ShuffleMode::XOR, lane));
  }
  if (warpBits.empty())
    return sums;
  // The parts of each warp, one behind the other.
  SpreadMap parts = result;
  for (auto [j, k] : llvm::enumerate(warpBits))
    parts.columns[k - kept.registers + result.registers] |= elements << j;
  int64_t count = int64_t(1) << warpBits.size();
  Type type = sums.front().getType(), stored = storedType(type);
  auto cast = [&](Value value) -> Value {
    return stored == type ? value : arith::ExtUIOp::create(b, stored, value);
  };
  auto castBack = [&](Value value) -> Value {
    return stored == type ? value : arith::TruncIOp::create(b, type, value);
  };
  Value scratch = kernel.getScratch(stored, count * elements);
  gpu::BarrierOp::create(b);
  store(llvm::to_vector(llvm::map_range(sums, cast)), scratch, {},
        {count * elements}, parts);
  gpu::BarrierOp::create(b);
  for (int64_t part = 0; part < count; ++part) {
    Values read = load(scratch, {constant(part * elements)}, {elements}, result);
    for (auto [sum, value] : llvm::zip_equal(sums, read))
      sum = part ? combine(sum, castBack(value)) : castBack(value);
  }
  return sums;
}
