//===- SpreadAttr.cpp - The text and verifier of #lego.spread ---*- C++ -*-===//

#include "LegoMLIR/Limits.h"
#include "LegoMLIR/MmaPlan.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace lego;

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// `name = [[..], ..]`: one basis for each bit, appended to those before it.
static ParseResult parseBases(AsmParser &parser, StringRef name, unsigned limit,
                              std::optional<unsigned> &rank, unsigned &bits,
                              SmallVectorImpl<int64_t> &bases) {
  auto parseBasis = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    size_t before = bases.size();
    auto parseOne = [&]() -> ParseResult {
      if (bases.size() - before == kMaxRank)
        return parser.emitError(loc, "a tile has at most ") << kMaxRank << " axes";
      return parser.parseInteger(bases.emplace_back());
    };
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
      return failure();
    unsigned found = bases.size() - before;
    if (rank.value_or(found) != found)
      return parser.emitError(loc, "this basis has ")
             << found << " coordinates, those before it have " << *rank;
    rank = found;
    if (++bits > limit)
      return parser.emitError(loc, "a layout has at most ")
             << limit << " bases of '" << name << "'";
    return success();
  };
  return failure(parser.parseKeyword(name) || parser.parseEqual() ||
                 parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                                parseBasis));
}

Attribute SpreadAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  std::optional<unsigned> rank;
  unsigned registers = 0, lanes = 0, warps = 0;
  SmallVector<int64_t> bases;
  int64_t copies = 1;
  SmallVector<int64_t> box;
  if (parser.parseLess() ||
      parseBases(parser, "register", kMaxRegisterBits, rank, registers, bases) ||
      parser.parseComma() ||
      parseBases(parser, "lane", kMaxLaneBits, rank, lanes, bases) ||
      parser.parseComma() ||
      parseBases(parser, "warp", kMaxThreadBits, rank, warps, bases))
    return {};
  auto parseSize = [&]() -> ParseResult {
    SMLoc at = parser.getCurrentLocation();
    if (box.size() == kMaxRank)
      return parser.emitError(at, "a tile has at most ") << kMaxRank << " axes";
    return parser.parseInteger(box.emplace_back());
  };
  bool given = succeeded(parser.parseOptionalComma());
  if (given && succeeded(parser.parseOptionalKeyword("copies"))) {
    if (parser.parseEqual() || parser.parseInteger(copies))
      return {};
    given = succeeded(parser.parseOptionalComma());
  }
  if (given &&
      (parser.parseKeyword("box", "; after the bases follow 'copies' and 'box'") ||
       parser.parseEqual() ||
       parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseSize)))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<SpreadAttr>(loc, parser.getContext(), registers,
                                       lanes, warps,
                                       ArrayRef<int64_t>(bases), copies,
                                       ArrayRef<int64_t>(box));
}

