//===- LegoTransformOps.td - Layouts in transform scripts --*- tablegen -*-===//

#ifndef LEGO_TRANSFORM_OPS_TD
#define LEGO_TRANSFORM_OPS_TD

include "LegoMLIR/LegoAttrs.td"
include "mlir/Dialect/Transform/IR/TransformDialect.td"
include "mlir/Dialect/Transform/Interfaces/TransformInterfaces.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Lego_TransformOp<string mnemonic>
    : Op<Transform_Dialect, "lego." # mnemonic, [
        FunctionalStyleTransformOpTrait, MemoryEffectsOpInterface,
        TransformOpInterface, TransformEachOpTrait,
        ReportTrackingListenerFailuresOpTrait]> {
  let cppNamespace = "::lego";
  let extraClassDeclaration = [{
    ::mlir::DiagnosedSilenceableFailure applyToOne(
        ::mlir::transform::TransformRewriter &rewriter,
        ::mlir::Operation *target,
        ::mlir::transform::ApplyToEachResultList &results,
        ::mlir::transform::TransformState &state);
  }];
}

def Lego_RelayoutOp : Lego_TransformOp<"relayout"> {
  let summary = "Change the layout of an allocation and of all its uses";
  let description = [{
    The allocation becomes a memref of one dimension with as many elements as
    the layout has positions; loads and stores of elements and of vectors become
    accesses of a `lego.view` of it. The sizes of the layout are those of the
    memref.

    Fails silenceably, and changes nothing, for an allocation of unknown size or
    another use, such as a subview (fold those with
    `apply_patterns.memref.fold_memref_alias_ops`).
  }];
  let arguments = (ins TransformHandleTypeInterface:$target,
                       Lego_LayoutAttr:$layout);
  let results = (outs TransformHandleTypeInterface:$result);
  let assemblyFormat = [{
    $target `with` `(` qualified($layout) `)` attr-dict
    `:` functional-type($target, $result)
  }];
}

def Lego_OrderOp : Lego_TransformOp<"order"> {
  let summary = "Reorder the blocks of a launch by a layout";
  let description = [{
    The target is a `gpu.launch` with constant grid sizes, or a `gpu.func` with
    `known_grid_size`. The sizes of the layout are the grid's (x, y, z; trailing
    sizes of 1 may be left out). Block number p, counted with x fastest, does
    the work of the block at `lego.inv layout(p)`.

    Fails silenceably for a kernel with clusters, or with `gpu.global_id`, which
    would keep the order of the hardware.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target,
                       Lego_LayoutAttr:$layout);
  let results = (outs TransformHandleTypeInterface:$result);
  let assemblyFormat = [{
    $target `with` `(` qualified($layout) `)` attr-dict
    `:` functional-type($target, $result)
  }];
}

def Lego_SwizzleOp : Lego_TransformOp<"swizzle"> {
  let summary = "The cheapest conflict-free layout of a shared allocation";
  let description = [{
    Evaluates the indices of every access for the threads of a warp, counts the
    wavefronts of each under row-major, swizzled and padded layouts, and relays
    the allocation by the best: fewest wavefronts, then least memory, then
    fewest operations. An allocation without conflicts is left as it is. A
    remark names the layout and both counts.

    The allocation is in `#gpu.address_space<workgroup>` and has a static shape;
    the block size of the launch is known, 1 to 1024 threads. Fails silenceably where an index
    depends on data, and for uses that `transform.lego.relayout` refuses.
  }];
  let arguments = (ins TransformHandleTypeInterface:$target);
  let results = (outs TransformHandleTypeInterface:$result);
  let assemblyFormat = "$target attr-dict `:` functional-type($target, $result)";
}

#endif // LEGO_TRANSFORM_OPS_TD
