//===- AttributeParser.cpp - The parser of #lego.layout ---------*- C++ -*-===//
//
// The text of a layout is Python's repr with blanks between the parts of a
// chain; docs/reference/dialect.md has the grammar. The parser is recursive only
// in Padded(..), and in the parentheses of a size, which SizeParser reads; both
// are bounded by Limits.h. It canonicalizes as Python does: sugar becomes OrderBy
// and GroupBy, and AttributePrinter.cpp finds the shortest form again.
//
//===----------------------------------------------------------------------===//

#include "SizeParser.h"

#include "LegoMLIR/Lego.h"
#include "LegoMLIR/Limits.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace lego;

//===----------------------------------------------------------------------===//
// Parser
//===----------------------------------------------------------------------===//

namespace {

using Levels = SmallVector<SmallVector<AffineExpr>>;

class LayoutParser {
public:
  explicit LayoutParser(AsmParser &parser)
      : parser(parser), context(parser.getContext()) {}

  /// The whole of `<...>`.
  LayoutAttr parse();

private:
  ParseResult parseSymbols();
  Attribute parseView(unsigned depth);
  Attribute parseChain(StringRef keyword, SMLoc loc);
  Attribute parsePadded(SMLoc loc, unsigned depth);
  Attribute parseStrided(SMLoc loc);
  ParseResult parsePerms(StringRef owner, SmallVectorImpl<Attribute> &perms);
  ParseResult parseTileOrder(SmallVectorImpl<OrderByAttr> &orders, SMLoc loc);
  Attribute parsePerm(StringRef keyword, SMLoc loc);
  Attribute parseRegular(StringRef keyword, SMLoc loc);
  Attribute parseTable(SMLoc loc);
  Attribute parseGallery(GalleryKind kind, SMLoc loc);

  ParseResult parseLevels(Levels &levels);
  ParseResult parseSizes(SmallVectorImpl<AffineExpr> &sizes);
  ParseResult parseArguments(SmallVectorImpl<AffineExpr> &sizes);
  ParseResult parseListedSizes(SmallVectorImpl<AffineExpr> &sizes, SMLoc loc);
  ParseResult parseInts(SmallVectorImpl<int64_t> &ints, int64_t limit);
  ParseResult parseOption(StringRef name, int64_t &value);
  ParseResult parseSize(AffineExpr &size) {
    return SizeParser(parser, symbols).parse(size);
  }

  InFlightDiagnostic error(SMLoc loc, const Twine &message) {
    return parser.emitError(loc, message);
  }
  template <typename T> static T parameter(T value) { return value; }
  template <typename T, unsigned N>
  static ArrayRef<T> parameter(const SmallVector<T, N> &values) {
    return values;
  }
  /// A verified part; null after an error at `loc`.
  template <typename T, typename... Args>
  T make(SMLoc loc, const Args &...args) {
    auto emitError = [&] { return parser.emitError(loc); };
    return T::getChecked(emitError, context, parameter(args)...);
  }
  GroupByAttr group(SMLoc loc, ArrayRef<OrderByAttr> orders,
                    const Levels &levels);

  AsmParser &parser;
  MLIRContext *context;
  SmallVector<SymbolAttr> symbols;
  unsigned numPerms = 0;
  StringRef pendingOption; // an option whose name was read, not its value
};

} // namespace

static SmallVector<AffineExpr> flat(const Levels &levels) {
  SmallVector<AffineExpr> sizes;
  for (const auto &level : levels)
    llvm::append_range(sizes, level);
  return sizes;
}

/// The one number of sizes of all levels, or 0.
static unsigned commonRank(const Levels &levels) {
  unsigned rank = levels.front().size();
  for (const auto &level : levels)
    if (level.size() != rank)
      return 0;
  return rank;
}

LayoutAttr LayoutParser::parse() {
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parseSymbols())
    return {};
  Attribute view = parseView(0);
  if (!view || parser.parseGreater())
    return {};
  return make<LayoutAttr>(loc, symbols, view);
}

