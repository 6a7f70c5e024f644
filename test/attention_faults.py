"""Windowed and persistent attention with faults planted in its rings: kernels of one group, with numbers as sizes."""

from types import SimpleNamespace

from lego_mlir.kernels import fused_attention
from lego_mlir.kernels.attention_forms import AttentionForm, AttentionTile, HeadSizes
from lego_mlir.kernels.attention_tiles import KeyRings, QueryTiles

TILE = AttentionTile(groups=1, keys=64, stages=2)
KERNELS = {
    "window": lambda: fused_attention.build(AttentionForm(causal=True, window=192), TILE, HeadSizes(1, 1, 512, 512)),
    "persistent": lambda: fused_attention.build(AttentionForm(causal=True), TILE, HeadSizes(1, 4, 256, 256), blocks=4),
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


RINGS = {
    "released early": ReleasedEarly,
    "no arrival": NoArrival,
    "wrong parity": OtherParity,
    "reused before its wait": NoWait,
}
QUERIES = {"queries released early": QueriesReleasedEarly, "queries kept": QueriesKept}


def faulty(form, fault, monkeypatch):
    """A kernel with a fault."""
    name, tiles = ("KeyRings", RINGS[fault]) if fault in RINGS else ("QueryTiles", QUERIES[fault])
    monkeypatch.setattr(fused_attention, name, tiles)
    return KERNELS[form]()