void SpreadAttr::print(AsmPrinter &printer) const {
  unsigned next = 0;
  auto printBases = [&](StringRef name, unsigned bits) {
    printer << name << " = [";
    for (unsigned k = 0; k < bits; ++k) {
      printer << (k ? ", [" : "[");
      llvm::interleaveComma(getBasis(next++), printer);
      printer << ']';
    }
    printer << ']';
  };
  printer << '<';
  printBases("register", getRegisterBits());
  printer << ", ";
  printBases("lane", getLaneBits());
  printer << ", ";
  printBases("warp", getWarpBits());
  if (getCopies() != 1)
    printer << ", copies = " << getCopies();
  if (!getBox().empty()) {
    printer << ", box = [";
    llvm::interleaveComma(getBox(), printer);
    printer << ']';
  }
  printer << '>';
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

/// The power of two above all coordinates of an axis.
static SmallVector<int64_t> tileOf(ArrayRef<int64_t> bases, unsigned rank) {
  SmallVector<int64_t> shape(rank, 1);
  for (auto [k, coordinate] : llvm::enumerate(bases))
    while (shape[k % rank] <= coordinate)
      shape[k % rank] *= 2;
  return shape;
}

SmallVector<int64_t> SpreadAttr::getTileShape() const {
  return tileOf(getBases(), getRank());
}

SmallVector<int64_t> SpreadAttr::getShape() const {
  return getBox().empty() ? getTileShape() : SmallVector<int64_t>(getBox());
}

bool SpreadAttr::isInside(ArrayRef<int64_t> index) const {
  return llvm::all_of(llvm::zip(index, getBox()), [](auto pair) {
    auto [i, n] = pair;
    return (i & -(n & -n)) < n;
  });
}

std::string SpreadAttr::getMisfit(int64_t threads) const {
  std::string why;
  llvm::raw_string_ostream os(why);
  int64_t lanes = int64_t(1) << getLaneBits(), most = int64_t(1) << getWarpBits();
  int64_t warps = threads / lanes;
  if (threads % lanes || warps > most || warps <= most / 2) {
    os << "has a tile for " << lanes * most << " threads";
    return why;
  }
  int64_t zeros = 0; // bits of warps that only repeat elements
  for (unsigned k = 0; k < getWarpBits(); ++k)
    if (llvm::all_of(getBasis(getRegisterBits() + getLaneBits() + k),
                     [](int64_t i) { return i == 0; }))
      zeros |= int64_t(1) << k;
  for (int64_t warp = 0; warp < most; ++warp) {
    SmallVector<int64_t> index(getRank());
    for (unsigned k = 0; k < getWarpBits(); ++k)
      if (warp >> k & 1)
        for (auto [i, j] :
             llvm::zip_equal(index, getBasis(getRegisterBits() + getLaneBits() + k)))
          i ^= j;
    bool inside = isInside(index);
    if (warp < warps && !inside)
      os << "has a tile of which warp " << warp << " is outside";
    else if (warp >= warps && inside && (warp & ~zeros) >= warps)
      os << "has a tile of which warp " << warp << " holds elements";
    else
      continue;
    return why;
  }
  return why;
}

static std::string crossed(ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleave(shape, os, "x");
  return shape.empty() ? "one element" : text;
}

/// That the box ends between registers or between warps.
static LogicalResult
verifyBox(llvm::function_ref<InFlightDiagnostic()> emitError,
          ArrayRef<int64_t> tile, ArrayRef<int64_t> box, ArrayRef<int64_t> bases,
          unsigned registerBits, unsigned laneBits) {
  if (box.empty())
    return success();
  if (box.size() != tile.size())
    return emitError() << "the box has " << box.size() << " sizes, the tile has "
                       << tile.size() << " axes";
  if (llvm::equal(box, tile))
    return emitError() << "the box is the tile of " << crossed(tile)
                       << " itself; leave it out";
  for (auto [axis, n, b] : llvm::enumerate(tile, box)) {
    if (b > n || b <= n / 2)
      return emitError() << "size " << b << " of the box must be from "
                         << n / 2 + 1 << " to " << n << " along axis " << axis;
    if (b == n)
      continue;
    // Elements from here on may be inside or outside.
    int64_t whole = b & -b;
    bool registers = false, lanes = false, warps = false;
    for (size_t k = 0; k * tile.size() < bases.size(); ++k)
      if (bases[k * tile.size() + axis] >= whole)
        (k < registerBits              ? registers
         : k < registerBits + laneBits ? lanes
                                       : warps) = true;
    if (lanes || (registers && warps))
      return emitError() << "the box ends inside what "
                         << (lanes ? "lanes" : "registers and warps together")
                         << " hold along axis " << axis
                         << "; only registers, or only warps, may have bases of "
                         << whole << " and more along it";
  }
  return success();
}

LogicalResult
SpreadAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                   unsigned registerBits, unsigned laneBits, unsigned warpBits,
                   ArrayRef<int64_t> bases, int64_t copies,
                   ArrayRef<int64_t> box) {
  unsigned bits = registerBits + laneBits + warpBits;
  if (registerBits > kMaxRegisterBits || laneBits > kMaxLaneBits ||
      laneBits + warpBits > kMaxThreadBits)
    return emitError() << "a block has at most " << (1u << kMaxThreadBits)
                       << " threads, got 2^" << laneBits + warpBits;
  if (bits ? bases.size() % bits != 0 : !bases.empty())
    return emitError() << "each of " << bits
                       << " bases must have a coordinate for each axis";
  // An axis longer than the number of places cannot be reached.
  for (int64_t coordinate : bases)
    if (coordinate < 0 || coordinate >= int64_t(1) << bits)
      return emitError() << "coordinate " << coordinate
                         << " of a basis must be from 0 to "
                         << (int64_t(1) << bits) - 1
                         << ", as there are 2^" << bits << " places";
  unsigned rank = bits ? bases.size() / bits : 0;
  SmallVector<int64_t> shape = tileOf(bases, rank);
  unsigned elementBits = 0;
  for (int64_t n : shape)
    elementBits += llvm::Log2_64(n);
  if (elementBits > bits)
    return emitError() << "the bases reach into a tile of " << crossed(shape)
                       << ", which has more elements than there are places, 2^"
                       << bits;
  Span span;
  unsigned independent = 0;
  for (unsigned k = 0; k < bits; ++k)
    independent += !span.add(join(bases.slice(k * rank, rank), shape), 0);
  for (unsigned k = 0; k < elementBits; ++k)
    if (!span.solve(bit(k))) {
      auto error = emitError() << "element [";
      llvm::interleaveComma(split(bit(k), shape), error);
      return error << "] of the tile of " << crossed(shape)
                   << " has no place: it is not the exclusive or of any bases";
    }
  if (copies != int64_t(1) << (bits - independent))
    return emitError() << "each element has " << (int64_t(1) << (bits - independent))
                       << " places, 'copies' is " << copies;
  return verifyBox(emitError, shape, box, bases, registerBits, laneBits);
}

