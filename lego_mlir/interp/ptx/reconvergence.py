"""Reconvergence of a divergent branch: its immediate post-dominator.

A node post-dominates a branch if every path from the branch to the end of the kernel goes through it; the immediate one
is the first. Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", 2001, on the reversed graph.

>>> join_points([(1, 3), (2,), (4,), (4,), ()])  # 0 branches to 1 and 3, which meet at 4
{0: 4}
"""

from __future__ import annotations

from collections.abc import Sequence

from lego_mlir.interp.ptx.ptx_program import PtxEntry, SymbolOperand


def successors(entry: PtxEntry) -> list[tuple[int, ...]]:
    """The instructions that may follow each instruction; none after the end of the kernel."""
    count = len(entry.instructions)
    found: list[tuple[int, ...]] = []
    for at, instruction in enumerate(entry.instructions):
        following = (at + 1,) if at + 1 < count else ()
        if instruction.opcode == "bra":
            target = instruction.operands[0]
            assert isinstance(target, SymbolOperand)
            taken = entry.labels[target.name]
            to = (taken,) if taken < count else ()
            found.append(to if instruction.guard is None else tuple(dict.fromkeys((*following, *to))))
        elif instruction.opcode in ("ret", "exit", "trap", "returnstack"):
            found.append(() if instruction.guard is None else following)
        else:
            found.append(following)
    return found


def join_points(following: Sequence[tuple[int, ...]]) -> dict[int, int]:
    """The immediate post-dominator of each node with two successors; absent where only the end of the kernel is one."""
    count = len(following)
    end = count
    exits = [tuple(to) or (end,) for to in following]
    order = _postorder_of_reverse(exits, end)
    rank = {node: i for i, node in enumerate(order)}
    immediate: dict[int, int] = {end: end}
    changed = True
    while changed:
        changed = False
        for node in reversed(order):
            if node == end:
                continue
            known = [to for to in exits[node] if to in immediate]
            if not known:
                continue
            best = known[0]
            for other in known[1:]:
                best = _meet(best, other, immediate, rank)
            if immediate.get(node) != best:
                immediate[node] = best
                changed = True
    return {
        node: immediate[node] for node in range(count) if len(following[node]) > 1 and immediate.get(node, end) != end
    }


def _postorder_of_reverse(exits: Sequence[tuple[int, ...]], end: int) -> list[int]:
    """Nodes that reach the end, in postorder of a walk from the end along reversed edges."""
    sources: list[list[int]] = [[] for _ in range(end + 1)]
    for node, to in enumerate(exits):
        for target in to:
            sources[target].append(node)
    order: list[int] = []
    seen = {end}
    stack = [(end, iter(sources[end]))]
    while stack:
        node, remaining = stack[-1]
        for source in remaining:
            if source not in seen:
                seen.add(source)
                stack.append((source, iter(sources[source])))
                break
        else:
            order.append(node)
            stack.pop()
    return order


def _meet(a: int, b: int, immediate: dict[int, int], rank: dict[int, int]) -> int:
    while a != b:
        while rank[a] < rank[b]:
            a = immediate[a]
        while rank[b] < rank[a]:
            b = immediate[b]
    return a
