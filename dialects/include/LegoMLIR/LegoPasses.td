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

//===----------------------------------------------------------------------===//
// Tiles spread over threads
//===----------------------------------------------------------------------===//

def LegoPropagateSpread : Pass<"lego-propagate-spread"> {
  let summary = "Give all tiles a layout, and insert conversions where two meet";
  let description = [{
    Layouts spread from the tensors that have the encoding `#lego.spread` to
    those that have none: first forward in the order of the program, then
    backward, through elementwise operations, linalg.map, transpose, broadcast and
    reduce, tensor.expand_shape and collapse_shape, scf.for, scf.while and scf.if.
    The result of a lego.mma has a layout of the matrix unit from the start, and
    its operands are converted to those of fragments. Constants, splats and tiles
    of indices are made again in each layout that is wanted. Where an operand is
    in another layout than its operation needs, a lego.convert follows the
    operand's definition; all uses share it.

    With `warps`, tiles that no layout reaches are loaded in rows: 16 bytes for
    each thread, neighbouring lanes in a row.

    Upstream's canonicalization can make tiles without a layout, where it transposes
    the operand of a linalg.broadcast in place of its result: run this pass again.
  }];
  let options = [
    Option<"warps", "warps", "unsigned", "0",
           "Warps of a block; 0: each tile must be reached by a layout">,
    Option<"lanes", "lanes", "unsigned", "32", "Threads of a warp, with `warps`">];
  let statistics = [
    Statistic<"numTiles", "num-tiles", "Tiles that were given a layout">,
    Statistic<"numConversions", "num-conversions", "Conversions inserted">];
  let dependentDialects = ["::lego::LegoDialect", "::mlir::tensor::TensorDialect"];
}

def LegoLowerSpread : Pass<"lego-lower-spread"> {
  let summary = "Replace tiles by vectors of each thread, conversions by exchanges";
  let description = [{
    A tile becomes the vector of its elements in one thread. Operations on tiles
    become operations on vectors; they move nothing between threads, and their
    layouts must agree (lego-propagate-spread makes them). A lego.convert moves
    elements within a thread, within a warp by gpu.shuffle, or else through
    workgroup memory between two barriers. A linalg.reduce combines registers,
    then lanes by gpu.shuffle, then warps through workgroup memory. A lego.mma
    becomes nvgpu.mma.sync on fragments of registers.

    The block size of the gpu.launch or gpu.func is known, and the number of
    threads of each layout.
  }];
  let options = [Option<"shuffles", "shuffles", "bool", "true",
                        "Convert by shuffles where a warp keeps its elements">];
  let statistics = [
    Statistic<"numInThread", "num-in-thread", "Conversions within each thread">,
    Statistic<"numShuffled", "num-shuffled", "Conversions by shuffles">,
    Statistic<"numThroughMemory", "num-through-memory",
              "Conversions through workgroup memory">];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect",
    "::mlir::memref::MemRefDialect", "::mlir::nvgpu::NVGPUDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

#endif // LEGO_PASSES_TD
