//===- ExchangePlan.cpp - How a tile changes its layout ---------*- C++ -*-===//
//
// Let S and T be the matrices of the source and of the target, and M a matrix
// from places to places with S M = T: what place p wants is at place M p. If M
// keeps warps, its rows for registers and lanes are
//
//   register' = A register + B thread       lane' = C register + E thread
//
// A shuffle gives each lane one value of one lane, so the register that lane'
// sends must depend on lane' alone. In round k a thread asks for its register
// k + G thread, where G is chosen so that Z = C G + E loses no more lanes than
// hold copies: then the thread is a function of lane' = C k + Z thread, up to
// copies, and with it the register. Such a G exists whenever the rounds are as
// many as some lane's registers that are wanted by others; it is found column
// by column. (Linear Layouts, section 5.4, finds the same rounds by a basis of
// the quotient.)
//
//===----------------------------------------------------------------------===//

#include "LegoMLIR/Spread.h"

using namespace mlir;
using namespace lego;

namespace {

/// Makes one plan.
class Planner {
public:
  Planner(const SpreadMap &source, const SpreadMap &target)
      : source(source), target(target) {}

  ExchangePlan plan();

private:
  void dropRepeated();
  bool solve();
  bool chooseRegisters();
  void invertLanes();

  Bits registerOf(Bits place) const {
    return place & (bit(source.registers) - 1);
  }
  Bits laneOf(Bits place) const {
    return place >> source.registers & (bit(source.lanes) - 1);
  }

  const SpreadMap &source, &target;
  ExchangePlan result;
  SmallVector<Bits> kept;              // independent bases of target registers
  SmallVector<Bits> registers, threads; // columns of M: places of the source
  SmallVector<Bits> sending;           // a register for each bit of lane'
  Span lanes;                          // images of Z, with threads
};

} // namespace

/// Registers of the target with the element of others.
void Planner::dropRepeated() {
  Span span;
  for (Bits element : target.ofRegisters()) {
    auto others = span.add(element, bit(kept.size()));
    result.repeat.push_back(others.value_or(bit(kept.size())));
    if (!others)
      kept.push_back(element);
  }
}

/// The matrix M: the thread itself, corrected by as few lanes and warps as the
/// order of columns allows. False if an element is in another warp.
bool Planner::solve() {
  Span span;
  for (auto [k, column] : llvm::enumerate(source.columns))
    span.add(column, bit(k));
  for (Bits element : kept)
    registers.push_back(*span.solve(element));
  for (auto [k, element] : llvm::enumerate(target.ofThreads()))
    threads.push_back(bit(source.registers + k) ^
                      *span.solve(element ^ source.ofThreads()[k]));
  Bits inWarp = bit(source.registers + source.lanes) - 1;
  for (Bits place : registers)
    if (place & ~inWarp)
      return false;
  for (auto [k, place] : llvm::enumerate(threads)) {
    Bits own = k < source.lanes ? 0 : bit(source.registers + k);
    if ((place & ~inWarp) != own)
      return false;
  }
  return true;
}

/// The matrix G, and with it Z. False if there is none.
bool Planner::chooseRegisters() {
  Span places;
  for (auto [k, place] : llvm::enumerate(registers))
    places.add(place, bit(k));
  for (unsigned k = 0; k < source.lanes; ++k) {
    Bits asked = 0;
    // A lane with the copies of others reads where they do.
    if (auto copies = places.add(threads[k], bit(kept.size() + k))) {
      asked = *copies & (bit(kept.size()) - 1);
      asked ^= multiply(result.place, *copies >> kept.size());
      result.place.push_back(asked);
      result.lane.push_back(laneOf(threads[k] ^ multiply(registers, asked)));
      continue;
    }
    bool found = false;
    for (unsigned j = 0; j <= kept.size() && !found; ++j) {
      asked = j ? bit(j - 1) : 0;
      Bits lane = laneOf(threads[k] ^ multiply(registers, asked));
      found = !lanes.add(lane, bit(k));
    }
    if (!found)
      return false;
    result.place.push_back(asked);
    result.lane.push_back(laneOf(threads[k] ^ multiply(registers, asked)));
  }
  return true;
}

/// The register that a lane sends: that of the threads that read it. Lanes that
/// nobody reads complete the basis with any.
void Planner::invertLanes() {
  for (unsigned k = 0; k < source.lanes; ++k)
    lanes.add(bit(k), 0);
  for (unsigned k = 0; k < source.lanes; ++k) {
    Bits reader = *lanes.solve(bit(k));
    Bits asked = multiply(result.place, reader);
    sending.push_back(registerOf(multiply(threads, reader) ^
                                 multiply(registers, asked)));
  }
}

ExchangePlan Planner::plan() {
  dropRepeated();
  if (!solve() || !chooseRegisters())
    return ExchangePlan{ExchangePlan::Memory, {}, {}, {}, result.repeat, {}};
  invertLanes();
  bool moves = false;
  result.send = sending;
  for (unsigned k = source.lanes; k < source.threads(); ++k) {
    result.place.push_back(0);
    result.lane.push_back(laneOf(threads[k]));
    result.send.push_back(registerOf(threads[k]) ^
                          multiply(sending, laneOf(threads[k])));
  }
  for (auto [k, lane] : llvm::enumerate(result.lane))
    moves |= lane != (k < source.lanes ? bit(k) : 0);
  for (Bits k = 0; k < bit(kept.size()); ++k) {
    Bits place = multiply(registers, k);
    Bits lane = laneOf(place);
    moves |= lane != 0;
    result.rounds.push_back({registerOf(place) ^ multiply(sending, lane), lane});
  }
  result.kind = moves ? ExchangePlan::Shuffles : ExchangePlan::InThread;
  return result;
}

ExchangePlan lego::planExchange(const SpreadMap &source,
                                const SpreadMap &target) {
  return Planner(source, target).plan();
}
