"""Hints to the caches: `x.load(i, cache="streaming")`, `y.store(v, i, evict="first")`; `prefetches` has the third.

A hint changes no value. `cache` says where an access is kept, `evict` how soon its line leaves the first level:

    cache="l2"          in the second level only             ld.cg, st.cg
    cache="streaming"   used once, leaves first              ld.cs, st.cs
    cache="last_use"    a load that needs no write back      ld.lu
    cache="through"     a store on to memory                 st.wt
    evict="first", "last", "unchanged"                       .L1::evict_first, ..
    evict="none"        not in the first level               .L1::no_allocate

An instruction takes one of the two (PTX ISA, "Cache Operators", "Cache Eviction Priority Hints"). `LowerCacheHints`
writes them; the interpreter and the CPU ignore them, and targets before PTX 7.4 drop `evict`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

from lego_mlir.tracing.trace.trace import TensorAccess
from lego_mlir.tracing.trace.tracer import Tracer

Cache = Literal["l2", "streaming", "last_use", "through"]
Evict = Literal["first", "last", "unchanged", "none"]

CACHED: Final = {
    "load": {"l2": "cg", "streaming": "cs", "last_use": "lu"},
    "store": {"l2": "cg", "streaming": "cs", "through": "wt"},
}
"""The modifiers of loads and stores."""
EVICTED: Final = {
    "first": "L1::evict_first",
    "last": "L1::evict_last",
    "unchanged": "L1::evict_unchanged",
    "none": "L1::no_allocate",
}
LEVELS: Final = {"l1": "prefetch.L1", "l2": "prefetch.L2"}
"""The levels of `lego.prefetch`."""


def hinted(
    tracer: Tracer, kind: Literal["load", "store"], access: TensorAccess, cache: str | None, evict: str | None
) -> TensorAccess:
    """The access with its modifier. Raises TraceError for an unknown hint, both at once, and shared memory."""
    if cache is None and evict is None:
        return access
    name = access.buffer.name
    if cache is not None and evict is not None:
        raise tracer.error(f"{name}: a {kind} takes cache={cache!r} or evict={evict!r}, not both; leave one out")
    given, what, known = (cache, "cache", CACHED[kind]) if evict is None else (evict, "evict", EVICTED)
    if given not in known:
        raise tracer.error(f"{name}: {what} of a {kind} is one of {', '.join(known)}, got {given!r}")
    if access.buffer.space != "global":
        raise tracer.error(f"{name}: {what}={given!r} is of tensors; shared memory has no cache, leave {what} out")
    return replace(access, hint=known[given])