ParseResult LayoutParser::parseSymbols() {
  if (failed(parser.parseOptionalLSquare()))
    return success();
  auto parseSymbol = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    StringRef name;
    if (parser.parseKeyword(&name))
      return failure();
    int64_t min = 1, max = 0, multiple = 1;
    for (auto [word, value] : {std::pair<StringRef, int64_t *>{"min", &min},
                               {"max", &max},
                               {"multiple_of", &multiple}})
      if (succeeded(parser.parseOptionalKeyword(word)))
        if (parser.parseInteger(*value))
          return failure();
    if (symbols.size() == kMaxSymbols)
      return error(loc, "a layout has at most ") << kMaxSymbols << " symbols";
    if (name == "floordiv" || name == "ceildiv" || name == "mod")
      return error(loc, "'") << name << "' is an operator, not a name of a size";
    for (SymbolAttr symbol : symbols)
      if (symbol.getName() == name)
        return error(loc, "size '") << name << "' is declared twice";
    auto symbol = make<SymbolAttr>(loc, StringAttr::get(context, name), min,
                                   max, multiple);
    if (!symbol)
      return failure();
    symbols.push_back(symbol);
    return success();
  };
  return failure(parser.parseCommaSeparatedList(parseSymbol) ||
                 parser.parseRSquare() || parser.parseColon());
}

Attribute LayoutParser::parseView(unsigned depth) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef keyword;
  if (depth > kMaxDepth) {
    error(loc, "layouts are nested more than ") << kMaxDepth << " deep";
    return {};
  }
  if (parser.parseKeyword(&keyword))
    return {};
  Attribute view = keyword == "Padded"    ? parsePadded(loc, depth)
                   : keyword == "Strided" ? parseStrided(loc)
                                          : parseChain(keyword, loc);
  for (unsigned tilings = 0; view; ++tilings) {
    SMLoc tileLoc = parser.getCurrentLocation();
    if (failed(parser.parseOptionalKeyword(&keyword)))
      return view;
    if (keyword != "tile_by") {
      error(tileLoc, "expected 'tile_by' or the end of the layout, got '")
          << keyword << "'";
      return {};
    }
    Levels levels;
    if (tilings + depth > kMaxDepth) {
      error(tileLoc, "layouts are nested more than ") << kMaxDepth << " deep";
      return {};
    }
    if (parseLevels(levels))
      return {};
    unsigned rank = getViewSizes(view).size();
    for (const auto &level : levels)
      if (level.size() != rank) {
        error(tileLoc, "tile_by: each level needs ")
            << rank << " sizes, one for each axis; got " << level.size();
        return {};
      }
    view = make<TiledAttr>(tileLoc, view, flat(levels));
  }
  return {};
}

Attribute LayoutParser::parseChain(StringRef keyword, SMLoc loc) {
  SmallVector<OrderByAttr> orders;
  SMLoc here = loc;
  while (true) {
    if (keyword == "GroupBy" || keyword == "TileBy") {
      Levels levels;
      if (parseLevels(levels))
        return {};
      if (keyword == "GroupBy")
        return group(here, orders, levels);
      unsigned rank = commonRank(levels);
      if (!rank) {
        error(here, "TileBy: all levels must have the same number of sizes");
        return {};
      }
      auto box = make<RegPAttr>(here, flat(levels),
                                getTileSigma(rank, levels.size()));
      auto order = box ? make<OrderByAttr>(here, ArrayRef<Attribute>{box})
                       : OrderByAttr();
      if (!order)
        return {};
      orders.push_back(order);
      return group(here, orders, levels);
    }
    if (keyword == "OrderBy") {
      SmallVector<Attribute> perms;
      if (parsePerms(keyword, perms))
        return {};
      auto order = make<OrderByAttr>(here, perms);
      if (!order)
        return {};
      orders.push_back(order);
    } else if (keyword == "TileOrderBy") {
      if (parseTileOrder(orders, here))
        return {};
    } else if (orders.empty()) {
      Attribute perm = parsePerm(keyword, here);
      auto order = perm ? make<OrderByAttr>(here, ArrayRef<Attribute>{perm})
                        : OrderByAttr();
      if (!order)
        return {};
      return group(here, {order}, {SmallVector<AffineExpr>(getPermSizes(perm))});
    } else {
      error(here, "expected OrderBy, TileOrderBy, GroupBy or TileBy, got '")
          << keyword << "'";
      return {};
    }
    if (numPerms > kMaxPerms) {
      error(here, "a layout has at most ") << kMaxPerms << " permutations";
      return {};
    }
    here = parser.getCurrentLocation();
    if (succeeded(parser.parseOptionalKeyword(&keyword)))
      continue;
    SmallVector<AffineExpr> sizes;
    for (Attribute perm : orders.back().getPerms())
      llvm::append_range(sizes, getPermSizes(perm));
    return group(loc, orders, {sizes});
  }
}

