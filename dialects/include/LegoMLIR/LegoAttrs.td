//===- LegoAttrs.td - Layouts and their parts --------------*- tablegen -*-===//
//
// A layout is a tree of attributes. Only its root has a syntax; the parts below
// it have no mnemonic and exist only inside a layout.
//
//   layout      -> symbols, view
//   view        -> group_by(orders, levels) | padded(view, sizes)
//                | tiled(view, levels)      | strided(sizes, strides)
//   order       -> order_by(perms)
//   perm        -> regp | genp | gallery | table
//
// A size is an affine expression over the declared symbols s0, s1, ...
//
//===----------------------------------------------------------------------===//

#ifndef LEGO_ATTRS_TD
#define LEGO_ATTRS_TD

include "LegoMLIR/LegoDialect.td"
include "mlir/IR/AttrTypeBase.td"

class Lego_Part<string name, string text> : AttrDef<Lego_Dialect, name> {
  let attrName = "lego." # text;
  let genVerifyDecl = 1;
}

def Lego_Sizes : ArrayRefParameter<"::mlir::AffineExpr">;
def Lego_Ints : ArrayRefParameter<"int64_t">;

def Lego_SymbolAttr : Lego_Part<"Symbol", "symbol"> {
  let summary = "A size known at run time: its name, bounds and divisor";
  let description = "A `max` of 0 means that no greatest value is known.";
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$min,
                        "int64_t":$max, "int64_t":$multipleOf);
}

def Lego_RegPAttr : Lego_Part<"RegP", "regp"> {
  let summary = "The axes of a tile interchanged by a 1-based sigma";
  let parameters = (ins Lego_Sizes:$sizes, Lego_Ints:$sigma);
}

def Lego_GenPAttr : Lego_Part<"GenP", "genp"> {
  let summary = "The elements of a tile permuted by the functions of a lego.genp";
  let parameters = (ins Lego_Sizes:$sizes, "::mlir::FlatSymbolRefAttr":$symbol);
}

def Lego_GalleryAttr : Lego_Part<"Gallery", "gallery"> {
  let summary = "A named permutation of a tile";
  let parameters = (ins "::lego::GalleryKind":$kind, Lego_Sizes:$sizes,
                        Lego_Ints:$options);
}

def Lego_TableAttr : Lego_Part<"Table", "table"> {
  let summary = "A permutation given by the position of each element";
  let parameters = (ins Lego_Sizes:$sizes,
                        "::mlir::DenseI64ArrayAttr":$positions,
                        OptionalParameter<"::mlir::StringAttr">:$name);
}

def Lego_OrderByAttr : Lego_Part<"OrderBy", "order_by"> {
  let summary = "A hierarchy of permutations, outermost tiles first";
  let parameters = (ins ArrayRefParameter<"::mlir::Attribute">:$perms);
}

def Lego_GroupByAttr : Lego_Part<"GroupBy", "group_by"> {
  let summary = "A logical view over a chain of reorderings, memory's side first";
  let description = "`ranks` holds the number of sizes of each level.";
  let parameters = (ins ArrayRefParameter<"::lego::OrderByAttr">:$orders,
                        Lego_Sizes:$sizes, Lego_Ints:$ranks);
}

def Lego_PaddedAttr : Lego_Part<"Padded", "padded"> {
  let summary = "A layout restricted to a smaller box of indices";
  let parameters = (ins "::mlir::Attribute":$inner, Lego_Sizes:$sizes);
}

def Lego_TiledAttr : Lego_Part<"Tiled", "tiled"> {
  let summary = "A layout indexed by the coordinates of nested tiles";
  let description = [{
    The sizes of all levels, outermost first; each level has one size for each
    axis of the inner layout. The last tile of an axis may be partial.
  }];
  let parameters = (ins "::mlir::Attribute":$inner, Lego_Sizes:$sizes);
}

def Lego_StridedAttr : Lego_Part<"Strided", "strided"> {
  let summary = "A layout given by one stride for each axis";
  let parameters = (ins Lego_Sizes:$sizes, Lego_Sizes:$strides);
}

def Lego_LayoutAttr : AttrDef<Lego_Dialect, "Layout"> {
  let mnemonic = "layout";
  let summary = "A layout: its symbols and its view";
  let description = "The syntax is Python's repr; docs/reference/dialect.md has the grammar.";
  let parameters = (ins ArrayRefParameter<"::lego::SymbolAttr">:$symbols,
                        "::mlir::Attribute":$view);
  let genVerifyDecl = 1;
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// The sizes of the logical index.
    ::llvm::SmallVector<::mlir::AffineExpr> getSizes() const;
    /// The number of axes of the logical index.
    unsigned getRank() const { return getSizes().size(); }
    /// The number of positions, also unused ones, if no symbol determines it.
    std::optional<int64_t> getConstantPositions() const;
    /// The logical sizes, if no symbol determines any.
    std::optional<::llvm::SmallVector<int64_t>> getConstantSizes() const;
  }];
}

#endif // LEGO_ATTRS_TD
