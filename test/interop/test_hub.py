"""A pack for the Hugging Face Hub, read by its package `kernels`. `python test/run.py interop` has it.

PyTorch without CUDA takes builds for the CPU alone, so that the build is imported by its path here, as `kernels` does
where it has chosen one.
"""

import pytest

pytest.importorskip("kernels", reason="kernels is not installed; `python test/run.py interop` has it")

from kernels._rust import Backend, Digest, Metadata
from kernels.archs import _supports_cuda_capability
from kernels.importer import _import_from_path
from kernels.variants import get_variants_local

from lego_mlir.cli.main import main
from lego_mlir.runtime import hub


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """A build of examples/symbolic.py."""
    folder = tmp_path_factory.mktemp("hub")
    options = ["--hub", "lego-scale", "--version", "2", "--target", "sm_80"]
    assert main(["pack", "examples/symbolic.py", *options, "-o", str(folder)]) == 0
    return folder / "build" / hub.VARIANT


def test_its_build_is_one_for_every_torch_with_cuda(build):
    (variant,) = get_variants_local(build.parent)
    assert variant.variant_str == hub.VARIANT and variant.arch.backend_name == "cuda"


def test_its_metadata_are_read_and_its_hashes_hold(build):
    found = Metadata.read_from_file(build / "metadata.json")
    assert (str(found.name), found.version, found.backend.backend_type) == ("lego-scale", 2, Backend.CUDA)
    assert [_supports_cuda_capability(found.backend.archs, each) for each in ((7, 5), (8, 0), (9, 0))] == [
        False, True, True,
    ]  # fmt: skip
    found.digest.validate(Digest.hash_variant(found.digest.algorithm, build))
    changed = build / "_code/sm_80/scale.ptx"
    code = changed.read_bytes()
    changed.write_bytes(code + b"// changed")
    with pytest.raises(Exception, match=r"scale\.ptx"):
        found.digest.validate(Digest.hash_variant(found.digest.algorithm, build))
    changed.write_bytes(code)


def test_its_kernels_are_attributes(build):
    module = _import_from_path(build, {})
    assert module.__all__ == ["scale"] and module.scale.name == "scale"
    assert type(module.scale).__module__.startswith(f"{module.__name__}._lego.")
