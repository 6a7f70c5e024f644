//===- SharedLayouts.cpp - Bank conflicts of an allocation ------*- C++ -*-===//
//
// Shared memory has 32 banks of 4 bytes. A request of a warp takes one
// wavefront for each different word that it needs of one bank; wide accesses
// are split into groups of lanes that together move 128 bytes. (CUDA C++
// programming guide, "Shared Memory".) The indices of every access are
// evaluated for the lanes of the first warp, with loop variables at their first
// iterations, and the wavefronts are counted under each candidate layout.
//
//===----------------------------------------------------------------------===//

#include "LegoMLIR/Integers.h"
#include "LegoMLIR/ThreadEmitter.h"
#include "LegoMLIR/TransformOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace lego;

static constexpr int64_t kBanks = 32, kBankBytes = 4, kLanes = 32;
/// Most threads of a block.
static constexpr int64_t kThreads = 1024;
/// Iterations of loops whose requests are counted.
static constexpr int64_t kIterations = 4;
/// Elements of a row that padding may add, and operations that are counted for
/// each: the swizzle computes two or three more than rows.
static constexpr int64_t kPads[] = {1, 2, 4, 8, 16};

namespace {

/// One access of all lanes: logical indices, none for a lane that is inactive.
struct Request {
  SmallVector<std::optional<SmallVector<int64_t>>> lanes;
  int64_t elements; // of each lane
};

/// Evaluates SSA values for one thread.
class ThreadEvaluator {
public:
  ThreadEvaluator(ArrayRef<int64_t> block, int64_t lane, int64_t iteration)
      : iteration(iteration) {
    ids = {lane % block[0], lane / block[0] % block[1],
           lane / (block[0] * block[1])};
  }

  std::optional<int64_t> evaluate(Value value, unsigned depth = 0);

private:
  std::optional<int64_t> argument(BlockArgument argument, unsigned depth);
  std::optional<int64_t> folded(OpResult result, unsigned depth);

  SmallVector<int64_t, 3> ids;
  int64_t iteration;
  DenseMap<Value, std::optional<int64_t>> known;
};

} // namespace

std::optional<int64_t> ThreadEvaluator::evaluate(Value value, unsigned depth) {
  auto found = known.find(value);
  if (found != known.end())
    return found->second;
  std::optional<int64_t> result;
  if (depth < 256) {
    if (auto block = dyn_cast<BlockArgument>(value))
      result = argument(block, depth + 1);
    else
      result = folded(cast<OpResult>(value), depth + 1);
  }
  known[value] = result;
  return result;
}

std::optional<int64_t> ThreadEvaluator::argument(BlockArgument argument,
                                                 unsigned depth) {
  Operation *parent = argument.getOwner()->getParentOp();
  if (auto launch = dyn_cast<gpu::LaunchOp>(parent)) {
    for (auto [id, thread] : llvm::zip(ids, getAxes(launch.getThreadIds())))
      if (thread == argument)
        return id;
    if (llvm::is_contained(getAxes(launch.getBlockIds()), argument))
      return 0;
    for (auto [size, given] :
         llvm::zip(getAxes(launch.getBlockSize()),
                   getAxes(launch.getBlockSizeOperandValues())))
      if (size == argument)
        return evaluate(given, depth);
    return std::nullopt;
  }
  auto loop = dyn_cast<LoopLikeOpInterface>(parent);
  auto variables = loop ? loop.getLoopInductionVars() : std::nullopt;
  auto lows = loop ? loop.getLoopLowerBounds() : std::nullopt;
  auto steps = loop ? loop.getLoopSteps() : std::nullopt;
  if (!variables || !lows || !steps)
    return std::nullopt;
  auto valueOf = [&](OpFoldResult bound) -> std::optional<int64_t> {
    if (auto constant = getConstantIntValue(bound))
      return constant;
    return evaluate(cast<Value>(bound), depth);
  };
  for (auto [variable, low, step] : llvm::zip_equal(*variables, *lows, *steps))
    if (variable == argument) {
      auto first = valueOf(low), by = valueOf(step);
      int64_t distance, value;
      if (!first || !by || llvm::MulOverflow(iteration, *by, distance) ||
          llvm::AddOverflow(*first, distance, value))
        return std::nullopt;
      return value;
    }
  return std::nullopt;
}

