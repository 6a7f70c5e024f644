"""MLIR modules as machine code in this process: lowering to LLVM, the ExecutionEngine, objects, and their loading.

Compiling and running are two steps with an object file's bytes between them, so that a kernel from a cache and a
kernel compiled just now are started in the same way:

>>> code = assemble('''func.func @twice(%x: memref<1xf64>) {
...     %c0 = arith.constant 0 : index
...     %v = memref.load %x[%c0] : memref<1xf64>
...     %w = arith.addf %v, %v : f64
...     memref.store %w, %x[%c0] : memref<1xf64>
...     return }''', ("twice",))
>>> import ctypes, numpy
>>> x = numpy.array([21.0])
>>> library = load(code, ("twice",))
>>> _ = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library.address("twice"))(x.ctypes.data)
>>> float(x[0])
42.0
"""

from __future__ import annotations

import itertools
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lego_mlir import bindings
from lego_mlir.errors import UsageError
from lego_mlir.hardware.isa import ISA
from lego_mlir.runtime import image
from lego_mlir.toolchain import exchange, llvm
from lego_mlir.transforms import modules

if TYPE_CHECKING:
    from lego_mlir.aliases import LlvmModule, Module

# vector before memref, because transfers become memref operations; every memref is a bare pointer of a known size
PASSES: Final = (
    "canonicalize", "cse", "convert-scf-to-cf", "convert-math-to-llvm", "expand-strided-metadata",
    "convert-vector-to-llvm", "finalize-memref-to-llvm", "convert-func-to-llvm{use-bare-ptr-memref-call-conv=1}",
    "convert-ub-to-llvm", "convert-arith-to-llvm", "convert-index-to-llvm", "convert-cf-to-llvm",
    "reconcile-unrealized-casts",
)  # fmt: skip
OPTIMISATION_LEVEL: Final = 3
CAST: Final = "builtin.unrealized_conversion_cast"
CPU_INFO: Final = Path("/proc/cpuinfo")
CPU_INFO_CHARACTERS: Final = 8192  # more than the first processor's part
TELLING: Final = ("cpu family", "model", "model name", "stepping", "flags")  # on x86
ROUNDING: Final = "__truncsfbf2"
"""The function that LLVM calls to round f32 to bf16 for processors without an instruction for it."""
_ROUNDING_TEXT: Final = f"""llvm.func @{ROUNDING}(%x: f32) -> bf16 {{
  %bits = llvm.bitcast %x : f32 to i32
  %half = llvm.mlir.constant(16 : i32) : i32
  %high = llvm.lshr %bits, %half : i32
  %one = llvm.mlir.constant(1 : i32) : i32
  %odd = llvm.and %high, %one : i32
  %most = llvm.mlir.constant(32767 : i32) : i32
  %up = llvm.add %most, %odd : i32
  %sum = llvm.add %bits, %up : i32
  %rounded = llvm.lshr %sum, %half : i32
  %quiet = llvm.mlir.constant(64 : i32) : i32
  %nan = llvm.or %high, %quiet : i32
  %is_nan = llvm.fcmp "uno" %x, %x : f32
  %chosen = llvm.select %is_nan, %nan, %rounded : i1, i32
  %word = llvm.trunc %chosen : i32 to i16
  %result = llvm.bitcast %word : i16 to bf16
  llvm.return %result : bf16
}}"""
_numbers = itertools.count()
_LOADING: Final = threading.Lock()


def lowered(text: str, driver: str = "", passes: Sequence[str] = PASSES) -> Module:
    """The module in the LLVM dialect, and beside it the LLVM-dialect functions of `driver` and `ROUNDING`.

    A driver is a module that declares what it calls; it is needed where pointers are computed, which memrefs hide.
    Runs inside a `modules.session`.
    """
    module = modules.parse(text)
    module_passes = bindings.load().passmanager.PassManager.parse(f"builtin.module({','.join(passes)})")
    module_passes.enable_verifier(False)
    module_passes.run(module.operation)
    _attribute(module, '["noinline"]')
    _keep_private_local(module)
    for added in filter(None, (driver, _ROUNDING_TEXT if "bf16" in text else "")):
        beside = modules.parse(added)
        for operation in list(beside.body.operations):
            if len(list(operation.operation.regions[0].blocks)):
                module.body.append(operation)
    return module


def _attribute(module: Module, passthrough: str) -> None:
    """Give every function these LLVM attributes. Kernels are called, never inlined: ExecutionEngine wraps each in a
    function of another signature, which would otherwise hold a second copy of the whole kernel."""
    ir = bindings.load().ir
    for operation in module.body.operations:
        if operation.operation.name == "llvm.func":
            operation.attributes["passthrough"] = ir.Attribute.parse(passthrough)


def _keep_private_local(module: Module) -> None:
    """Give private functions internal linkage, which `convert-func-to-llvm` does not: an object exports the others."""
    ir = bindings.load().ir
    for operation in module.body.operations:
        private = operation.operation.name == "llvm.func" and "sym_visibility" in operation.attributes
        if private and len(list(operation.operation.regions[0].blocks)):
            operation.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<internal>")


