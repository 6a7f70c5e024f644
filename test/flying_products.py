"""Random kernels whose products read stages while they are in flight: as kernels, and as what each warp does.

One warp copies tiles into a ring of stages. A group of four multiplies each, by two or three products that are issued,
used, and waited for by arrivals in a drawn order. Or it sums the products of half as many visits as a size says: each
is in flight when the next visit begins, and the stage of the visit before is released.

`emit_wgmma` has what waits for products: here it is said again, as the number of products that may still be in flight.
"""

from ring_oracle import OracleRing

import lego_mlir as lego
from lego_mlir import Row, f2, f16, f32
from lego_mlir.kernels.attention_tiles import staged

ROWS, STAGES, WARPS = 64, 2, 4
MODES = {"all": True, "previous": "previous", "none": False}
ARRIVALS = tuple(MODES)


def drawn(choose):
    """The words of a round: ("issue", i), ("use", i), ("arrive", ..) once, where a stage is released."""
    products = choose.choice((2, 2, 3))
    words = [("issue", i) for i in range(products)]
    for i in range(products):
        if choose.random() < 0.7:
            place = choose.randrange(words.index(("issue", i)) + 1, len(words) + 1)
            words.insert(place, ("use", i))
    if not any(kind == "use" for kind, _ in words):
        words.append(("use", products - 1))
    words.insert(choose.randrange(len(words) // 2, len(words) + 1), ("arrive", choose.choice(ARRIVALS)))
    return words


def kernel_of(words):
    """The words as a kernel, for four visits."""

    @lego.kernel(grid=1, block=32 * (WARPS + 1))
    def kernel(a: lego.Tensor(f16, Row(4 * ROWS, ROWS)), y: lego.Tensor(f32, Row(3 * ROWS, ROWS))):
        held, tile = lego.shared(f16, staged(ROWS, ROWS), "held"), lego.shared(f16, staged(ROWS, ROWS, STAGES), "tile")
        once, full, empty = lego.barriers(1), lego.barriers(STAGES), lego.barriers(STAGES, arrivals=WARPS)
        with lego.warps(WARPS, WARPS + 1):
            lego.copy_async(a, held.part((0, 0), (ROWS, ROWS)), at=(0, 0), barrier=once[0])
            once[0].arrive()
            for k in lego.range(4):
                empty[k - STAGES].wait()
                into = tile.part((k % STAGES * ROWS, 0), (ROWS, ROWS))
                lego.copy_async(a, into, at=(k * ROWS, 0), barrier=full[k])
                full[k].arrive()
        with lego.warps(0, WARPS):
            once[0].wait()
            zeros = lego.zeros(f32, f2.MmaSync((WARPS, 1)).layout((ROWS, ROWS)))
            for k in lego.range(4):
                full[k].wait()
                issued = {}
                for word in words:
                    match word:
                        case ("issue", i):
                            right = tile.part((k % STAGES * ROWS, 0), (ROWS, ROWS))
                            issued[i] = lego.mma(held.part((0, 0), (ROWS, ROWS)), right.T, zeros)
                        case ("use", i):
                            issued[i].store(y, at=(i * ROWS, 0))
                        case ("arrive", which):
                            empty[k].arrive(products=MODES[which])

    return kernel


def in_flight(words):
    """The words of a round with ("wait", n) where it waits for all products but the n newest ones."""
    flying, found = [], []

    def wait(newer):
        if newer < len(flying):
            found.append(("wait", newer))
            del flying[: len(flying) - newer]

    for kind, what in words:
        match kind:
            case "issue":
                flying.append(what)
            case "use" if what in flying:
                wait(len(flying) - 1 - flying.index(what))  # tensor cores complete products in order
            case "arrive":
                wait({"all": 0, "previous": 1, "none": len(flying)}[what])
        found.append((kind, what))
    wait(0)
    return found


def programs_of(words):
    """Each warp's events, the number of its program, and the rings."""
    copying, reading = [("copy", "held", 0, 1, "once"), ("arrive", "once", 0)], [("wait", "once", 0)]
    for k in range(4):
        copying += [("wait", "empty", k - STAGES), ("copy", "tile", k, STAGES, "full"), ("arrive", "full", k)]
        reading.append(("wait", "full", k))
        for kind, number in in_flight(words):
            match kind:
                case "issue":
                    reading.append(("issue", "tile", k, STAGES, None))
                case "wait":
                    reading.append(("land", "", number))
                case "arrive":
                    reading.append(("arrive", "empty", k))
    return [copying] + [list(reading) for _ in range(WARPS)], [0] + [1] * WARPS, _rings()


def _rings():
    return {"once": OracleRing(1, 1), "full": OracleRing(STAGES, 1), "empty": OracleRing(STAGES, WARPS)}


# -- sums that go through a product in each visit


def kernel_of_sums(arrival, last, first):
    """A kernel that sums products of N // 2 visits, twice, with these arrivals in a visit and after the last one.

    The stage of the visit before is released in front of a visit's product if `first`, else after it.
    """
    visits = lego.size("N", min=2, max=12) // 2

    @lego.kernel(grid=1, block=32 * (WARPS + 1))
    def kernel(
        a: lego.Tensor(f16, Row(8 * ROWS, ROWS)),
        sized: lego.Tensor(f32, Row(2 * visits)),
        y: lego.Tensor(f32, Row(ROWS, ROWS)),
    ):
        held, tile = lego.shared(f16, staged(ROWS, ROWS), "held"), lego.shared(f16, staged(ROWS, ROWS, STAGES), "tile")
        once, full, empty = lego.barriers(1), lego.barriers(STAGES), lego.barriers(STAGES, arrivals=WARPS)
        with lego.warps(WARPS, WARPS + 1):
            lego.copy_async(a, held.part((0, 0), (ROWS, ROWS)), at=(0, 0), barrier=once[0])
            once[0].arrive()
            for turn in range(2):
                for k in lego.range(visits):
                    use = turn * visits + k
                    empty[use - STAGES].wait()
                    into = tile.part((use % STAGES * ROWS, 0), (ROWS, ROWS))
                    lego.copy_async(a, into, at=(0, 0), barrier=full[use])
                    full[use].arrive()
        with lego.warps(0, WARPS):
            once[0].wait()
            sums = lego.register(lego.zeros(f32, f2.MmaSync((WARPS, 1)).layout((ROWS, ROWS))))
            for turn in range(2):
                for k in lego.range(visits):
                    use = turn * visits + k
                    full[use].wait()
                    right = tile.part((use % STAGES * ROWS, 0), (ROWS, ROWS))

                    def release(k=k, use=use):
                        with lego.when(k > 0):
                            empty[use - 1].arrive(products=MODES[arrival])

                    if first:
                        release()
                    sums.set(lego.mma(held.part((0, 0), (ROWS, ROWS)), right.T, sums.get()))
                    if not first:
                        release()
                empty[turn * visits + visits - 1].arrive(products=MODES[last])
            sums.get().store(y, at=(0, 0))

    return kernel


def programs_of_sums(arrival, last, first, n):
    """The same as events, for a size."""
    visits = n // 2
    copying, reading = [("copy", "held", 0, 1, "once"), ("arrive", "once", 0)], [("wait", "once", 0)]
    copying += [
        event
        for use in range(2 * visits)
        for event in (("wait", "empty", use - STAGES), ("copy", "tile", use, STAGES, "full"), ("arrive", "full", use))
    ]
    for turn in range(2):
        flying = 0
        reading.append(("land", "", 0))  # a loop waits for what is in flight
        for k in range(visits):
            use = turn * visits + k
            reading.append(("wait", "full", use))
            for step in ("release", "issue") if first else ("issue", "release"):
                if step == "issue":
                    reading.append(("issue", "tile", use, STAGES, None))
                    flying += 1
                elif k > 0:
                    flying = {"all": 0, "previous": 1, "none": flying}[arrival]
                    reading += [("land", "", flying), ("arrive", "empty", use - 1)]
        reading += [("land", "", 0)] if last == "all" else []
        reading.append(("arrive", "empty", turn * visits + visits - 1))
    return [copying] + [list(reading) for _ in range(WARPS)], [0] + [1] * WARPS, _rings()