LogicalResult SpreadAttr::verifyEncoding(
    ArrayRef<int64_t> shape, Type elementType,
    llvm::function_ref<InFlightDiagnostic()> emitError) const {
  if (!elementType) // it could not be parsed, which has been said
    return failure();
  if (!elementType.isIntOrIndexOrFloat())
    return emitError() << "a spread tile has elements of integer, index or float "
                          "type, got "
                       << elementType;
  bool single = llvm::all_of(shape, [](int64_t n) { return n == 1; });
  if (getNumBits() ? getShape() != shape : !single)
    return emitError() << "the layout spreads a tile of " << crossed(getShape())
                       << ", the tensor is " << crossed(shape)
                       << (getBox().empty() && getNumBits() &&
                                   getTileShape() == ArrayRef(getPaddedShape(shape))
                               ? "; write its sizes as 'box'"
                               : "");
  return success();
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

LogicalResult ConvertOp::verify() {
  SpreadAttr source = getSpread(getSource().getType());
  SpreadAttr result = getSpread(getType());
  if (getSource().getType().getEncoding() != source ||
      getType().getEncoding() != result || (!source && !result))
    return emitOpError() << "needs tensors with the encoding #lego.spread; one of "
                            "them may have none until lego-propagate-spread";
  if (!source || !result)
    return success();
  if (source.getLaneBits() != result.getLaneBits() ||
      source.getWarpBits() != result.getWarpBits())
    return emitOpError() << "needs the same lanes and warps on both sides: "
                         << source << " and " << result;
  return success();
}

OpFoldResult ConvertOp::fold(FoldAdaptor adaptor) {
  if (getSource().getType() == getType())
    return getSource();
  auto splat = dyn_cast_or_null<SplatElementsAttr>(adaptor.getSource());
  if (splat && getSpread(getType()))
    return splat.resizeSplat(getType());
  auto inner = getSource().getDefiningOp<ConvertOp>();
  if (inner && getSpread(inner.getSource().getType()) &&
      getSpread(getSource().getType()) && getSpread(getType())) {
    getSourceMutable().assign(inner.getSource());
    return getResult();
  }
  return {};
}

static LogicalResult verifyAccess(Operation *op, MemRefType memref,
                                  RankedTensorType tile, size_t indices,
                                  Value mask) {
  if (memref.getElementType() != tile.getElementType() ||
      memref.getRank() != tile.getRank())
    return op->emitOpError() << "needs a memref with the element type and the "
                                "number of axes of the tile, got "
                             << memref << " and " << tile;
  if (indices != size_t(tile.getRank()))
    return op->emitOpError() << "has " << indices << " indices, the tile has "
                             << tile.getRank() << " axes";
  if (!tile.hasStaticShape() || (tile.getEncoding() && !getSpread(tile)))
    return op->emitOpError() << "needs a tile of static shape, with the encoding "
                                "#lego.spread or none, got "
                             << tile;
  if (mask) {
    auto type = cast<RankedTensorType>(mask.getType());
    if (!type.getElementType().isInteger(1) || type.getShape() != tile.getShape())
      return op->emitOpError() << "needs a mask of i1 in the shape of the tile, got "
                               << type << " and " << tile;
  }
  return success();
}

LogicalResult TileLoadOp::verify() {
  if (bool(getMask()) != bool(getOther()) ||
      (getOther() && getOther().getType() != getType().getElementType()))
    return emitOpError() << "needs with a mask, and only then, a number of type "
                         << getType().getElementType()
                         << " for elements that are not loaded";
  return verifyAccess(*this, cast<MemRefType>(getMemref().getType()), getType(),
                      getIndices().size(), getMask());
}

LogicalResult TileStoreOp::verify() {
  return verifyAccess(*this, cast<MemRefType>(getMemref().getType()),
                      getValue().getType(), getIndices().size(), getMask());
}

LogicalResult TileIndexOp::verify() {
  if (!getType().getElementType().isIndex() || !getType().hasStaticShape())
    return emitOpError() << "needs a tile of index of static shape, got " << getType();
  if (getAxis() >= uint64_t(getType().getRank()))
    return emitOpError() << "has axis " << int64_t(getAxis()) << ", the tile has "
                         << getType().getRank() << " axes";
  return success();
}

LogicalResult MmaOp::verify() {
  RankedTensorType a = getA().getType(), b = getB().getType(), acc = getType();
  auto kind = getMmaKind(a.getElementType(), acc.getElementType());
  if (!kind)
    return emitOpError() << "multiplies f16, bf16 or f32 into f32, f64 into f64, or "
                            "i8 into i32, got "
                         << a.getElementType() << " into " << acc.getElementType();
  for (RankedTensorType type : {a, b, acc})
    if (type.getRank() != 2 || !type.hasStaticShape() ||
        (type.getEncoding() && !getSpread(type)))
      return emitOpError() << "needs tiles of two axes of static sizes, with the "
                              "encoding #lego.spread or none, got "
                           << type;
  int64_t m = acc.getDimSize(0), n = acc.getDimSize(1), k = a.getDimSize(1);
  if (a.getDimSize(0) != m || b.getDimSize(0) != k || b.getDimSize(1) != n)
    return emitOpError() << "multiplies " << crossed(a.getShape()) << " by "
                         << crossed(b.getShape()) << " into "
                         << crossed(acc.getShape());
  if (m % kind->rows() || n % kind->columns() || k % kind->depth())
    return emitOpError() << "needs multiples of " << kind->rows() << " rows, "
                         << kind->columns() << " columns and a depth of "
                         << kind->depth() << ", got " << m << ", " << n << " and "
                         << k;
  std::string reason;
  if (getSpread(a) && getSpread(b) && getSpread(acc) &&
      !planMma(*kind, a, b, acc, reason))
    return emitOpError() << "has operands in other layouts than those of "
                            "fragments: "
                         << reason;
  return success();
}
