"""CUDA C++ by a stand-in for NVRTC: it "compiles" by copying, and refuses a text with #error or #include."""

import subprocess

import pytest

from lego_mlir.errors import DependencyError, ToolchainError
from lego_mlir.store import Cache
from lego_mlir.templates.run import nvcc, nvrtc
from lego_mlir.toolchain import nvidia_tools

LIBRARY = r"""
#include <stdlib.h>
#include <string.h>
struct program { char source[4096], options[4096], log[64]; };
int nvrtcVersion(int *major, int *minor) { *major = 13, *minor = 7; return 0; }
const char *nvrtcGetErrorString(int code) { return code == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR"; }
int nvrtcCreateProgram(void **made, const char *source, const char *name, int n, const char **h, const char **i) {
  struct program *p = calloc(1, sizeof *p);
  strcpy(p->source, source);
  strcpy(p->log, name);
  *made = p;
  return strlen(source) ? 0 : 3;
}
int nvrtcCompileProgram(struct program *p, int count, const char **options) {
  for (int i = 0; i < count; ++i) strcat(strcat(p->options, options[i]), " ");
  if (!strstr(p->source, "#error") && !strstr(p->source, "#include")) return 0;
  strcat(p->log, "(1): error: refused");
  return 6;
}
int nvrtcGetProgramLogSize(struct program *p, size_t *n) { *n = strlen(p->log) + 1; return 0; }
int nvrtcGetProgramLog(struct program *p, char *to) { strcpy(to, p->log); return 0; }
int nvrtcGetCUBINSize(struct program *p, size_t *n) { *n = strlen(p->options) + strlen(p->source); return 0; }
int nvrtcGetCUBIN(struct program *p, char *to) {
  memcpy(to, p->options, strlen(p->options));
  memcpy(to + strlen(p->options), p->source, strlen(p->source));
  return 0;
}
int nvrtcDestroyProgram(struct program **p) { free(*p); return 0; }
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nvrtc")
    (folder / "nvrtc.c").write_text(LIBRARY)
    path = folder / "libnvrtc.so"
    subprocess.run(["cc", "-w", "-shared", "-fPIC", str(folder / "nvrtc.c"), "-o", str(path)], check=True)
    return path


@pytest.fixture
def installed(monkeypatch, built):
    """Install the stand-in, or nothing; with or without nvcc."""
    compiled = []

    def install(by_library=True, by_program=False):
        def by_nvcc(text, **_):
            compiled.append(text)
            return nvcc.CompiledCuda(b"by nvcc", ())

        monkeypatch.setattr(nvidia_tools, "find_library", lambda name: built if by_library else None)
        monkeypatch.setattr(nvcc, "version", lambda: "release 13.0" if by_program else None)
        monkeypatch.setattr(nvcc, "compile_text", by_nvcc)
        nvrtc.library.cache_clear()
        nvrtc.version.cache_clear()
        return compiled

    yield install
    nvrtc.library.cache_clear()
    nvrtc.version.cache_clear()


def test_a_text_is_compiled_for_its_target_and_kept(installed, tmp_path):
    installed()
    made = nvrtc.compile_text("kernel", target="sm_90", cache=Cache(tmp_path))
    assert made == b"--gpu-architecture=sm_90 --std=c++17 kernel"
    installed(by_library=False, by_program=True)  # another compiler does not take what this one made
    assert nvrtc.compile_text("kernel", target="sm_90", cache=Cache(tmp_path)) == b"by nvcc"
    installed()
    (entry,) = [path for path in tmp_path.rglob("*") if path.is_file() and made in path.read_bytes()]
    entry.write_bytes(entry.read_bytes().replace(b"kernel", b"KERNEL"))  # damaged: made again
    assert nvrtc.compile_text("kernel", target="sm_90", cache=Cache(tmp_path)) == made


def test_what_nvrtc_refuses_is_compiled_by_nvcc_where_it_is(installed):
    compiled = installed(by_program=True)
    assert nvrtc.compile_text("#include <cuda_fp16.h>") == b"by nvcc"
    assert compiled == ["#include <cuda_fp16.h>"]
    installed()
    with pytest.raises(ToolchainError, match=r"stage 'NVRTC' failed \(exit code 6\):\s+kernel.cu\(1\): error: refused"):
        nvrtc.compile_text("#error")
    with pytest.raises(ToolchainError, match="NVRTC_ERROR"):
        nvrtc.compile_text("")


def test_the_versions_of_both_are_named(installed):
    installed(by_program=True)
    assert nvrtc.compilers() == "NVRTC 13.7, release 13.0"
    installed(by_library=False)
    assert nvrtc.compilers() == "none"
    with pytest.raises(DependencyError, match="compiled by NVRTC or nvcc, and neither was found; install NVIDIA's"):
        nvrtc.compile_text("kernel")


def test_a_file_that_is_not_a_library_counts_as_missing(installed, monkeypatch, tmp_path):
    installed()
    (tmp_path / "libnvrtc.so").write_text("not a library")
    monkeypatch.setattr(nvidia_tools, "find_library", lambda name: tmp_path / "libnvrtc.so")
    assert nvrtc.version() is None