GroupByAttr LayoutParser::group(SMLoc loc, ArrayRef<OrderByAttr> orders,
                                const Levels &levels) {
  SmallVector<int64_t> ranks;
  for (const auto &level : levels)
    ranks.push_back(level.size());
  return make<GroupByAttr>(loc, orders, flat(levels), ranks);
}

Attribute LayoutParser::parsePadded(SMLoc loc, unsigned depth) {
  SmallVector<AffineExpr> sizes;
  if (parser.parseLParen())
    return {};
  Attribute inner = parseView(depth + 1);
  if (!inner || parser.parseComma() || parseSizes(sizes) ||
      parser.parseRParen())
    return {};
  return make<PaddedAttr>(loc, inner, sizes);
}

Attribute LayoutParser::parseStrided(SMLoc loc) {
  SmallVector<AffineExpr> sizes, strides;
  if (parser.parseLParen() || parseSizes(sizes) || parser.parseComma() ||
      parseSizes(strides) || parser.parseRParen())
    return {};
  return make<StridedAttr>(loc, sizes, strides);
}

ParseResult LayoutParser::parsePerms(StringRef owner,
                                     SmallVectorImpl<Attribute> &perms) {
  return parser.parseCommaSeparatedList(
      AsmParser::Delimiter::Paren,
      [&]() -> ParseResult {
        SMLoc loc = parser.getCurrentLocation();
        StringRef keyword;
        if (parser.parseKeyword(&keyword))
          return failure();
        perms.push_back(parsePerm(keyword, loc));
        return success(bool(perms.back()));
      },
      " of permutations");
}

ParseResult LayoutParser::parseTileOrder(SmallVectorImpl<OrderByAttr> &orders,
                                         SMLoc loc) {
  SmallVector<Attribute> perms;
  if (parsePerms("TileOrderBy", perms))
    return failure();
  SmallVector<AffineExpr> sizes, permuted;
  for (Attribute perm : perms) {
    if (getPermSizes(perm).size() != getPermSizes(perms.front()).size())
      return error(loc, "TileOrderBy: all levels must have the same number of "
                        "sizes");
    llvm::append_range(sizes, getPermSizes(perm));
  }
  auto hierarchy = make<OrderByAttr>(loc, perms);
  if (!hierarchy)
    return failure();
  auto sigma = getTileSigma(getPermSizes(perms.front()).size(), perms.size());
  SmallVector<int64_t> inverse(sigma.size());
  for (auto [k, axis] : llvm::enumerate(sigma)) {
    inverse[axis - 1] = k + 1;
    permuted.push_back(sizes[axis - 1]);
  }
  auto box = make<RegPAttr>(loc, permuted, inverse);
  auto order = box ? make<OrderByAttr>(loc, ArrayRef<Attribute>{box})
                   : OrderByAttr();
  if (!order)
    return failure();
  orders.append({hierarchy, order});
  return success();
}

