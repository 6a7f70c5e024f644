//===- SizeParser.cpp - The parser of one size ------------------*- C++ -*-===//

#include "SizeParser.h"
#include "LegoMLIR/Limits.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace lego;

ParseResult SizeParser::parse(AffineExpr &size) {
  SMLoc loc = parser.getCurrentLocation();
  unsigned nodes = 0;
  Size parsed;
  if (parseSum(parsed, nodes))
    return failure();
  size = parsed.expr;
  auto constant = dyn_cast<AffineConstantExpr>(size);
  if (constant && constant.getValue() < 1)
    return error(loc, "a size is at least 1, got ") << constant.getValue();
  return success();
}

ParseResult SizeParser::parseSum(Size &size, unsigned &nodes) {
  if (parseTerm(size, nodes))
    return failure();
  while (true) {
    SMLoc loc = parser.getCurrentLocation();
    StringRef op = succeeded(parser.parseOptionalPlus())    ? "+"
                   : succeeded(parser.parseOptionalMinus()) ? "-"
                                                            : "";
    Size right;
    if (op.empty())
      return success();
    if (parseTerm(right, nodes) || combine(op, size, right, loc))
      return failure();
  }
}

ParseResult SizeParser::parseTerm(Size &size, unsigned &nodes) {
  if (parseFactor(size, nodes))
    return failure();
  while (true) {
    SMLoc loc = parser.getCurrentLocation();
    StringRef op;
    if (succeeded(parser.parseOptionalStar()))
      op = "*";
    else
      for (StringRef word : {"floordiv", "ceildiv", "mod"})
        if (op.empty() && succeeded(parser.parseOptionalKeyword(word)))
          op = word;
    Size right;
    if (op.empty())
      return success();
    if (parseFactor(right, nodes) || combine(op, size, right, loc))
      return failure();
  }
}

ParseResult SizeParser::parseFactor(Size &size, unsigned &nodes) {
  SMLoc loc = parser.getCurrentLocation();
  if (++nodes > kMaxSizeNodes)
    return error(loc, "a size has at most ") << kMaxSizeNodes << " operands";
  if (succeeded(parser.parseOptionalLParen()))
    return failure(parseSum(size, nodes) || parser.parseRParen());
  int64_t value = 0;
  OptionalParseResult literal = parser.parseOptionalInteger(value);
  if (literal.has_value()) {
    if (failed(*literal))
      return failure();
    if (value > kMaxPositions || value < -kMaxPositions)
      return error(loc, "size ") << value << " is larger than 2^62";
    size = {getAffineConstantExpr(value, context), std::abs(value)};
    return success();
  }
  StringRef name;
  if (failed(parser.parseOptionalKeyword(&name)))
    return error(loc, "expected a size: an integer or a declared name");
  for (auto [k, symbol] : llvm::enumerate(symbols))
    if (symbol.getName() == name) {
      size = {getAffineSymbolExpr(k, context), 1};
      return success();
    }
  return error(loc, "size '")
         << name << "' is not declared; write [" << name << "]: in front";
}

ParseResult SizeParser::combine(StringRef op, Size &left, Size right,
                                SMLoc loc) {
  int64_t weight = 0;
  bool overflow = op == "*"
                      ? llvm::MulOverflow(left.weight, right.weight, weight)
                      : llvm::AddOverflow(left.weight, right.weight, weight);
  if (overflow || weight > kMaxPositions)
    return error(loc, "the constants of a size exceed 2^62");
  bool divides = op == "floordiv" || op == "ceildiv" || op == "mod";
  auto divisor = dyn_cast<AffineConstantExpr>(right.expr);
  if (divides && divisor && divisor.getValue() < 1)
    return error(loc, "a divisor in a size is at least 1, got ")
           << divisor.getValue();
  left.weight = weight;
  left.expr = op == "+"          ? left.expr + right.expr
              : op == "-"        ? left.expr - right.expr
              : op == "*"        ? left.expr * right.expr
              : op == "floordiv" ? left.expr.floorDiv(right.expr)
              : op == "ceildiv"  ? left.expr.ceilDiv(right.expr)
                                 : left.expr % right.expr;
  return left.expr ? success() : error(loc, "a size cannot be computed");
}
