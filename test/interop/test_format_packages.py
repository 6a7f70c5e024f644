"""Formats against the packages that define them: their own code packs, or reads, the same made-up weights.

The packages import whole engines, so only the file that packs is loaded: of amd-aiter, auto-gptq, autoawq. GGUF and
safetensors are compared in test/unit/formats.
"""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from lego_mlir.formats import FORMATS
from lego_mlir.formats.conversions import Conversion
from lego_mlir.formats.device_moves import run_on_device
from lego_mlir.formats.field_arrays import write

torch = pytest.importorskip("torch")
ROWS, COLUMNS, GROUP = 256, 384, 128


def loaded(package, file, **stubs):
    """A file of an installed package, without the package around it; `stubs` are modules that it names."""
    found = importlib.util.find_spec(package)
    path = None if found is None else Path(found.submodule_search_locations[0]) / file
    if path is None or not path.is_file():
        pytest.skip(f"{package} with {file} is not installed")
    spec = importlib.util.spec_from_file_location(f"reference_{package}", path)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        for name, stub in stubs.items():
            if importlib.util.find_spec(name) is None:
                patch.setitem(sys.modules, name, stub)
        spec.loader.exec_module(module)
    return module


def quantised(rows=ROWS, columns=COLUMNS):
    """Codes, scales that are powers of two, and zero points, of (outputs, inputs)."""
    rng = np.random.default_rng(0)
    q = rng.integers(0, 16, (rows, columns)).astype(np.uint8)
    scale = np.exp2(rng.integers(-8, 0, (rows, columns // GROUP))).astype(np.float16)
    return q, scale, rng.integers(1, 16, (rows, columns // GROUP)).astype(np.uint8)


def weights(q, scale, zero, group=None):
    """Values of codes; `group` has the group of each input, in turn by default."""
    group = np.arange(q.shape[1]) // GROUP if group is None else group
    spread = [x.astype(np.float32)[:, group] for x in (scale, zero)]
    return torch.from_numpy(((q - spread[1]) * spread[0]).astype(np.float16))


def test_aiter_shuffles_weights_so():
    module = loaded("aiter", "ops/shuffle.py")
    w = np.random.default_rng(0).integers(0, 256, (64, 96), dtype=np.uint8)
    expected = module.shuffle_weight(torch.from_numpy(w), layout=(16, 16)).numpy()
    format_ = FORMATS["aiter.16x16"](rows=64, columns=96)
    (found,) = write(format_, {"weight": w.view(ml_dtypes.float8_e4m3fn)}).values()
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", ["gptq", "gptq.act_order"])
def test_gptq_packs_codes_zero_points_and_scales_so(name):
    stub = SimpleNamespace(pytorch_utils=SimpleNamespace(Conv1D=()))
    module = loaded("auto_gptq", "nn_modules/qlinear/qlinear_cuda.py", transformers=stub)
    (q, scale, zero), group = quantised(), np.arange(COLUMNS) // GROUP
    fields = {"q": q, "scale": scale, "zero_minus_1": zero - 1}
    if name == "gptq.act_order":
        group = np.random.default_rng(1).permutation(group)
        fields["group"] = group.astype(np.int32)
    layer = SimpleNamespace(bits=4, infeatures=COLUMNS, g_idx=torch.from_numpy(group))
    linear = SimpleNamespace(weight=weights(q, scale, zero, group), bias=None)
    zeros = torch.from_numpy(zero.astype(np.float16))
    module.QuantLinear.pack(layer, linear, torch.from_numpy(scale), zeros, layer.g_idx)
    for buffer, array in write(FORMATS[name](rows=ROWS, columns=COLUMNS), fields).items():
        assert array.tobytes() == getattr(layer, buffer).numpy().astype(array.dtype).tobytes(), buffer


def test_marlin_packs_codes_and_scales_so():
    module = loaded("auto_gptq", "nn_modules/qlinear/qlinear_marlin.py")
    q, scale, _ = quantised()
    words, scales = torch.zeros(COLUMNS // 16, 2 * ROWS, dtype=torch.int32), torch.zeros(COLUMNS // GROUP, ROWS).half()
    layer = SimpleNamespace(group_size=GROUP, infeatures=COLUMNS, outfeatures=ROWS, bias=None, B=words, s=scales)
    linear = SimpleNamespace(weight=weights(q, scale, np.full_like(scale, 8)))
    module.QuantLinear.pack(layer, linear, torch.from_numpy(scale))
    found = write(FORMATS["vllm.marlin"](rows=ROWS, columns=COLUMNS), {"q": q, "scale": scale})
    assert found["qweight"].tobytes() == words.numpy().tobytes()
    assert found["scales"].tobytes() == scales.numpy().tobytes()


def test_autoawq_reads_codes_and_zero_points_so():
    module = loaded("awq", "utils/packing_utils.py")
    q, scale, zero = quantised()
    found = write(FORMATS["awq"](rows=ROWS, columns=COLUMNS), {"q": q, "scale": scale, "zero": zero})
    packed = [torch.from_numpy(found[name]) for name in ("qweight", "qzeros")]
    codes, zeros = module.reverse_awq_order(*module.unpack_awq(*packed, 4), 4)
    assert np.array_equal((codes & 15).numpy().T, q) and np.array_equal((zeros & 15).numpy().T, zero)


def test_bitsandbytes_packs_codes_so():
    functional = pytest.importorskip("bitsandbytes.functional")
    codes = np.random.default_rng(0).integers(0, 16, (16, 64)).astype(np.uint8)
    codes[:, 0], codes[:, 1] = 0, 15  # -1 and 1 in each block, so that the largest magnitude is 1
    values = functional.get_4bit_type("nf4", device="cpu")[torch.from_numpy(codes.astype(np.int64))]
    packed, _ = functional.quantize_4bit(values, blocksize=64, quant_type="nf4")
    fields = {"even": codes[:, ::2], "odd": codes[:, 1::2]}
    (found,) = write(FORMATS["bitsandbytes.nf4"](rows=16, columns=64), fields).values()
    assert found.tobytes() == packed.numpy().tobytes()


@pytest.mark.parametrize(
    ("source", "target", "options"), [("hf.linear", "vllm.marlin", {}), ("hf.linear", "hf.linear", {"dtype": "bf16"})]
)
def test_tensors_of_torch_are_converted_by_kernels(source, target, options):
    """The kernels of a device, here on the processor, through views of PyTorch's tensors."""
    q, scale, zero = quantised(64, 128)
    given = {"data": weights(q, scale, zero).numpy()}
    plan = Conversion(FORMATS[source](rows=64, columns=128), FORMATS[target](rows=64, columns=128, **options))
    found = run_on_device(plan, {name: torch.from_numpy(array) for name, array in given.items()})
    for name, array in plan.run(given).items():
        assert found[name].view(torch.uint8).numpy().tobytes() == array.tobytes()
