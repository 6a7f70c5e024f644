"""Windowed and persistent attention with faults planted in its rings: kernels of one group, with numbers as sizes."""

from types import SimpleNamespace

from lego_mlir import bf16, f8e4m3fn
from lego_mlir.kernels import attention_tiles, fused_attention
from lego_mlir.kernels.attention_forms import AttentionForm, AttentionTile, HeadSizes
from lego_mlir.kernels.attention_tiles import CopiedValues, KeyRings, QueryTiles

TILE = AttentionTile(groups=1, keys=64, stages=2)
NARROW = AttentionForm(64, f8e4m3fn, result=bf16, causal=True)
KERNELS = {
    "window": lambda: fused_attention.build(AttentionForm(causal=True, window=192), TILE, HeadSizes(1, 1, 512, 512)),
    "persistent": lambda: fused_attention.build(AttentionForm(causal=True), TILE, HeadSizes(1, 4, 256, 256), blocks=4),
    "narrow": lambda: fused_attention.build(NARROW, TILE, HeadSizes(1, 4, 256, 256), blocks=4),
}


class Without:
    """A ring whose waits, or arrivals, are left out."""

    def __init__(self, ring, word):
        self.ring, self.word = ring, word

    def __getitem__(self, use):
        found = self.ring[use]
        return SimpleNamespace(**{"wait": found.wait, "arrive": found.arrive, self.word: lambda: None})


class ReleasedEarly(KeyRings):
    """A stage is released when it is full, before the products read it."""

    def __init__(self, form, tile):
        super().__init__(form, tile)
        self.released, self.empty = self.empty, [Without(ring, "arrive") for ring in self.empty]

    def take(self, ring, t):
        part = super().take(ring, t)
        self.released[ring][t].arrive()
        return part


class NoArrival(KeyRings):
    """Nobody says that the stages of values are empty."""

    def __init__(self, form, tile):
        super().__init__(form, tile)
        self.empty[1] = Without(self.empty[1], "arrive")


class OtherParity(KeyRings):
    """A tile is taken when the one before it in its stage, or the one after it, is there."""

    def take(self, ring, t):
        self.full[ring][t + TILE.stages].wait()
        return self.part(ring, t)


class NoWait(KeyRings):
    """A tile is copied into its stage before that is empty."""

    def __init__(self, form, tile):
        super().__init__(form, tile)
        self.empty = [Without(ring, "wait") for ring in self.empty]


class QueriesReleasedEarly(QueryTiles):
    """The tile of a part is filled again in the part after it, whose result is not stored."""

    def release(self, number, stored=False):
        if self.repeated and not stored:
            self.empty[number].arrive()


class QueriesKept(QueryTiles):
    """The last tile of queries is not released."""

    def release(self, number, stored=False):
        pass


class CopiesReleasedEarly(CopiedValues):
    """A tile of copied values is released when it is there, before it is transposed."""

    def transpose(self, target, t):
        rings = self.full, self.empty
        self.full[t].wait()
        self.empty[t].arrive()
        self.full, self.empty = Without(self.full, "wait"), Without(self.empty, "arrive")
        super().transpose(target, t)
        self.full, self.empty = rings


class CopiesKept(CopiedValues):
    """A tile of copied values is not released."""

    def __init__(self, form, tile):
        super().__init__(form, tile)
        self.empty = Without(self.empty, "arrive")


class CopiesUnawaited(CopiedValues):
    """A tile is transposed before it is there."""

    def transpose(self, target, t):
        full, self.full = self.full, Without(self.full, "wait")
        super().transpose(target, t)
        self.full = full


class CopiesWithoutWait(CopiedValues):
    """A tile is copied before its place is empty."""

    def __init__(self, form, tile):
        super().__init__(form, tile)
        self.empty = Without(self.empty, "wait")


RINGS = {
    "released early": ReleasedEarly,
    "no arrival": NoArrival,
    "wrong parity": OtherParity,
    "reused before its wait": NoWait,
}
QUERIES = {"queries released early": QueriesReleasedEarly, "queries kept": QueriesKept}
COPIES = {
    "copies released early": CopiesReleasedEarly,
    "copies kept": CopiesKept,
    "copies not awaited": CopiesUnawaited,
    "copies reused before their wait": CopiesWithoutWait,
}
FAULTS = {**RINGS, **QUERIES, **COPIES}


def faulty(form, fault, monkeypatch):
    """A kernel with a fault."""
    name = "KeyRings" if fault in RINGS else "QueryTiles" if fault in QUERIES else "CopiedValues"
    monkeypatch.setattr(attention_tiles if fault in COPIES else fused_attention, name, FAULTS[fault])
    return KERNELS[form]()