Attribute LayoutParser::parsePerm(StringRef keyword, SMLoc loc) {
  ++numPerms;
  if (keyword == "Row" || keyword == "Col" || keyword == "RegP")
    return parseRegular(keyword, loc);
  if (keyword == "GenP") {
    SmallVector<AffineExpr> sizes;
    StringAttr name;
    if (parser.parseLParen() || parseSizes(sizes) || parser.parseComma() ||
        parser.parseSymbolName(name) || parser.parseRParen())
      return {};
    return make<GenPAttr>(loc, sizes, FlatSymbolRefAttr::get(name));
  }
  if (keyword == "gallery.table")
    return parseTable(loc);
  auto kind = llvm::StringSwitch<std::optional<GalleryKind>>(keyword)
                  .Case("gallery.antidiagonal", GalleryKind::AntiDiagonal)
                  .Case("gallery.morton", GalleryKind::Morton)
                  .Case("gallery.hilbert", GalleryKind::Hilbert)
                  .Case("gallery.reverse", GalleryKind::Reverse)
                  .Case("gallery.block_cyclic", GalleryKind::BlockCyclic)
                  .Case("gallery.xor_swizzle", GalleryKind::XorSwizzle)
                  .Case("grids.grouped", GalleryKind::Grouped)
                  .Case("grids.columns", GalleryKind::Columns)
                  .Default(std::nullopt);
  if (kind)
    return parseGallery(*kind, loc);
  error(loc, "'") << keyword
                  << "' is not a permutation: expected Row, Col, RegP, GenP, "
                     "gallery.antidiagonal, morton, hilbert, reverse, "
                     "block_cyclic, xor_swizzle or table, grids.grouped or "
                     "columns";
  return {};
}

Attribute LayoutParser::parseRegular(StringRef keyword, SMLoc loc) {
  SmallVector<AffineExpr> sizes;
  SmallVector<int64_t> sigma;
  if (keyword == "RegP") {
    if (parser.parseLParen() || parseSizes(sizes) || parser.parseComma() ||
        parseInts(sigma, kMaxRank) || parser.parseRParen())
      return {};
  } else {
    if (parseArguments(sizes))
      return {};
    for (int64_t k = 1, rank = sizes.size(); k <= rank; ++k)
      sigma.push_back(keyword == "Row" ? k : rank + 1 - k);
  }
  return make<RegPAttr>(loc, sizes, sigma);
}

Attribute LayoutParser::parseTable(SMLoc loc) {
  SmallVector<AffineExpr> sizes;
  SmallVector<int64_t> positions;
  StringAttr name;
  if (parser.parseLParen() || parseSizes(sizes) || parser.parseComma() ||
      parseInts(positions, kMaxTable))
    return {};
  if (succeeded(parser.parseOptionalComma())) {
    std::string text;
    if (parser.parseKeyword("name") || parser.parseEqual() ||
        parser.parseString(&text))
      return {};
    name = StringAttr::get(context, text);
  }
  if (parser.parseRParen())
    return {};
  return make<TableAttr>(loc, sizes, DenseI64ArrayAttr::get(context, positions),
                         name);
}

