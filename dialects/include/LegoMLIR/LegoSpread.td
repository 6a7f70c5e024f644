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

    A tensor whose sizes are no powers of two is the `box` of the first elements
    of the tile that the bases reach; each size is more than half of the tile's.
    A box ends where registers alone, or warps alone, tell the elements of an
    axis apart: then a register, or a warp, is inside for all threads or for
    none. Registers outside are not made, and warps outside are not part of the
    block. This is a tensor of 4x12 whose bases reach a tile of 4x16:

    ```mlir
    #lego.spread<register = [[0, 4], [0, 8]], lane = [[0, 1], [0, 2], [1, 0], [2, 0]],
                 warp = [], box = [4, 12]>
    ```
  }];
  let parameters = (ins "unsigned":$registerBits, "unsigned":$laneBits,
                        "unsigned":$warpBits,
                        ArrayRefParameter<"int64_t">:$bases,
                        "int64_t":$copies,
                        OptionalArrayRefParameter<"int64_t">:$box);
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
    /// The shape of the tile that the bases reach, without its box.
    ::llvm::SmallVector<int64_t> getTileShape() const;
    /// The shape of a tensor with this encoding.
    ::llvm::SmallVector<int64_t> getShape() const;
    /// Whether the element at a basis, of those that end a box, is inside.
    bool isInside(::llvm::ArrayRef<int64_t> index) const;
    /// Why a block of so many threads does not hold the tile; empty if it does.
    std::string getMisfit(int64_t threads) const;
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

def Lego_TileIndexOp : Op<Lego_Dialect, "tile_index", [Pure]> {
  let summary = "The index of each element of a tile along an axis";
  let description = [{
    ```mlir
    %j = lego.tile_index 1 : tensor<16x32xindex, #rows>
    ```
  }];
  let arguments = (ins I64Attr:$axis);
  let results = (outs Lego_Tile:$result);
  let assemblyFormat = "$axis attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Lego_TileLoadOp : Op<Lego_Dialect, "tile_load", [AttrSizedOperandSegments]> {
  let summary = "Read a tile of memory into registers";
  let description = [{
    The element [i, j] of the tile is that of the memref at [%r + i, %c + j]. It
    is inside the memref, or the mask is false there: then memory is not read,
    and the element is the number after `else`, which is there with a mask.

    ```mlir
    %x = lego.tile_load %m[%r, %c] : memref<?x512xf32>, tensor<16x32xf32, #rows>
    %y = lego.tile_load %m[%r, %c] mask %p : tensor<16x32xi1, #rows> else %zero
      : memref<?x512xf32>, tensor<16x32xf32, #rows>
    ```
  }];
  let arguments = (ins Arg<AnyMemRef, "", [MemRead]>:$memref,
                       Variadic<Index>:$indices,
                       Optional<Lego_Tile>:$mask,
                       Optional<AnyType>:$other);
  let results = (outs Lego_Tile:$result);
  let assemblyFormat = [{
    $memref `` `[` $indices `]`
    (`mask` $mask^ `:` type($mask) `else` $other `:` type($other) `in`)?
    attr-dict `:` type($memref) `,` type($result)
  }];
  let hasVerifier = 1;
}

def Lego_TileStoreOp : Op<Lego_Dialect, "tile_store", [AttrSizedOperandSegments]> {
  let summary = "Write a tile to memory";
  let description = [{
    Each element is written by one thread, also where several hold it. Elements
    whose mask is false are not written.

    ```mlir
    lego.tile_store %x, %m[%r, %c] : memref<?x512xf32>, tensor<16x32xf32, #rows>
    ```
  }];
  let arguments = (ins Lego_Tile:$value, Arg<AnyMemRef, "", [MemWrite]>:$memref,
                       Variadic<Index>:$indices, Optional<Lego_Tile>:$mask);
  let assemblyFormat = [{
    $value `,` $memref `` `[` $indices `]` (`mask` $mask^ `:` type($mask) `in`)?
    attr-dict `:` type($memref) `,` type($value)
  }];
  let hasVerifier = 1;
}

def Lego_MmaOp : Op<Lego_Dialect, "mma", [
    Pure, AllTypesMatch<["acc", "result"]>, AllElementTypesMatch<["a", "b"]>]> {
  let summary = "acc + a b, by the matrix unit of each warp";
  let description = [{
    a is (M, K), b is (K, N), acc and the result (M, N). The layouts are those of
    the fragments of `mma.sync`: each instruction of a warp multiplies registers
    that its lanes hold. Let k0, k1, .. be bases along K, the same ones in a and
    b, m and n bases along the rows and columns of the result:

    | bits | a | b | acc |
    |---|---|---|---|
    | lanes 0, 1 | k1, k2 | k1, k2 | n1, n2 |
    | lanes 2, 3, 4 | m0, m1, m2 | n0, n1, n2 | m0, m1, m2 |
    | registers | k0 .. and k3, the result's rows | k0 .. and k3, the result's columns | n0, m3, others |
    | warps | the result's rows | the result's columns | rows or columns |

    Any order of the elements along K has the same sum. Elements of f16 or bf16
    are added as f32, f32 (rounded to TF32) as f32, f64 as f64, i8 as i32,
    saturated.

    ```mlir
    %d = lego.mma %a, %b, %c : tensor<64x32xf16, #a>, tensor<32x64xf16, #b>,
                               tensor<64x64xf32, #c>
    ```

    Before lego-propagate-spread operands may have no encoding.
  }];
  let arguments = (ins Lego_Tile:$a, Lego_Tile:$b, Lego_Tile:$acc);
  let results = (outs Lego_Tile:$result);
  let assemblyFormat = [{
    $a `,` $b `,` $acc attr-dict `:` type($a) `,` type($b) `,` type($acc)
  }];
  let hasVerifier = 1;
}

#endif // LEGO_SPREAD_TD
