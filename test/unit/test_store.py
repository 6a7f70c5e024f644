"""The cache: content decides, torn files count as absent, writers do not disturb each other."""

import dataclasses
import errno
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from lego_mlir import store as cache
from lego_mlir.cli.main import main
from lego_mlir.errors import CacheError, CacheWarning, ToolchainError
from lego_mlir.toolchain import Cache, Pipeline, PipelinePass, compile_kernel, llvm, stages, target_named
from lego_mlir.toolchain.kept import LIMIT, folder, keep
from lego_mlir.toolchain.lowering import NVVM
from lego_mlir.toolchain.stages import NAMES, Script, Settings

TRANSPOSE = (Path(__file__).parent / "toolchain" / "transpose.mlir").read_text()
PLAIN = Settings(target_named("sm_80"))
AFTER_TARGET = ("transformed", "ptx", "cubin")  # tile copies and products are lowered for the target


def keys(settings, given=b"text", name="kernel.mlir"):
    return {stage.name: cache.key(stage.name, given, name, *stage.key(settings)) for stage in stages.STAGES}


def test_a_second_compilation_computes_nothing(tmp_path):
    first = compile_kernel(TRANSPOSE, cache=Cache(tmp_path))
    computed = []
    second = compile_kernel(TRANSPOSE, cache=Cache(tmp_path), on_stage=lambda stage: computed.append(stage.name))
    assert computed == []
    assert second.text == first.text
    assert second.cached == {"mlir", "transformed", "nvvm", "llvm", "ptx"}


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        (lambda: {"settings": PLAIN, "given": b"other"}, NAMES),
        (lambda: {"settings": PLAIN, "name": "other.mlir"}, NAMES),
        (lambda: {"settings": dataclasses.replace(PLAIN, target=target_named("sm_86"))}, AFTER_TARGET),
        (lambda: {"settings": dataclasses.replace(PLAIN, target=target_named("sm_90"))}, ("nvvm", *AFTER_TARGET)),
        (
            lambda: {"settings": dataclasses.replace(PLAIN, target=dataclasses.replace(PLAIN.target, ptx=81))},
            AFTER_TARGET,
        ),
        (
            lambda: {
                "settings": dataclasses.replace(
                    PLAIN, pipeline=Pipeline(NVVM.anchor, (*NVVM.items, PipelinePass("cse")))
                )
            },
            ("nvvm",),
        ),
        (lambda: {"settings": dataclasses.replace(PLAIN, script=Script("a.mlir", "module {}"))}, ("transformed",)),
    ],
    ids=["input", "name", "target", "target with f8", "PTX version", "pipeline", "script"],
)
def test_each_input_changes_the_keys_of_the_stages_that_depend_on_it(change, changed):
    before, after = keys(PLAIN), keys(**change())
    assert {name for name in NAMES if before[name] != after[name]} == set(changed)


def test_the_script_s_text_and_path_both_count():
    one = dataclasses.replace(PLAIN, script=Script("a.mlir", "module {}"))
    for other in (Script("a.mlir", "module { }"), Script("b.mlir", "module {}")):
        assert keys(one)["transformed"] != keys(dataclasses.replace(PLAIN, script=other))["transformed"]


def test_the_tools_versions_count(monkeypatch):
    before = keys(PLAIN)
    monkeypatch.setattr(llvm, "version", lambda: "llvmlite 99")
    after = keys(PLAIN)
    assert {name for name in NAMES if before[name] != after[name]} == {"llvm", "ptx"}


def test_the_bindings_version_and_ptxas_count(monkeypatch):
    from lego_mlir import bindings
    from lego_mlir.toolchain import ptxas

    before = keys(PLAIN)
    monkeypatch.setattr(bindings.Bindings, "version", property(lambda self: "mlir 99"))
    assert {n for n in NAMES if before[n] != keys(PLAIN)[n]} == {"mlir", "transformed", "nvvm", "llvm"}
    monkeypatch.undo()
    monkeypatch.setattr(ptxas, "version", lambda: "ptxas V99")
    assert {n for n in NAMES if before[n] != keys(PLAIN)[n]} == {"cubin"}


def test_our_own_code_counts(monkeypatch):
    before = keys(PLAIN)
    monkeypatch.setattr(cache, "_own_code", lambda: b"another version")
    after = keys(PLAIN)
    assert all(before[name] != after[name] for name in NAMES)


def test_parts_are_told_apart_from_their_concatenation():
    assert cache.key("ptx", b"ab", "c") != cache.key("ptx", b"a", "bc")
    assert cache.key("ptx", b"a", "b", "c") != cache.key("ptx", b"a", "bc")