def assemble(
    text: str,
    symbols: Sequence[str],
    driver: str = "",
    cpu: str = "",
    features: str = "",
    passes: Sequence[str] = PASSES,
) -> bytes:
    """The object code of a module for this machine, through MLIR's ExecutionEngine.

    `cpu` and `features` restrict the instructions to those of an older processor of the same family.
    """
    with modules.session(), tempfile.TemporaryDirectory() as folder:
        module = lowered(text, driver, passes)
        if cpu:
            _attribute(module, f'["noinline", ["target-cpu", "{cpu}"], ["target-features", "{features}"]]')
        try:
            engine = bindings.load().execution_engine.ExecutionEngine(
                module, opt_level=OPTIMISATION_LEVEL, enable_object_dump=True
            )
        except RuntimeError as error:
            raise UsageError(_not_lowered(module)) from error
        for symbol in symbols:
            if not engine.raw_lookup(symbol):
                raise UsageError(f"the module defines no function {symbol}")
        path = Path(folder) / "code.o"
        engine.dump_to_object_file(str(path))
        return path.read_bytes()


def _not_lowered(module: Module) -> str:
    """Why a module has no machine code: the operations that no pass has lowered."""
    left = {operation.name for operation in modules.walk(module.operation)} - {"builtin.module", CAST}
    names = sorted(name for name in left if not name.startswith("llvm."))
    return f"no machine code of the CPU can be made of {', '.join(names) or 'this module'}: nothing lowers it there"


def _optimised(text: str, isa: ISA) -> tuple[LlvmModule, Any]:
    """The target machine of an instruction set, and the optimised LLVM module."""
    binding = llvm.binding()
    target = binding.Target.from_triple(isa.triple) if isa.triple else binding.Target.from_default_triple()
    machine = target.create_target_machine(
        cpu=isa.cpu or binding.get_host_cpu_name(),
        features=isa.features if isa.cpu else binding.get_host_cpu_features().flatten(),
        opt=OPTIMISATION_LEVEL,
        reloc="pic",
        codemodel="default",
    )
    module = llvm.parse(llvm_ir(text, isa))
    module.triple = isa.triple or binding.get_default_triple()
    module.data_layout = str(machine.target_data)
    options = binding.create_pipeline_tuning_options(speed_level=OPTIMISATION_LEVEL)
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return machine, module


def object_code(text: str, isa: ISA) -> bytes:
    """A relocatable object of a module, for a machine that need not be this one."""
    machine, module = _optimised(text, isa)
    return bytes(machine.emit_object(module))


def assembly(text: str, isa: ISA) -> str:
    """The same as assembly."""
    machine, module = _optimised(text, isa)
    return str(machine.emit_assembly(module))


def host_features() -> Mapping[str, bool]:
    """The CPU features of this machine, from LLVM."""
    return dict(llvm.binding().get_host_cpu_features())


@cache
def processor() -> str:
    """This machine's processor and the version of MLIR, for cache keys."""
    return f"{features()} {_mlir_version()}"


@cache
def features() -> str:
    """This machine's processor and its features: from Linux, otherwise from LLVM, which is slow to load."""
    known = [line for line in _cpu_info() if line.split("\t")[0].strip() in TELLING]
    if len(known) < len(TELLING):
        binding = llvm.binding()
        known = [binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()]
    return " ".join(known)


def model_name() -> str:
    """What this machine's processor is called: by Linux, otherwise by LLVM."""
    named = (line.partition(":")[2].strip() for line in _cpu_info() if line.startswith("model name"))
    return next(named, "") or str(llvm.binding().get_host_cpu_name())


def _cpu_info() -> list[str]:
    """What Linux says about the first processor, line by line; nothing elsewhere."""
    try:
        with CPU_INFO.open() as file:
            return file.read(CPU_INFO_CHARACTERS).split("\n\n")[0].splitlines()
    except OSError:
        return []


def _mlir_version() -> str:
    """The versions of the distributions that may provide MLIR, none of them imported: a cached kernel needs no MLIR."""
    found = []
    for distribution in bindings.DISTRIBUTIONS.values():
        with suppress(metadata.PackageNotFoundError):
            found.append(f"{distribution} {metadata.version(distribution)}")
    return ", ".join(found)


def llvm_ir(text: str, isa: ISA) -> str:
    """The module as LLVM IR, not optimised."""
    ir = bindings.load().ir
    with modules.session():
        module = lowered(text)
        if isa.granules:
            # SVE: LLVM turns vectors of a fixed length into scalable ones if registers are known to hold them
            spelled = f"#llvm.vscale_range<minRange = {isa.granules} : i32, maxRange = 16 : i32>"
            for operation in module.body.operations:
                operation.attributes["vscale_range"] = ir.Attribute.parse(spelled)
        return exchange.translate(module.operation)


@dataclass(frozen=True)
class Library:
    """Loaded code. The functions live as long as this object."""

    tracker: Any

    def address(self, symbol: str) -> int:
        return int(self.tracker[symbol])


@cache
def _linker() -> Any:
    binding = llvm.binding()
    machine = binding.Target.from_default_triple().create_target_machine(jit=True, codemodel="jitdefault")
    return binding.create_lljit_compiler(machine)


def load(code: bytes, symbols: Sequence[str]) -> Library | image.Image:
    """Bring object code into this process: by itself if it is as simple as usual, else with LLVM's linker."""
    with suppress(image.UnknownObjectError, OSError):
        return image.load(code)
    return linked(code, symbols)


def linked(code: bytes, symbols: Sequence[str]) -> Library:
    """Bring object code into this process with LLVM's linker."""
    binding = llvm.binding()
    builder = binding.JITLibraryBuilder().add_object_img(code)
    for symbol in symbols:
        builder = builder.export_symbol(symbol)
    with _LOADING:
        return Library(builder.link(_linker(), f"structured{next(_numbers)}"))