Attribute LayoutParser::parseGallery(GalleryKind kind, SMLoc loc) {
  SmallVector<AffineExpr> sizes;
  SmallVector<int64_t> options;
  auto parseNamed = [&](StringRef name, int64_t otherwise) -> ParseResult {
    int64_t value = otherwise;
    if (parseOption(name, value))
      return failure();
    options.push_back(value);
    return success();
  };
  auto parseComma = [&] { return parser.parseComma(); };
  auto parseOne = [&]() -> ParseResult {
    return parseSize(sizes.emplace_back());
  };
  auto parseCount = [&]() -> ParseResult {
    return parser.parseInteger(options.emplace_back());
  };
  if (parser.parseLParen() || parseOne())
    return {};
  switch (kind) {
  case GalleryKind::AntiDiagonal:
  case GalleryKind::Hilbert:
    sizes.push_back(sizes.front());
    break;
  case GalleryKind::Morton:
    sizes.push_back(sizes.front());
    if (succeeded(parser.parseOptionalComma()) && parseSize(sizes.back()))
      return {};
    break;
  case GalleryKind::Reverse:
    while (succeeded(parser.parseOptionalComma()))
      if (sizes.size() > kMaxRank || parseOne())
        return {};
    break;
  case GalleryKind::BlockCyclic:
    if (parseComma() || parseCount() || parseComma() || parseCount())
      return {};
    break;
  case GalleryKind::XorSwizzle:
    if (parseComma() || parseOne() || parseNamed("vec", 1) ||
        parseNamed("per_phase", 1) || parseNamed("max_phase", 0))
      return {};
    break;
  case GalleryKind::Grouped:
  case GalleryKind::Columns:
    if (parseComma() || parseOne() ||
        parseNamed(kind == GalleryKind::Grouped ? "rows" : "width", 0))
      return {};
    break;
  }
  if (!pendingOption.empty()) {
    error(loc, "option '") << pendingOption << "' is unknown or out of order";
    return {};
  }
  if (parser.parseRParen())
    return {};
  return make<GalleryAttr>(loc, kind, sizes, options);
}

/// `, name = INT` if a comma follows and the name is the next one. Options have
/// a fixed order, so a comma that is followed by another name belongs to a
/// later option.
ParseResult LayoutParser::parseOption(StringRef name, int64_t &value) {
  // One token of look-ahead: the comma is consumed here, and the name of a
  // later option is remembered.
  if (pendingOption.empty()) {
    if (failed(parser.parseOptionalComma()))
      return success();
    if (parser.parseKeyword(&pendingOption))
      return failure();
  }
  if (pendingOption != name)
    return success();
  pendingOption = {};
  return failure(parser.parseEqual() || parser.parseInteger(value));
}

ParseResult LayoutParser::parseLevels(Levels &levels) {
  unsigned total = 0;
  return parser.parseCommaSeparatedList(
      AsmParser::Delimiter::Paren, [&]() -> ParseResult {
        SMLoc loc = parser.getCurrentLocation();
        if (parseSizes(levels.emplace_back()))
          return failure();
        total += levels.back().size();
        if (total > kMaxRank)
          return error(loc, "a view has at most ") << kMaxRank << " sizes";
        return success();
      });
}

ParseResult LayoutParser::parseSizes(SmallVectorImpl<AffineExpr> &sizes) {
  SMLoc loc = parser.getCurrentLocation();
  return failure(parser.parseLSquare() || parseListedSizes(sizes, loc) ||
                 parser.parseRSquare());
}

ParseResult LayoutParser::parseArguments(SmallVectorImpl<AffineExpr> &sizes) {
  SMLoc loc = parser.getCurrentLocation();
  return failure(parser.parseLParen() || parseListedSizes(sizes, loc) ||
                 parser.parseRParen());
}

ParseResult LayoutParser::parseListedSizes(SmallVectorImpl<AffineExpr> &sizes,
                                           SMLoc loc) {
  do {
    if (sizes.size() == kMaxRank)
      return error(loc, "a tile has at most ") << kMaxRank << " sizes";
    if (parseSize(sizes.emplace_back()))
      return failure();
  } while (succeeded(parser.parseOptionalComma()));
  return success();
}

ParseResult LayoutParser::parseInts(SmallVectorImpl<int64_t> &ints,
                                    int64_t limit) {
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLSquare())
    return failure();
  do {
    if (int64_t(ints.size()) == limit)
      return error(loc, "a list of at most ") << limit << " integers is needed";
    if (parser.parseInteger(ints.emplace_back()))
      return failure();
  } while (succeeded(parser.parseOptionalComma()));
  return parser.parseRSquare();
}

Attribute LayoutAttr::parse(AsmParser &parser, Type) {
  return LayoutParser(parser).parse();
}
