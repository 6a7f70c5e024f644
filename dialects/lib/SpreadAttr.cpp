//===- SpreadAttr.cpp - The text and verifier of #lego.spread ---*- C++ -*-===//

#include "LegoMLIR/Limits.h"
#include "LegoMLIR/Spread.h"
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
  if (parser.parseLess() ||
      parseBases(parser, "register", kMaxRegisterBits, rank, registers, bases) ||
      parser.parseComma() ||
      parseBases(parser, "lane", kMaxLaneBits, rank, lanes, bases) ||
      parser.parseComma() ||
      parseBases(parser, "warp", kMaxThreadBits, rank, warps, bases))
    return {};
  if (succeeded(parser.parseOptionalComma()) &&
      (parser.parseKeyword("copies") || parser.parseEqual() ||
       parser.parseInteger(copies)))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<SpreadAttr>(loc, parser.getContext(), registers,
                                       lanes, warps,
                                       ArrayRef<int64_t>(bases), copies);
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

static std::string crossed(ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleave(shape, os, "x");
  return shape.empty() ? "one element" : text;
}

LogicalResult
SpreadAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                   unsigned registerBits, unsigned laneBits, unsigned warpBits,
                   ArrayRef<int64_t> bases, int64_t copies) {
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
  return success();
}

LogicalResult SpreadAttr::verifyEncoding(
    ArrayRef<int64_t> shape, Type elementType,
    llvm::function_ref<InFlightDiagnostic()> emitError) const {
  if (!elementType.isIntOrIndexOrFloat())
    return emitError() << "a spread tile has elements of integer, index or float "
                          "type, got "
                       << elementType;
  bool single = llvm::all_of(shape, [](int64_t n) { return n == 1; });
  if (getNumBits() ? getTileShape() != shape : !single)
    return emitError() << "the layout spreads a tile of "
                       << crossed(getTileShape()) << ", the tensor is "
                       << crossed(shape);
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
                                  RankedTensorType tile, size_t indices) {
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
  return success();
}

LogicalResult TileLoadOp::verify() {
  return verifyAccess(*this, cast<MemRefType>(getMemref().getType()), getType(),
                      getIndices().size());
}

LogicalResult TileStoreOp::verify() {
  return verifyAccess(*this, cast<MemRefType>(getMemref().getType()),
                      getValue().getType(), getIndices().size());
}
