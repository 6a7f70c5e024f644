//===- LegoPasses.td - Passes of the lego dialect ----------*- tablegen -*-===//

#ifndef LEGO_PASSES_TD
#define LEGO_PASSES_TD

include "mlir/Pass/PassBase.td"

def LegoVerify : Pass<"lego-verify"> {
  let summary = "Check by enumeration that layouts are one-to-one";
  let description = [{
    Every layout in the module, and every lego.genp, with at most `bound`
    elements is enumerated; the error for one that is not a bijection with its
    inverse names the two indices that collide, or the index that `inv` does not
    give back. Symbolic sizes take the smallest values that they admit. Larger
    layouts whose permutations are regular need no enumeration; a remark names
    the others.
  }];
  let options = [Option<"bound", "bound", "int64_t", "65536",
                        "Elements up to which a layout is enumerated">];
}

def LegoLowerToArith : Pass<"lego-lower-to-arith"> {
  let summary = "Replace lego operations by arithmetic, loads and loops";
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"];
}

def LegoLowerToAffine : Pass<"lego-lower-to-affine"> {
  let summary = "Replace lego operations whose positions are affine by affine.apply";
  let description = [{
    For polyhedral passes. Layouts with bit operations, roots or tables are not
    affine: an error names them, or they are left alone with `skip`.
  }];
  let options = [Option<"skip", "skip", "bool", "false",
                        "Leave operations that are not affine">];
  let dependentDialects = [
    "::mlir::affine::AffineDialect", "::mlir::arith::ArithDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"];
}

def LegoSimplify : Pass<"lego-simplify"> {
  let summary = "Simplify index arithmetic with the ranges of its operands";
  let description = [{
    Reads chains of arith and index operations on `index` as sums over atoms and
    writes those back that become cheaper. The conditions of the rules (a
    remainder is smaller than its divisor, a sum does not wrap) are settled by
    upstream's integer range analysis and by the layouts themselves.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

#endif // LEGO_PASSES_TD
