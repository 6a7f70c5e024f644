"""transformed -> nvvm -> llvm: from gpu, memref, vector, scf, affine and arith to LLVM IR for NVPTX.

The passes are `NVVM`, a pipeline as a value. Around them are the few steps that no upstream pass does: kernel arguments
become plain pointers even where a size is known only at run time, dynamic shared memory is declared `extern` (upstream
defines it with zero bytes, so that it overlaps static memory), and operations that cannot run on a GPU are rejected by
name instead of failing in the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Op, Type, Value
from lego_mlir.hardware.limits import STATIC_SHARED_BYTES
from lego_mlir.hardware.targets import Target
from lego_mlir.hardware.tensor_maps import ATOM_BYTES, MAP_BYTES
from lego_mlir.toolchain import exchange, llvm, mathlib
from lego_mlir.toolchain.tensor_scopes import scope_accesses
from lego_mlir.transforms import called_functions
from lego_mlir.transforms.kernel_facts import TENSOR_MAPS_ATTRIBUTE, facts_of, gpu_modules, input_types, kernels
from lego_mlir.transforms.modules import ModuleError, parse, run, session, string_attribute, to_text, walk
from lego_mlir.transforms.passes.base import FunctionPass
from lego_mlir.transforms.passes.bf16_integers import LowerBf16Integers
from lego_mlir.transforms.passes.bf16_products import LowerBf16Products
from lego_mlir.transforms.passes.byte_transposes import LowerByteTransposes
from lego_mlir.transforms.passes.f8_conversions import LowerF8Conversions, LowerF8MatrixLoads
from lego_mlir.transforms.passes.fast_functions import LowerFastFunctions
from lego_mlir.transforms.passes.float_to_integer import LowerFloatToInteger
from lego_mlir.transforms.passes.join_scratch import JoinScratch
from lego_mlir.transforms.passes.lower_atomics import LowerAtomics
from lego_mlir.transforms.passes.lower_cache_hints import PRIORITIES, LowerCacheHints
from lego_mlir.transforms.passes.lower_shuffles import LowerShuffles
from lego_mlir.transforms.passes.lower_wide_products import LowerWideProducts
from lego_mlir.transforms.passes.narrow_indices import NarrowIndices
from lego_mlir.transforms.passes.packed_conversions import PackConversions
from lego_mlir.transforms.passes.packed_halves import LowerPackedHalves
from lego_mlir.transforms.passes.subgroup_reduce import LowerSubgroupReduce, LowerWarpReductions
from lego_mlir.transforms.passes.unroll_exchanges import ANNOTATION, UnrollExchanges
from lego_mlir.transforms.pipeline import Pipeline, PipelinePass

# A module that launches its kernel in place, with gpu.launch, gets the kernel outlined; others are unchanged.
OUTLINE: Final = Pipeline(
    "builtin.module", (PipelinePass("gpu-launch-sink-index-computations"), PipelinePass("gpu-kernel-outlining"))
)
# What upstream's passes do not lower, in order; none depends on the target. Indices come first, while accesses still
# have them.
LOWERINGS: Final[tuple[FunctionPass, ...]] = (
    UnrollExchanges(),
    NarrowIndices(),
    LowerWideProducts(),
    LowerBf16Products(),
    LowerBf16Integers(),
    LowerF8Conversions(),
    LowerF8MatrixLoads(),
    LowerByteTransposes(),
    LowerFloatToInteger(by_unit=True),
    LowerPackedHalves(),
    LowerFastFunctions(),
    LowerSubgroupReduce(),
    LowerShuffles(),
    LowerAtomics(),
    JoinScratch(),
)
NVVM: Final = Pipeline(
    "builtin.module",
    (
        Pipeline(
            "gpu.module",
            (
                PipelinePass("canonicalize"),
                PipelinePass("cse"),
                PipelinePass("convert-nvgpu-to-nvvm"),
                PipelinePass("expand-strided-metadata"),
                PipelinePass("lower-affine"),
                PipelinePass("canonicalize"),
                PipelinePass("cse"),
                PipelinePass("convert-vector-to-scf"),
                PipelinePass("convert-vector-to-llvm"),
                PipelinePass("convert-scf-to-cf"),
                PipelinePass("convert-nvvm-to-llvm"),
                PipelinePass("convert-gpu-to-nvvm", {"use-bare-ptr-memref-call-conv": True, "index-bitwidth": 64}),
                PipelinePass("convert-math-to-llvm"),  # what is an intrinsic of LLVM and no function of libdevice
                PipelinePass("convert-index-to-llvm"),
                PipelinePass("convert-nvvm-to-llvm"),
                PipelinePass("reconcile-unrealized-casts"),
                PipelinePass("canonicalize"),
                PipelinePass("cse"),
            ),
        ),
    ),
)


def lowerings_for(target: Target) -> tuple[FunctionPass, ...]:
    """The lowerings for a target: its conversions and reductions, those that any target has, its hints to caches."""
    return (
        PackConversions(target.has_f8_conversions, target.has_short_conversions),
        LowerWarpReductions(target.compute_capability >= (8, 0)),
        *LOWERINGS,
        LowerCacheHints(target.ptx >= PRIORITIES),
    )


_UNKNOWN_SIZE: Final = (1 << 63) - 1
_MASKING: Final = ("vector.transfer_read", "vector.transfer_write")
# After the passes a GPU module holds these; anything else was not lowered.
_DIALECTS_LEFT: Final = ("llvm.", "nvvm.")
_HOST_CALLS: Final = {
    "malloc": "a memref.alloc is left, which allocates on the heap; for shared memory use a workgroup "
    "attribution of the gpu.func, or a memref.view of gpu.dynamic_shared_memory",
    "free": "a memref.dealloc is left; shared memory is never freed",
}


def to_nvvm(
    text: str, pipeline: Pipeline | str = NVVM, name: str = "-", lowerings: Sequence[FunctionPass] = LOWERINGS
) -> str:
    """The module with every GPU function in the llvm and nvvm dialects."""
    with session():
        module = parse(text, name)
        run(module, OUTLINE, name)
        for function in list(kernels(module)):
            _check_tiles(function)
            _check_shared_memory(function)
            arguments_as_pointers(function)
        called_functions.pass_pointers(module)
        for lowering in lowerings:
            lowering.run_on_kernels(module)
            for function in list(called_functions.called_functions(module.operation)):
                lowering.run_on(function)
        run(module, pipeline, name)
        modules = gpu_modules(module)
        if not modules:
            raise ModuleError(f"{name} has no gpu.module and no gpu.launch: there is no kernel to compile")
        for gpu_module in modules:
            _external_dynamic_shared_memory(gpu_module)
            called_functions.keep_calls(gpu_module)
            _align_words_of_64_bits(gpu_module)
            _pass_tensor_maps(gpu_module)
            scope_accesses(gpu_module)
            _annotate_branches(gpu_module)
            _refuse_what_cannot_run(gpu_module)
        return to_text(module, locations=True)


def to_llvm(text: str, name: str = "-") -> str:
    """LLVM IR text of all the GPU modules of an nvvm-level module, the math functions that they call included."""
    ir = bindings.load().ir
    texts: list[str] = []
    with session():
        module = parse(text, name)
        for gpu_module in gpu_modules(module):
            device = ir.Module.create()
            for operation in list(gpu_module.regions[0].blocks[0].operations):
                device.body.append(operation)
            texts.append(exchange.translate(device.operation))
    merged = texts[0] if len(texts) == 1 else llvm.link(texts)
    return mathlib.link_math(merged)


def arguments_as_pointers(function: Op) -> None:
    """Make `memref<?xf32>` arguments passable as one pointer each.

    A bare pointer can only represent a memref of static shape. Only `memref.dim` uses the number of elements of a
    one-dimensional memref; so the argument becomes a memref of one element, and the body uses it through a
    `memref.reinterpret_cast` of unknown size. Raises ModuleError for shapes that need their sizes to find an element.
    """
    ir, arith, memref = bindings.load().ir, bindings.load().dialect("arith"), bindings.load().dialect("memref")
    block = function.regions[0].blocks[0]
    types = input_types(function)
    kernel = string_attribute(function, "sym_name")
    for position, type_ in enumerate(types):
        if not isinstance(type_, ir.MemRefType) or type_.has_static_shape:
            continue
        argument = block.arguments[position]
        _check_passable(kernel, position, type_, argument)
        types[position] = ir.MemRefType.get([1], type_.element_type, memory_space=type_.memory_space)
        argument.set_type(types[position])
        with function.location, ir.InsertionPoint.at_block_begin(block):
            unknown = arith.ConstantOp(ir.IndexType.get(), _UNKNOWN_SIZE).result
            dynamic = ir.ShapedType.get_dynamic_size()
            view = memref.ReinterpretCastOp(type_, argument, [], [unknown], [], [0], [dynamic], [1]).result
        argument.replace_all_uses_except(view, view.owner.operation)
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))


def _check_tiles(function: Op) -> None:
    if any(operation.name == "vector.contract" for operation in walk(function)):
        raise ModuleError(
            f"@{string_attribute(function, 'sym_name')} multiplies tiles (vector.contract), and no transform script "
            "has distributed them to the lanes of a warp; compile with --transform ldmatrix_mma.mlir, or, for tiles "
            "that lego.stage copies, --transform matmul_sm80.mlir"
        )


def _check_shared_memory(function: Op) -> None:
    static = facts_of(function).static_shared
    if static > STATIC_SHARED_BYTES:
        raise ModuleError(
            f"@{string_attribute(function, 'sym_name')} declares {static} bytes of static shared memory, and a block "
            f"may have {STATIC_SHARED_BYTES}; use gpu.dynamic_shared_memory for more"
        )


def _check_passable(kernel: str, position: int, memref: Type, argument: Value) -> None:
    remedy = "take the sizes as index arguments, and the tensor as a one-dimensional memref that is indexed by them"
    if memref.rank != 1 or str(memref.layout) != "affine_map<(d0) -> (d0)>":
        raise ModuleError(
            f"@{kernel}: argument {position} is {memref}: an argument is passed as one pointer, which holds no sizes "
            f"and strides; {remedy}"
        )
    if any(use.owner.operation.name == "memref.dim" for use in argument.uses):
        raise ModuleError(f"@{kernel}: memref.dim needs the size of argument {position}, a bare pointer; {remedy}")
    for use in argument.uses:
        user = use.owner.operation
        if user.name in _MASKING and not _is_in_bounds(user):
            raise ModuleError(
                f"@{kernel}: {user.name} masks what is past the end of argument {position}, a pointer, whose end is "
                "not known; prove it inside and mark it in_bounds = [true], or pass a mask"
            )


def _is_in_bounds(transfer: Op) -> bool:
    ir = bindings.load().ir
    return "in_bounds" in transfer.attributes and all(
        ir.BoolAttr(flag).value for flag in ir.ArrayAttr(transfer.attributes["in_bounds"])
    )


def _external_dynamic_shared_memory(gpu_module: Op) -> None:
    """Declare dynamic shared memory `extern`, aligned to the widest swizzle where the units for tiles access it."""
    ir = bindings.load().ir
    swizzled = any(
        (operation.name == "llvm.inline_asm" and "wgmma" in string_attribute(operation, "asm_string"))
        or TENSOR_MAPS_ATTRIBUTE in operation.attributes
        for operation in walk(gpu_module)
    )
    for operation in walk(gpu_module):
        if operation.name == "llvm.mlir.global" and string_attribute(operation, "sym_name").startswith(
            "__dynamic_shmem__"
        ):
            operation.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<external>")
            if swizzled:
                operation.attributes["alignment"] = ir.Attribute.parse(f"{ATOM_BYTES} : i64")


def _align_words_of_64_bits(gpu_module: Op) -> None:
    """Give loads and stores of i64 their natural alignment.

    MLIR translates them by LLVM's default data layout, in which i64 is aligned to 4 bytes: each would become two
    accesses of 32 bits.
    """
    ir = bindings.load().ir
    word, alignment = ir.IntegerType.get_signless(64), ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 8)
    for operation in walk(gpu_module):
        if operation.name in ("llvm.load", "llvm.store") and "alignment" not in operation.attributes:
            accessed = operation.results[0] if operation.name == "llvm.load" else operation.operands[0]
            if accessed.type == word:
                operation.attributes["alignment"] = alignment


def _annotate_branches(gpu_module: Op) -> None:
    """Give the branches that close loops their annotations, which conversion leaves under the name that loops have."""
    for operation in walk(gpu_module):
        if operation.name == "llvm.br" and ANNOTATION in operation.attributes:
            operation.attributes["loop_annotation"] = operation.attributes[ANNOTATION]
            del operation.attributes[ANNOTATION]


def _pass_tensor_maps(gpu_module: Op) -> None:
    """Pass a kernel's tensor maps by value, as the copy engine reads them from parameter memory.

    Each has 128 bytes, and as many follow where it has an edge.

    Conversion to LLVM drops `llvm.byval` of a `gpu.func`, and `nvvm.grid_constant` is refused there.
    """
    ir = bindings.load().ir
    passed = [
        ir.Attribute.parse(f"{{llvm.byval = !llvm.array<{n} x i8>, nvvm.grid_constant, llvm.align = 64 : i64}}")
        for n in (MAP_BYTES, 2 * MAP_BYTES)
    ]
    for operation in walk(gpu_module):
        if operation.name == "llvm.func" and TENSOR_MAPS_ATTRIBUTE in operation.attributes:
            listed = list(operation.attributes[TENSOR_MAPS_ATTRIBUTE])
            listed += [ir.UnitAttr.get()] * (len(operation.regions[0].blocks[0].arguments) - len(listed))
            given = [ir.DictAttr.get({}) if isinstance(one, ir.UnitAttr) else passed["edge" in one] for one in listed]
            operation.attributes["arg_attrs"] = ir.ArrayAttr.get(given)


def _refuse_what_cannot_run(gpu_module: Op) -> None:
    for operation in walk(gpu_module):
        if not operation.name.startswith(_DIALECTS_LEFT):
            raise ModuleError(
                f"{operation.location}: {operation.name} was not lowered to NVVM: no pass of the pipeline handles it"
            )
        if operation.name == "llvm.func" and string_attribute(operation, "sym_name") in _HOST_CALLS:
            raise ModuleError(_HOST_CALLS[string_attribute(operation, "sym_name")])