std::optional<int64_t> ThreadEvaluator::folded(OpResult result,
                                               unsigned depth) {
  Operation *op = result.getOwner();
  if (auto id = dyn_cast<gpu::ThreadIdOp>(op))
    return ids[unsigned(id.getDimension())];
  if (isa<gpu::BlockIdOp>(op))
    return 0;
  if (op->getNumRegions() || !isMemoryEffectFree(op))
    return std::nullopt;
  Builder builder(op->getContext());
  SmallVector<Attribute> operands;
  for (Value operand : op->getOperands()) {
    auto value = evaluate(operand, depth);
    if (!value || !operand.getType().isIntOrIndex())
      return std::nullopt;
    operands.push_back(builder.getIntegerAttr(operand.getType(), *value));
  }
  SmallVector<OpFoldResult> values;
  if (failed(op->fold(operands, values)) || values.empty())
    return std::nullopt;
  OpFoldResult value = values[result.getResultNumber()];
  if (auto other = dyn_cast<Value>(value))
    return evaluate(other, depth);
  auto constant = dyn_cast<IntegerAttr>(cast<Attribute>(value));
  if (!constant)
    return std::nullopt;
  // A condition is 0 or 1.
  return constant.getType().isInteger(1) ? int64_t(constant.getValue().getZExtValue())
                                         : constant.getValue().getSExtValue();
}

//===----------------------------------------------------------------------===//
// Requests
//===----------------------------------------------------------------------===//

/// Whether the branches of the kernel around an operation are taken.
static std::optional<bool> isActive(ThreadEvaluator &thread, Operation *op) {
  for (Operation *child = op; !isa<gpu::LaunchOp, gpu::GPUFuncOp>(child);
       child = child->getParentOp()) {
    Operation *parent = child->getParentOp();
    auto branch = dyn_cast<scf::IfOp>(parent);
    if (!branch)
      continue;
    auto condition = thread.evaluate(branch.getCondition());
    if (!condition)
      return std::nullopt;
    bool inThen = child->getParentRegion() == &branch.getThenRegion();
    if (inThen != bool(*condition))
      return false;
  }
  return true;
}

static ValueRange indicesOf(Operation *access) {
  return llvm::TypeSwitch<Operation *, ValueRange>(access)
      .Case<memref::LoadOp, memref::StoreOp, vector::LoadOp, vector::StoreOp>(
          [](auto op) -> ValueRange { return op.getIndices(); })
      .Default([](Operation *) { return ValueRange(); });
}

static int64_t elementsOf(Operation *access) {
  if (auto load = dyn_cast<vector::LoadOp>(access))
    return load.getVectorType().getNumElements();
  if (auto store = dyn_cast<vector::StoreOp>(access))
    return store.getVectorType().getNumElements();
  return 1;
}

static std::optional<Request> requestOf(Operation *access,
                                        ArrayRef<int64_t> block,
                                        int64_t iteration) {
  Request request;
  request.elements = elementsOf(access);
  int64_t threads = block[0] * block[1] * block[2];
  for (int64_t lane = 0; lane < std::min(kLanes, threads); ++lane) {
    ThreadEvaluator thread(block, lane, iteration);
    auto active = isActive(thread, access);
    if (!active)
      return std::nullopt;
    request.lanes.emplace_back();
    if (!*active)
      continue;
    SmallVector<int64_t> index;
    for (Value value : indicesOf(access)) {
      auto i = thread.evaluate(value);
      if (!i)
        return std::nullopt;
      index.push_back(*i);
    }
    request.lanes.back() = std::move(index);
  }
  return request;
}

/// The wavefronts of a request whose lanes access `bytes` each at addresses.
static int64_t countWavefronts(ArrayRef<std::optional<int64_t>> addresses,
                               int64_t bytes) {
  int64_t lanes = std::clamp<int64_t>(kBanks * kBankBytes / bytes, 1, kLanes);
  int64_t wavefronts = 0;
  for (size_t first = 0; first < addresses.size(); first += lanes) {
    SmallVector<SetVector<int64_t>> words(kBanks);
    for (auto address : addresses.slice(
             first, std::min<size_t>(lanes, addresses.size() - first)))
      for (int64_t byte = 0; address && byte < bytes; byte += kBankBytes) {
        int64_t word = (*address + byte) / kBankBytes;
        words[word % kBanks].insert(word);
      }
    size_t most = 0;
    for (const auto &bank : words)
      most = std::max(most, bank.size());
    wavefronts += most;
  }
  return wavefronts;
}

/// The wavefronts of all requests under a layout; none if an index is outside
/// it, or a vector is not contiguous.
static std::optional<int64_t> countWavefronts(ArrayRef<Request> requests,
                                              LayoutAttr layout,
                                              int64_t elementBytes) {
  Integers integers(nullptr);
  Evaluator<Integers> evaluator(integers);
  auto sizes = *layout.getConstantSizes();
  int64_t total = 0;
  for (const Request &request : requests) {
    SmallVector<std::optional<int64_t>> addresses;
    for (const auto &lane : request.lanes) {
      if (!lane) {
        addresses.push_back(std::nullopt);
        continue;
      }
      SmallVector<int64_t> index(*lane);
      int64_t position = 0;
      for (int64_t k = 0; k < request.elements; ++k, ++index.back()) {
        for (auto [i, n] : llvm::zip_equal(index, sizes))
          if (i < 0 || i >= n)
            return std::nullopt;
        int64_t at = evaluator.apply(layout.getView(), index);
        if (k && at != position + k)
          return std::nullopt;
        position = k ? position : at;
      }
      // A vector must also be aligned.
      if (position % request.elements)
        return std::nullopt;
      addresses.push_back(position * elementBytes);
    }
    total += countWavefronts(addresses, request.elements * elementBytes);
  }
  return integers.failed ? std::nullopt : std::optional(total);
}

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

