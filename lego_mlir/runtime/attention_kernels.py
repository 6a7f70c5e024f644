"""The kernels of attention by what they are compiled for: built here, found on disk, or from a folder of packed ones.

    attention-f16-64-causal-4-2x128x4p0t-132        of heads of 64 features, in this tile, on 132 multiprocessors

All take any heads, queries and keys, so that a folder has few of them: `lego-mlir pack attention` writes it, and the
environment variable LEGO_MLIR_KERNELS names it. Nothing here needs MLIR or SymPy until a kernel is built.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from lego_mlir.kernels import attention_forms
from lego_mlir.kernels.attention_forms import AttentionForm, AttentionTile, HeadSizes
from lego_mlir.runtime import exact_kernels, first_calls, packs
from lego_mlir.runtime.attention_plans import GradientCalls
from lego_mlir.runtime.calls import BuiltCalls, Calls
from lego_mlir.runtime.products import backends
from lego_mlir.runtime.products.problem import kernels_folder
from lego_mlir.tracing.trace.dtypes import f32

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.kernel import Kernel

_KEPT: Final = 256
ADDED: Final = ("prepare", "main", "round")
"""The kernels of `kernels.added_gradients`."""
PACKED: Final = "packed"
"""The kernel of packed sequences."""
TABLE: Final = "tiles"
"""The kernel that lists the tiles of a user's mask."""
READS: Final = ("clear", "round")
"""The kernels before and after those that add gradients of an array that a score reads."""
ORDERED: Final = ("deltas", "of_keys", "of_queries")
"""The kernels of `kernels.attention_gradients`; of keys there are two for the widest heads."""


@dataclass(frozen=True, slots=True)
class AttentionKernel:
    """One kernel: `part` is "attention", or names one of gradients, such as "added main" or "ordered of_keys 0".

    A packed one has `heads` of k and v. `sizes` are those of a kernel that takes no others.
    """

    part: str
    form: AttentionForm
    tile: AttentionTile | None = None
    sizes: HeadSizes | None = None
    blocks: int | None = None
    heads: int = 0

    @property
    def name(self) -> str:
        """Its name in a folder of packed kernels."""
        f, t = self.form, self.tile
        words = [self.part.replace(" ", "_"), str(f.dtype), *[str(f.result)] * f.narrow, str(f.features)]
        words += ["causal"] * f.causal + [f"window{f.window}"] * (f.window is not None) + [str(f.group)]
        words += [] if f.scale is None else [f"scale{float(f.scale).hex()}"]
        if t is not None:
            marks = "t" * t.turns + "s" * t.skips + f"by{t.sections}" * (t.sections > 0)
            words.append(f"{t.groups}x{t.keys}x{t.stages}{marks}")
        words += ["x".join(map(str, astuple(self.sizes)))] if self.sizes is not None else []
        words += [str(self.blocks)] * (self.blocks is not None) + [f"heads{self.heads}"] * (self.heads > 0)
        return "-".join(words)

    def build(self) -> Kernel:
        """The kernel."""
        return _built(self)


def packable(
    form: AttentionForm, multiprocessors: int | None, *, gradients: bool, varlen_heads: Sequence[int] = ()
) -> Iterator[AttentionKernel]:
    """Every kernel that calls of a form may take, on a device with so many multiprocessors and tensor copies.

    Without tensor copies the number of multiprocessors is None. With `varlen_heads` also those of packed sequences, for
    each of these numbers of heads of k and v.
    """
    if multiprocessors is None:
        yield AttentionKernel("attention", form, attention_forms.default_tile(form))
    else:
        for tile, blocks in attention_forms.tiles(form, multiprocessors):
            yield AttentionKernel("attention", form, tile, None, blocks)
    if gradients:
        if form.features in attention_forms.ADDED_HEADS and multiprocessors is not None:
            yield from (AttentionKernel(f"added {part}", form) for part in ADDED)
        yield from _ordered(form)
    for heads in varlen_heads:
        yield AttentionKernel(PACKED, form, heads=heads)
        if gradients and form.features in attention_forms.ADDED_HEADS and multiprocessors is not None:
            yield from (AttentionKernel(f"added {part}", form, heads=heads) for part in ADDED)


def calls_of(wanted: AttentionKernel) -> Calls:
    """The calls of a kernel. Raises UsageError where a folder of packed kernels is named and lacks it."""
    folder = None if wanted.form.pairs or wanted.form.values else kernels_folder(None)  # which has none of these
    return _calls_of(wanted, None if folder is None else str(folder))


def _built_calls(wanted: AttentionKernel) -> BuiltCalls:
    return BuiltCalls((wanted.part, wanted), wanted.build)


