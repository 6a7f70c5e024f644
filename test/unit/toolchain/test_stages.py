"""The stages: each runs from the text of the one before, and a failure says how to see it again."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from assembling import needs_ptxas

from lego_mlir.errors import DependencyError, ToolchainError, UsageError
from lego_mlir.toolchain import Pipeline, PipelinePass, compile_kernel, llvm, llvm_options, ptxas
from lego_mlir.toolchain.lowering import NVVM
from lego_mlir.toolchain.stages import STAGES, Settings

TRANSPOSE = (Path(__file__).parent / "transpose.mlir").read_text()


def kernel(body, *, arguments="%p: memref<?xf32>", attributions="", attributes=""):
    block = "known_block_size = array<i32: 32, 1, 1>"
    return f"""module attributes {{gpu.container_module}} {{ gpu.module @m {{
      gpu.func @k({arguments}) {attributions} kernel attributes {{{block}{attributes}}} {{
        %i = gpu.thread_id x
        {body}
        gpu.return
      }} }} }}""".replace("WG", "#gpu.address_space<workgroup>")


def test_every_stage_can_be_taken_and_continued_from():
    whole = compile_kernel(TRANSPOSE, emit="ptx")
    for start in ("mlir", "transformed", "nvvm", "llvm"):
        assert compile_kernel(whole.stage(start), start=start, emit="ptx").text == whole.text, start


def test_stages_hold_what_their_names_say():
    compiled = compile_kernel(TRANSPOSE, emit="ptx", target="sm_90a")
    assert "gpu.func @transpose" in compiled.stage("mlir")
    assert "nvvm.barrier" in compiled.stage("nvvm")
    assert "gpu.func" not in compiled.stage("nvvm")
    assert "define ptx_kernel void @transpose" in compiled.stage("llvm")
    assert "bar.sync" in compiled.text
    assert ".maxntid 32, 8, 1" in compiled.text
    assert ".target sm_90a" in compiled.text


def test_the_key_of_ptx_has_llvm_s_options(monkeypatch):
    (stage,) = (stage for stage in STAGES if stage.name == "ptx")
    before = stage.key(Settings())
    assert llvm_options.CHOSEN[0] in before
    monkeypatch.setattr(llvm_options, "CHOSEN", llvm_options.CHOSEN[1:])
    assert stage.key(Settings()) != before


def test_locations_are_kept_between_stages_and_shown_on_demand():
    compiled = compile_kernel(TRANSPOSE, emit="nvvm", name="hand.mlir")
    assert "loc(" not in compiled.text
    assert 'loc("hand.mlir":' in compiled.stage("nvvm", locations=True)


@needs_ptxas
@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a"])
def test_cubin_for_every_architecture_family(target):
    assert compile_kernel(TRANSPOSE, emit="cubin", target=target).bytes.startswith(b"\x7fELF")


def test_a_cubin_is_no_text(monkeypatch):
    monkeypatch.setattr(ptxas, "assemble", lambda text, target: (b"\x7fELF", ()))
    compiled = compile_kernel(TRANSPOSE, emit="cubin")
    assert compiled.bytes == b"\x7fELF"
    with pytest.raises(UsageError, match=r"a cubin is not text"):
        _ = compiled.text


def test_sizes_known_at_run_time_are_passed_as_plain_pointers():
    text = kernel(
        "%v = memref.load %p[%i] : memref<?xf32>\n memref.store %v, %q[%n] : memref<?xf32>",
        arguments="%p: memref<?xf32>, %q: memref<?xf32>, %n: index",
    )
    assert "define ptx_kernel void @k(ptr %0, ptr %1, i64 %2)" in compile_kernel(text, emit="llvm").text


def test_a_body_still_sees_a_memory_of_unknown_size():
    body = """%s = memref.assume_alignment %p, 16 : memref<?xf32>
    %v = vector.load %s[%i] : memref<?xf32>, vector<4xf32>
    %w = arith.addf %v, %v : vector<4xf32>
    vector.store %w, %p[%i] : memref<?xf32>, vector<4xf32>"""
    assert "ld.global" in compile_kernel(kernel(body)).text


@pytest.mark.parametrize("element", ["i64", "f64", "index"])
def test_an_element_of_64_bits_is_one_access(element):
    body = """%v = memref.load %p[%i] : memref<?xELEMENT>
    memref.store %v, %t[%i] : memref<32xELEMENT, WG>
    gpu.barrier
    %w = memref.load %t[%n] : memref<32xELEMENT, WG>
    memref.store %w, %p[%i] : memref<?xELEMENT>"""
    text = kernel(
        body, arguments="%p: memref<?xELEMENT>, %n: index", attributions="workgroup(%t : memref<32xELEMENT, WG>)"
    )
    ptx = compile_kernel(text.replace("ELEMENT", element)).text
    for access in ("ld.global", "st.shared", "ld.shared", "st.global"):
        assert ptx.count(f"{access}.b64") == ptx.count(access) == 1


def test_dynamic_shared_memory_is_external():
    body = """%c0 = arith.constant 0 : index
    %d = gpu.dynamic_shared_memory : memref<?xi8, WG>
    %t = memref.view %d[%c0][] : memref<?xi8, WG> to memref<32xf32, WG>
    %v = memref.load %p[%i] : memref<?xf32>
    memref.store %v, %t[%i] : memref<32xf32, WG>
    gpu.barrier
    %w = memref.load %t[%i] : memref<32xf32, WG>
    memref.store %w, %p[%i] : memref<?xf32>"""
    compiled = compile_kernel(kernel(body), emit="ptx")
    assert ".extern .shared" in compiled.text
    assert compiled.kernels[0].dynamic_shared == 128


def test_two_kernels_in_two_gpu_modules_become_one_ptx():
    two = kernel("gpu.barrier").removesuffix("}")
    inner = kernel("gpu.barrier").replace("@m", "@n").replace("@k", "@other")
    text = two + inner[inner.index("gpu.module") :]
    assert compile_kernel(text).text.count(".visible .entry") == 2


def test_a_launch_in_place_is_outlined():
    text = """func.func @host(%p: memref<64xf32>) {
      %c1 = arith.constant 1 : index
      %c64 = arith.constant 64 : index
      gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
                 threads(%tx, %ty, %tz) in (%sx = %c64, %sy = %c1, %sz = %c1) {
        %v = memref.load %p[%tx] : memref<64xf32>
        %w = arith.addf %v, %v : f32
        memref.store %w, %p[%tx] : memref<64xf32>
        gpu.terminator
      }
      return
    }"""
    assert ".visible .entry host_kernel(" in compile_kernel(text).text


REFUSED = {
    "no kernel": ("module {}", r"has no gpu.module and no gpu.launch"),
    "strides at run time": (
        kernel("gpu.barrier", arguments="%p: memref<?x?xf32>"),
        r"@k: argument 0 is memref<\?x\?xf32>: an argument is passed as one pointer.*take the sizes as index arguments",
    ),
    "size of a pointer": (
        kernel("%c0 = arith.constant 0 : index\n %n = memref.dim %p, %c0 : memref<?xf32>"),
        r"@k: memref.dim needs the size of argument 0",
    ),
    "bound of a pointer": (
        kernel("%z = arith.constant 0.0 : f32\n %v = vector.transfer_read %p[%i], %z : memref<?xf32>, vector<4xf32>"
               "\n vector.store %v, %p[%i] : memref<?xf32>, vector<4xf32>"),
        r"@k: vector.transfer_read masks what is past the end of argument 0.*in_bounds = \[true\]",
    ),
    "heap": (
        kernel("%a = memref.alloc() : memref<4xf32>\n %v = memref.load %a[%i] : memref<4xf32>"
               "\n memref.store %v, %p[%i] : memref<?xf32>"),
        r"a memref.alloc is left, which allocates on the heap",
    ),
    "too much static shared memory": (
        kernel("gpu.barrier", attributions="workgroup(%t: memref<16384xf32, WG>)"),
        r"@k declares 65536 bytes of static shared memory, and a block may have 49152",
    ),
    "an operation without a lowering": (
        kernel("%v = memref.load %p[%i] : memref<?xf32>\n %s = tensor.splat %v : tensor<4xf32>"
               "\n %w = tensor.extract %s[%i] : tensor<4xf32>\n memref.store %w, %p[%i] : memref<?xf32>"),
        r"(tensor|was not lowered|failed to legalize)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
def test_what_cannot_run_on_a_gpu_is_refused_with_its_reason(why):
    text, message = REFUSED[why]
    with pytest.raises(ToolchainError, match=message):
        compile_kernel(text)


def test_the_size_of_views_at_unknown_places_must_be_said():
    body = """%d = gpu.dynamic_shared_memory : memref<?xi8, WG>
    %t = memref.view %d[%i][] : memref<?xi8, WG> to memref<4xf32, WG>
    %v = memref.load %t[%i] : memref<4xf32, WG>
    memref.store %v, %p[%i] : memref<?xf32>"""
    with pytest.raises(ToolchainError, match=r"lego.dynamic_shared_bytes = <bytes>"):
        compile_kernel(kernel(body))
    said = compile_kernel(kernel(body, attributes=", lego.dynamic_shared_bytes = 4096 : i64"))
    assert said.kernels[0].dynamic_shared == 4096


def test_a_failure_keeps_its_input_and_the_command_fails_again():
    with pytest.raises(ToolchainError) as caught:
        compile_kernel("module { foo.bar }", name="mine.mlir")
    rerun = caught.value.rerun
    assert rerun.stage == "mlir"
    assert "mine.mlir:1:10: error" in str(caught.value)
    assert rerun.kept_input.read_text() == "module { foo.bar }"
    program, *arguments = shlex.split(rerun.command)
    assert program == "lego-mlir"
    again = subprocess.run(
        [sys.executable, "-m", "lego_mlir.cli.main", *arguments], capture_output=True, text=True, check=False
    )
    assert again.returncode == 2
    assert "foo" in again.stderr


def test_a_pass_that_does_not_exist_is_a_failure_of_its_stage():
    with pytest.raises(ToolchainError, match=r"(?s)stage 'nvvm' failed.*no-such-pass") as caught:
        compile_kernel(TRANSPOSE, pipeline=Pipeline("builtin.module", (*NVVM.items, PipelinePass("no-such-pass"))))
    assert "--pipeline 'builtin.module(" in caught.value.rerun.command


def test_a_broken_module_that_llvm_verifies_while_it_parses_does_not_end_the_process():
    flags = '!llvm.module.flags = !{!0}\n!0 = !{i32 33, !"Debug Info Version", i32 3}\n'
    code = f"from lego_mlir.toolchain import compile_kernel; compile_kernel({flags!r}, start='llvm', emit='ptx')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, "LLVM ERROR" in done.stderr) == (1, False)
    assert "invalid behavior operand in module flag" in done.stderr


def test_llvm_ir_that_does_not_parse_is_a_failure_of_the_ptx_stage():
    with pytest.raises(ToolchainError, match=r"(?s)stage 'ptx' failed.*expected"):
        compile_kernel("define nonsense", start="llvm", emit="ptx")


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_infinities_and_nans_pass_between_two_versions_of_llvm(kind):
    bits = {"f16": ("0xFC00", "0x7E01"), "bf16": ("0xFF80", "0x7FC1"), "f32": ("0xFF800000", "0x7FC00001")}
    low, nan = bits.get(kind, ("0xFFF0000000000000", "0x7FF8000000000001"))
    body = f"""%low = arith.constant {low} : {kind}
        %nan = arith.constant {nan} : {kind}
        memref.store %low, %p[%i] : memref<?x{kind}>
        memref.store %nan, %q[%i] : memref<?x{kind}>"""
    text = kernel(body, arguments=f"%p: memref<?x{kind}>, %q: memref<?x{kind}>")
    read = str(llvm.parse(compile_kernel(text, emit="llvm").text))
    stored = [line.split("store ")[1].split(",")[0] for line in read.splitlines() if " store " in line]
    infinity, quiet = {
        "f16": ("0xHFC00", "0xH7E01"),
        "bf16": ("0xRFF80", "0xR7FC1"),
        "f32": ("0xFFF0000000000000", "0x7FF8000020000000"),
        "f64": ("0xFFF0000000000000", "0x7FF8000000000001"),
    }[kind]
    assert [word.split()[-1] for word in stored] == [infinity, quiet]
    compile_kernel(text, emit="ptx")


def test_names_and_texts_that_look_like_an_infinity_stay_as_they_are():
    read = str(llvm.parse('@a-inf = global i32 1\ndefine void @"-inf"() { ret void }\n'))
    assert "a-inf" in read
    assert "@-inf(" in read.replace('"', "")


WARPGROUP = """
declare void @llvm.nvvm.wgmma.fence.sync.aligned()
define ptx_kernel void @k() {
  call void @llvm.nvvm.wgmma.fence.sync.aligned()
  ret void
}
"""


def test_an_instruction_that_the_target_lacks_is_an_error_and_not_the_end_of_the_process():
    with pytest.raises(
        ToolchainError, match=r"(?s)Cannot select.*wgmma.*sm_80 \(PTX 8.0\) lacks an instruction"
    ) as caught:
        compile_kernel(WARPGROUP, start="llvm", emit="ptx", target="sm_80")
    assert "choose a --target that has it" in str(caught.value)
    assert "wgmma.fence" in compile_kernel(WARPGROUP, start="llvm", emit="ptx", target="sm_90a").text


@pytest.mark.parametrize("name", ["a b", "a.b", "<lambda>", "1a", "größe", "a-b"])
def test_a_name_that_ptx_cannot_hold_is_an_error_and_not_the_end_of_the_process(name):
    given = f'module {{ gpu.module @m {{ gpu.func @"{name}"() kernel {{ gpu.return }} }} }}'
    with pytest.raises(ToolchainError, match="is not valid in PTX, whose names are ASCII letters"):
        compile_kernel(given)


def test_an_instruction_that_worked_once_is_compiled_in_this_process(monkeypatch):
    compile_kernel(WARPGROUP, start="llvm", emit="ptx", target="sm_90a")
    monkeypatch.setattr(subprocess, "run", None)
    assert "wgmma.fence" in compile_kernel(WARPGROUP, start="llvm", emit="ptx", target="sm_90a").text


@needs_ptxas
def test_ptx_that_ptxas_refuses_gives_its_exit_code_and_command():
    with pytest.raises(ToolchainError, match=r"stage 'cubin' failed \(exit code \d+\)") as caught:
        compile_kernel(".version 8.0\n.target sm_80\nnonsense\n", start="ptx", emit="cubin")
    assert caught.value.rerun.command.startswith("ptxas -arch=sm_80")
    assert caught.value.rerun.kept_input.suffix == ".ptx"


def test_without_ptxas_the_remedy_is_said(monkeypatch):
    monkeypatch.setattr(ptxas, "find", lambda: None)
    with pytest.raises(DependencyError, match=r"pip install nvidia-cuda-nvcc"):
        compile_kernel(".version 8.0", start="ptx", emit="cubin")


def test_stages_run_forwards_and_are_named():
    with pytest.raises(UsageError, match=r"cannot emit mlir from ptx: the stages are mlir -> transformed"):
        compile_kernel("", start="ptx", emit="mlir")
    with pytest.raises(UsageError, match=r"unknown stage 'sass'"):
        compile_kernel(TRANSPOSE, emit="sass")


def test_bytes_that_are_no_text_are_refused_with_the_file():
    with pytest.raises(UsageError, match=r"mine.mlir: not a text that the stage 'mlir' can read"):
        compile_kernel(b"\xff\xfe", name="mine.mlir")


@pytest.mark.parametrize("name", ['quoted".mlir', r"back\1slash.mlir"])
def test_a_file_s_name_may_hold_anything(name):
    broken = TRANSPOSE.replace("memref.load", "nonsense.load", 1)
    with pytest.raises(ToolchainError) as caught:
        compile_kernel(broken, name=name)
    assert f"{name}:" in str(caught.value)
    assert "gpu.func" in compile_kernel(compile_kernel(TRANSPOSE, emit="mlir", name=name).text).stage("mlir")
    assert "llvm.func" in compile_kernel(TRANSPOSE, emit="nvvm", name=name).text


def test_something_that_is_no_kernel_is_refused():
    with pytest.raises(UsageError, match=r"cannot compile a int"):
        compile_kernel(3)


def test_what_ptxas_reports():
    report = """ptxas info    : Compiling entry function 'a' for 'sm_80'
ptxas info    : Function properties for a
    8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 40 registers, 380 bytes cmem[0]
ptxas info    : Compiling entry function 'b' for 'sm_80'
ptxas info    : Used 8 registers"""
    assert ptxas.parse_report(report) == (ptxas.Resources("a", 40, 8, 16, 24), ptxas.Resources("b", 8, 0, 0, 0))


def test_llvm_that_is_missing_is_said_with_its_remedy(monkeypatch):
    llvm.binding.cache_clear()
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    with pytest.raises(DependencyError, match=r"pip install llvmlite"):
        llvm.binding()
    monkeypatch.undo()
    llvm.binding.cache_clear()