/// Layouts in the order of their cost: rows, swizzles (no memory), padding.
static SmallVector<LayoutAttr> candidatesOf(MemRefType type) {
  MLIRContext *context = type.getContext();
  ArrayRef<int64_t> shape = type.getShape();
  auto sizeOf = [&](int64_t n) { return getAffineConstantExpr(n, context); };
  SmallVector<AffineExpr> sizes;
  SmallVector<int64_t> sigma;
  for (int64_t n : shape) {
    sizes.push_back(sizeOf(n));
    sigma.push_back(sigma.size() + 1);
  }
  auto viewOf = [&](Attribute perm, ArrayRef<AffineExpr> dims) {
    auto order = OrderByAttr::get(context, {perm});
    return GroupByAttr::get(context, {order}, dims, {int64_t(dims.size())});
  };
  SmallVector<LayoutAttr> found;
  auto add = [&](Attribute view) {
    found.push_back(LayoutAttr::get(context, {}, view));
  };
  add(viewOf(RegPAttr::get(context, sizes, sigma), sizes));
  if (shape.size() < 2)
    return found;
  int64_t columns = shape.back(), rows = type.getNumElements() / columns;
  for (int64_t vec = 1; vec <= 16 && columns % vec == 0; vec *= 2)
    for (int64_t perPhase : {1, 2, 4, 8}) {
      int64_t groups = columns / vec, phases = groups & -groups;
      for (; phases > 1; phases /= 2) {
        bool largest = phases == (groups & -groups);
        auto swizzle = GalleryAttr::get(
            context, GalleryKind::XorSwizzle, {sizeOf(rows), sizeOf(columns)},
            {vec, perPhase, largest ? 0 : phases});
        add(viewOf(swizzle, sizes));
      }
    }
  for (int64_t pad : kPads) {
    auto padded = sizes;
    padded.back() = sizeOf(columns + pad);
    add(PaddedAttr::get(
        context, viewOf(RegPAttr::get(context, padded, sigma), padded), sizes));
  }
  return found;
}

SharedLayout lego::chooseSharedLayout(memref::AllocOp alloc,
                                      std::string &reason) {
  MemRefType type = alloc.getType();
  int64_t bits = type.getElementType().isIntOrFloat()
                     ? type.getElementType().getIntOrFloatBitWidth()
                     : 64;
  auto block = getBlockSize(getKernelOf(alloc));
  int64_t threads = block.empty() ? 0 : 1;
  for (int64_t n : block)
    threads = n > 0 && n <= kThreads ? threads * n : 0;
  if (threads < 1 || threads > kThreads) {
    reason = "it is not in a gpu.launch or gpu.func with a known block size of 1 "
             "to 1024 threads";
    return {};
  }
  if (!type.getRank() || !type.getNumElements())
    return {}; // nothing to permute
  SmallVector<Request> requests;
  for (Operation *user : alloc->getUsers()) {
    if (isa<memref::DeallocOp>(user))
      continue;
    for (int64_t iteration = 0; iteration < kIterations; ++iteration) {
      auto request = requestOf(user, block, iteration);
      if (!request) {
        reason = "the index of an access depends on data";
        return {};
      }
      requests.push_back(std::move(*request));
    }
  }
  // Iterations that a loop does not reach.
  llvm::erase_if(requests, [&](const Request &request) {
    return llvm::any_of(request.lanes, [&](const auto &lane) {
      return lane && llvm::any_of(llvm::zip_equal(*lane, type.getShape()),
                                  [](auto pair) {
                                    auto [i, n] = pair;
                                    return i < 0 || i >= n;
                                  });
    });
  });
  SharedLayout best;
  bool first = true;
  int64_t elementBytes = llvm::divideCeil(bits, 8);
  for (LayoutAttr layout : candidatesOf(type)) {
    auto wavefronts = countWavefronts(requests, layout, elementBytes);
    if (!wavefronts)
      continue;
    if (first)
      best = {LayoutAttr(), *wavefronts, *wavefronts};
    else if (*wavefronts < best.wavefronts)
      best = {layout, *wavefronts, best.rowMajor};
    first = false;
  }
  return best;
}
