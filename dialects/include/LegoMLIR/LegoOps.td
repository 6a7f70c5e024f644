//===- LegoOps.td - Operations of the lego dialect ---------*- tablegen -*-===//

#ifndef LEGO_OPS_TD
#define LEGO_OPS_TD

include "LegoMLIR/LegoAttrs.td"
include "LegoMLIR/LegoSpread.td"
include "LegoMLIR/LegoTypes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/DestinationStyleOpInterface.td"
include "mlir/Interfaces/InferIntRangeInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/LoopLikeInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ViewLikeInterface.td"

class Lego_Op<string mnemonic, list<Trait> traits = []>
    : Op<Lego_Dialect, mnemonic, traits>;

def Lego_UsesGenP : DeclareOpInterfaceMethods<SymbolUserOpInterface>;

//===----------------------------------------------------------------------===//
// Evaluation of a layout
//===----------------------------------------------------------------------===//

def Lego_ApplyOp : Lego_Op<"apply", [
    Pure, AttrSizedOperandSegments, Lego_UsesGenP,
    DeclareOpInterfaceMethods<InferIntRangeInterface, ["inferResultRanges"]>]> {
  let summary = "The position of a logical index";
  let description = [{
    Indices outside the layout give an unspecified position.

    ```mlir
    %p = lego.apply #lego.layout<[M]: Row(M, 64)>(%i, %j)[%M]
    ```
  }];
  let arguments = (ins Lego_LayoutAttr:$layout, Variadic<Index>:$indices,
                       Variadic<Index>:$sizes);
  let results = (outs Index:$position);
  let assemblyFormat = [{
    qualified($layout) `` `(` $indices `)` (`` `[` $sizes^ `]`)? attr-dict
  }];
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Lego_InvOp : Lego_Op<"inv", [
    Pure, AttrSizedOperandSegments, Lego_UsesGenP,
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<InferIntRangeInterface, ["inferResultRanges"]>]> {
  let summary = "The logical index of a position";
  let description = [{
    Positions outside the layout give unspecified indices.

    ```mlir
    %q:2 = lego.inv #lego.layout<Col(4, 8)>(%p)
    ```
  }];
  let arguments = (ins Lego_LayoutAttr:$layout, Variadic<Index>:$positions,
                       Variadic<Index>:$sizes);
  let results = (outs Variadic<Index>:$indices);
  let assemblyFormat = [{
    qualified($layout) `` `(` $positions `)` (`` `[` $sizes^ `]`)? attr-dict
  }];
  let extraClassDeclaration = [{
    /// The one position. (Segments of operands need two variadic groups.)
    ::mlir::Value getPosition() { return getPositions().front(); }
  }];
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Lego_MaskOp : Lego_Op<"mask", [
    Pure, AttrSizedOperandSegments, Lego_UsesGenP]> {
  let summary = "Whether an index names an element";
  let description = [{
    False past the end of an axis whose last tile is partial; true for every
    index of a layout without partial tiles.
  }];
  let arguments = (ins Lego_LayoutAttr:$layout, Variadic<Index>:$indices,
                       Variadic<Index>:$sizes);
  let results = (outs I1:$named);
  let assemblyFormat = [{
    qualified($layout) `` `(` $indices `)` (`` `[` $sizes^ `]`)? attr-dict
  }];
  let hasFolder = 1;
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// General permutations
//===----------------------------------------------------------------------===//

def Lego_GenPOp : Lego_Op<"genp", [
    IsolatedFromAbove, Symbol]> {
  let summary = "The two functions of a general permutation";
  let description = [{
    `apply` yields the position of an index, `inv` the index of a position. The
    regions hold one block of operations without side effects, and the values of
    the sizes written `?` are their last arguments. If all sizes are constant
    and the tile is small, the verifier checks that the functions are inverse to
    each other; `lego-verify` checks larger ones.

    ```mlir
    lego.genp @back sizes [8] apply(%i) {
      %last = arith.constant 7 : index
      %p = arith.subi %last, %i : index
      lego.yield %p : index
    } inv(%p) {
      %last = arith.constant 7 : index
      %i = arith.subi %last, %p : index
      lego.yield %i : index
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, DenseI64ArrayAttr:$sizes,
                       OptionalAttr<StrAttr>:$sym_visibility);
  let regions = (region SizedRegion<1>:$apply, SizedRegion<1>:$inv);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// The number of sizes written `?`.
    unsigned getNumDynamic();
  }];
}

def Lego_YieldOp : Lego_Op<"yield", [
    Pure, Terminator, ReturnLike, ParentOneOf<["GenPOp", "ForEachOp"]>]> {
  let summary = "The results of a region";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins)>]; // defined in Ops.cpp
}

//===----------------------------------------------------------------------===//
// Memory under a layout
//===----------------------------------------------------------------------===//

def Lego_ViewOp : Lego_Op<"view", [
    Pure, Lego_UsesGenP,
    DeclareOpInterfaceMethods<ViewLikeOpInterface>,
    TypesMatchWith<"the source is the memref of the view", "result", "source",
                   "::llvm::cast<::lego::ViewType>($_self).getMemref()">]> {
  let summary = "A contiguous memref under a layout";
  let description = [{
    The memref has the identity layout; a position of the layout counts its
    elements in row-major order.

    ```mlir
    %v = lego.view %m[%M] : !lego.view<memref<?xf32>, #lego.layout<[M]: Row(M, 64)>>
    ```
  }];
  let arguments = (ins AnyMemRef:$source, Variadic<Index>:$sizes);
  let results = (outs Lego_ViewType:$result);
  let assemblyFormat = [{
    $source (`` `[` $sizes^ `]`)? attr-dict `:` qualified(type($result))
  }];
  let hasVerifier = 1;
}

class Lego_Access<string mnemonic, list<Trait> traits = []>
    : Lego_Op<mnemonic, traits> {
  let hasVerifier = 1;
}

def Lego_LoadOp : Lego_Access<"load", [
    TypesMatchWith<"the result is an element of the view", "view", "result",
      "::llvm::cast<::lego::ViewType>($_self).getMemref().getElementType()">]> {
  let summary = "Load an element by its logical index";
  let arguments = (ins Arg<Lego_ViewType, "", [MemRead]>:$view,
                       Variadic<Index>:$indices);
  let results = (outs AnyType:$result);
  let assemblyFormat = [{
    $view `` `[` $indices `]` attr-dict `:` qualified(type($view))
  }];
}

def Lego_StoreOp : Lego_Access<"store", [
    TypesMatchWith<"the value is an element of the view", "view", "value",
      "::llvm::cast<::lego::ViewType>($_self).getMemref().getElementType()">]> {
  let summary = "Store an element by its logical index";
  let arguments = (ins AnyType:$value,
                       Arg<Lego_ViewType, "", [MemWrite]>:$view,
                       Variadic<Index>:$indices);
  let assemblyFormat = [{
    $value `,` $view `` `[` $indices `]` attr-dict `:` qualified(type($view))
  }];
}

def Lego_VectorLoadOp : Lego_Access<"vector_load"> {
  let summary = "Load consecutive elements along the last logical axis";
  let description = [{
    Lowered to one vector load if the positions are proved to be consecutive,
    and otherwise to one load for each element.
  }];
  let arguments = (ins Arg<Lego_ViewType, "", [MemRead]>:$view,
                       Variadic<Index>:$indices);
  let results = (outs FixedVectorOfRankAndType<[1], [AnyType]>:$result);
  let assemblyFormat = [{
    $view `` `[` $indices `]` attr-dict `:` qualified(type($view)) `,` type($result)
  }];
}

def Lego_VectorStoreOp : Lego_Access<"vector_store"> {
  let summary = "Store consecutive elements along the last logical axis";
  let arguments = (ins FixedVectorOfRankAndType<[1], [AnyType]>:$value,
                       Arg<Lego_ViewType, "", [MemWrite]>:$view,
                       Variadic<Index>:$indices);
  let assemblyFormat = [{
    $value `,` $view `` `[` $indices `]` attr-dict `:` qualified(type($view)) `,` type($value)
  }];
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

def Lego_ForEachOp : Lego_Op<"for_each", [
    AttrSizedOperandSegments, Lego_UsesGenP, RecursiveMemoryEffects,
    SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "Loop over the elements of a layout in the order of positions";
  let description = [{
    The body's arguments are the logical index of the element, then the carried
    values. Unused positions are skipped.

    ```mlir
    %sum = lego.for_each (%i, %j) in #lego.layout<Col(4, 8)> iter_args(%s = %zero) -> (f32) {
      ...
      lego.yield %t : f32
    }
    ```
  }];
  let arguments = (ins Lego_LayoutAttr:$layout, Variadic<Index>:$sizes,
                       Variadic<AnyType>:$inits);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
}

#endif // LEGO_OPS_TD