@lru_cache(_KEPT)
def _calls_of(wanted: AttentionKernel, folder: str | None) -> Calls:
    if folder is None:
        return _built_calls(wanted)
    from pathlib import Path

    form = wanted.form
    words = [f"--dtype {form.stored}{' --narrow' * form.narrow} --features {form.features} --group {form.group}"]
    words += ["--causal"] * form.causal + [f"--window {form.window}"] * (form.window is not None)
    words += [f"--scale {form.scale}"] * (form.scale is not None)
    words += ["--gradients"] * (wanted.part not in ("attention", PACKED))
    words += [f"--varlen-heads {wanted.heads}"] * (wanted.heads > 0)
    remedy = f"add it with lego-mlir pack attention {' '.join(words)} --target sm_90a -o {folder}"
    return packs.PackedCalls(backends.packed(Path(folder), wanted.name, remedy))


ExactAttention = tuple[AttentionKernel, str]
"""A kernel for exactly the sizes of a problem, and the compute capability of its device."""


def compile_exact(exact: ExactAttention) -> None:
    """Compile a kernel for exactly the sizes of a problem, and keep it on disk."""
    kernel, capability = exact
    _built_calls(kernel).code_for(capability)


def is_compiled(exact: ExactAttention) -> bool:
    """Whether a kernel for exactly the sizes of a problem is on disk."""
    kernel, capability = exact
    return first_calls.read(first_calls.key(_built_calls(kernel).call_of(capability))) is not None


def has_exact(kernel: AttentionKernel) -> bool:
    """Whether a kernel takes all sizes, and another one for some of them is compiled after some calls."""
    return kernel.sizes is None and kernel.form.pairs is None and exact_kernels.is_on() and kernels_folder(None) is None


def added_gradients(form: AttentionForm, heads: int = 0) -> GradientCalls:
    """Those of queries are added in any order."""
    prepare, main, last = (calls_of(AttentionKernel(f"added {part}", form, heads=heads)) for part in ADDED)
    listed = form.rules.listed and not form.by_shared_head
    table = calls_of(AttentionKernel(f"{TABLE} of_keys", form)) if listed else None
    return GradientCalls(True, prepare, (main,), last, table, _of_reads(form))


def ordered_gradients(form: AttentionForm) -> GradientCalls:
    """Each sum has one order."""
    prepare, *main, last = (calls_of(kernel) for kernel in _ordered(form))
    return GradientCalls(False, prepare, tuple(main), last, of_reads=_of_reads(form))


def _of_reads(form: AttentionForm) -> dict[str, tuple[Calls, Calls | None]]:
    """What clears and what rounds the sums of each array that the score reads and that has a gradient."""
    types, found = {x.name: x.dtype for x in form.rules.reads}, {}
    for name in form.rules.learned:
        clear, last = (AttentionKernel(f"{part} {name}", form) for part in READS)
        found[name] = calls_of(clear), None if types[name] == f32 else calls_of(last)
    return found


def _ordered(form: AttentionForm) -> Iterator[AttentionKernel]:
    for part in ORDERED:
        count = attention_forms.passes_of_keys(form) if part == "of_keys" else 0
        parts = [f"{part} {number}" for number in range(count)] or [part]
        yield from (AttentionKernel(f"ordered {part}", form) for part in parts)


@lru_cache(_KEPT)
def _built(wanted: AttentionKernel) -> Kernel:
    from lego_mlir.kernels import fused_attention, packed_attention

    kind, *part = wanted.part.split(" ")
    if kind == PACKED:
        return packed_attention.build(wanted.form, wanted.heads)
    if kind == "attention":
        return fused_attention.build(wanted.form, wanted.tile, wanted.sizes, wanted.blocks)
    if kind in READS:
        from lego_mlir.kernels import score_gradients

        build = score_gradients.build_clear if kind == READS[0] else score_gradients.build_round
        return build(wanted.form.rules, part[0])
    if kind == TABLE:
        from lego_mlir.kernels import added_gradients, rule_tiles

        shape = added_gradients.table_shape(added_gradients.default_tile(wanted.form))
        if wanted.tile is not None:
            shape = rule_tiles.TableShape(wanted.tile.rows, wanted.tile.keys)
        return rule_tiles.build_table(wanted.form, shape)
    found = _built_gradients(kind, wanted.form, wanted.heads)
    kernel: Kernel = getattr(found, part[0]) if len(part) == 1 else getattr(found, part[0])[int(part[1])]
    return kernel


@lru_cache(_KEPT)
def _built_gradients(kind: str, form: AttentionForm, heads: int) -> object:
    """The kernels of gradients, which are built together."""
    from lego_mlir.kernels import added_gradients, attention_gradients, packed_gradients

    if heads:
        return packed_gradients.build(form, heads)
    return added_gradients.build(form) if kind == "added" else attention_gradients.build(form)