@pytest.mark.parametrize("damage", ["cut short", "one bit", "empty", "garbage"])
def test_a_damaged_entry_is_made_again(tmp_path, damage):
    whole = compile_kernel(TRANSPOSE, cache=Cache(tmp_path)).text
    for entry in tmp_path.glob("??/*"):
        body = bytearray(entry.read_bytes())
        if damage == "one bit":
            body[-1] ^= 1
        entry.write_bytes({"cut short": body[:-10], "one bit": body, "empty": b"", "garbage": b"x" * 500}[damage])
    again = compile_kernel(TRANSPOSE, cache=Cache(tmp_path))
    assert (again.text, again.cached) == (whole, frozenset())
    assert len(compile_kernel(TRANSPOSE, cache=Cache(tmp_path)).cached) == 5  # and it has been repaired


def test_nothing_but_entries_is_left_behind(tmp_path):
    compile_kernel(TRANSPOSE, cache=Cache(tmp_path))
    assert not list(tmp_path.glob("**/.*"))
    assert Cache(tmp_path).size()[0] == 5


WRITE_OFTEN = """
import sys
from pathlib import Path
from lego_mlir.store import Cache
for _ in range(50):
    Cache(Path(sys.argv[1])).write("ab" * 32, bytes([int(sys.argv[2])]) * 100_000)
"""


def test_readers_see_whole_entries_while_others_write(tmp_path):
    command = [sys.executable, "-c", WRITE_OFTEN, str(tmp_path)]
    writers = [subprocess.Popen([*command, byte]) for byte in ("1", "2")]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        body = Cache(tmp_path).read("ab" * 32)
        if body is not None:
            assert len(body) == 100_000
            assert len(set(body)) == 1
            seen.add(body[0])
    assert [writer.wait() for writer in writers] == [0, 0]
    assert seen
    assert seen <= {1, 2}
    assert Cache(tmp_path).read("ab" * 32) is not None


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "cache").write_text("")
    with pytest.raises(CacheError, match=r"cache cannot be used .*--cache-dir, or go without with --no-cache"):
        compile_kernel(TRANSPOSE, cache=Cache(tmp_path / "cache"))


NO_ROOM = [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM]


def refusing(number):
    def fail(*_, **__):
        raise OSError(number, os.strerror(number), "the/place")

    return fail


@pytest.mark.parametrize("number", NO_ROOM, ids=errno.errorcode.get)
def test_a_folder_that_takes_no_more_is_one_warning_and_the_same_text(tmp_path, monkeypatch, number):
    whole = compile_kernel(TRANSPOSE).text
    monkeypatch.setattr(cache, "replace_file", refusing(number))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        assert compile_kernel(TRANSPOSE, cache=Cache(tmp_path)).text == whole
    assert [warning.category for warning in said] == [CacheWarning]
    assert f"the cache folder {tmp_path} cannot be used ({os.strerror(number)})" in str(said[0].message)


def test_entries_that_may_not_be_read_are_computed(tmp_path, monkeypatch):
    whole = compile_kernel(TRANSPOSE, cache=Cache(tmp_path)).text
    monkeypatch.setattr(Path, "read_bytes", refusing(errno.EACCES))
    cache._own_code()  # read before
    with pytest.warns(CacheWarning, match="Permission denied"):
        assert compile_kernel(TRANSPOSE, cache=Cache(tmp_path)).text == whole


