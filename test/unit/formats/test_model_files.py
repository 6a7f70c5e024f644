"""Model files converted and compared: against arrays put together by NumPy, whole or not at all, in bounded memory."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from format_oracles import ORACLES

from lego_mlir.cli import convert
from lego_mlir.cli.main import main
from lego_mlir.errors import LayoutError, UsageError
from lego_mlir.formats import file_conversions
from lego_mlir.formats.codings import AffineGroups, numpy_type
from lego_mlir.formats.file_conversions import compare_files, convert_file, plan_model
from lego_mlir.formats.tensor_files import TensorFile, create, file_type

HEADS, GROUPS, DEPTH, WIDTH, INNER = 4, 2, 64, 128, 256


def llama(layers=2, seed=0):
    """Tensors of a small Llama with biases of the projections."""
    rng, found = np.random.default_rng(seed), {}
    for i in range(layers):
        at = f"model.layers.{i}."
        for name, heads in (("q", HEADS), ("k", GROUPS), ("v", GROUPS)):
            found[f"{at}self_attn.{name}_proj.weight"] = rng.standard_normal((heads * DEPTH, WIDTH))
            found[f"{at}self_attn.{name}_proj.bias"] = rng.standard_normal(heads * DEPTH)
        found[f"{at}self_attn.o_proj.weight"] = rng.standard_normal((WIDTH, HEADS * DEPTH))
        for name in ("gate", "up"):
            found[f"{at}mlp.{name}_proj.weight"] = rng.standard_normal((INNER, WIDTH))
        found[f"{at}mlp.down_proj.weight"] = rng.standard_normal((WIDTH, INNER))
        found[f"{at}input_layernorm.weight"] = rng.standard_normal(WIDTH)
    found["model.embed_tokens.weight"] = rng.standard_normal((50, WIDTH))
    return {name: array.astype(np.float16) for name, array in found.items()}


def saved(path, tensors, metadata=None):
    types = {"float16": "F16", "float32": "F32", "int32": "I32", "uint8": "U8", "float8_e4m3fn": "F8_E4M3"}
    file = create(path, {n: (types[a.dtype.name], a.shape) for n, a in tensors.items()}, metadata or {})
    for name, array in tensors.items():
        file.data(name)[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return path


def loaded(path):
    types = {"F16": "f16", "F32": "f32", "I32": "i32", "U8": "u8", "F8_E4M3": "e4m3"}
    with TensorFile(path) as file:
        return {
            n: file.data(n).view(numpy_type(types[t.dtype])).reshape(t.shape).copy() for n, t in file.tensors.items()
        }


@pytest.fixture
def given(tmp_path):
    tensors = llama()
    return saved(tmp_path / "hf.safetensors", tensors, {"format": "pt"}), tensors


def converted(path, source, target, out, piece_bytes=5000, **heads):
    with TensorFile(path) as file:
        plan = plan_model(file.tensors, source, target, **heads)
    convert_file(path, out, plan, piece_bytes=piece_bytes)
    assert compare_files(path, out, plan, piece_bytes=7000) is None
    return loaded(out)


def test_fused_tensors_are_the_parts_above_each_other(given, tmp_path):
    path, w = given
    found = converted(path, "hf.llama", "vllm.llama", tmp_path / "out.safetensors")
    for i in range(2):
        at = f"model.layers.{i}."
        for kind in ("weight", "bias"):
            parts = [w[f"{at}self_attn.{p}_proj.{kind}"] for p in "qkv"]
            assert np.array_equal(found[f"{at}self_attn.qkv_proj.{kind}"], np.concatenate(parts))
        parts = [w[f"{at}mlp.{p}_proj.weight"] for p in ("gate", "up")]
        assert np.array_equal(found[f"{at}mlp.gate_up_proj.weight"], np.concatenate(parts))
        assert np.array_equal(found[f"{at}input_layernorm.weight"], w[f"{at}input_layernorm.weight"])
    assert np.array_equal(found["model.embed_tokens.weight"], w["model.embed_tokens.weight"])


def test_megatron_has_heads_by_group_and_its_own_names(given, tmp_path):
    path, w = given
    found = converted(path, "hf.llama", "megatron.llama", tmp_path / "out.safetensors", heads=HEADS, groups=GROUPS)
    at, parts = "model.layers.1.self_attn.", []
    for g in range(GROUPS):
        rows = HEADS // GROUPS * DEPTH
        parts.append(w[f"{at}q_proj.weight"][g * rows : (g + 1) * rows])
        parts += [w[f"{at}{p}_proj.weight"][g * DEPTH : (g + 1) * DEPTH] for p in "kv"]
    assert np.array_equal(found["decoder.layers.1.self_attention.linear_qkv.weight"], np.concatenate(parts))
    name = "decoder.layers.1.self_attention.linear_qkv.layer_norm_weight"
    assert np.array_equal(found[name], w["model.layers.1.input_layernorm.weight"])
    back = converted(
        tmp_path / "out.safetensors", "megatron.llama", "hf.llama", tmp_path / "back.safetensors", heads=HEADS,
        groups=GROUPS,
    )  # fmt: skip
    assert back.keys() == w.keys() and all(np.array_equal(back[n], w[n]) for n in w)


EXPERTS = 3


def made_up(shape, kind, seed):
    """Random bits, but numbers in f16."""
    rng, dtype = np.random.default_rng(seed), np.dtype(numpy_type(kind))
    if kind == "f16":
        return rng.standard_normal(shape).astype(np.float16)
    return rng.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8).view(dtype)[..., 0]


def of_attention(prefix):
    return {f"{prefix}self_attn.{p}_proj.weight": made_up((h * DEPTH, WIDTH), "f16", h)
            for p, h in (("q", HEADS), ("k", GROUPS), ("v", GROUPS))}  # fmt: skip


def experts(at, names, values):
    """Gate, up and down of each expert: kind, and sizes of the inner and outer width."""
    kind, inner, width = values
    shapes = ((inner, width), (inner, width), (width, inner))
    return {at.format(e, name): made_up(shape, kind, 10 * e + k)
            for e in range(EXPERTS) for k, (name, shape) in enumerate(zip(names, shapes, strict=True))}  # fmt: skip


@pytest.mark.parametrize(
    ("model", "names", "where"),
    [("mixtral", ("w1", "w3", "w2"), "block_sparse_moe.experts"),
     ("qwen3_moe", ("gate_proj", "up_proj", "down_proj"), "mlp.experts")],
)  # fmt: skip
def test_experts_are_stacked_and_come_apart_again(tmp_path, model, names, where):
    w = {}
    for i in range(2):
        at = f"model.layers.{i}."
        w |= of_attention(at) | experts(f"{at}{where}.{{}}.{{}}.weight", names, ("f16", 40, WIDTH))
        w[f"{at}{where.removesuffix('.experts')}.gate.weight"] = made_up((EXPERTS, WIDTH), "f16", i)
    path = saved(tmp_path / "hf.safetensors", w)
    out = tmp_path / "out.safetensors"
    found = converted(path, f"hf.{model}", f"vllm.{model}", out)
    gate, up, down = (
        np.stack([w[f"model.layers.1.{where}.{e}.{name}.weight"] for e in range(EXPERTS)]) for name in names
    )
    assert np.array_equal(found[f"model.layers.1.{where}.w13_weight"], np.concatenate([gate, up], axis=1))
    assert np.array_equal(found[f"model.layers.1.{where}.w2_weight"], down)
    back = converted(out, f"vllm.{model}", f"hf.{model}", tmp_path / "back", heads=HEADS, groups=GROUPS)
    assert back.keys() == w.keys() and all(np.array_equal(back[n], w[n]) for n in w)
    with TensorFile(out, writable=True) as file:
        file.data(f"model.layers.1.{where}.w13_weight").view(np.float16)[(2 * 80 + 43) * WIDTH + 7] = 9
        other = TensorFile(path)
        difference = compare_files(path, out, plan_model(other.tensors, f"hf.{model}", f"vllm.{model}"))
    assert difference.index == (2, 3, 7) and difference.tensors[0] == f"model.layers.1.{where}.2.{names[1]}.weight"


def test_deepseek_has_latent_projections_and_scales_of_tiles(tmp_path):
    w, names = {}, ("gate_proj", "up_proj", "down_proj")
    for i, kind in ((0, "dense"), (1, "experts")):
        at = f"model.layers.{i}."
        for suffix, dtype, tile in (("weight", "e4m3", 1), ("weight_scale_inv", "f32", 128)):
            for name, rows in (("q_a_proj", 256), ("kv_a_proj_with_mqa", 192)):
                w[f"{at}self_attn.{name}.{suffix}"] = made_up((-(-rows // tile), 256 // tile), dtype, i)
            sizes = dtype, 384 // tile, 256 // tile
            if kind == "experts":
                w |= experts(f"{at}mlp.experts.{{}}.{{}}.{suffix}", names, sizes)
            where = "mlp" if kind == "dense" else "mlp.shared_experts"
            for k, name in enumerate(("gate_proj", "up_proj")):
                w[f"{at}{where}.{name}.{suffix}"] = made_up(sizes[1:], dtype, 50 + k)
    path = saved(tmp_path / "hf.safetensors", w)
    found = converted(path, "hf.deepseek", "vllm.deepseek", tmp_path / "out.safetensors")
    bits = {name: array.view(f"u{array.itemsize}") for name, array in (w | found).items()}
    for suffix in ("weight", "weight_scale_inv"):
        latent = [bits[f"model.layers.0.self_attn.{n}.{suffix}"] for n in ("q_a_proj", "kv_a_proj_with_mqa")]
        assert np.array_equal(bits[f"model.layers.0.self_attn.fused_qkv_a_proj.{suffix}"], np.concatenate(latent))
        for where, layer in (("mlp", 0), ("mlp.shared_experts", 1)):
            at = f"model.layers.{layer}.{where}"
            parts = [bits[f"{at}.{n}.{suffix}"] for n in names[:2]]
            assert np.array_equal(bits[f"{at}.gate_up_proj.{suffix}"], np.concatenate(parts))
        at = "model.layers.1.mlp.experts"
        expected = [[bits[f"{at}.{e}.{n}.{suffix}"] for n in names] for e in range(EXPERTS)]
        assert np.array_equal(bits[f"{at}.w13_{suffix}"], np.stack([np.concatenate(one[:2]) for one in expected]))
        assert np.array_equal(bits[f"{at}.w2_{suffix}"], np.stack([one[2] for one in expected]))
    with TensorFile(tmp_path / "out.safetensors") as file, pytest.raises(LayoutError, match="does not tell where"):
        plan_model(file.tensors, "vllm.deepseek", "hf.deepseek")


def test_gpt_oss_has_rows_in_turn_apart_and_keeps_its_codes(tmp_path):
    at, rows, width = "model.layers.0.mlp.experts.", 32, 64
    w = {
        f"{at}gate_up_proj_blocks": made_up((EXPERTS, 2 * rows, width // 32, 16), "u8", 0),
        f"{at}gate_up_proj_scales": made_up((EXPERTS, 2 * rows, width // 32), "u8", 1),
        f"{at}gate_up_proj_bias": made_up((EXPERTS, 2 * rows), "f16", 2),
        f"{at}down_proj_blocks": made_up((EXPERTS, width, rows // 32, 16), "u8", 3),
        f"{at}down_proj_scales": made_up((EXPERTS, width, rows // 32), "u8", 4),
        f"{at}down_proj_bias": made_up((EXPERTS, width), "f16", 5),
    } | of_attention("model.layers.0.")
    path = saved(tmp_path / "hf.safetensors", w)
    found = converted(path, "hf.gpt_oss", "vllm.gpt_oss", tmp_path / "out.safetensors")
    for there, here in (("blocks", "weight"), ("scales", "weight_scale"), ("bias", "bias")):
        given_ = w[f"{at}gate_up_proj_{there}"].reshape(EXPERTS, 2 * rows, -1)
        expected = np.concatenate([given_[:, ::2], given_[:, 1::2]], axis=1)
        assert found[f"{at}w13_{here}"].tobytes() == expected.tobytes()
        assert found[f"{at}w2_{here}"].tobytes() == w[f"{at}down_proj_{there}"].tobytes()
    assert found[f"{at}w13_weight"].shape == (EXPERTS, 2 * rows, 32) and found[f"{at}w13_bias"].ndim == 2
    options = {"heads": HEADS, "groups": GROUPS}
    back = converted(tmp_path / "out.safetensors", "vllm.gpt_oss", "hf.gpt_oss", tmp_path / "back", **options)
    assert back.keys() == w.keys() and all(back[n].shape == w[n].shape and np.array_equal(back[n], w[n]) for n in w)


def test_an_expert_that_lacks_or_differs_is_named(tmp_path):
    where = "model.layers.0.mlp.experts"
    w = experts(f"{where}.{{}}.{{}}.weight", ("gate_proj", "up_proj", "down_proj"), ("f16", 40, WIDTH))
    other = {n: a for n, a in w.items() if n != f"{where}.1.up_proj.weight"}
    with TensorFile(saved(tmp_path / "a", other)) as file:
        with pytest.raises(LayoutError, match=r"layer 0 has no tensor model.layers.0.mlp.experts.1.up_proj.weight"):
            plan_model(file.tensors, "hf.qwen3_moe", "vllm.qwen3_moe")
        with pytest.raises(LayoutError, match=r"a tensor of hf.qwen3_moe and not of hf.llama|no tensor of hf.llama"):
            plan_model(file.tensors, "hf.llama", "vllm.llama")
        with pytest.raises(LayoutError, match=r"vllm.llama has no experts_weight, a part of hf.qwen3_moe"):
            plan_model(file.tensors, "hf.qwen3_moe", "vllm.llama")
    w[f"{where}.1.up_proj.weight"] = np.zeros((8, WIDTH), np.float16)
    with (
        TensorFile(saved(tmp_path / "b", w)) as file,
        pytest.raises(LayoutError, match=r"experts of shapes \[\(8, 128\), \(40, 128\)\]"),
    ):
        plan_model(file.tensors, "hf.qwen3_moe", "vllm.qwen3_moe")


def test_marlin_has_the_codes_of_the_fused_matrix(given, tmp_path):
    path, w = given
    found = converted(path, "hf.llama", "vllm.marlin", tmp_path / "out.safetensors")
    at = "model.layers.0.self_attn."
    matrix = np.concatenate([w[f"{at}{p}_proj.weight"] for p in "qkv"]).astype(np.float32)
    expected = ORACLES["vllm.marlin"](AffineGroups(128, None).encode(matrix))
    assert np.array_equal(found[f"{at}qkv_proj.qweight"], expected["qweight"])
    assert np.array_equal(found[f"{at}qkv_proj.scales"], expected["scales"])
    assert found[f"{at}qkv_proj.bias"].dtype == np.float16 and f"{at}qkv_proj.weight" not in found
    again = converted(tmp_path / "out.safetensors", "vllm.marlin", "vllm.marlin", tmp_path / "same.safetensors")
    assert all(np.array_equal(again[n], found[n]) for n in found)


def test_the_example_of_the_help_runs(given, tmp_path, monkeypatch):
    given[0].rename(tmp_path / "model.safetensors")
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(convert.EXAMPLE)[1:]) == 0
    assert (tmp_path / "out.safetensors").stat().st_size > 1000


def test_the_safetensors_package_reads_and_writes_the_same_files(given, tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    path, w = given
    read = safetensors.load_file(path)
    assert read.keys() == w.keys() and all(np.array_equal(read[n], w[n]) for n in w)
    safetensors.save_file(w, tmp_path / "theirs.safetensors")
    mine = loaded(tmp_path / "theirs.safetensors")
    assert mine.keys() == w.keys() and all(np.array_equal(mine[n], w[n]) for n in w)
    assert file_type("u8") == "U8"


def test_a_conversion_that_fails_leaves_the_old_file(given, tmp_path, monkeypatch):
    path, _ = given
    out = tmp_path / "out.safetensors"
    out.write_bytes(b"old")
    with TensorFile(path) as file:
        plan = plan_model(file.tensors, "hf.llama", "vllm.llama")
    done = []

    def fails(*arguments):
        done.append(arguments)
        if len(done) == 5:
            raise OSError("disk full")

    monkeypatch.setattr(file_conversions, "execute", fails)
    with pytest.raises(OSError, match="disk full"):
        convert_file(path, out, plan)
    assert out.read_bytes() == b"old" and sorted(p.name for p in tmp_path.iterdir()) == [
        "hf.safetensors",
        "out.safetensors",
    ]


def test_memory_does_not_grow_with_the_file(tmp_path):
    """A file of 400 MB, of zeros that the disk does not hold: the process needs little more than its modules."""
    rows = {"gate": 14336, "up": 14336}
    tensors = {f"model.layers.0.mlp.{n}_proj.weight": ("F16", (r, 4096)) for n, r in rows.items()}
    tensors["model.embed_tokens.weight"] = ("F16", (20000, 4096))
    create(tmp_path / "large.safetensors", tensors, {})
    assert (tmp_path / "large.safetensors").stat().st_size > 390 * 10**6
    # VmHWM begins at exec; ru_maxrss would begin at what the tests' own process has
    program = (
        "import re, sys; from pathlib import Path; from lego_mlir.cli.main import main; code = main(sys.argv[1:]);"
        "print('peak', re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]); sys.exit(code)"
    )
    command = ["convert", "large.safetensors", "--from", "hf.llama", "--to", "vllm.llama", "-o", "out.safetensors"]
    run = subprocess.run(
        [sys.executable, "-c", program, *command], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    peak = int(re.search(r"peak (\d+)", run.stdout)[1]) / 1024
    assert peak < 250, run.stdout
    assert "1 parts converted, bit by bit, 1 tensors copied" in run.stdout
    (tmp_path / "out.safetensors").unlink()


def arguments(*given):
    return [str(a) for a in given]


def test_check_says_whether_files_agree_or_the_first_index_where_they_do_not(given, tmp_path, capsys):
    path, w = given
    out = tmp_path / "out.safetensors"
    assert main(arguments("convert", path, "--from", "hf.llama", "--to", "vllm.llama", "-o", out)) == 0
    check = ("check", path, "--format", "hf.llama", "--against", out, "--against-format", "vllm.llama")
    assert main(arguments(*check)) == 0
    assert "out.safetensors agrees, as vllm.llama" in capsys.readouterr().out
    with TensorFile(out, writable=True) as file:
        file.data("model.layers.1.mlp.gate_up_proj.weight").view(np.float16)[(INNER + 3) * WIDTH + 5] = 9
    assert main(arguments(*check)) == 1
    value = w["model.layers.1.mlp.up_proj.weight"][3, 5]
    assert (
        f"differs, as vllm.llama: up[3, 5] is {value} in model.layers.1.mlp.up_proj.weight and 9.0 in "
        "model.layers.1.mlp.gate_up_proj.weight" in capsys.readouterr().out.replace("\n", " ")
    )
    assert main(arguments("check", path, "--format", "hf.llama")) == 0
    assert "the 4 formats of their tensors are proved" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("convert hf.safetensors --from hf.lama --to vllm.llama -o x", "did you mean hf.llama"),
        ("convert none.safetensors --from hf.llama --to vllm.llama -o x", "cannot be read"),
        ("convert junk --from hf.llama --to vllm.llama -o x", "is no safetensors file"),
        ("convert hf.safetensors --from hf.llama --to vllm.llama -o .", "is no file that can be"),
        ("convert hf.safetensors --from vllm.marlin --to vllm.llama -o x", "no tensor of vllm.marlin"),
        ("convert hf.safetensors --from vllm.llama --to hf.llama -o x", "a tensor of hf.llama and not of vllm.llama"),
        ("convert fused.safetensors --from vllm.llama --to hf.llama -o x", "give the model's --heads and --kv-heads"),
        ("convert fused.safetensors --from vllm.llama --to hf.llama -o x --heads 5 --kv-heads 2", "do not divide"),
        ("check hf.safetensors --against x", "--against needs --format"),
        ("check hf.safetensors --format hf.llama --against-format vllm.llama", "needs --against"),
        (
            "check hf.safetensors --format hf.llama --against hf.safetensors --against-format vllm.llama",
            "needs the tensor model.layers.0",
        ),
        ("convert part.safetensors --from hf.llama --to vllm.llama -o x", "has no tensor model.layers"),
        ("convert odd.safetensors --from hf.llama --to vllm.marlin -o x", "multiple of 64"),
    ],
)
def test_what_cannot_be_converted_is_refused_in_one_line(given, tmp_path, monkeypatch, capsys, command, message):
    _, w = given
    monkeypatch.chdir(tmp_path)
    saved(Path("fused.safetensors"), {"model.layers.0.self_attn.qkv_proj.weight": np.zeros((512, 128), np.float16)})
    Path("junk").write_bytes(b"junk" * 10)
    saved(Path("part.safetensors"), {n: a for n, a in w.items() if "layers.1.self_attn.k_proj.weight" not in n})
    saved(Path("odd.safetensors"), {"model.layers.0.mlp.down_proj.weight": np.zeros((60, 128), np.float16)})
    assert main(command.split()) == 2
    assert re.search(message, capsys.readouterr().err)
    assert not Path("x").exists()


def test_headers_are_checked(tmp_path, given):
    path, _ = given
    whole = path.read_bytes()
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(whole[:-10])
    with pytest.raises(UsageError, match="the file is cut short"):
        TensorFile(cut)
    for text, message in (
        (b'{"a": {"dtype": "F16", "shape": [2], "data_offsets": [0, 3]}}', "tensor a is F16"),
        (b'{"a": {"dtype": "C64", "shape": [2], "data_offsets": [0, 16]}}', "has the type C64"),
        (b'{"a": 3}', "its header is not the JSON"),
        (b'{"a"', "its header is not the JSON"),
    ):
        cut.write_bytes(len(text).to_bytes(8, "little") + text + bytes(16))
        with pytest.raises(UsageError, match=message):
            TensorFile(cut)


def test_rows_of_groups_that_end_inside_a_tile_are_not_cast(tmp_path):
    w = {
        f"model.layers.0.self_attn.{p}_proj.weight": np.ones((r, 128), np.float16)
        for p, r in (("q", 96), ("k", 16), ("v", 16))
    }
    path = saved(tmp_path / "x.safetensors", w)
    with TensorFile(path) as file:
        plan = plan_model(file.tensors, "hf.llama", "vllm.marlin")
    with pytest.raises(LayoutError, match=r"qkv, rows 0..96 of q: tiles of 64 rows end inside"):
        convert_file(path, tmp_path / "y.safetensors", plan)
    assert not (tmp_path / "y.safetensors").exists()
