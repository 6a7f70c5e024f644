//===- ForEach.cpp - The loop over a layout ---------------------*- C++ -*-===//

#include "LegoMLIR/Lego.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace lego;

/// `(%i, %j) in #layout[%M] iter_args(%s = %x) -> (f32) { ... }`
ParseResult ForEachOp::parse(OpAsmParser &parser, OperationState &result) {
  Type index = parser.getBuilder().getIndexType();
  SmallVector<OpAsmParser::Argument> arguments, carried;
  SmallVector<OpAsmParser::UnresolvedOperand> sizes, inits;
  SmallVector<Type> types;
  LayoutAttr layout;
  auto parseIndex = [&]() -> ParseResult {
    OpAsmParser::Argument &argument = arguments.emplace_back();
    argument.type = index;
    return parser.parseArgument(argument);
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseIndex) ||
      parser.parseKeyword("in") || parser.parseAttribute(layout) ||
      parser.parseOperandList(sizes, AsmParser::Delimiter::OptionalSquare))
    return failure();
  SMLoc loc = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalKeyword("iter_args")))
    if (parser.parseAssignmentList(carried, inits) ||
        parser.parseArrowTypeList(types))
      return failure();
  if (carried.size() != types.size())
    return parser.emitError(loc) << carried.size() << " values are carried, and "
                                 << types.size() << " types are given";
  for (auto [argument, type] : llvm::zip_equal(carried, types))
    argument.type = type;
  arguments.append(carried);
  Region *body = result.addRegion();
  if (parser.resolveOperands(sizes, index, result.operands) ||
      parser.resolveOperands(inits, types, loc, result.operands) ||
      parser.parseRegion(*body, arguments) ||
      parser.parseOptionalAttrDict(result.attributes))
    return failure();
  ForEachOp::ensureTerminator(*body, parser.getBuilder(), result.location);
  auto &properties = result.getOrAddProperties<ForEachOp::Properties>();
  properties.layout = layout;
  properties.operandSegmentSizes = {int32_t(sizes.size()),
                                    int32_t(inits.size())};
  result.addTypes(types);
  return success();
}

void ForEachOp::print(OpAsmPrinter &printer) {
  unsigned rank = getBody().getNumArguments() - getInits().size();
  printer << " (";
  llvm::interleaveComma(getBody().getArguments().take_front(rank), printer);
  printer << ") in " << getLayout();
  if (!getSizes().empty())
    printer << '[' << getSizes() << ']';
  if (!getInits().empty()) {
    printer << " iter_args(";
    llvm::interleaveComma(
        llvm::zip(getBody().getArguments().drop_front(rank), getInits()),
        printer, [&](auto pair) {
          printer << std::get<0>(pair) << " = " << std::get<1>(pair);
        });
    printer << ") -> (" << getResultTypes() << ')';
  }
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false,
                      /*printBlockTerminators=*/!getInits().empty());
  printer.printOptionalAttrDict((*this)->getAttrs(),
                                {"layout", "operandSegmentSizes"});
}

LogicalResult ForEachOp::verify() {
  unsigned rank = getLayout().getRank();
  if (getSizes().size() != getLayout().getSymbols().size())
    return emitOpError() << "the layout declares "
                         << getLayout().getSymbols().size() << " sizes, and "
                         << getSizes().size() << " are given";
  if (getBody().getNumArguments() != rank + getInits().size())
    return emitOpError() << "the body takes " << rank << " indices and "
                         << getInits().size() << " carried values, got "
                         << getBody().getNumArguments() << " arguments";
  ValueRange arguments = getBody().getArguments();
  for (Type type : arguments.take_front(rank).getTypes())
    if (!type.isIndex())
      return emitOpError() << "the body's indices are of type index, got "
                           << type;
  TypeRange carried = getInits().getTypes();
  if (getResultTypes() != carried ||
      arguments.drop_front(rank).getTypes() != carried)
    return emitOpError()
           << "initial values, carried values and results must agree in type";
  if (getBody().front().getTerminator()->getOperandTypes() != carried)
    return emitOpError() << "the body must yield values of the carried types";
  return success();
}

namespace {

/// A layout of one element needs no loop.
struct InlineSingleElement : OpRewritePattern<ForEachOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ForEachOp op,
                                PatternRewriter &rewriter) const override {
    auto sizes = op.getLayout().getConstantSizes();
    if (!sizes || llvm::any_of(*sizes, [](int64_t n) { return n != 1; }))
      return failure();
    Value zero = arith::ConstantIndexOp::create(rewriter, op.getLoc(), 0);
    SmallVector<Value> arguments(sizes->size(), zero);
    llvm::append_range(arguments, op.getInits());
    Block &body = op.getBody().front();
    Operation *yield = body.getTerminator();
    rewriter.inlineBlockBefore(&body, op, arguments);
    SmallVector<Value> results(yield->getOperands());
    rewriter.eraseOp(yield);
    rewriter.replaceOp(op, results);
    return success();
  }
};

} // namespace

void ForEachOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                            MLIRContext *context) {
  patterns.add<InlineSingleElement>(context);
}