def test_the_command_line_shows_the_warning_as_one_line(tmp_path, monkeypatch, capsys):
    path = Path(__file__).parent / "toolchain" / "transpose.mlir"
    monkeypatch.setattr(os, "replace", refusing(errno.ENOSPC))  # modules loaded now may keep a patched function
    assert main(["compile", str(path), "--emit", "ptx", "--cache-dir", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert ".visible .entry transpose" in captured.out
    assert captured.err.startswith(f"lego-mlir compile: warning: the cache folder {tmp_path} cannot be used (No space")
    assert captured.err.count("\n") == 1


def test_a_user_without_a_home_folder(monkeypatch, capsys):
    def none():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", none)
    path = str(Path(__file__).parent / "toolchain" / "transpose.mlir")
    assert main(["compile", path, "--emit", "ptx"]) == 2
    assert "no home folder to keep compiled stages in; set XDG_CACHE_HOME, choose" in capsys.readouterr().err
    assert main(["compile", path, "--emit", "ptx", "--no-cache"]) == 0
    assert main(["doctor"]) == 0


def test_inputs_of_failures_do_not_pile_up():
    kept = {keep("ptx-input.ll", b"%d" % n) for n in range(LIMIT + 5)}
    assert len(kept) == LIMIT + 5
    left = set(folder().iterdir())
    assert left < kept
    assert len(left) == LIMIT
    latest = keep("ptx-input.ll", b"the latest")
    assert keep("ptx-input.ll", b"the latest") == latest
    assert latest.read_bytes() == b"the latest"
    assert len(list(folder().iterdir())) == LIMIT


def test_inputs_are_kept_aside_without_a_cache_folder(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert keep("ptx-input.ll", b"text").read_bytes() == b"text"
    monkeypatch.setattr("tempfile.mkdtemp", refusing(errno.ENOSPC))
    assert keep("ptx-input.ll", b"text") is None
    with pytest.raises(ToolchainError) as caught:
        compile_kernel("module { foo.bar }")
    assert caught.value.rerun.kept_input is None
    assert "mlir compile INPUT --from mlir" in str(caught.value)


def test_the_default_folder_follows_xdg(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.default_folder() == tmp_path / "lego-mlir"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.default_folder() == Path.home() / ".cache" / "lego-mlir"


def test_a_replaced_file_keeps_its_mode_and_a_failed_one_its_content(tmp_path, monkeypatch):
    path = tmp_path / "out.ptx"
    path.write_text("old")
    path.chmod(0o640)
    with path.open() as reader:  # a reader of the old file can finish reading it
        cache.replace_file(path, b"new")
        assert reader.read() == "old"
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640

    def fail(handle):
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        cache.replace_file(path, b"newer")
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["out.ptx"]


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
@pytest.mark.parametrize("umask", [0o022, 0o002, 0o000])
def test_the_folder_is_made_for_its_owner_alone(tmp_path, umask):
    before = os.umask(umask)
    try:
        kept = Cache(tmp_path / "above" / "cache")
        kept.write("ab" * 32, b"code")
    finally:
        os.umask(before)
    assert kept.read("ab" * 32) == b"code"
    assert (tmp_path / "above" / "cache").stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777])
def test_a_folder_that_others_can_write_to_is_refused(tmp_path, mode):
    kept = Cache(tmp_path / "cache")
    kept.write("ab" * 32, b"code")
    kept.folder.chmod(mode)
    for use in (lambda: kept.read("ab" * 32), lambda: kept.write("cd" * 32, b"other")):
        with pytest.raises(CacheError, match=r"can be written by other users .*chmod 700 .*--cache-dir.*--no-cache"):
            use()
    kept.folder.chmod(0o755)
    assert kept.read("ab" * 32) == b"code"


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_a_folder_of_entries_that_others_can_write_to_is_refused(tmp_path):
    kept = Cache(tmp_path / "cache")
    kept.write("ab" * 32, b"code")
    (kept.folder / "ab").chmod(0o777)
    for use in (lambda: kept.read("ab" * 32), lambda: kept.write("ab" * 32, b"other")):
        with pytest.raises(CacheError, match=r"cache/ab can be written by other users"):
            use()


def kept_by(what):
    """One of the callers that keep files in the default folder without an entry."""
    from lego_mlir.toolchain import kept, triton_text
    from lego_mlir.tuning import computed_checks, timings

    where = cache.default_folder()
    sys.modules.pop("lego_rendered_none", None)
    return {
        "a failed stage": lambda: kept.keep("kernel.mlir", b"text"),
        "checks": lambda: computed_checks.ComputedChecks(where / "checks"),
        "timings": lambda: timings.TimingStore()._append(["{}"]),
        "a Triton text": lambda: triton_text._loaded("x = 1", "lego_rendered_none", "text", where / "rendered"),
    }[what]()


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
@pytest.mark.parametrize("what", ["a failed stage", "checks", "timings", "a Triton text"])
def test_whatever_is_kept_first_makes_the_default_folder_for_its_owner_alone(tmp_path, monkeypatch, what):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "above"))
    before = os.umask(0o002)
    try:
        kept_by(what)
    finally:
        os.umask(before)
    folder = tmp_path / "above" / "lego-mlir"
    assert folder.stat().st_mode & 0o777 == 0o700
    Cache(folder).write("ab" * 32, b"code")  # not refused afterwards


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_no_rendered_text_is_imported_from_a_folder_that_others_can_write_to(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "lego-mlir").mkdir()
    (tmp_path / "lego-mlir").chmod(0o777)
    with pytest.raises(CacheError, match="can be written by other users"):
        kept_by("a Triton text")


def test_the_code_that_makes_machine_code_of_the_cpu_is_part_of_a_key(monkeypatch):
    before, read = cache.key("host", b""), Path.read_bytes
    for name in ("cpu.py", "cpu_kernels.py"):
        changed = lambda path, name=name: read(path) + (b"#" if path.name == name else b"")  # noqa: E731
        monkeypatch.setattr(Path, "read_bytes", changed)
        cache._own_code.cache_clear()
        assert cache.key("host", b"") != before
    monkeypatch.undo()
    cache._own_code.cache_clear()
