//===- GenP.cpp - General permutations --------------------------*- C++ -*-===//
//
// The text, the structure, and for small constant tiles the proof that the two
// functions are inverse to each other.
//
//===----------------------------------------------------------------------===//

#include "LegoMLIR/Integers.h"
#include "LegoMLIR/Lego.h"
#include "LegoMLIR/Limits.h"
#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace lego;

unsigned GenPOp::getNumDynamic() {
  return llvm::count_if(getSizes(), ShapedType::isDynamic);
}

/// `(%i, %j)[%n] { ... }`, all of type index.
static ParseResult parseFunction(OpAsmParser &parser, Region &region) {
  SmallVector<OpAsmParser::Argument> arguments;
  auto parseArgument = [&]() -> ParseResult {
    OpAsmParser::Argument &argument = arguments.emplace_back();
    argument.type = parser.getBuilder().getIndexType();
    return parser.parseArgument(argument);
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren,
                                     parseArgument) ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::OptionalSquare,
                                     parseArgument))
    return failure();
  return parser.parseRegion(region, arguments);
}

ParseResult GenPOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  SmallVector<int64_t> sizes;
  auto parseSize = [&]() -> ParseResult {
    if (succeeded(parser.parseOptionalQuestion())) {
      sizes.push_back(ShapedType::kDynamic);
      return success();
    }
    return parser.parseInteger(sizes.emplace_back());
  };
  std::string visibility;
  if (succeeded(parser.parseOptionalKeyword("private")))
    result.addAttribute("sym_visibility",
                        parser.getBuilder().getStringAttr("private"));
  if (parser.parseSymbolName(name, "sym_name", result.attributes) ||
      parser.parseKeyword("sizes") ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseSize))
    return failure();
  result.addAttribute("sizes", parser.getBuilder().getDenseI64ArrayAttr(sizes));
  return failure(parser.parseKeyword("apply") ||
                 parseFunction(parser, *result.addRegion()) ||
                 parser.parseKeyword("inv") ||
                 parseFunction(parser, *result.addRegion()) ||
                 parser.parseOptionalAttrDictWithKeyword(result.attributes));
}

void GenPOp::print(OpAsmPrinter &printer) {
  if (getSymVisibility() == "private")
    printer << " private";
  printer << ' ';
  printer.printSymbolName(getSymName());
  printer << " sizes [";
  llvm::interleaveComma(getSizes(), printer, [&](int64_t size) {
    if (ShapedType::isDynamic(size))
      printer << '?';
    else
      printer << size;
  });
  printer << ']';
  for (Region *region : {&getApply(), &getInv()}) {
    unsigned own = region->getNumArguments() - getNumDynamic();
    printer << (region == &getApply() ? " apply(" : " inv(");
    llvm::interleaveComma(region->getArguments().take_front(own), printer);
    printer << ')';
    if (getNumDynamic()) {
      printer << '[';
      llvm::interleaveComma(region->getArguments().drop_front(own), printer);
      printer << ']';
    }
    printer << ' ';
    printer.printRegion(*region, /*printEntryBlockArgs=*/false);
  }
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(), {"sym_name", "sizes", "sym_visibility"});
}

static LogicalResult verifyFunction(GenPOp op, Region &region, StringRef name,
                                    unsigned arguments, unsigned results) {
  if (region.getNumArguments() != arguments)
    return op.emitOpError() << name << " takes " << arguments
                            << " arguments, got " << region.getNumArguments();
  for (Type type : region.getArgumentTypes())
    if (!type.isIndex())
      return op.emitOpError() << name << " takes values of type index, got "
                              << type;
  auto yield = dyn_cast<YieldOp>(region.front().getTerminator());
  if (!yield || yield.getNumOperands() != results)
    return op.emitOpError() << name << " must yield " << results << " values";
  for (Type type : yield.getOperandTypes())
    if (!type.isIndex())
      return op.emitOpError() << name << " must yield values of type index, got "
                              << type;
  for (Operation &inner : region.front().without_terminator())
    if (!isMemoryEffectFree(&inner) || inner.getNumRegions() ||
        !isSpeculatable(&inner))
      if (!isa<arith::DivUIOp, arith::RemUIOp, arith::DivSIOp, arith::RemSIOp,
               arith::FloorDivSIOp, arith::CeilDivSIOp, arith::CeilDivUIOp>(
              inner))
        return inner.emitError() << "'" << inner.getName()
                                 << "' has side effects or a region, which the "
                                    "functions of lego.genp exclude";
  return success();
}

LogicalResult GenPOp::verifyRegions() {
  ArrayRef<int64_t> sizes = getSizes();
  if (sizes.empty() || sizes.size() > kMaxRank)
    return emitOpError() << "a tile has 1 to " << kMaxRank << " sizes, got "
                         << sizes.size();
  int64_t elements = 1;
  for (int64_t size : sizes) {
    if (ShapedType::isDynamic(size))
      elements = kMaxPositions;
    else if (size < 1)
      return emitOpError() << "a size is at least 1, got " << size;
    else if (llvm::MulOverflow(elements, size, elements) ||
             elements > kMaxPositions)
      elements = kMaxPositions;
  }
  unsigned rank = sizes.size(), dynamic = getNumDynamic();
  if (failed(verifyFunction(*this, getApply(), "apply", rank + dynamic, 1)) ||
      failed(verifyFunction(*this, getInv(), "inv", 1 + dynamic, rank)))
    return failure();
  if (dynamic || elements > kEnumeratedByVerifier)
    return success();
  bool unknown = false;
  if (auto example = findCounterExample(*this, {}, unknown))
    return emitOpError() << "is not a bijection with its inverse: "
                         << example->text;
  return success();
}

std::optional<CounterExample>
lego::findCounterExample(GenPOp op, ArrayRef<int64_t> dynamicSizes,
                         bool &unknown) {
  MLIRContext *context = op.getContext();
  SmallVector<AffineExpr> sizes;
  for (int64_t size : op.getSizes()) {
    if (ShapedType::isDynamic(size)) {
      size = dynamicSizes.front();
      dynamicSizes = dynamicSizes.drop_front();
    }
    sizes.push_back(getAffineConstantExpr(size, context));
  }
  auto perm = GenPAttr::get(context, sizes,
                            FlatSymbolRefAttr::get(op.getSymNameAttr()));
  auto order = OrderByAttr::get(context, {perm});
  auto view = GroupByAttr::get(context, {order}, sizes,
                               {int64_t(sizes.size())});
  Integers integers(nullptr);
  integers.define(perm, op);
  return findCounterExample(Attribute(view), integers, unknown);
}
