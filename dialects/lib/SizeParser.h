//===- SizeParser.h - The parser of one size --------------------*- C++ -*-===//
//
// A size is an affine expression over the declared symbols of a layout. Numbers
// of operands and of nested parentheses are bounded, and so are constants.
//
//===----------------------------------------------------------------------===//

#ifndef LEGOMLIR_SIZEPARSER_H
#define LEGOMLIR_SIZEPARSER_H

#include "LegoMLIR/Lego.h"

namespace lego {

class SizeParser {
public:
  SizeParser(mlir::AsmParser &parser, llvm::ArrayRef<SymbolAttr> symbols)
      : parser(parser), context(parser.getContext()), symbols(symbols) {}

  mlir::ParseResult parse(mlir::AffineExpr &size);

private:
  /// A size, with a bound on the constants that combining it can produce.
  struct Size {
    mlir::AffineExpr expr;
    int64_t weight = 0;
  };

  mlir::ParseResult parseSum(Size &size, unsigned &nodes);
  mlir::ParseResult parseTerm(Size &size, unsigned &nodes);
  mlir::ParseResult parseFactor(Size &size, unsigned &nodes);
  mlir::ParseResult combine(llvm::StringRef op, Size &left, Size right,
                            llvm::SMLoc loc);

  mlir::InFlightDiagnostic error(llvm::SMLoc loc, const llvm::Twine &message) {
    return parser.emitError(loc, message);
  }

  mlir::AsmParser &parser;
  mlir::MLIRContext *context;
  llvm::ArrayRef<SymbolAttr> symbols;
};

} // namespace lego

#endif // LEGOMLIR_SIZEPARSER_H
