"""Random programs in the form of attention's gradients: for the brute force of `ring_oracle`, and as agents for proofs.

One role copies a held tile and visited ones, and closes with one more; each group of the other looks a visit ahead:

    wait full[0];  read tile 0
    for t in 0 .. N:
        write own rows of ds t;  arrive written[t]
        wait full[t + 1];  wait written[t];  read ds t, the held tile and tile t + 1;  arrive empty[t]
    arrive done;  wait done;  write own rows of the held tile

Up to two faults are planted: a word left out, moved, repeated, for another use, rows of another group, or a wait of
the role that copies for the groups' end.
"""

from ring_oracle import OracleRing
from ring_programs import HEIGHT, spoilt

GROUP_ROWS = ((range(4), range(4, 8)), (range(2), range(4, 6)), (range(3), range(3, 8)))
"""Rows of two groups; a thread of a range of two writes both at once."""
TILES = {"keys h": (1, "held h"), "tile k": (None, "full k"), "ds k": (2, "written k")}


def copying(stages):
    """What the role that copies does before, in, and after its rounds."""
    visit = [("wait", "empty k", -stages), ("copy", "tile k", stages, "full k", 0), ("arrive", "full k", 0)]
    return [("copy", "keys h", 1, "held h", 0), ("arrive", "held h", 0)], visit, list(visit)


def visiting(stages, rows):
    """The same of a group that owns these rows."""
    before = [("wait", "held h", 0), ("read", "keys h", 1, None, 0), ("wait", "full k", 0)]
    before.append(("read", "tile k", stages, None, 0))
    visit = [
        ("write", "ds k", 2, None, rows, 0), ("arrive", "written k", 0),
        ("wait", "full k", 1), ("wait", "written k", 0), ("read", "ds k", 2, None, 0), ("read", "keys h", 1, None, 0),
        ("read", "tile k", stages, None, 1), ("arrive", "empty k", 0),
    ]  # fmt: skip
    after = [("arrive", "done h", 0), ("wait", "done h", 0), ("write", "keys h", 1, None, rows, 0)]
    return before, visit, after


def drawn(choose):
    """Programs of a role that copies and of two groups, their rings, the stages, and the tiles."""
    stages, warps = choose.choice((1, 2, 2, 3)), choose.choice((1, 2))
    own = list(choose.choice(GROUP_ROWS))
    if choose.random() < 0.15:
        own[1] = range(own[0].stop - 1, HEIGHT)  # also the last row of the other group
    bodies = [copying(stages), *(visiting(stages, rows) for rows in own)]
    if choose.random() < 0.2:  # right at the end, a circle before the visit that closes
        bodies[0][2].insert(choose.choice((0, 1, 3)), ("wait", "done h", 0))
    spoilt(choose, [list_ for body in bodies for list_ in body], stages)
    ways = choose.choice(((True,) * 3, (False,) * 3, (False,) * 3, (True, True, choose.random() < 0.9)))
    return whole(bodies, stages, warps, choose.choice((0,) * 12 + (-1, 1)), ways)


def whole(bodies, stages, warps, more=0, under=(False,) * 3):
    """Programs of these bodies: `more` rounds in the second group, and all `under` the condition on a size."""
    mores = [0] * (len(bodies) - 1) + [more]
    programs = [
        (warps if number else 1, [*before, ("loop", ("N", mores[number]), [*visit, ("next", "k")]), *after])
        for number, (before, visit, after) in enumerate(bodies)
    ]
    programs = [(n, [("if", p)] if branch else p) for (n, p), branch in zip(programs, under, strict=True)]
    groups = (len(bodies) - 1) * warps
    expected = {"held h": (1, 1), "full k": (stages, 1), "empty k": (stages, groups)}
    expected |= {"written k": (2, groups), "done h": (1, groups)}
    rings = {name: OracleRing(*counts) for name, counts in expected.items()}
    return programs, rings, stages, {name: (count or stages, ring) for name, (count, ring) in TILES.items()}
