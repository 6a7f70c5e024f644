//===- LegoSpread.td - Tiles spread over threads -----------*- tablegen -*-===//
//
// A tile in the registers of a block is a tensor whose encoding says which
// register, lane and warp holds which element. Operations on tiles are those of
// arith, math, tensor and linalg; what is here moves tiles between threads and
// memory.
//
//===----------------------------------------------------------------------===//

#ifndef LEGO_SPREAD_TD
#define LEGO_SPREAD_TD

include "LegoMLIR/LegoDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinTypeInterfaces.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Lego_SpreadAttr : AttrDef<Lego_Dialect, "Spread", [
    DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let mnemonic = "spread";
  let summary = "Which register, lane and warp holds which element of a tile";
  let description = [{
    A linear layout over bits (Linear Layouts, definition 4.10). Each bit of the
    number of a register, lane or warp has a basis, the coordinates of an
    element; a place holds the element that is the exclusive or of the bases of
    its bits. This tile of 4x16 has a register for 2 neighbours in a row, 8
    lanes in a row, 4 rows:

    ```mlir
    #lego.spread<register = [[0, 1]], lane = [[0, 2], [0, 4], [0, 8], [1, 0], [2, 0]],
                 warp = []>
    ```

    Every element of the tile has a place. `copies` is the number of places of
    each; it is written, and verified, where it is not 1.
  }];
  let parameters = (ins "unsigned":$registerBits, "unsigned":$laneBits,
                        "unsigned":$warpBits,
                        ArrayRefParameter<"int64_t">:$bases,
                        "int64_t":$copies);
  let genVerifyDecl = 1;
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    unsigned getNumBits() const {
      return getRegisterBits() + getLaneBits() + getWarpBits();
    }
    /// The axes of a basis; 0 where there are no bases.
    unsigned getRank() const {
      return getNumBits() ? getBases().size() / getNumBits() : 0;
    }
    /// The basis of a bit, registers first, then lanes, then warps.
    ::llvm::ArrayRef<int64_t> getBasis(unsigned k) const {
      return getBases().slice(k * getRank(), getRank());
    }
    /// Elements of a tile in one thread, and threads of the block.
    int64_t getNumRegisters() const { return int64_t(1) << getRegisterBits(); }
    int64_t getNumThreads() const {
      return int64_t(1) << (getLaneBits() + getWarpBits());
    }
    /// The shape of the tile that the bases reach.
    ::llvm::SmallVector<int64_t> getTileShape() const;
  }];
}

/// A tensor, with the encoding `#lego.spread` or, before lego-propagate-spread,
/// with none.
def Lego_Tile : RankedTensorOf<[AnyInteger, Index, AnyFloat]>;

def Lego_ConvertOp : Op<Lego_Dialect, "convert", [
    Pure, SameOperandsAndResultShape, SameOperandsAndResultElementType]> {
  let summary = "The same tile, spread in another way";
  let description = [{
    Both types have the encoding `#lego.spread`, for equally many lanes and
    warps. All threads of the block execute it. Before lego-propagate-spread one
    of them may have no encoding: that side takes the layout that reaches it,
    first of all that of the other side.

    ```mlir
    %y = lego.convert %x : tensor<16x32xf32, #rows> to tensor<16x32xf32, #columns>
    ```
  }];
  let arguments = (ins Lego_Tile:$source);
  let results = (outs Lego_Tile:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `to` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Lego_TileLoadOp : Op<Lego_Dialect, "tile_load"> {
  let summary = "Read a tile of memory into registers";
  let description = [{
    The element [i, j] of the tile is that of the memref at [%r + i, %c + j]. All
    of them are inside the memref.

    ```mlir
    %x = lego.tile_load %m[%r, %c] : memref<?x512xf32>, tensor<16x32xf32, #rows>
    ```
  }];
  let arguments = (ins Arg<AnyMemRef, "", [MemRead]>:$memref,
                       Variadic<Index>:$indices);
  let results = (outs Lego_Tile:$result);
  let assemblyFormat = [{
    $memref `` `[` $indices `]` attr-dict `:` type($memref) `,` type($result)
  }];
  let hasVerifier = 1;
}

def Lego_TileStoreOp : Op<Lego_Dialect, "tile_store"> {
  let summary = "Write a tile to memory";
  let description = [{
    Each element is written by one thread, also where several hold it.

    ```mlir
    lego.tile_store %x, %m[%r, %c] : memref<?x512xf32>, tensor<16x32xf32, #rows>
    ```
  }];
  let arguments = (ins Lego_Tile:$value, Arg<AnyMemRef, "", [MemWrite]>:$memref,
                       Variadic<Index>:$indices);
  let assemblyFormat = [{
    $value `,` $memref `` `[` $indices `]` attr-dict `:` type($memref) `,` type($value)
  }];
  let hasVerifier = 1;
}

#endif // LEGO_SPREAD_TD
